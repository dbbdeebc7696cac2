"""Build the wheel for platforms that have Spark: `make wheel-databricks`.

It has the files of the plain wheel, but does not require the platform's libraries, because pip would install another
pyspark over the platform's. A build tag distinguishes the two wheels; the version is the same.
"""

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

from pipelines import __version__

# Spark, Delta, and the libraries that pyspark imports for Spark Connect.
_SPARK = {"pyspark", "delta-spark", "grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"}
PLATFORM = frozenset({*_SPARK, "deltalake", "duckdb", "sqlglot"})  # the last three: only beside an embedded Spark
BUILD = "1databricks"
DIST = Path(__file__).resolve().parents[2] / "dist"


def platform_wheel(plain: Path, folder: Path) -> Path:
    """Build the platform's wheel from the plain wheel, in a folder, and return its path."""
    name, version, *tags = plain.stem.split("-")
    wheel = folder / f"{'-'.join((name, version, BUILD, *tags))}.whl"
    about = f"{name}-{version}.dist-info"
    record: list[str] = []
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == f"{about}/METADATA":
                content = _without_platform(content.decode()).encode()
            elif entry.filename == f"{about}/WHEEL":
                content = content.replace(b"Root-Is-Purelib", f"Build: {BUILD}\nRoot-Is-Purelib".encode())
            elif entry.filename == f"{about}/RECORD":
                continue
            new.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{entry.filename},sha256={digest},{len(content)}")
        new.writestr(f"{about}/RECORD", "\n".join([*record, f"{about}/RECORD,,", ""]))
    return wheel


def _without_platform(metadata: str) -> str:
    """Remove the requirements that the platform meets; exit with an error if one of them is missing."""
    head, blank, text = metadata.partition("\n\n")
    others, dropped = [], set()
    for line in head.split("\n"):
        requirement = re.match(r"Requires-Dist: ([A-Za-z0-9._-]+)", line)
        name = re.sub(r"[-_.]+", "-", requirement.group(1)).lower() if requirement else ""
        if name in PLATFORM:
            dropped.add(name)
        else:
            others.append(line)
    if missing := PLATFORM - dropped:
        raise SystemExit(f"wheel.py: the wheel does not require {', '.join(sorted(missing))}: correct PLATFORM")
    return "\n".join(others) + blank + text


def main() -> None:
    """Build the platform's wheel of this version in dist/databricks, and remove other wheels there."""
    plain = DIST / f"kafka_placement-{__version__}-py3-none-any.whl"
    if not plain.is_file():
        sys.exit(f"wheel.py: there is no {plain}. Run: make wheel")
    for old in (DIST / "databricks").glob("*.whl"):
        old.unlink()
    print(platform_wheel(plain, DIST / "databricks"))


if __name__ == "__main__":
    main()

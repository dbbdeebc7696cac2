"""Write files as a whole: readers see the old text or the new one, never a part."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def replace_text(file: Path, text: str) -> None:
    """Replace the text of a file (UTF-8), by way of a hidden file beside it; raise OSError if that fails."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)


@contextmanager
def create_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write to, which takes the place of `folder` at the end; raise OSError if that is not empty."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        new = Path(scratch, "new")
        new.mkdir()
        yield new
        new.rename(folder)

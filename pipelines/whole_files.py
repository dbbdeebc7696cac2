"""Write files as a whole: readers see the old text or the new one, never a part."""

from pathlib import Path


def replace_text(file: Path, text: str) -> None:
    """Replace the text of a file (UTF-8), by way of a hidden file beside it; raise OSError if that fails."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)

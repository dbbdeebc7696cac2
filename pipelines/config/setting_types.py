"""Types of settings."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field

NOT_UTF8 = "it has bytes that are not UTF-8. Write it as UTF-8"


def _reject_booleans(value: Any) -> Any:
    if isinstance(value, bool):  # pydantic would take true for 1
        raise ValueError("expected a number, not true or false")
    return value


def _check_text(text: str) -> str:
    """Reject control characters, and bytes that are not UTF-8: tables could not store them."""
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueError("it has a control character. Remove it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(NOT_UTF8) from None
    return text


Whole = Annotated[int, BeforeValidator(_reject_booleans)]
# A number of bytes, or a text such as 500GB or 20GiB.
Bytes = Annotated[ByteSize, BeforeValidator(_reject_booleans), AfterValidator(int)]
Number = Annotated[float, BeforeValidator(_reject_booleans), Field(allow_inf_nan=False)]
Text = Annotated[str, AfterValidator(_check_text)]


class SettingsSection(BaseModel):
    """A section; frozen, so that no stage can change what another one reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

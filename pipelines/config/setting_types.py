"""Types of settings."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field

from pipelines.quoted_values import quote_value

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


def check_distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values. Raises: ValueError if one is there twice."""
    if len(set(values)) != len(values):
        raise ValueError("a value is listed twice")
    return values


def check_names(what: str, known: Iterable[str]) -> AfterValidator:
    """Return a check that names are distinct, and among the known ones."""

    def check(names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in known:
                raise ValueError(f"there is no {what} {quote_value(name)}. Choose from {', '.join(known)}")
        return check_distinct(names)

    return AfterValidator(check)


# The largest values that still mean something. Sums of them stay within 64 bits.
MAX_RATIO, MAX_WORK, MAX_BYTES, MAX_ENTRIES = 1e6, 10**12, 10**18, 10_000
MAX_BROKER_ID = 2**31 - 1


BrokerIds = Annotated[tuple[Annotated[Whole, Field(ge=0, le=MAX_BROKER_ID)], ...], AfterValidator(check_distinct)]


class SettingsSection(BaseModel):
    """A section; frozen, so that no stage can change what another one reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

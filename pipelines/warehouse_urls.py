"""Hide secrets in the URLs of warehouses, wherever these are stored or printed."""

import re

_URL = re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.-]{1,20}+://)([^\s'\"`<>]*+)")
_HIDDEN = "***"
# Their user part is the name of a container.
_CONTAINERS = ("abfs://", "abfss://", "wasb://", "wasbs://")


def redact_urls(text: str) -> str:
    """Replace the user, the password and the values of the query of each URL in a text."""
    return _URL.sub(lambda match: match[1] + _redact(match[1].lower(), match[2]), text) if "://" in text else text


def _redact(scheme: str, rest: str) -> str:
    """Redact a URL without its scheme. A secret may contain slashes, which are not escaped by everyone."""
    place, mark, query = rest.partition("?")
    user, at, host = place.rpartition("@")
    if at and (scheme not in _CONTAINERS or ":" in user):
        place = f"{_HIDDEN}@{host}"
    if mark:
        query = re.sub(r"=[^&]*", f"={_HIDDEN}", query) if "=" in query else _HIDDEN
    return f"{place}{mark}{query}"

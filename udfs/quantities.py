"""Sizes and durations as people read them."""

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def format_bytes(value: float) -> str:
    """Format a size in the largest unit that leaves a number of 1 or more."""
    unit = 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def estimate_duration(seconds: float) -> str:
    """Format a duration that is an estimate."""
    text = format_duration(seconds)
    return f"about {text}" if seconds >= 1 else text


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"

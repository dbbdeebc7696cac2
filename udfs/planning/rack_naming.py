"""Racks of brokers as plans count them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

UNKNOWN_RACK = "unknown"


def name_racks(racks: Sequence[str | None], live: npt.NDArray[np.bool_]) -> Sequence[str | None]:
    """Give live brokers of unknown rack one of their own if they are few, as those are that came back meanwhile.

    Else they stay without: as Kafka does, plans then ignore racks. live: bool (n), of the brokers of these racks.
    """
    unknown = [rack is None and bool(is_live) for rack, is_live in zip(racks, live.tolist(), strict=True)]
    if 2 * sum(unknown) >= int(live.sum()):
        return racks
    return [UNKNOWN_RACK if is_unknown else rack for rack, is_unknown in zip(racks, unknown, strict=True)]

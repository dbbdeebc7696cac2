"""Types of the arrays that planning kernels take."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
RandomState = npt.NDArray[np.uint64]


class ListChanges(NamedTuple):
    """Replica lists before and after a change: int32, with int64 offsets of partitions."""

    old_offsets: Ints
    old: Int32s
    new_offsets: Ints
    new: Int32s

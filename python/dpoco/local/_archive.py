"""Arrays of a state file: NumPy's own format, read without trusting what it says of sizes."""

from __future__ import annotations

import io
import math
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.errors import StateError

__all__ = ["read_arrays"]


def read_arrays(payload: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``np.savez`` wrote.

    Parameters
    ----------
    payload : bytes
        The archive: uncompressed, so that no array can be larger than it.

    Raises
    ------
    StateError
        If an entry is compressed, or states another size than it has. Other exceptions of
        ``zipfile`` and NumPy mean a malformed archive, too.

    Notes
    -----
    What is allocated is bounded by the size of `payload`, whatever it says.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        entries = archive.infolist()
        stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        if not stored or sum(entry.file_size for entry in entries) > len(payload):
            raise StateError("state is corrupt: its arrays are compressed or overlap")
        for entry in entries:
            content = io.BytesIO(archive.read(entry))
            if np.lib.format.read_magic(content) != (1, 0):
                raise StateError("state is corrupt: an array of another format")
            shape, _, dtype = np.lib.format.read_array_header_1_0(content)
            left = entry.file_size - content.tell()
            if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != left:
                raise StateError("state is corrupt: an array of another size")
            content.seek(0)
            array = np.lib.format.read_array(content, allow_pickle=False)
            arrays[entry.filename.removesuffix(".npy")] = array
    return arrays

"""Checks of public arguments, shared by all modules.

Messages contain the name of the argument, what was expected and what was given (a dtype, a shape or
a public parameter), but never a data value.
"""

from __future__ import annotations

import importlib
import math
import numbers
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Fields = dict[str, Any]  # values by name: arguments, or a JSON object
Named = Mapping[str, Any]  # the same, read-only
T = TypeVar("T")
_DOUBLE = np.dtype(np.float64)

# Outside of this range, norm bounds, radii and scales would over- or underflow in q-norms.
SMALLEST_SCALE, LARGEST_SCALE = 1e-100, 1e100
LARGEST_HORIZON = 10**12


def positive_float(name: str, value: object) -> float:
    """Return `value` as a float in [1e-100, 1e100], or raise naming the argument."""
    if type(value) is float and SMALLEST_SCALE <= value <= LARGEST_SCALE:
        return value  # fast path, because every draw calls this
    number = real_float(name, value)
    if not SMALLEST_SCALE <= number <= LARGEST_SCALE:
        raise ValueError(f"{name} must be positive, in [1e-100, 1e100]; got {number!r}")
    return number


def real_float(name: str, value: object) -> float:
    """Return `value` as a finite float, or raise naming the argument."""
    number = _float(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite; got {number!r}")
    return number


def label_index(label: object, labels: int) -> int | None:
    """Return a label as an index below `labels`, or None if it is not such a label."""
    if isinstance(label, (bool, np.bool_)) or not isinstance(label, (int, np.integer)):
        return None
    return int(label) if 0 <= label < labels else None


def real_in(name: str, value: object, interval: str) -> float:
    """Return `value` as a float in an interval such as "[0, 1)", or raise naming the argument."""
    number = _float(name, value)
    low, high = _ends(interval)  # NaN is in no interval, because all comparisons are false
    inside = low < number < high
    if not (inside or (number == low and "[" in interval) or (number == high and "]" in interval)):
        raise ValueError(f"{name} must be in {interval}; got {number!r}")
    return number


@cache
def _ends(interval: str) -> tuple[float, float]:
    """Return the ends of an interval written as "[0, 1)"."""
    low, high = map(float, interval[1:-1].split(","))
    return low, high


def instance(name: str, value: object, kind: type[T], what: str) -> T:
    """Return `value` if it is of that type, or raise naming the argument."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {what}; got {type(value).__name__}")
    return value


def _float(name: str, value: object) -> float:
    """Return a number as a float, or raise if the value is not a number."""
    try:
        # `float` would also take texts, and True as 1.
        if not isinstance(value, (bool, np.bool_, str, bytes, complex, np.complexfloating)):
            return float(value)  # type: ignore[arg-type]  # or a TypeError, as said below
    except (TypeError, ValueError):
        pass
    except OverflowError:
        raise ValueError(f"{name} must be finite; got more than a float can hold") from None
    raise TypeError(f"{name} must be a real number; got {type(value).__name__}")


def positive_int(
    name: str, value: object, *, minimum: int = 1, maximum: int = LARGEST_HORIZON
) -> int:
    """Return `value` as an int in [minimum, maximum], or raise naming the argument."""
    return whole_number(name, value, minimum, maximum)


def whole_number(name: str, value: object, low: int = 0, high: int | None = None) -> int:
    """Return `value` as an int in [low, high], or raise naming the argument."""
    # A bool is an int in Python, so True would count as 1.
    if type(value) is not int and (  # fast path, because every run calls this
        isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer))
    ):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    number = int(value)
    if number < low or (high is not None and number > high):
        reach = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be {reach}; got {number}")
    return number


def whole_if_float(value: object) -> Any:
    """Return the int that equals a float such as 1e5; return other values unchanged."""
    # Nothing is rounded. 1e5 means an integer; the caller's check reports an error for 1.5.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def exponent(name: str, value: object) -> float:
    """Return a norm exponent in [1, inf]; within 1e-12 of 1 it is 1, and from 1e12 on it is inf."""
    number = real_in(name, value, "[1, inf]")
    # The dual exponent p / (p - 1) of a p that counts as 1 would exceed 1e12, which counts as inf.
    if number <= 1.0 + 1e-12:
        return 1.0
    return math.inf if number >= 1e12 else number


def choice(name: str, value: object, allowed: Collection[str]) -> str:
    """Return `value` if it is one of `allowed`, or raise naming the argument."""
    if value not in allowed:
        # The text of an object of another type may contain data.
        given = repr(value) if isinstance(value, str) else type(value).__name__
        raise ValueError(f"{name} must be one of {sorted(allowed)}; got {given}")
    return str(value)


class MissingHorizonError(ValueError):
    """A calibration needs a number of rounds; constructors add a suggestion."""

    def __init__(self, why: str = "the noise depends on the number of rounds") -> None:
        super().__init__(f"horizon must be an int: {why}")


def unknown(what: str, given: str, known: Collection[str]) -> str:
    """Return the message for an unknown name, with a suggestion."""
    import difflib  # only needed for a message

    close = difflib.get_close_matches(given.lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else f"it is one of: {', '.join(known)}"
    return f"no {what} {given!r}; {hint}"


def choose_name(what: str, given: str, known: Collection[str]) -> str:
    """Return `given` if it is known; otherwise raise with a suggestion."""
    if given not in known:
        raise ValueError(unknown(what, given, known))
    return given


def float_array(name: str, value: object, shape: tuple[int | None, ...]) -> FloatArray:
    """Return `value` as a C-contiguous float64 array of `shape` (None = any length).

    Integers, booleans, shorter floats, decimals and objects that `number` takes are converted once,
    here; missing (`is_missing`) and masked entries become NaN. Complex numbers, dates, and arrays
    with a text among their entries are refused. Finiteness is not checked, because a non-finite
    record counts as a zero record.
    """
    if type(value) is np.ndarray and value.dtype is _DOUBLE:
        have = value.shape  # fast path, because every call uses this
        if have == shape or (have and shape[:1] == (None,) and have[1:] == shape[1:]):
            flags = value.flags
            if flags.c_contiguous and flags.aligned:
                return value
        array = value
    else:
        try:
            array = _array(value)
        except (TypeError, ValueError):
            # The text of the cause may quote data.
            raise TypeError(
                f"{name} must be an array of real numbers; got {type(value).__name__}"
            ) from None
        if array.dtype.kind == "O" and value is not None:
            array = _from_objects(name, array)
        elif array.dtype.kind not in "fiub":
            # The message only shows the kind, because the length of a string type is that of the
            # data.
            raise TypeError(f"{name} must have a real dtype; got {array.dtype.type.__name__}")
        if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
            # The value under a mask is not data.
            array = np.where(np.ma.getmaskarray(array), np.nan, array.data)
    if array.ndim != len(shape) or any(
        want is not None and want != have for want, have in zip(shape, array.shape, strict=True)
    ):
        expected = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise ValueError(f"{name} must have shape {expected}; got {array.shape}")
    with np.errstate(all="ignore"):  # values out of range silently become infinite
        return np.require(array, dtype=np.float64, requirements=["C", "A"])


def number(name: str, value: object) -> float:
    """Return a scalar of data as a float: NaN if it is missing, infinite if it is out of range."""
    if type(value) is float:
        return value
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if is_missing(value):
        return math.nan
    if not isinstance(value, (int, float, numbers.Real, np.bool_, Decimal)):
        raise TypeError(f"{name} must be a real number; got {type(value).__name__}")
    try:
        with np.errstate(all="ignore"):
            return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]  # a Real has no order


def is_missing(value: object) -> bool:
    """Return whether a scalar of data is missing: None, NaN, NaT, pandas's NA, NumPy's masked."""
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    # pandas's own missing values do not support comparisons.
    named = type(value).__name__ in ("NAType", "NaTType")
    masked = _masked_arrays()
    return value is None or named or (masked is not None and value is masked.masked)


def _masked_arrays() -> Any:
    """Return ``numpy.ma``, or None if it was not imported, so that nothing can be masked.

    Importing it would take longer than a learner's first round.
    """
    return sys.modules.get("numpy.ma")


def without_mask(values: Any) -> Any:
    """Return a masked array as a plain one with masked entries missing; otherwise `values`.

    NumPy itself drops masks, but values under a mask are not data.
    """
    masked = _masked_arrays()
    if masked is None or not isinstance(values, masked.MaskedArray):
        return values
    # Times in nanoseconds would become integers if converted to objects.
    found = np.array(values.data, None if values.dtype.kind in "fmM" else object)
    found[masked.getmaskarray(values)] = None
    return found


def _array(value: Any) -> NDArray[Any]:
    """Return an array, masked if `value` or one of its rows is; NumPy itself drops these masks."""
    masked = _masked_arrays()
    if masked is not None and isinstance(value, masked.MaskedArray):
        return np.asanyarray(value)
    if isinstance(value, (list, tuple)):
        if masked is not None:
            rows = (row if isinstance(row, (list, tuple)) else (row,) for row in value)
            if any(cell is masked.masked for row in rows for cell in row):
                return np.asarray(value, dtype=object)
            if any(isinstance(row, masked.MaskedArray) for row in value):
                return np.asanyarray(masked.array(value))
        found = np.asarray(value)
        # In a list of dates, the type of each value decides, because missing values alone are not
        # dates.
        return found if found.dtype.kind not in "mM" else found.astype(object)
    return np.asarray(value)


def _from_objects(name: str, array: NDArray[Any]) -> FloatArray:
    """Convert values without a numeric dtype: long integers, decimals, numbers with gaps."""
    return np.array([number(name, item) for item in array.flat]).reshape(array.shape)


class MalformedError(ValueError):
    """A file is malformed; the message quotes nothing of it."""


def import_package(package: str, use: str, extra: str) -> Any:
    """Return an optional package; `ImportError` names the extra that installs it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        # The name of the extra helps; the chain of imports behind the error would hide it.
        top = package.partition(".")[0]
        text = f'{use} needs {top}: pip install "dpoco[{extra}]"'
        raise ImportError(text, name=top) from None


@contextmanager
def reading(name: str, kind: str) -> Iterator[None]:
    """Convert any error of a library about a damaged file into a `ValueError` without quotes.

    `kind` is the expected kind of file; `MalformedError` and `ImportError` pass unchanged.
    """
    try:
        yield
    except (ImportError, MalformedError):
        raise
    except Exception as error:
        raise MalformedError(
            f"{name} is not {kind}, or cannot be read ({type(error).__name__})"
        ) from None


# -- sizes are estimated before allocating, because the system kills processes that ask for too much

_VARIABLE = "DPOCO_MEMORY_LIMIT"
_UNKNOWN = 16 * 2**30  # for machines that do not report it


def memory_limit() -> float:
    """Return the number of bytes that one object may need.

    It is the environment variable ``DPOCO_MEMORY_LIMIT`` (bytes) if that is set; otherwise the
    memory of the machine, or of its container if that is less; otherwise 16 GiB.
    """
    given = os.environ.get(_VARIABLE)
    if given is not None:
        try:
            return positive_float(_VARIABLE, float(given))
        except ValueError:
            raise ValueError(f"{_VARIABLE} must be a number of bytes") from None
    return _machine_memory()


@cache  # every learner calls this, and audits make thousands of learners
def _machine_memory() -> float:
    """Return the bytes of memory that this process may use, as far as the system reports them."""
    try:
        whole = float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # Windows, and systems without these names
        whole = 0.0
    try:
        group = float(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # no limit, or "max"
        group = 0.0
    known = [size for size in (whole, group) if size > 0.0]
    return min(known, default=float(_UNKNOWN))


def require_memory(parts: Mapping[str, float]) -> None:
    """Raise `MemoryError` if `parts`, numbers of doubles by their user, need too much memory."""
    # A lower bound: the memory that an engine certainly allocates, without the Python objects
    # around it.
    needed, limit = 8.0 * sum(parts.values()), memory_limit()
    if needed > limit:
        most = max(parts, key=lambda name: parts[name])
        raise MemoryError(
            f"this needs at least {needed:.3g} bytes, most of them for {most} "
            f"({8.0 * parts[most]:.3g}); the limit is {limit:.3g} (set by {_VARIABLE}, else the "
            "machine's memory)"
        )

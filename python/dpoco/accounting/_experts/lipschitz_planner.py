"""Which nets a calibration compares."""

from __future__ import annotations

from dpoco.accounting._experts.net_shape import NetShape

__all__ = ["LARGEST_LINE", "LARGEST_SIDE", "candidate_nets"]

# What a round may cost when the caller does not say: noise, transform and a draw are linear in the
# number of points, up to a logarithm.
LARGEST_LINE = 2**16
LARGEST_SIDE = 2**8


def candidate_nets(shape: NetShape, transform: str) -> list[tuple[int, ...]]:
    """Return the numbers of points an axis to compare: sizes of small prime factors.

    Two axes get nearly equal spacings, since the largest one decides how far the nearest point is.
    """
    if not shape.sides:
        return [()]
    if transform == "parent":
        levels = 16 if len(shape.sides) == 1 else 8
        return [(2**k + 1,) * len(shape.sides) for k in range(levels + 1)]
    if len(shape.sides) == 1:
        return [(n,) for n in _smooth(LARGEST_LINE)]
    long = 0 if shape.sides[0] >= shape.sides[1] else 1
    sizes = _smooth(LARGEST_SIDE)
    nets: list[tuple[int, ...]] = []
    for count in sizes:
        needed = shape.sides[1 - long] / shape.sides[long] * (count - 1) + 1.0
        other = next((n for n in sizes if n >= needed - 1e-9), LARGEST_SIDE)
        nets.append((count, other) if long == 0 else (other, count))
    return nets


def _smooth(largest: int) -> list[int]:
    """Return 2^a, 3 2^a and 5 2^a up to `largest`, at least 2, increasing."""
    powers = [2**a for a in range(largest.bit_length())]
    return sorted({m * p for m in (1, 3, 5) for p in powers if 2 <= m * p <= largest})

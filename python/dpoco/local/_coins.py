"""Public coins: the randomness of the questions, which server and devices compute alike.

SplitMix64 in counter mode: integers only, the same in every language. Public coins choose what is
asked; they are never noise, and nothing here can be used for it: noise comes from
`dpoco.random.Source`, whose key is not public.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpoco import _core

__all__ = ["ADAPTIVE_SLOT", "PublicCoins", "public_seed"]

# The stream that decides whether an adaptive query is replaced by a random pair.
ADAPTIVE_SLOT = 1000


def _integer(name: str, value: Any, smallest: int, largest: int) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    number = int(value)
    if not smallest <= number <= largest:
        raise ValueError(f"{name} must be in [{smallest}, {largest}]; got {number}")
    return number


def public_seed(value: Any) -> int:
    """Return a public seed, an integer in [0, 2**64), or raise."""
    return _integer("public_seed", value, 0, 2**64 - 1)


class PublicCoins:
    """The stream of public random words of one question.

    Parameters
    ----------
    seed : int
        Public, in [0, 2**64).
    round : int
        At least 1, below 2**63.
    slot : int, default 0
        Which bit of the report, in [0, 2**32).

    Notes
    -----
    Word i = 1, 2, ... is ``mix(h + i G)`` with ``h = mix(seed ^ mix(round G + slot + 1))``, ``mix``
    the finaliser of SplitMix64 and G its increment, all modulo 2**64.
    """

    def __init__(self, seed: int, round: int, slot: int = 0) -> None:
        self._engine = _core.PublicCoins(
            public_seed(seed),
            _integer("round", round, 1, 2**63 - 1),
            _integer("slot", slot, 0, 2**32 - 1),
        )

    def word(self) -> int:
        """Return the next word, uniform in [0, 2**64)."""
        return self._engine.word()

    def below(self, n: int) -> int:
        """Return the next integer uniform in [0, n), 1 <= n < 2**64: exactly, by rejection."""
        return self._engine.below(_integer("n", n, 1, 2**64 - 1))

    def subset(self, n: int, size: int) -> tuple[int, ...]:
        """Return a uniform subset of 0..n-1, ascending, by a partial Fisher-Yates shuffle.

        Parameters
        ----------
        n : int
            At least 1.
        size : int
            In [0, n].
        """
        whole = _integer("n", n, 1, 2**31)
        count = _integer("size", size, 0, whole)
        members = self._engine.shuffled(whole, count)[:count]
        return tuple(sorted(members.tolist()))

    def pair(self, n: int) -> tuple[int, int]:
        """Return two different integers below n >= 2, in random order."""
        first = self.below(_integer("n", n, 2, 2**40))
        second = self.below(n - 1)
        return first, second + (second >= first)

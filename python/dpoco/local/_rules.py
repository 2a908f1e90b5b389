"""What a server-side learning rule must be able to do, and what every rule is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpoco.local._prediction import Prediction

if TYPE_CHECKING:
    from dpoco.local._specs import RoundSpec

__all__ = ["Rule", "Settings"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """The public constants of a learner; everything a rule may depend on besides reports.

    Attributes
    ----------
    hypotheses : int
        K.
    labels : int or None
        M; None for likelihoods of labels without a finite set.
    epsilon, delta : float
        Privacy of one whole report; `delta` is 0 for the pure channels.
    horizon : int or None
        T, where it is known.
    public_seed : int
        Seed of the public coins, 64 bits.
    channel, query, bits, interactive, protect : str, str, int, bool, str
        As given to the learner.
    range : str
        ``"exact"`` or ``"worst_case"``: range of the loss queries.
    mixing : float or None
        Fixed mixing of predictions and losses; None for the rule's own choice.
    options : mapping
        What only some rules take: ``temperature``, ``eta``, ``sensitivity``, ``sampling``, ...
    fingerprint : bytes
        Of the hypotheses, for specifications; zeros where there is none.
    """

    hypotheses: int
    labels: int | None
    epsilon: float
    delta: float
    horizon: int | None
    public_seed: int
    channel: str
    query: str
    bits: int
    interactive: bool
    protect: str
    range: str
    mixing: float | None
    options: Mapping[str, Any]
    fingerprint: bytes = bytes(16)


class Rule(Protocol):
    """One learning rule on the server; all of it is post-processing of reports.

    A rule is deterministic: the same specifications and values give the same state, bit for bit.
    The learner calls `specify` once a round, in order, and `apply` for rounds that are open, with
    values it has checked (`RoundSpec` says shape and range) and the matrix of that round.
    """

    @property
    def weights(self) -> FloatArray:
        """Current weights, shape (K,), summing to 1; a fresh array."""
        ...

    def specify(self, round: int, matrix: FloatArray | None) -> RoundSpec:
        """Return the public specification of `round` (from 1 on).

        `matrix` holds the round's distributions, shape (K, M), read-only; None under private
        contexts and for likelihoods. Does not change the state that reports act on.
        """
        ...

    def apply(self, spec: RoundSpec, matrix: FloatArray | None, values: IntArray) -> None:
        """Take reports to `spec` into account, in the order of rows.

        `values` has shape (n, width), C-contiguous: bits, a sorted subset, or lattice integers.
        """
        ...

    def mixing(self, round: int) -> float:
        """Return the share of the uniform mixture in the prediction of `round`, in [0, 1]."""
        ...

    def predict(self, round: int, matrix: FloatArray) -> Prediction:
        """Return the prediction of `round` from the current weights."""
        ...

    def risk_bound(self, rounds: int) -> float:
        """Return the rule's own bound on the expected KL-risk of `rounds` rounds, in nats.

        Infinity where the rule has none.
        """
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `restore` continues from; contents only, no settings."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `state`; ValueError (and nothing changed) for arrays that cannot be."""
        ...

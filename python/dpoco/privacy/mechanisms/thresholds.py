"""AboveThreshold, the sparse vector technique: which queries exceed a noisy threshold.

Let one record move every query by an amount in [-c', c], c and c' the same for all queries, with
c <= D (the sensitivity) and c + c' <= s (the spread, at most 2 D). A threshold carries noise of
scale b_1 drawn once, every query noise of scale b_2. Claim: all answers up to the k-th alarm are
together epsilon-private with

    epsilon = D / b_1 + k s / b_2,

for adaptively chosen queries and any public thresholds, with one-sided exponential noises as well
as with Laplace noises. It is attained for every k, in the limit of many silent queries.

Proof: ``docs/privacy/shift_detector.md``. Sources: Dwork, Naor, Reingold, Rothblum and Vadhan
(2009); Lyu, Su and Li, "Understanding the sparse vector technique" (2017).
"""

from __future__ import annotations

from dataclasses import dataclass

from dpoco.privacy.losses.combined import group
from dpoco.privacy.losses.loss import Loss, Pure
from dpoco.privacy.mechanisms.base import Mechanism, central
from dpoco.privacy.neighbours import Neighbours

__all__ = ["ThresholdTests"]


@dataclass(frozen=True)
class ThresholdTests(Mechanism):
    """Tests of any number of queries, up to an alarm; an emptied record is a replaced one.

    Attributes
    ----------
    law : {"exponential", "laplace"}
        Law of both noises.
    threshold_scale, query_scale : float
        Their scales, in units of the queries.
    sensitivity, spread : float
        Largest change of one query; largest rise of one plus largest fall of another.
    alarms : int
        Alarms answered.
    """

    kind = "threshold_tests"
    proofs = ("shift_detector",)
    law: str
    threshold_scale: float
    query_scale: float
    sensitivity: float
    spread: float
    alarms: int

    def __post_init__(self) -> None:
        """Refuse other laws, and spreads that no sensitivity has."""
        super().__post_init__()
        self.check_choice("law", ("exponential", "laplace"))
        if not self.sensitivity <= self.spread <= 2.0 * self.sensitivity:
            raise ValueError("spread must lie between the sensitivity and twice the sensitivity")

    def loss(self, near: Neighbours) -> Loss:
        """Return the pure loss of all answers together."""
        central(near)
        first = self.sensitivity / self.threshold_scale
        return group(Pure(first + self.alarms * self.spread / self.query_scale), near.rounds)

"""Replay audit: the same random tape on two neighbouring streams.

The proof of a learner on a sum has three facts about the code as premises, and each is
measured here on real runs with one and the same noise:

1. what enters the sum in a round is a function of that round's record and of the decisions
   published so far, nothing else (otherwise a record could act in later rounds, too);
2. replacing a record changes that value by at most the declared sensitivity;
3. neither the number of random variates drawn nor any decision up to the changed round depends on
   the record.

No statistics are involved: a single violation is a proof that the claim is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import float_array
from dpoco.domains._base import lp_norm
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import GlmLoss, LinearLoss
from dpoco.losses._base import record_multipliers
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

__all__ = ["ReplayReport", "replay_audit"]

FloatArray = NDArray[np.float64]
# Learners that see the data through one sum.
Audited = TreeFrankWolfe | PolyhedralFrankWolfe | NoisyFTRL

# Rounding of the leaf's own arithmetic, relative to the bound.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ReplayReport:
    """Outcome of a replay audit; computed from raw data, not private.

    Attributes
    ----------
    declared : float
        Sensitivity the guarantee is calibrated for, in its norm.
    measured : float
        Largest change found over all pairs played.
    pairs : int
        Neighbouring pairs played.
    findings : tuple of str
        Violations, in words; empty if none was found.
    """

    declared: float
    measured: float
    pairs: int
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether no violation was found."""
        return not self.findings

    def __str__(self) -> str:
        verdict = "no violation found" if self.passed else "VIOLATED"
        lines = [
            f"Replay audit: {verdict} in {self.pairs} neighbouring pairs",
            f"  sensitivity: declared {self.declared:.6g}, largest measured {self.measured:.6g}",
        ]
        return "\n".join(lines + [f"  - {text}" for text in self.findings])


@dataclass(frozen=True)
class _Play:
    """One run, round by round: decisions, what entered the sum, variates drawn so far."""

    decisions: FloatArray
    leaves: FloatArray
    variates: NDArray[np.uint64]


def replay_audit(
    make_learner: Callable[[Source], Audited],
    features: Any,
    labels: Any,
    replacements: list[tuple[int, Any, float]],
    *,
    seed: int = 0,
) -> ReplayReport:
    """Play a stream and its neighbours on one random tape and compare.

    Parameters
    ----------
    make_learner : callable
        ``Source -> TreeFrankWolfe``, ``PolyhedralFrankWolfe`` or ``NoisyFTRL``; called with an
        equal seeded source for every run. The learner must have ``batch=1``.
    features : array_like of shape (T, d)
        Records; gradients for a `LinearLoss`.
    labels : array_like of shape (T,) or None
        Labels of generalised linear losses.
    replacements : list of (round index, features, label)
        Each gives a neighbour: that round's record replaced (label ignored for linear losses).
    seed : int
        Seed of the tape.

    Returns
    -------
    ReplayReport

    Notes
    -----
    T rounds in Python per pair.
    """
    learner = make_learner(Source.seeded(seed))
    if not isinstance(learner.loss, (GlmLoss, LinearLoss)):
        raise TypeError("a custom loss has no records to replace")
    if learner.parameters.batch != 1:
        raise ValueError("the audit needs batch=1")
    d = learner.domain.dimension
    rows = float_array("features", features, (None, d))
    targets = None if labels is None else float_array("labels", labels, (rows.shape[0],))
    declared = learner.parameters.sensitivity
    findings: list[str] = []
    base = _play(learner, rows, targets, findings)
    measured = 0.0
    for index, record, label in replacements:
        other_rows = rows.copy()
        other_rows[index] = float_array("replacement", record, (d,))
        other_targets = None if targets is None else targets.copy()
        if other_targets is not None:
            other_targets[index] = label
        other = _play(make_learner(Source.seeded(seed)), other_rows, other_targets, findings)
        change = _sensitivity(learner, base.leaves[index] - other.leaves[index])
        measured = max(measured, change)
        if not change <= declared * (1 + _ROUNDING):
            findings.append(f"round {index}: a replaced record moved the sum by {change:.6g}")
        if not np.array_equal(base.variates, other.variates):
            findings.append(f"round {index}: the number of variates drawn depends on the record")
        if not np.array_equal(base.decisions[: index + 1], other.decisions[: index + 1]):
            findings.append(f"round {index}: an earlier decision depends on a later record")
    return ReplayReport(declared, measured, len(replacements), tuple(dict.fromkeys(findings)))


def _sensitivity(learner: Audited, change: FloatArray) -> float:
    """Return the size of the change, in the norm the sensitivity is stated in."""
    if isinstance(learner, PolyhedralFrankWolfe):
        order = np.inf
    else:
        order = 2.0 if learner.parameters.noise == "gaussian" else learner.domain.dual_exponent
    return lp_norm(np.ascontiguousarray(change), order)


def _play(
    learner: Audited, rows: FloatArray, targets: FloatArray | None, findings: list[str]
) -> _Play:
    engine = learner._engine
    decisions, leaves, variates = [], [], []
    total = np.zeros_like(engine.nonprivate_sum())
    rest = np.zeros_like(total)
    previous = learner.decide()
    for t, row in enumerate(rows):
        decision = learner.decide()
        decisions.append(decision)
        leaf = _leaf(learner, decision, previous, row, None if targets is None else targets[t])
        leaves.append(leaf)
        learner.observe(row, None if targets is None else float(targets[t]))
        previous = decision
        total, rest = _add(leaf, total, rest)
        if not np.array_equal(total, engine.nonprivate_sum()):
            findings.append("what enters the sum is not a function of record and decisions alone")
            total = np.array(engine.nonprivate_sum())
        variates.append(engine.variates_drawn())
    return _Play(np.array(decisions), np.array(leaves), np.array(variates, dtype=np.uint64))


def _add(leaf: FloatArray, total: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sum with a leaf added and what rounding lost of it, as the engine adds."""
    own = leaf + rest
    after = total + own
    added = after - total
    return after, (total - (after - added)) + (own - added)


def _leaf(
    learner: Audited,
    decision: FloatArray,
    previous: FloatArray,
    row: FloatArray,
    label: float | None,
) -> FloatArray:
    """Return what the record adds at the given decisions: the learner's rule, without state."""
    loss = learner.loss
    if not isinstance(loss, LinearLoss):
        leaf: FloatArray = learner._engine.leaf(decision, previous, row, label)
        return leaf
    bounds = loss.gradient_bound, loss.gradient_bound_l2
    multiplier = record_multipliers(learner._domain, row[None, :], *bounds)[0]
    return multiplier * row if multiplier > 0 else np.zeros_like(row)

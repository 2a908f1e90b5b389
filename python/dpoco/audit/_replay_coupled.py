"""Replay of the coupled learners: coins, draws and what a record moves in their odds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpoco._validation import float_array
from dpoco.audit._replay_base import Change, Family, Play, Rounds, one_part, positions, two_parts
from dpoco.audit._replay_sums import record_rounds
from dpoco.losses import CustomLoss, LinearLoss, QuadraticLoss
from dpoco.oco import ContinuousMultiplicativeWeights, CoupledRegularizedLeader

__all__ = ["Coupled"]

_UNIFORM = 1


class Coupled(Family):
    """CoupledRegularizedLeader and ContinuousMultiplicativeWeights."""

    schedule = "published"

    def rounds(self, stream: Any) -> Rounds:
        learner = self.learner
        if isinstance(learner.loss, QuadraticLoss):
            d = learner.domain.dimension
            matrices, vectors = two_parts("matrices and vectors", stream)
            rows = float_array("matrices", matrices, (None, d, d))
            return Rounds((rows, float_array("vectors", vectors, (len(rows), d))))
        if isinstance(learner.loss, CustomLoss):
            objects = one_part("loss objects", stream)
            if not isinstance(objects, Sequence):
                raise TypeError("stream must be a list of loss objects")
            return Rounds((list(objects),))
        return record_rounds(learner, stream)

    def is_empty(self, record: tuple[Any, ...]) -> bool:
        if isinstance(self.learner.loss, CustomLoss):
            return True  # what an empty loss is, its object says
        return super().is_empty(record)

    def play(self, learner: Any, rounds: Rounds) -> Play:
        engine, play = learner._engine, Play()
        factor = getattr(engine, "nonprivate_log_factor", None) or engine.nonprivate_log_ratio
        play.variates.append(positions(learner))
        before = 0
        for t in range(len(rounds)):
            point = engine.nonprivate_point()
            play.published.append((learner.decide().tobytes(), int(learner.switches)))
            learner.observe(*rounds.record(t))
            moved = engine.switches != before
            before = engine.switches
            play.variates.append(positions(learner))
            play.note(factor=float(factor()), point=point.tobytes(), moved=moved)
            if self._is_summed:  # what a leader without noise and barrier solves is the sum
                zero = np.zeros(learner.parameters.dimension)
                play.note(solved=np.array(engine.nonprivate_solve(zero)))
            play.fresh.append(moved)
            play.findings += self._consumption(learner, play, t)
        if learner.round < learner.horizon:
            play.published.append((learner.decide().tobytes(), int(learner.switches)))
        return play

    @property
    def _is_summed(self) -> bool:
        learner = self.learner
        leads = isinstance(learner, CoupledRegularizedLeader)
        return leads and isinstance(learner.loss, LinearLoss) and bool(learner.guarantee.private)

    def _consumption(self, learner: Any, play: Play, t: int) -> Iterator[str]:
        """Yield where a round without a draw used more than its coin."""
        p = learner.parameters
        used = np.subtract(play.variates[t + 1], play.variates[t])
        switches = sum(play.notes["moved"][:t])
        cap = np.inf if p.max_switches is None else p.max_switches
        decides = (t + 1) % p.block == 0 and t + 1 < p.horizon and switches < cap
        if play.notes["moved"][t]:
            if not decides:
                yield f"round {t}: a draw where none may be"
            return
        coin = int(decides and p.forced_switch < 1.0)
        if int(used.sum()) != int(used[_UNIFORM]) or used[_UNIFORM] > coin:
            yield f"round {t}: variates drawn without a coin or draw that would need them"

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        p = self.learner.parameters
        notes = base.notes, other.notes
        shift = self.learner.guarantee.details.get("later_bit_shift")
        weights = isinstance(self.learner, ContinuousMultiplicativeWeights)
        if self._is_summed:
            declared = float(self.learner.guarantee.sensitivity)
            pairs = zip(base.notes["solved"], other.notes["solved"], strict=True)
            for t, (ours, theirs) in enumerate(pairs):
                if not (self._sums(t, base) and self._sums(t, other)):
                    break  # with the last draw, sums are given up
                yield "the sum of gradients", float(np.linalg.norm(ours - theirs)), declared
        for t in range(len(base.notes["factor"])):
            same = base.published[: t + 1] == other.published[: t + 1]
            if not same or notes[0]["point"][t] != notes[1]["point"][t]:
                return
            moved = abs(notes[0]["factor"][t] - notes[1]["factor"][t])
            if not np.isfinite(moved):
                moved = np.inf
            if t < at:
                yield "factors before the changed round", moved, 0.0
            elif t == at:
                span = self._span(p, weights)
                if span is not None:
                    yield "the changed round's log factor", moved, span
            elif p.coupling in ("dartboard", "anchored"):
                yield "later log factors", moved, 1e-9
            elif p.coupling == "density_ratio" and shift is not None and self._open(t, base):
                yield "later log factors", moved, float(shift) * (1.0 + 1e-6)

    def _sums(self, t: int, play: Play) -> bool:
        """Whether another draw may follow round t."""
        p = self.learner.parameters
        switches = sum(play.notes["moved"][: t + 1])
        left = p.max_switches is None or switches < p.max_switches
        return bool(left and t + p.block < p.horizon)

    def _open(self, t: int, play: Play) -> bool:
        """Whether the factor of round t is used at all."""
        return self._sums(t, play) and bool(self.learner.parameters.forced_switch < 1.0)

    def _span(self, p: Any, weights: bool) -> float | None:
        if p.coupling in ("scheduled", "maximal") or not weights:
            return None  # a ratio before it is clipped
        if p.coupling == "dartboard":
            return float(p.inverse_temperature * p.factor_range)
        return float(p.clip_high + p.clip_low)

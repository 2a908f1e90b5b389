"""Fits to whole data sets: the sum that a fit releases, and the likelihood of its noise.

A fit shows its model only. Its noise is drawn once more from a copy of the source, and the sum
that follows must be the engine's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco import _core
from dpoco._validation import FloatArray
from dpoco.audit._family import Change, Family, Play, Scorer, Scores
from dpoco.audit._playing import Rounds
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

_GAUSSIAN = 2  # kind of a compiled source's variates
_GRID_BITS = 13


class Fits(Family):
    """One release of the second moments of all records."""

    needs = ()  # the engine is of one fit

    def rounds(self, stream: Any) -> Rounds:
        rounds = super().rounds(stream)
        _settle(self.learner, len(rounds))
        if self.learner.plan.mechanism.batch != len(rounds):
            raise ValueError(f"stream must have {self.learner.plan.mechanism.batch} records")
        return rounds

    def play(self, learner: Any, rounds: Rounds) -> Play:
        _settle(learner, len(rounds))
        engine = learner._engine()
        engine.add(*rounds.parts)
        play = Play(published=[None], variates=[tuple(engine.variates_drawn())])
        play.note(sums=np.array(engine.nonprivate_sum()), released=np.array(engine.release()))
        play.variates.append(tuple(engine.variates_drawn()))
        if learner.guarantee.private and sum(play.variates[-1]) == 0:
            play.findings.append("the fit drew no noise")
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        m, mu = self.learner._mechanism, self.learner.guarantee.mu
        moved = float(np.linalg.norm(base.notes["sums"][0] - other.notes["sums"][0]))
        yield "the sum", moved, m.reach(Neighbours())
        if mu is not None:
            yield "mu of the release", moved / m.scale, mu


def _settle(learner: Any, records: int) -> None:
    """Calibrate a learner that waits for the number of records."""
    if learner._plan is None:
        learner._settle(learner._calibrate(records, learner._arguments["budget"]))


class FitReleases(Scorer):
    """SufficientStatistics."""

    family: Fits

    def __init__(self, family: Fits, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        self._sums: list[FloatArray] = []
        for each in self.streams:
            engine = self.learner._engine()
            engine.add(*each.parts)
            self._sums.append(np.array(engine.nonprivate_sum()))

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        from scipy.special import ndtr

        engine = learner._engine()
        engine.add(*self.streams[world].parts)
        released = np.array(engine.release())
        scale, claim = learner._mechanism.scale, tape._claim()
        noise = np.empty(len(released))
        _core.Source(claim["key"], claim["stream"]).fill(_GAUSSIAN, noise)
        step = 2.0 ** (np.frexp(scale)[1] - _GRID_BITS)
        expected = step * np.rint((self._sums[world] + scale * noise) / step)
        own, other = ((released - self._sums[w]) / scale for w in (world, 1 - world))
        size = 1.0 + float(np.abs(released).max())
        stray = not float(np.abs(released - expected).max()) <= 1e-7 * size
        return float(0.5 * (other @ other - own @ own)), ndtr(own), stray

    def score(self, runs: list[Any], world: int) -> Scores:
        losses, places, stray = zip(*runs, strict=True)
        findings = ("the sum does not follow from the declared noise",) if any(stray) else ()
        return Scores(np.array(losses), np.array(places), findings)

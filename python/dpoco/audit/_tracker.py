"""The oblivious tracker: coins, fresh draws, and their likelihoods by forward messages in NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._family import Change, ExpertFamily, FloatArray, Play
from dpoco.audit._scorer import FiniteScorer
from dpoco.random import Source


class Tracker(ExpertFamily):
    """ObliviousTracker: a record moves one coin and the law of later fresh draws."""

    schedule = "published"

    def publication(self, learner: Any, decision: Any) -> Any:
        return decision, int(learner.resamples)

    def ask(self, learner: Any, decision: Any, record: tuple[Any, ...], play: Play) -> None:
        admitted, engine = self.admitted(record[0]), learner._engine
        keep, law, _ = engine.nonprivate_kernel(admitted)
        play.note(keep=float(keep), law=np.array(law), state=engine.nonprivate_state())
        play.note(lost=float(admitted[decision]))

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        p, (_, drawn) = learner.parameters, play.published[-1]
        ends = (t + 1) % p.batch == 0
        more = learner.round < learner.horizon and learner.experts > 1
        left = p.max_resamples is None or drawn < p.max_resamples
        return int(ends and more and left and learner.guarantee.private)

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        promised = self._promised()
        rate, batch = promised["learning_rate"], promised["batch"]
        for t in range(len(base.notes["keep"])):
            same = base.published[: t + 1] == other.published[: t + 1]
            if not same or base.notes["state"][t] != other.notes["state"][t]:
                return
            pairs = base.notes["keep"][t], other.notes["keep"][t]
            moved = abs(float(np.diff(np.log(pairs))[0])) if min(pairs) > 0.0 else 0.0
            # Only the coin of the batch that the record lies in may know it.
            own = at // batch == t // batch and t >= at
            name = "the coin of its batch" if own else "coins of other batches"
            yield name, moved, rate if own else rate * 1e-9
            if t >= at:
                with np.errstate(divide="ignore", invalid="ignore"):
                    change = np.log(base.notes["law"][t]) - np.log(other.notes["law"][t])
                seen = change[np.isfinite(change)]
                reach = float(np.ptp(seen)) if seen.size else 0.0
                yield "the law of fresh draws, range of its logarithm", reach, 2.0 * rate

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        promised = self._promised()
        for play in (base, other):
            if not self._stays(play) <= (1.0 - promised["forced_switch"]) * (1.0 + 1e-9):
                # The odds of a switch are bounded by the least chance of one.
                yield "a coin stays with a larger chance than was promised"
            cap = promised["max_resamples"]
            if cap is not None and play.published[-1][1] > cap:
                yield "there are more fresh draws than were promised"

    def _stays(self, play: Play) -> float:
        """Return the largest chance to stay if nothing were lost."""
        p, most = self.learner.parameters, 0.0
        for t, due in enumerate(play.fresh):
            if due:
                lost = sum(play.notes["lost"][t + 1 - p.batch : t + 1])
                most = max(most, play.notes["keep"][t] * float(np.exp(p.learning_rate * lost)))
        return most

    def _promised(self) -> dict[str, Any]:
        """Return rate and coins that the guarantee is about, whatever is in use."""
        p, profile = vars(self.learner.parameters), self.learner.guarantee.profile or {}
        rate = min(p["learning_rate"], profile.get("learning_rate", np.inf))
        return {**p, **profile, "learning_rate": rate}

    def facts(self) -> dict[str, bool]:
        learner = self.learner
        return {"the cap on fresh draws": learner.resamples == learner.parameters.max_resamples}


class TrackedPaths(FiniteScorer):
    """ObliviousTracker: the experts of all rounds, and which of them were drawn afresh.

    How many switches a path has had is not released: its law given what was is carried along.
    """

    family: Tracker

    def __init__(self, family: Tracker, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        learner, p = self.learner, self.learner.parameters
        if learner.experts < 2 or p.horizon is None or len(self.streams[0]) != p.horizon:
            raise ValueError(
                "stream must have all of the horizon's rounds, of at least two experts"
            )
        self._losses = [family.admitted(each.parts[0]) for each in self.streams]
        self._levels = min(p.switches, p.horizon - 1) + 1 if p.prior == "at_most" else 1
        # Laws of a fresh draw for every round, of (switches so far, expert).
        self._laws = [self._fresh(each) for each in self._losses]
        # Chance to switch in the step after a round, by switches so far.
        self._moves = [self._move(t) for t in range(p.horizon)]

    def _ways(self, steps: int) -> FloatArray:
        """Return in how many ways a path can go on, by switches so far; 1 for Markov chains."""
        if self.learner.parameters.prior != "at_most":
            return np.ones(1)
        others, most = self.learner.experts - 1, self._levels - 1
        return np.array(
            [
                float(sum(math.comb(steps, k) * others**k for k in range(most - c + 1)))
                for c in range(self._levels)
            ]
        )

    def _fresh(self, losses: FloatArray) -> list[FloatArray]:
        p, n = self.learner.parameters, self.learner.experts
        messages = np.zeros((self._levels, n))
        messages[0] = 1.0 / n
        laws = []
        for t, row in enumerate(losses):
            law = messages * self._ways(p.horizon - 1 - t)[:, None]
            laws.append(law / law.sum())
            tilted = messages * np.exp(-p.learning_rate * row)
            tilted /= tilted.sum()
            if p.prior == "at_most":
                messages = tilted.copy()
                messages[1:] += tilted[:-1].sum(axis=1, keepdims=True) - tilted[:-1]
            else:
                other = (p.share_rate or 0.0) / (n - 1)
                messages = (1.0 - (p.share_rate or 0.0) - other) * tilted + other
        return laws

    def _move(self, t: int) -> FloatArray:
        p = self.learner.parameters
        if p.prior != "at_most":
            return np.array([p.share_rate or 0.0])
        steps = p.horizon - 1 - t
        if steps < 1:
            return np.zeros(self._levels)
        ways, before = self._ways(steps - 1), self._ways(steps)
        chances: FloatArray = (self.learner.experts - 1) * np.append(ways[1:], 0.0) / before
        return chances

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        experts, drawn = [], []
        for row in self.streams[world].parts[0]:
            experts.append(int(learner.decide()))
            drawn.append(int(learner.resamples))
            learner.observe(row)
        return tuple(experts), tuple(drawn)

    def cells(self, transcript: Any, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        # Of every round's expert and flag; cells without a fresh draw come first.
        experts, drawn = transcript
        fresh = np.diff(drawn) > 0
        p, n, rows = self.learner.parameters, self.learner.experts, self._losses[world]
        cells = np.zeros((p.horizon, 2 * n))
        cells[0, :n] = 1.0 / n
        chosen = np.array(experts) + n * np.concatenate([[False], fresh])
        belief = np.zeros(self._levels)  # of the switches so far
        belief[0] = 1.0
        draws, cap = 0, math.inf if p.max_resamples is None else p.max_resamples
        for t in range(p.horizon - 1):
            keep = 1.0
            if (t + 1) % p.batch == 0 and draws < cap:
                batch = range(t + 1 - p.batch, t + 1)
                lost = sum(rows[s, experts[s]] for s in batch)
                keep = (1.0 - p.forced_switch) * math.exp(-p.learning_rate * lost)
            law = self._laws[world][t + 1]
            cells[t + 1, n:] = (1.0 - keep) * law.sum(axis=0)
            move = self._moves[t]
            switching = float(belief @ move)
            cells[t + 1, :n] = keep * switching / (n - 1)
            cells[t + 1, experts[t]] = keep * (1.0 - switching)
            if fresh[t]:
                belief, draws = law[:, experts[t + 1]], draws + 1
            elif experts[t + 1] == experts[t]:
                belief = belief * (1.0 - move)
            elif self._levels > 1:
                belief = np.append(0.0, (belief * move)[:-1])
            total = belief.sum()
            belief = belief / total if total > 0.0 else np.ones(self._levels) / self._levels
        return cells, chosen

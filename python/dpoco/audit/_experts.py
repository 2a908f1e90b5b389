"""Experts drawn by weights: by coins and fresh draws, or given noisy sums of losses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray
from dpoco.audit._family import (
    Change,
    Family,
    FiniteScorer,
    Play,
    Scorer,
    Scores,
    admit,
    ratio,
    score_draws,
)
from dpoco.audit._sum_noise import SILENT, Run, score_decisions
from dpoco.privacy.mechanisms.batch_release import movement
from dpoco.random import Source

# Of cube noise all entries may move; a response on one coordinate sees one entry.
_NORMS = {"gaussian": (2, "l2"), "laplace": (1, "l1")}
_GRID = 1e-12  # losses of a batch are rounded to a grid of 2^-52 rounds


# ---- coins and fresh draws -----------------------------------------------------------------------


class Tracker(Family):
    """Coins and fresh draws: a record moves one coin and the law of later fresh draws."""

    schedule = "published"

    def publication(self, learner: Any, decision: Any) -> Any:
        return decision, int(learner.resamples)

    def ask(self, learner: Any, decision: Any, record: tuple[Any, ...], play: Play) -> None:
        losses, engine = admit(learner, record[0]), learner._engine
        keep, law, _ = engine.nonprivate_kernel(losses)
        play.note(keep=float(keep), law=np.array(law), state=engine.nonprivate_state())
        play.note(lost=float(losses[decision]))

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        m, (_, drawn) = self.mechanism, play.published[-1]
        ends = (t + 1) % m.batch == 0
        more = learner.round < learner.horizon and learner.experts > 1
        left = m.cap is None or drawn < m.cap
        return int(ends and more and left and learner.guarantee.private)

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        promised = self.learner.guarantee.description
        rate, batch = promised.learning_rate, promised.batch
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
        promised = self.learner.guarantee.description
        for play in (base, other):
            if not self._stays(play) <= (1.0 - promised.forced) * (1.0 + 1e-9):
                # The odds of a switch are bounded by the least chance of one.
                yield "a coin stays with a larger chance than was promised"
            if promised.cap is not None and play.published[-1][1] > promised.cap:
                yield "there are more fresh draws than were promised"

    def _stays(self, play: Play) -> float:
        """Return the largest chance to stay if nothing were lost."""
        m, most = self.mechanism, 0.0
        for t, due in enumerate(play.fresh):
            if due:
                lost = sum(play.notes["lost"][t + 1 - m.batch : t + 1])
                most = max(most, play.notes["keep"][t] * float(np.exp(m.learning_rate * lost)))
        return most

    def facts(self) -> dict[str, bool]:
        learner = self.learner
        return {"the cap on fresh draws": learner.resamples == self.mechanism.cap}


class TrackedPaths(FiniteScorer):
    """ObliviousTracker: the experts of all rounds, and which of them were drawn afresh.

    How many switches a path has had is not released: its law given what was is carried along.
    """

    family: Tracker

    def __init__(self, family: Tracker, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        learner, m = self.learner, self.mechanism
        if learner.experts < 2 or m.horizon is None or len(self.streams[0]) != m.horizon:
            raise ValueError(
                "stream must have all of the horizon's rounds, of at least two experts"
            )
        self._losses = [admit(family.learner, each.parts[0]) for each in self.streams]
        self._levels = (
            min(learner.plan.tuning.switches, m.horizon - 1) + 1 if m.prior == "at_most" else 1
        )
        # Laws of a fresh draw for every round, of (switches so far, expert).
        self._laws = [self._fresh(each) for each in self._losses]
        # Chance to switch in the step after a round, by switches so far.
        self._moves = [self._move(t) for t in range(m.horizon)]

    def _ways(self, steps: int) -> FloatArray:
        """Return in how many ways a path can go on, by switches so far; 1 for Markov chains."""
        if self.mechanism.prior != "at_most":
            return np.ones(1)
        others = self.learner.experts - 1
        ways = [float(math.comb(steps, k) * others**k) for k in range(self._levels)]
        return np.cumsum(ways)[::-1]

    def _fresh(self, losses: FloatArray) -> list[FloatArray]:
        m, n = self.mechanism, self.learner.experts
        messages = np.zeros((self._levels, n))
        messages[0] = 1.0 / n
        laws = []
        for t, row in enumerate(losses):
            law = messages * self._ways(m.horizon - 1 - t)[:, None]
            laws.append(law / law.sum())
            tilted = messages * np.exp(-m.learning_rate * row)
            tilted /= tilted.sum()
            if m.prior == "at_most":
                messages = tilted.copy()
                messages[1:] += tilted[:-1].sum(axis=1, keepdims=True) - tilted[:-1]
            else:
                other = (m.share_rate or 0.0) / (n - 1)
                messages = (1.0 - (m.share_rate or 0.0) - other) * tilted + other
        return laws

    def _move(self, t: int) -> FloatArray:
        m = self.mechanism
        if m.prior != "at_most":
            return np.array([m.share_rate or 0.0])
        steps = m.horizon - 1 - t
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
        m, n, rows = self.mechanism, self.learner.experts, self._losses[world]
        cells = np.zeros((m.horizon, 2 * n))
        cells[0, :n] = 1.0 / n
        chosen = np.array(experts) + n * np.concatenate([[False], fresh])
        belief = np.zeros(self._levels)  # of the switches so far
        belief[0] = 1.0
        draws, cap = 0, math.inf if m.cap is None else m.cap
        for t in range(m.horizon - 1):
            keep = 1.0
            if (t + 1) % m.batch == 0 and draws < cap:
                batch = range(t + 1 - m.batch, t + 1)
                lost = sum(rows[s, experts[s]] for s in batch)
                keep = (1.0 - m.forced) * math.exp(-m.learning_rate * lost)
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


# ---- batches of losses, each in one release ------------------------------------------------------


class Batches(Family):
    """Every batch of losses enters one separate release."""

    def publication(self, learner: Any, decision: Any) -> Any:
        return decision, learner.weights.tobytes()

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        p, (release, left) = learner.plan.tuning, divmod(t + 1, self.mechanism.batch)
        if left or (p.releases is not None and release > p.releases):
            return 0
        play.note(input=np.array(learner._engine.nonprivate_input()))
        # The next decision's variate is no noise.
        noisy = learner.guarantee.private and learner.experts > 1
        return 1 + (learner.round < learner.horizon) if noisy else 0

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        own = at // self.mechanism.batch
        inputs = (play.notes.get("input", []) for play in (base, other))
        for k, (a, b) in enumerate(zip(*inputs, strict=True)):
            if k == own:
                order, name = _NORMS.get(self.mechanism.law, (np.inf, "the maximum norm"))
                moved = float(np.linalg.norm(a - b, order))
                most = movement(self.mechanism.law, self.learner.experts)
                yield f"a batch's sum in {name}", moved, most
                yield from self._spend(a, b, moved)
            else:
                yield "releases of other batches", float(np.abs(a - b).max()), _GRID

    def _spend(self, ours: FloatArray, theirs: FloatArray, moved: float) -> Iterator[Change]:
        """Yield what the movement of a release spends with the noise in use, and the promise."""
        m, found = self.mechanism, self.learner.guarantee
        if not found.private:
            return
        pure = found.epsilon_at(0.0)
        if m.law == "gaussian":
            if found.mu is not None:
                yield "mu of the releases", ratio(moved, m.scale), found.mu
        elif m.law == "response":
            bias = 0.5 * np.tanh(0.5 * m.epsilon)
            high = [0.5 + (2.0 * x - 1.0) * bias for x in (ours, theirs)]
            with np.errstate(divide="ignore"):
                logs = [np.abs(np.log(a / b)) for a, b in (high, [1.0 - x for x in high])]
            yield "the log odds of a response", float(np.max(logs)), pure
        else:
            yield "the log odds of a release", ratio(moved, m.scale), pure

    def facts(self) -> dict[str, bool]:
        return {"shared weights": self.learner.plan.tuning.share_rate > 0.0}


def _raise_floor(weights: FloatArray, floor: float) -> FloatArray:
    """Return the law nearest to one in relative entropy whose entries are at least `floor`."""
    low = np.zeros(len(weights), dtype=bool)
    while True:
        rest = weights[~low].sum()
        scaled = weights * ((1.0 - floor * low.sum()) / rest)
        below = ~low & (scaled < floor)
        if not below.any():
            return np.where(low, floor, scaled)
        low |= below


class ReleasedBatches(Scorer):
    """BatchShare."""

    family: Batches

    def __init__(self, family: Batches, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        p = self.learner.plan.tuning
        releases = len(self.streams[0]) // self.mechanism.batch
        self._releases = releases if p.releases is None else min(releases, p.releases)
        if self._releases < 1 or self.learner.experts < 2:
            raise ValueError("stream must be long enough for a release, of at least two experts")
        self._admitted = [admit(family.learner, each.parts[0]) for each in self.streams]
        self._inputs = [self._sums(rows) for rows in self._admitted]

    def _sums(self, admitted: FloatArray) -> FloatArray:
        """Return what each release is of: shape (releases, N)."""
        m = self.mechanism
        used = admitted[: self._releases * m.batch]
        sums: FloatArray = used.reshape(self._releases, m.batch, -1).sum(axis=1)
        if m.law == "gaussian":
            sums = sums - sums.mean(axis=1, keepdims=True)
        return sums

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        from scipy.special import softmax

        batch, rows = self.mechanism.batch, self.streams[world].parts[0]
        # The rule: logarithms of weights, up to a constant.
        run, state, exact = Run(), np.zeros(learner.experts), np.zeros(learner.experts)
        for t in range(self._releases * batch + 1):
            if learner.round == learner.horizon:
                break
            run.chances.append(np.array(learner.weights))
            run.chosen.append(self.family.decide(learner, ()))
            run.exact.append(exact)
            if not np.allclose(run.chances[-1], softmax(state), rtol=1e-6, atol=1e-12):
                run.findings.append("weights do not follow from what is released")
            if t == self._releases * batch:
                break
            learner.observe(rows[t])
            exact = exact + self._admitted[world][t]
            if (t + 1) % batch == 0:
                run.released.append(np.array(learner._engine.released()))
                state = self._update(state, run.released[-1])
        return run

    def _update(self, state: FloatArray, released: FloatArray) -> FloatArray:
        from scipy.special import softmax

        p, n = self.learner.plan.tuning, self.learner.experts
        state = state - p.learning_rate * (released - released.min())
        if p.share_rate > 0.0:
            shared = (1.0 - p.share_rate - p.share_rate / (n - 1)) * softmax(state)
            state = np.log(shared + p.share_rate / (n - 1))
        elif p.floor > 0.0:
            state = np.log(_raise_floor(softmax(state), p.floor))
        return state

    def score(self, runs: list[Any], world: int) -> Scores:
        released = np.array([run.released for run in runs])  # (trials, releases, N)
        return score_decisions(self._score_releases(released, world), runs, world)

    def _score_releases(self, released: FloatArray, world: int) -> Scores:
        law, scale = self.mechanism.law, self.mechanism.scale
        if law == "response":
            return self._responses(released, world)
        own, other = (released - self._inputs[w] for w in (world, 1 - world))
        if not scale > 0.0 or np.any(np.all(np.abs(own) <= 1e-9 * scale, axis=2)):
            return Scores(np.zeros(len(released)), np.empty((len(released), 0)), (SILENT,))
        from scipy import special

        if law == "gaussian":
            change = 0.5 * ((other / scale) ** 2 - (own / scale) ** 2).sum(axis=2)
            uniforms = special.ndtr(own / scale)
        elif law == "laplace":
            change = (np.abs(other) - np.abs(own)).sum(axis=2) / scale
            tail = 0.5 * np.exp(-np.abs(own) / scale)
            uniforms = np.where(own > 0.0, 1.0 - tail, tail)
        else:
            radius = np.abs(own).max(axis=2)
            change = (np.abs(other).max(axis=2) - radius) / scale
            # The largest entry is Gamma(N), and the first of the others uniform below it.
            largest = np.abs(own).argmax(axis=2)
            place = (largest + 1) % own.shape[2]
            entry = np.take_along_axis(own, place[:, :, None], axis=2)[:, :, 0]
            parts = special.gammainc(own.shape[2], radius / scale), 0.5 * (entry / radius + 1.0)
            uniforms = np.stack(parts, axis=2)
        return Scores(change.sum(axis=1), uniforms)

    def _responses(self, released: FloatArray, world: int) -> Scores:
        n, epsilon = released.shape[2], self.mechanism.epsilon
        place = np.abs(released).argmax(axis=2)
        up = np.take_along_axis(released, place[:, :, None], axis=2)[:, :, 0] > 0.0
        laws = []
        for w in (world, 1 - world):
            high = 0.5 + (2.0 * self._inputs[w] - 1.0) * np.tanh(0.5 * epsilon) / 2.0
            cells = (np.stack([1.0 - high, high], axis=2) / n).reshape(-1, 2 * n)
            laws.append(np.broadcast_to(cells, (len(released), *cells.shape)))
        stray = "a response is impossible under the declared law"
        return score_draws(laws[0], laws[1], 2 * place + up, world, stray)

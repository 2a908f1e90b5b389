"""The batched share: one release of every batch's sum of losses, and its likelihoods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpoco.audit._epochs import ratio
from dpoco.audit._family import Change, ExpertFamily, FloatArray, Play
from dpoco.audit._scorer import Scorer, Scores, draws_of, score_draws
from dpoco.audit._sum_noise import SILENT
from dpoco.privacy.mechanisms.batch_release import movement
from dpoco.random import Source

_GRID = 1e-12  # losses of a batch are rounded to a grid of 2^-52 rounds


class Batches(ExpertFamily):
    """BatchShare: every batch of losses enters one release of its own."""

    def publication(self, learner: Any, decision: Any) -> Any:
        return decision, learner.weights.tobytes()

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        p, (release, left) = learner.parameters, divmod(t + 1, learner.parameters.batch)
        if left or (p.releases is not None and release > p.releases):
            return 0
        play.note(input=np.array(learner._engine.nonprivate_input()))
        # The next decision's variate is no noise.
        noisy = learner.guarantee.private and learner.experts > 1
        return 1 + (learner.round < learner.horizon) if noisy else 0

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        own = at // self.learner.parameters.batch
        inputs = (play.notes.get("input", []) for play in (base, other))
        for k, (a, b) in enumerate(zip(*inputs, strict=True)):
            if k == own:
                yield self._size(a - b)
                yield from self._spent(a, b)
            else:
                yield "releases of other batches", float(np.abs(a - b).max()), _GRID

    def _size(self, gap: FloatArray) -> Change:
        p, experts = self.learner.parameters, self.learner.experts
        if p.noise == "gaussian":
            moved = float(np.linalg.norm(gap))
            return "a batch's sum in l2", moved, movement("gaussian", experts)
        if p.noise == "laplace" and p.calibration != "paper":
            return "a batch's sum in l1", float(np.abs(gap).sum()), float(experts)
        # Cube noise; a response on one coordinate sees one entry.
        return "a batch's sum in the maximum norm", float(np.abs(gap).max()), 1.0

    def _spent(self, ours: FloatArray, theirs: FloatArray) -> Iterator[Change]:
        """Yield what the movement of a release spends with the noise in use, and the promise."""
        p, found, gap = self.learner.parameters, self.learner.guarantee, ours - theirs
        if not found.private or self.learner.experts < 2:
            return
        pure = found.epsilon_at(0.0)
        if p.noise == "gaussian":
            if found.mu is not None:
                moved = float(np.linalg.norm(gap))
                yield "mu of the releases", ratio(moved, p.noise_scale), found.mu
        elif p.noise == "coordinate_rr":
            bias = 0.5 * np.tanh(0.5 * ratio(1.0, p.noise_scale))
            high = [0.5 + (2.0 * x - 1.0) * bias for x in (ours, theirs)]
            with np.errstate(divide="ignore"):
                logs = [np.abs(np.log(a / b)) for a, b in (high, [1.0 - x for x in high])]
            yield "the log odds of a response", float(np.max(logs)), pure
        else:
            moved = float(np.abs(gap).sum() if p.noise == "laplace" else np.abs(gap).max())
            yield "the log odds of a release", ratio(moved, p.noise_scale), pure

    def facts(self) -> dict[str, bool]:
        return {"shared weights": self.learner.parameters.share_rate > 0.0}


# ---- likelihoods ---------------------------------------------------------------------------------


@dataclass
class _Run:
    """What one run released, and what its decisions were drawn from."""

    released: list[FloatArray] = field(default_factory=list)
    chances: list[FloatArray] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    exact: list[FloatArray] = field(default_factory=list)
    stray: bool = False


def _floored(weights: FloatArray, floor: float) -> FloatArray:
    """Return the law nearest to one in relative entropy whose entries are at least `floor`."""
    low = np.zeros(len(weights), dtype=bool)
    while True:
        rest = weights[~low].sum()
        scaled = weights * ((1.0 - floor * low.sum()) / rest)
        below = ~low & (scaled < floor)
        if not below.any():
            return np.where(low, floor, scaled)
        low |= below


def _weights(state: FloatArray) -> FloatArray:
    powers = np.exp(state - state.max())
    weights: FloatArray = powers / powers.sum()
    return weights


class ReleasedBatches(Scorer):
    """BatchShare."""

    family: Batches

    def __init__(self, family: Batches, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        p = self.learner.parameters
        releases = len(self.streams[0]) // p.batch
        self._releases = releases if p.releases is None else min(releases, p.releases)
        if self._releases < 1 or self.learner.experts < 2:
            raise ValueError("stream must be long enough for a release, of at least two experts")
        self._admitted = [family.admitted(each.parts[0]) for each in self.streams]
        self._inputs = [self._sums(rows) for rows in self._admitted]

    def _sums(self, admitted: FloatArray) -> FloatArray:
        """Return what each release is of: shape (releases, N)."""
        p = self.learner.parameters
        used = admitted[: self._releases * p.batch]
        sums: FloatArray = used.reshape(self._releases, p.batch, -1).sum(axis=1)
        if p.noise == "gaussian":
            sums = sums - sums.mean(axis=1, keepdims=True)
        return sums

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        batch, rows = learner.parameters.batch, self.streams[world].parts[0]
        # The rule: logarithms of weights, up to a constant.
        run, state, exact = _Run(), np.zeros(learner.experts), np.zeros(learner.experts)
        for t in range(self._releases * batch + 1):
            if learner.round == learner.horizon:
                break
            run.chances.append(np.array(learner.weights))
            run.chosen.append(self.family.decide(learner, ()))
            run.exact.append(exact)
            follows = np.allclose(run.chances[-1], _weights(state), rtol=1e-6, atol=1e-12)
            run.stray = run.stray or not follows
            if t == self._releases * batch:
                break
            learner.observe(rows[t])
            exact = exact + self._admitted[world][t]
            if (t + 1) % batch == 0:
                run.released.append(np.array(learner._engine.released()))
                state = self._updated(state, run.released[-1])
        return run

    def _updated(self, state: FloatArray, released: FloatArray) -> FloatArray:
        p, n = self.learner.parameters, self.learner.experts
        state = state - p.learning_rate * (released - released.min())
        if p.share_rate > 0.0:
            shared = (1.0 - p.share_rate - p.share_rate / (n - 1)) * _weights(state)
            state = np.log(shared + p.share_rate / (n - 1))
        elif p.floor > 0.0:
            state = np.log(_floored(_weights(state), p.floor))
        return state

    def score(self, runs: list[Any], world: int) -> Scores:
        released = np.array([run.released for run in runs])  # (trials, releases, N)
        chances, chosen, exact = (
            np.array([getattr(run, name) for run in runs])
            for name in ("chances", "chosen", "exact")
        )
        found = self._releases_scored(released, world)
        findings = found.findings
        if any(run.stray for run in runs):
            findings += ("weights do not follow from what is released",)
        return replace(found, findings=findings, draws=draws_of(chances, chosen, exact, world))

    def _releases_scored(self, released: FloatArray, world: int) -> Scores:
        p = self.learner.parameters
        if p.noise == "coordinate_rr":
            return self._responses(released, world)
        scale = p.noise_scale
        own, other = (released - self._inputs[w] for w in (world, 1 - world))
        if not scale > 0.0 or np.any(np.all(np.abs(own) <= 1e-9 * scale, axis=2)):
            return Scores(np.zeros(len(released)), np.empty((len(released), 0)), (SILENT,))
        from scipy import special

        if p.noise == "gaussian":
            change = 0.5 * ((other / scale) ** 2 - (own / scale) ** 2).sum(axis=2)
            uniforms = special.ndtr(own / scale)
        elif p.noise == "laplace":
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
        n, epsilon = released.shape[2], 1.0 / self.learner.parameters.noise_scale
        place = np.abs(released).argmax(axis=2)
        up = np.take_along_axis(released, place[:, :, None], axis=2)[:, :, 0] > 0.0
        laws = []
        for w in (world, 1 - world):
            high = 0.5 + (2.0 * self._inputs[w] - 1.0) * np.tanh(0.5 * epsilon) / 2.0
            cells = (np.stack([1.0 - high, high], axis=2) / n).reshape(-1, 2 * n)
            laws.append(np.broadcast_to(cells, (len(released), *cells.shape)))
        stray = "a response is impossible under the declared law"
        return score_draws(laws[0], laws[1], 2 * place + up, world, stray)

"""Replay of the learners of experts whose losses enter private sums, and of Lipschitz losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco._clipping import lp_norm
from dpoco._validation import float_array
from dpoco.audit._replay_base import Change, Family, Play, Rounds, one_part, positions
from dpoco.audit._replay_sums import add, grid_of, rounded, rounding_of, spent

__all__ = ["ExpertFamily", "SumOfBatches", "SumOfLosses", "expert_rounds", "granted", "ratio"]

# Losses of a batch are rounded to a grid of 2^-52 rounds.
_GRID = 1e-12


def granted(guarantee: Any, selections: int) -> float:
    """Return by how much the log odds of one of so many selections may move, as promised."""
    profile = guarantee.profile or {}
    if profile.get("kind") == "bounded_range":
        return float(profile["range"])
    return float(guarantee.epsilon_at(0.0)) / selections


def expert_rounds(learner: Any, stream: Any) -> Rounds:
    """Return a stream of losses, one column an expert or a point of a net."""
    columns = learner.experts if hasattr(learner, "experts") else len(learner.points)
    return Rounds((float_array("stream", one_part("losses", stream), (None, columns)),))


class ExpertFamily(Family):
    """Base of the families of learners with ``decide()`` and ``observe(losses)``."""

    def rounds(self, stream: Any) -> Rounds:
        return expert_rounds(self.learner, stream)

    def start(self, learner: Any, play: Play) -> None:
        """Note what is known before the first round."""
        play.variates.append(positions(learner))

    def finish(self, learner: Any, play: Play) -> None:
        """Note the decision after the last round, if there is one more."""
        if learner.round < learner.horizon:
            play.published.append(self.publication(learner))

    def check_fresh(self, play: Play, released: bool, draws: bool) -> None:
        """Note a release that drew nothing but the next decision's variate, if there was one."""
        used = sum(play.variates[-1]) - sum(play.variates[-2])
        if released and used <= int(draws):
            t = len(play.variates) - 2
            play.findings.append(f"round {t}: a release drew no noise of its own")

    def publication(self, learner: Any) -> Any:
        """Return what a round publishes."""
        decision = learner.decide()
        return decision if isinstance(decision, int) else decision.tobytes()


class SumOfLosses(ExpertFamily):
    """PrefixHedge and LipschitzLearner: losses enter one continual sum."""

    def play(self, learner: Any, rounds: Rounds) -> Play:
        engine, play = learner._engine, Play()
        total = np.array(engine.nonprivate_sum())
        rest = np.zeros_like(total)
        self.start(learner, play)
        grid = grid_of(learner)
        noisy = learner.guarantee.private and learner.parameters.experts > 1
        for (row,) in (rounds.record(t) for t in range(len(rounds))):
            play.published.append((self.publication(learner), learner.weights.tobytes()))
            leaf = engine.leaf(row)
            learner.observe(row)
            enters = learner.round < learner.horizon and learner.parameters.experts > 1
            if enters:  # the last round decides nothing
                total, rest = add(rounded(leaf, grid), total, rest)
            found = np.array(engine.nonprivate_sum())
            if not np.array_equal(total, found):
                play.findings.append("what enters the sum is not a function of the losses alone")
                total, rest = found, np.zeros_like(found)
            play.note(leaf=leaf if enters else np.zeros_like(leaf), sum=found)
            play.variates.append(positions(learner))
            self.check_fresh(play, enters and noisy, enters)
        self.finish(learner, play)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        declared = self.learner.parameters.sensitivity
        yield "the sum", _norm(base.notes["leaf"][at] - other.notes["leaf"][at]), declared
        # What is added does not depend on decisions: the sums stay as near for ever.
        gap = base.notes["sum"][-1] - other.notes["sum"][-1]
        yield "the sum", _norm(gap), declared + rounding_of(self.learner, gap.size)
        yield from spent(self.learner, _norm(gap), self.learner.parameters.pushes)


def ratio(moved: float, scale: float) -> float:
    """Return a movement in units of the noise; infinite where there is none."""
    return moved / scale if scale > 0.0 else np.inf * np.sign(moved)


def _norm(change: Any) -> float:
    return lp_norm(np.ascontiguousarray(change), 2.0)


class SumOfBatches(ExpertFamily):
    """BatchShare: every batch of losses enters one release of its own."""

    def play(self, learner: Any, rounds: Rounds) -> Play:
        engine, batch, play = learner._engine, learner.parameters.batch, Play()
        self.start(learner, play)
        releases = learner.parameters.releases
        noisy = learner.guarantee.private and learner.experts > 1
        for t in range(len(rounds)):
            play.published.append((self.publication(learner), learner.weights.tobytes()))
            draws = learner.round + 1 < learner.horizon and learner.experts > 1
            learner.observe(rounds.record(t)[0])
            ends = (t + 1) % batch == 0
            released = ends and (releases is None or (t + 1) // batch <= releases)
            if released:
                play.note(input=np.array(engine.nonprivate_input()))
            play.variates.append(positions(learner))
            self.check_fresh(play, released and noisy, draws)
        self.finish(learner, play)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        own = at // self.learner.parameters.batch
        inputs = (play.notes.get("input", []) for play in (base, other))
        for k, (a, b) in enumerate(zip(*inputs, strict=True)):
            gap = a - b
            if k == own:
                yield from self._sizes(gap)
                yield from self._spent(a, b)
            else:
                yield "releases of other batches", float(np.abs(gap).max()), _GRID

    def _spent(self, ours: Any, theirs: Any) -> Iterator[Change]:
        """Yield what the movement of a release spends with the noise in use, and the promise."""
        p, found, gap = self.learner.parameters, self.learner.guarantee, ours - theirs
        if not found.private or self.learner.experts < 2:
            return
        pure = found.epsilon_at(0.0)
        if p.noise == "gaussian":
            if found.mu is not None:
                yield "mu of the releases", ratio(_norm(gap), p.noise_scale), found.mu
        elif p.noise == "coordinate_rr":
            bias = 0.5 * np.tanh(0.5 * ratio(1.0, p.noise_scale))
            high = [0.5 + (2.0 * x - 1.0) * bias for x in (ours, theirs)]
            with np.errstate(divide="ignore"):
                logs = [np.abs(np.log(a / b)) for a, b in (high, [1.0 - x for x in high])]
            yield "the log odds of a response", float(np.max(logs)), pure
        else:
            moved = float(np.abs(gap).sum() if p.noise == "laplace" else np.abs(gap).max())
            yield "the log odds of a release", ratio(moved, p.noise_scale), pure

    def _sizes(self, gap: Any) -> Iterator[Change]:
        noise, experts = self.learner.parameters.noise, self.learner.experts
        if noise == "gaussian":
            from dpoco.privacy.mechanisms.batch_release import movement

            yield "a batch's sum in l2", _norm(gap), movement("gaussian", experts)
        elif noise == "laplace" and self.learner.parameters.calibration != "paper":
            yield "a batch's sum in l1", float(np.abs(gap).sum()), float(experts)
        else:  # cube noise; a response on one coordinate sees one entry
            yield "a batch's sum in the maximum norm", float(np.abs(gap).max()), 1.0

"""Likelihoods of selections on epochs, with and without alarms: from the definitions, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting.noisy_max import law_of
from dpoco.audit._likelihood_base import Scorer, Scores, spread
from dpoco.audit._likelihood_selections import selection_law
from dpoco.audit._likelihood_thresholds import answer_chances, log_ratio
from dpoco.experts import ShiftDetector
from dpoco.random import Source

__all__ = ["EpochTranscripts", "window_statistic"]

FloatArray = NDArray[np.float64]
Transcript = tuple[tuple[int, ...], tuple[int, ...]]  # decisions, rounds of alarms


def window_statistic(
    gaps: FloatArray, allowances: FloatArray, offsets: FloatArray, slopes: FloatArray
) -> float:
    """Return the test statistic of an instance after its last round, by its definition.

    Parameters
    ----------
    gaps : ndarray, shape (n, N)
        Own loss less that of every expert, oldest round first.
    allowances : ndarray, shape (n,)
        Bias that the expert played was allowed.
    offsets, slopes : ndarray
        Of what a window is allowed for chance: the least of ``offsets + slopes * length``; without
        slopes ``offsets[k]`` for aligned blocks of 2^k rounds.
    """
    rounds, worst = len(gaps), -np.inf
    lost = np.cumsum(gaps[::-1], axis=0).max(axis=1)  # windows of 1, 2, ... rounds that end now
    biases = np.cumsum(allowances[::-1])
    for length in range(1, rounds + 1):
        if len(slopes):
            allowed = float(np.min(offsets + slopes * length))
        else:
            k = length.bit_length() - 1
            if length != 1 << k or rounds % length or k >= len(offsets):
                continue
            allowed = float(offsets[k])
        worst = max(worst, float(lost[length - 1] - biases[length - 1]) - allowed)
    return worst


@dataclass
class _Instance:
    """What one instance has learned since it started."""

    sums: FloatArray
    owners: list[int] = field(default_factory=list)
    first: int = 0  # its first round
    excesses: list[float] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)


@dataclass
class _Scored:
    """A transcript under one stream."""

    log_chance: float
    selections: list[tuple[int, FloatArray, int]] = field(default_factory=list)
    alarms: list[tuple[int, float, bool]] = field(default_factory=list)  # round, P(silent), answer


class EpochTranscripts(Scorer):
    """EpochSelector and ShiftDetector: all decisions and alarms."""

    def __init__(self, learner: Any, stream: Any, neighbour: Any) -> None:
        super().__init__(learner, stream, neighbour)
        p = learner.parameters
        if learner.experts < 2 or learner.horizon < 2 or len(self.streams[0]) < 2:
            raise ValueError("stream must be long enough for a selection, of at least two experts")
        self._detector = isinstance(learner, ShiftDetector)
        self._detects = self._detector and p.detects
        self._scale = p.selection_scale if self._detector else p.scale
        low, high = learner._loss_range
        self._losses = [
            np.where(np.isfinite(rows), np.clip((rows - low) / (high - low), 0.0, 1.0), 0.0)
            for rows in (each.parts[0] for each in self.streams)
        ]
        # Rounds that are followed by another one: in the last nothing is selected or tested.
        self._rounds = min(len(self.streams[0]), learner.horizon - 1)
        self._known: dict[Transcript, tuple[_Scored, _Scored]] = {}

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        decisions = []
        for row in self.streams[world].parts[0]:
            decisions.append(int(learner.decide()))
            learner.observe(row)
        if learner.round < learner.horizon:
            decisions.append(int(learner.decide()))
        alarms = tuple(int(t) for t in learner.alarms) if self._detector else ()
        return tuple(decisions), alarms

    def score(self, runs: list[Any], world: int) -> Scores:
        count = len(runs)
        jitter = Source.seeded(world).uniform(count * self._rounds * 2)
        jitter = jitter.reshape(count, self._rounds, 2)
        uniforms, losses = jitter.copy(), np.empty(count)
        used = np.zeros((self._rounds, 2), dtype=bool)
        stray = False
        for i, transcript in enumerate(runs):
            if transcript not in self._known:
                self._known[transcript] = self._scored(transcript, 0), self._scored(transcript, 1)
            both = self._known[transcript]
            own, other = both[world], both[1 - world]
            stray = stray or not np.isfinite(own.log_chance)
            losses[i] = log_ratio(own.log_chance, other.log_chance)
            for t, law, chosen in own.selections:
                uniforms[i, t, 0] = _place(law, chosen, jitter[i, t, 0])
                used[t, 0] = True
            for t, silent, alarm in own.alarms:
                chances = np.array([silent, 1.0 - silent])
                uniforms[i, t, 1] = _place(chances, int(alarm), jitter[i, t, 1])
                used[t, 1] = True
        findings = ("a transcript is impossible under the declared law",) if stray else ()
        if self._detects:
            return Scores(losses, uniforms, findings)
        return Scores(losses, uniforms[:, used[:, 0], 0], findings)

    def _scored(self, transcript: Transcript, world: int) -> _Scored:
        """Return the likelihood of a transcript under a stream, factor by factor."""
        (decisions, alarms), losses = transcript, self._losses[world]
        out, instance = _Scored(0.0), _Instance(np.zeros(losses.shape[1]))
        for t in range(self._rounds):
            follows = decisions[t + 1]
            instance.owners.append(decisions[t])
            if self._detects:
                instance.excesses.append(self._excess(instance, losses[: t + 1]))
                instance.answers.append(t in alarms)
                if t in alarms:
                    self._close(out, instance, t)
                    instance = _Instance(np.zeros(losses.shape[1]), first=t + 1)
                    if follows != decisions[t]:
                        out.log_chance = -np.inf
                    continue
            instance.sums = instance.sums + losses[t]
            rounds = len(instance.owners)
            if (rounds + 1) & rounds:  # an epoch ends where rounds + 1 is a power of two
                if follows != decisions[t]:
                    out.log_chance = -np.inf
                continue
            noise = law_of(self.learner.parameters.selection)
            law = selection_law(noise, -instance.sums, self._scale)
            with np.errstate(divide="ignore"):
                out.log_chance += float(np.log(law[follows]))
            out.selections.append((t, law, follows))
            instance.sums = np.zeros_like(instance.sums)
        if instance.answers:
            self._close(out, instance, self._rounds - 1)
        return out

    def _close(self, out: _Scored, instance: _Instance, last: int) -> None:
        """Add the answers of an instance whose last test was in round `last`."""
        p = self.learner.parameters
        scales = p.threshold_noise_scale, p.query_noise_scale
        answers = np.array(instance.answers)
        logs = answer_chances(np.array(instance.excesses), answers, scales, p.noise)
        out.log_chance += float(logs[-1])
        chances = np.clip(np.exp(np.diff(logs, prepend=0.0)), 0.0, 1.0)
        for k, (chance, alarm) in enumerate(zip(chances, answers, strict=True)):
            t = last - len(answers) + 1 + k
            out.alarms.append((t, float(1.0 - chance if alarm else chance), bool(alarm)))

    def _excess(self, instance: _Instance, losses: FloatArray) -> float:
        p = self.learner.parameters
        rows, owners = losses[instance.first :], np.array(instance.owners)
        gaps = rows[np.arange(len(rows)), owners][:, None] - rows
        # Of the rounds that the expert of the instance's k-th round was selected from.
        allowances = [p.bias((1 << k.bit_length() - 1) // 2) for k in range(1, len(rows) + 1)]
        offsets, slopes = p.window_lines()
        found = window_statistic(gaps, np.array(allowances), np.array(offsets), np.array(slopes))
        return found - float(p.threshold * p.threshold_scale)


def _place(law: FloatArray, chosen: int, jitter: float) -> float:
    return float(spread(law[None, :], np.array([chosen]), np.array([jitter]))[0])

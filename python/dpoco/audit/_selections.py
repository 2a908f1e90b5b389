"""Private selections and threshold tests: as mechanisms, and of vertices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting.noisy_max import law_of
from dpoco.audit._family import Change, Family, FloatArray, Play, Rounds, Shapes, drawn_by
from dpoco.audit._laws import answer_chances, selection_law
from dpoco.audit._scorer import FiniteScorer, Scores, score_draws
from dpoco.audit._sum_noise import Push, Pushes, Run
from dpoco.audit._sums import Records
from dpoco.domains import Box, LpBall, Simplex
from dpoco.random import Source


def granted(guarantee: Any, selections: int) -> float:
    """Return by how much the log odds of one of so many selections may move, as promised."""
    profile = guarantee.profile or {}
    if profile.get("kind") == "bounded_range":
        return float(profile["range"])
    return float(guarantee.epsilon_at(0.0)) / selections


class _Answers(Family):
    """Base of mechanisms that hold nothing of the data: their state follows from their answers."""

    schedule = "published"
    first_affected = 0
    everywhere = True

    def decide(self, learner: Any, record: tuple[Any, ...]) -> Any:
        return None

    def drawn(self, learner: Any) -> tuple[int, ...]:
        return drawn_by(learner._engine.state())

    def check_records(self, old: Any, new: Any) -> None:
        moved = np.abs(_finite(new[0]) - _finite(old[0])).max()
        if not moved <= self.learner.parameters.sensitivity * (1.0 + 1e-12):
            raise ValueError(
                "no neighbours: a query moves by more than `sensitivity`, which is the caller's "
                "promise"
            )

    def play(self, learner: Any, rounds: Rounds) -> Play:
        play = Play(variates=[self.drawn(learner)])
        for record in (rounds.record(t) for t in range(len(rounds))):
            answer = self.observe(learner, None, record)
            if answer < 0:
                break
            play.published.append(answer)
            play.note(state=learner._engine.state(), query=_finite(record[0]))
            play.variates.append(self.drawn(learner))
            play.fresh.append(self.learner.guarantee.private)
        return play

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        # A mechanism that has raised its last alarm stops earlier.
        for t, (a, b) in enumerate(zip(base.notes["state"], other.notes["state"], strict=False)):
            if t > 0 and base.notes["state"][t - 1] != other.notes["state"][t - 1]:
                return
            if base.published[t] != other.published[t]:
                if t != at:
                    yield "an answer depends on the record of another round"
                return
            if a != b:
                yield "what the mechanism holds depends on more than its answers"
                return


class Selections(_Answers):
    """NoisyMax: the selected index and the public round determine the state."""

    loop = "selections"

    def shapes(self) -> Shapes:
        return {"scores": (self.learner.parameters.candidates,)}

    def observe(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> Any:
        return learner.select(record[0])

    def check_records(self, old: Any, new: Any) -> None:
        super().check_records(old, new)
        change = _finite(new[0]) - _finite(old[0])
        if self.learner.parameters.one_directional and change.max() > 0.0 > change.min():
            raise ValueError("no neighbours: scores move in both directions")

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        p = self.learner.parameters
        change = base.notes["query"][at] - other.notes["query"][at]
        reach = float(max(change.max(), 0.0) - min(change.min(), 0.0))
        yield "the scores, range of their changes", reach, p.score_range
        # How far a selection can be moved, in units of what one selection was granted.
        spent = reach / p.scale if p.private else np.inf
        yield "the log odds of a selection", spent, granted(self.learner.guarantee, p.horizon)


class ThresholdTests(_Answers):
    """AboveThreshold: the answers and the threshold's one noise determine the state."""

    loop = "tests"

    def shapes(self) -> Shapes:
        return {"excesses": ()}

    def observe(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> Any:
        return int(learner.test(float(record[0]))) if learner.alarms_left else -1

    def check_streams(self, ours: Rounds, theirs: Rounds) -> None:
        moved = _finite(theirs.parts[0]) - _finite(ours.parts[0])
        if np.ptp(np.append(moved, 0.0)) > self.learner.parameters.spread * (1.0 + 1e-12):
            raise ValueError(
                "no neighbours: queries are moved up and down by more than `spread` in all, which "
                "is the caller's promise"
            )

    def play(self, learner: Any, rounds: Rounds) -> Play:
        play = super().play(learner, rounds)
        if sum(play.published) > learner.parameters.alarms:
            play.findings.append("there are more alarms than were promised")
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        queries, moved = (base.notes["query"], other.notes["query"]), 0.0
        if at < min(len(each) for each in queries):
            moved = abs(float(queries[0][at] - queries[1][at]))
        p = self.learner.parameters
        yield "the query", moved, p.sensitivity
        if self.learner.guarantee.private:
            # Of Theorem 1 of docs/privacy/shift_detector.md, for what moved.
            share = moved / p.sensitivity
            scales = p.threshold_noise_scale, p.query_noise_scale
            spent = share * (p.sensitivity / scales[0] + p.alarms * p.spread / scales[1])
            yield "the log odds of the answers", spent, self.learner.guarantee.epsilon_at(0.0)

    def facts(self) -> dict[str, bool]:
        return {"the cap on alarms": self.learner.alarms_left == 0}


def _finite(values: Any) -> FloatArray:
    return np.where(np.isfinite(values), values, 0.0)


# ---- likelihoods ---------------------------------------------------------------------------------


class DrawnSelections(FiniteScorer):
    """NoisyMax: independent draws, one a row of scores."""

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        return tuple(learner.select(row) for row in self.streams[world].parts[0])

    def cells(self, transcript: Any, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        p, scores = self.learner.parameters, _finite(self.streams[world].parts[0])
        law = selection_law(law_of(p.noise), scores if p.largest else -scores, p.scale)
        return law, np.array(transcript)


def answer_cells(
    excesses: FloatArray, answers: Any, scales: tuple[float, float], noise: str
) -> FloatArray:
    """Return the laws of answers, silence and alarm, each given those before it; shape (T, 2)."""
    asked = np.array(answers, dtype=np.int64)
    logs = answer_chances(excesses, asked > 0, scales, noise)
    chances = np.clip(np.exp(np.diff(logs, prepend=0.0)), 0.0, 1.0)
    return np.where(asked[:, None] == [0, 1], chances[:, None], 1.0 - chances[:, None])


class ThresholdAnswers(FiniteScorer):
    """AboveThreshold: all answers of a run share one threshold's noise."""

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        rows = self.streams[world]
        return tuple(self.family.step(learner, rows.record(t)) for t in range(len(rows)))

    def cells(self, transcript: Any, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        p, rows = self.learner.parameters, self.streams[world].parts[0]
        asked = [answer for answer in transcript if answer >= 0]
        excesses = _finite(rows[: len(asked)]) - p.margin
        scales = p.threshold_noise_scale, p.query_noise_scale
        cells = np.tile([1.0, 0.0], (len(transcript), 1))  # silence after the last alarm
        cells[: len(asked)] = answer_cells(excesses, asked, scales, "exponential")
        return cells, np.maximum(transcript, 0)


class VertexChoices:
    """Vertices that a polyhedral learner's updates move to, read off its decisions and scored.

    Parameters
    ----------
    parameters : PolyhedralFrankWolfeParameters
    domain : Domain
    """

    def __init__(self, parameters: Any, domain: Any) -> None:
        self._parameters = parameters
        # Entries that are chosen independently, and their values, one choice a row.
        self.choices: list[tuple[Any, FloatArray]]
        d = domain.dimension
        if isinstance(domain, Box):
            ends = np.stack([domain.lower, domain.upper], axis=1)
            self.choices = [([j], ends[j][:, None]) for j in range(d)]
        elif isinstance(domain, LpBall):
            table = domain.radius * np.vstack([np.eye(d), -np.eye(d)])
            self.choices = [(slice(None), table)]
        else:
            simplex = isinstance(domain, Simplex)
            table = domain.scale * np.eye(d) if simplex else np.array(domain.vertices)
            self.choices = [(slice(None), table)]

    def note(self, run: Run, push: Push) -> bool:
        """Note laws given either sum and what an update chose; return whether it is a vertex."""
        p, k, (before, after) = self._parameters, push.number, push.step
        vertex = before + (after - before) * (k + 1)
        rate = 1.0 / (p.batch * (k + (p.weights == "paper")) * p.noise_scale_at(k))
        noise, found = "gumbel" if p.selector == "gumbel" else "laplace", True
        for entries, table in self.choices:
            gap = np.abs(table - vertex[entries]).sum(axis=1)
            chosen = int(np.argmin(gap))
            found = found and bool(gap[chosen] <= 1e-6 * (1.0 + np.abs(table).max()))
            laws = (selection_law(noise, -(table @ x[entries]) * rate, 1.0) for x in push.sums)
            run.choices.append((*laws, chosen))
        return found


class Vertices(Pushes):
    """PolyhedralFrankWolfe: the vertex of every update, read off the decisions."""

    astray = "decisions do not move towards vertices of the declared law"

    def __init__(self, family: Records, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        self._vertices = VertexChoices(self.learner.parameters, self.learner.domain)

    def _releases(self) -> dict[Any, int]:
        return {...: len(self.streams[0]) // self.family.batch}

    def _release(self, learner: Any, run: Run, push: Push, noise: Any) -> bool:
        return self._vertices.note(run, push)

    def score(self, runs: list[Any], world: int) -> Scores:
        found = score_choices(runs, world, self.astray)
        # Updates in order; a box has several draws in each.
        shape = (len(runs), self._counts[...], -1)
        return replace(found, uniforms=found.uniforms.reshape(shape))


def score_choices(runs: list[Run], world: int, astray: str) -> Scores:
    """Return the scores of the choices noted in runs."""
    own, other, chosen = (
        np.array([[each[part] for each in run.choices] for run in runs]) for part in range(3)
    )
    found = score_draws(own, other, chosen, world, astray)
    stray = found.findings or any(run.findings for run in runs)
    return replace(found, findings=(astray,) if stray else ())

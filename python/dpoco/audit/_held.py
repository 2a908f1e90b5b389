"""Learners that hold public mechanisms and compute everything else from their answers.

Two plays are compared at equal answers, as proofs by composition have it: on the changed stream
every mechanism answers what it answered on the unchanged one, and what enters it is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco import _core, mechanisms
from dpoco._validation import FloatArray
from dpoco.audit._family import Change, Family, Play
from dpoco.audit._playing import VERBS, Rounds, find_plays, finite
from dpoco.audit._sums import clip_vector
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Parts
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.selections import PromisedScores

KINDS = (mechanisms.ContinualSum, mechanisms.NoisyMax, mechanisms.AboveThreshold)


def find_mechanisms(learner: Any) -> dict[str, Any]:
    """Return the public mechanisms among a learner's attributes, by name."""
    own = getattr(learner, "__dict__", {})
    return {name: each for name, each in own.items() if isinstance(each, KINDS)}


def describes(mechanism: Mechanism, parts: dict[str, Any]) -> bool:
    """Whether a description is that of these mechanisms together."""
    found = [each.guarantee.description for each in parts.values()]
    if isinstance(mechanism, Parts) and mechanism.how == "together":
        stated = list(mechanism.parts)
        return len(found) == len(stated) and all(each in stated for each in found)
    return found == [mechanism]


class _Recorder:
    """Stands for a mechanism: notes what enters it, and may answer what was answered before."""

    def __init__(self, mechanism: Any, script: list[Any] | None) -> None:
        self._mechanism, self._script = mechanism, script
        self.turn, self.rounds, self.inputs, self.answers = 0, list[int](), list[Any](), list[Any]()

    def __getattr__(self, name: str) -> Any:
        if name == VERBS[find_plays(self._mechanism)]:
            return self._answer
        return getattr(self._mechanism, name)

    def _answer(self, value: Any) -> Any:
        answer = getattr(self._mechanism, VERBS[find_plays(self._mechanism)])(value)
        if self._script is not None and len(self.answers) < len(self._script):
            answer = self._script[len(self.answers)]
        self.rounds.append(self.turn)
        self.inputs.append(finite(np.array(value, dtype=float)))
        self.answers.append(answer)
        return answer


class Held(Family):
    """Public mechanisms that a learner holds, each with the description that it has itself."""

    schedule = "published"
    needs = ()

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._mechanisms = find_mechanisms(learner)
        self._scripts: dict[str, list[Any]] = {}

    def count_variates(self, learner: Any) -> tuple[int, ...]:
        counts = [getattr(learner, name)._engine.variates_drawn() for name in self._mechanisms]
        return tuple(int(n) for n in np.sum(counts, axis=0))

    def play(self, learner: Any, rounds: Rounds) -> Play:
        recorders = {
            name: _Recorder(getattr(learner, name), self._scripts.get(name))
            for name in self._mechanisms
        }
        for name, recorder in recorders.items():
            setattr(learner, name, recorder)
        play = super().play(learner, rounds)
        play.memory |= recorders
        self._scripts = self._scripts or {name: each.answers for name, each in recorders.items()}
        return play

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        for name in self._mechanisms:
            getattr(learner, name).turn = t + 1
        return 0

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        for name, mechanism in self._mechanisms.items():
            ours, theirs = base.memory[name], other.memory[name]
            if ours.rounds == theirs.rounds:
                for t, *pair in zip(ours.rounds, ours.inputs, theirs.inputs, strict=True):
                    yield from _compare(name, mechanism, pair, t == at)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        if base.published != other.published:
            names = ", ".join(self._mechanisms)
            yield f"a decision depends on a record otherwise than through answers of {names}"
        for name, mechanism in self._mechanisms.items():
            ours, theirs = base.memory[name], other.memory[name]
            if ours.rounds != theirs.rounds:
                yield f"how often {name} is used depends on a record"
            elif isinstance(mechanism, mechanisms.ContinualSum) and ours.rounds.count(at) > 1:
                yield f"a record enters {name} more than once"


def _compare(name: str, mechanism: Any, pair: list[FloatArray], own: bool) -> Iterator[Change]:
    """Yield what moved of that which enters a mechanism, in the changed round or in another."""
    if isinstance(mechanism, mechanisms.ContinualSum):
        total, near = mechanism.guarantee.description, mechanism.guarantee.neighbours
        assert isinstance(total, GaussianSum)
        assert isinstance(total.summand, ClippedVector)
        if not own:
            most = float(np.abs(pair[0] - pair[1]).max())
            yield f"what enters {name} in other rounds", most, 0.0
            return
        vector = total.summand
        first, second = (clip_vector(row, vector.bound, vector.norm, None) for row in pair)
        norm = 2.0 if total.order == 2.0 else vector.norm
        moved = _core.norm(np.ascontiguousarray(first - second), norm)
        yield f"what enters {name}", moved, vector.movement(near, total.order)
        return
    asked = mechanism._mechanism
    if isinstance(asked, Nothing):
        return
    change, scores = pair[0] - pair[1], getattr(asked, "scores", asked)
    yield f"what {name} is asked", float(np.abs(change).max()), scores.sensitivity
    if isinstance(scores, PromisedScores):
        reach = float(max(change.max(), 0.0) - min(change.min(), 0.0))
        yield f"what {name} is asked, range of changes", reach, scores.range

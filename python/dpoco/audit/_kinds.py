"""Which classes audit which kind of mechanism, by the kind of the learner's rounds.

The kind is that of the description of the learner's guarantee. So a new learner with a known kind
is audited without changes, and a derived learner is audited by its claim. This includes learners
that hold public mechanisms and compute everything else from their answers: see `Held`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco import _core, mechanisms
from dpoco._validation import FloatArray
from dpoco.audit import _draws, _selections, _sum_noise, _sums
from dpoco.audit._family import (
    VERBS,
    Change,
    Decision,
    Family,
    Learner,
    Options,
    Play,
    Rounds,
    Stream,
    Unmoved,
    find_plays,
    finite,
)
from dpoco.audit._laws import Scorer
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Parts
from dpoco.privacy.mechanisms.batch_release import BatchRelease
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.range_search import RangeSearch
from dpoco.privacy.mechanisms.selections import PromisedScores, Selections, ThresholdTests
from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws

# ---- mechanisms that a learner holds -------------------------------------------------------------

# Two plays are compared at equal answers, as in proofs by composition. On the changed stream every
# mechanism repeats its answers on the unchanged stream, and its inputs are compared.

_HELD = (mechanisms.ContinualSum, mechanisms.NoisyMax, mechanisms.AboveThreshold)


def find_mechanisms(learner: Learner) -> Options:
    """Return the public mechanisms among a learner's attributes, by name.

    Mechanisms in lists or inside of other objects are not found. The learner is then refused,
    because its description does not match the mechanisms found.
    """
    own = getattr(learner, "__dict__", {})
    return {name: each for name, each in own.items() if isinstance(each, _HELD)}


def describes(mechanism: Mechanism, parts: Options) -> bool:
    """Return whether a description is the composition of these mechanisms.

    Only the composition "together" is compared here.
    """
    found = [each.guarantee.description for each in parts.values()]
    if isinstance(mechanism, Parts) and mechanism.how == "together":
        stated = list(mechanism.parts)
        # In any order, because composition does not depend on the order.
        return len(found) == len(stated) and all(each in stated for each in found)
    return found == [mechanism]


class _Recorder:
    """Replaces a mechanism: it records the inputs, and may repeat earlier answers.

    Parameters
    ----------
    mechanism : ContinualSum, NoisyMax or AboveThreshold
        The mechanism. It is always asked, so that it draws its noise.
    script : list or None
        Answers in the play of the unchanged stream; None during that play.
    """

    def __init__(self, mechanism: Learner, script: list[Decision] | None) -> None:
        self._mechanism, self._script = mechanism, script or []
        self._verb = VERBS[find_plays(mechanism)]
        self.turn, self.rounds = 0, list[int]()
        self.inputs, self.answers = list[Decision](), list[Decision]()

    def __getattr__(self, name: str) -> Any:
        return self._answer if name == self._verb else getattr(self._mechanism, name)

    def _answer(self, value: FloatArray) -> Decision:
        """Ask the mechanism, record its input, and return its answer or the scripted one."""
        # The mechanism also answers if the answer is scripted, so that both plays draw the same
        # number of variates.
        answer = getattr(self._mechanism, self._verb)(value)
        if len(self.answers) < len(self._script):
            answer = self._script[len(self.answers)]
        self.rounds.append(self.turn)
        self.inputs.append(finite(np.array(value, dtype=float)))
        self.answers.append(answer)
        return answer


class Held(Family):
    """Public mechanisms that a learner holds, each with its own description.

    The learner's claim must be the composition of the mechanisms' claims, and everything else a
    function of their answers. At equal answers, only inputs in the record's round may change, by at
    most what the mechanism's description allows.
    """

    schedule = "published"
    needs = ()

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self._mechanisms = find_mechanisms(learner)
        self._scripts: dict[str, list[Decision]] = {}

    def count_variates(self, learner: Learner) -> tuple[int, ...]:
        """Return the number of variates of all mechanisms together, by kind."""
        counts = [getattr(learner, name)._engine.variates_drawn() for name in self._mechanisms]
        return tuple(int(n) for n in np.sum(counts, axis=0))

    def play(self, learner: Learner, rounds: Rounds) -> Play:
        """Replace the mechanisms by recorders, and play."""
        recorders = {
            name: _Recorder(getattr(learner, name), self._scripts.get(name))
            for name in self._mechanisms
        }
        for name, recorder in recorders.items():
            setattr(learner, name, recorder)
        play = super().play(learner, rounds)
        play.memory |= recorders
        # The first play is that of the unchanged stream; later plays repeat its answers.
        self._scripts = self._scripts or {name: each.answers for name, each in recorders.items()}
        return play

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Announce the next round to the recorders; the mechanisms' own audits check draws."""
        for name in self._mechanisms:
            getattr(learner, name).turn = t + 1
        return 0

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the movement of each mechanism's inputs, if it was asked equally often."""
        for name, mechanism in self._mechanisms.items():
            ours, theirs = base.memory[name], other.memory[name]
            if ours.rounds == theirs.rounds:
                for t, *pair in zip(ours.rounds, ours.inputs, theirs.inputs, strict=True):
                    yield from _compare(name, mechanism, pair, t == at)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield decisions and numbers of questions that depend on more than the answers."""
        if base.published != other.published:
            names = ", ".join(self._mechanisms)
            yield f"a decision depends on a record otherwise than through answers of {names}"
        for name, mechanism in self._mechanisms.items():
            rounds = base.memory[name].rounds
            if rounds != other.memory[name].rounds:
                yield f"how often {name} is used depends on a record"
            elif isinstance(mechanism, mechanisms.ContinualSum) and rounds.count(at) > 1:
                yield f"a record enters {name} more than once"


def _compare(name: str, mechanism: Learner, pair: list[FloatArray], own: bool) -> Iterator[Change]:
    """Yield the movement of a mechanism's inputs in the changed round or in another round.

    Parameters
    ----------
    name : str
        Name of the learner's attribute.
    mechanism : Learner
        The mechanism, with its guarantee.
    pair : list of two ndarray
        Inputs on the stream and on the neighbour.
    own : bool
        Whether this is the round of the changed record.
    """
    change = pair[0] - pair[1]
    if isinstance(mechanism, mechanisms.ContinualSum):
        total, near = mechanism.guarantee.description, mechanism.guarantee.neighbours
        assert isinstance(total, GaussianSum)
        vector = total.summand
        assert isinstance(vector, ClippedVector)
        if not own:
            yield f"what enters {name} in other rounds", float(np.abs(change).max()), 0.0
            return
        clipped = [_sums.clip_vector(row, vector.bound, vector.norm, None) for row in pair]
        norm = 2.0 if total.order == 2.0 else vector.norm
        moved = _core.norm(np.ascontiguousarray(clipped[0] - clipped[1]), norm)
        yield f"what enters {name}", moved, vector.movement(near, total.order)
        return
    asked = mechanism._mechanism
    # Without noise, nothing is promised about the inputs.
    if isinstance(asked, Nothing):
        return
    scores = getattr(asked, "scores", asked)
    yield f"what {name} is asked", float(np.abs(change).max()), scores.sensitivity
    if isinstance(scores, PromisedScores):
        reach = float(max(change.max(), 0.0) - min(change.min(), 0.0))
        yield f"what {name} is asked, range of changes", reach, scores.range


# ---- all kinds -----------------------------------------------------------------------------------

Auditors = tuple[type[Family], type[Scorer] | None]

# By kind of mechanism (for several parts, by the first one) and by kind of rounds.
_AUDITORS: dict[tuple[type[Mechanism], str], Auditors] = {
    (GaussianSum, "sums"): (_sums.Vectors, _sum_noise.ReleasedSums),
    (GaussianSum, "records"): (_sums.Records, _sum_noise.HiddenSums),
    (GaussianSum, "experts"): (_sums.Losses, _sum_noise.HiddenLosses),
    (GaussianSum, "surface"): (_sums.Losses, _sum_noise.HiddenLosses),
    (GaussianSum, "arms"): (_sums.Statistics, _sum_noise.StatisticSums),
    (GaussianSum, "batch"): (_sums.Fits, _sum_noise.FitSums),
    (GaussianSum, "intervals"): (_sums.Intervals, _sum_noise.ReleasedSums),
    (Selections, "scores"): (_selections.Selected, _selections.DrawnSelections),
    (Selections, "records"): (_sums.Records, _sum_noise.Vertices),
    (Selections, "experts"): (_selections.Epochs, _selections.EpochTranscripts),
    (ThresholdTests, "queries"): (_selections.Tested, _selections.ThresholdAnswers),
    (CoupledDraws, "records"): (_draws.Coupled, _draws.Transcripts),
    (TrackerDraws, "experts"): (_draws.Tracker, _draws.TrackedPaths),
    (BatchRelease, "experts"): (_sum_noise.Batches, _sum_noise.ReleasedBatches),
    (RangeSearch, "ranges"): (_selections.Searches, _selections.DrawnRanges),
}


def _auditors(learner: Learner) -> Auditors:
    """Return the replay and scoring classes for a learner; ``TypeError`` if some are missing."""
    kind, plays = type(learner).__name__, find_plays(learner)
    guarantee = getattr(learner, "guarantee", None)
    mechanism = getattr(guarantee, "description", None)
    if mechanism is None:
        raise TypeError(f"no audit of a {kind}: its guarantee describes no mechanism")
    if isinstance(mechanism, Nothing):
        return Unmoved, None
    parts = find_mechanisms(learner)
    if parts:
        if describes(mechanism, parts):
            return Held, None
        names = ", ".join(parts)
        raise TypeError(f"no audit of a {kind}: its guarantee is not that of {names} together")
    if isinstance(mechanism, Parts):
        if plays == "arms" and mechanism.how == "one_of":
            noisy = isinstance(mechanism.parts[0], GaussianSum)
            return _sums.Arms, _sum_noise.HiddenSums if noisy else _sum_noise.Vertices
        if plays == "experts" and hasattr(learner, "alarms"):
            return _selections.EpochsWithAlarms, _selections.EpochTranscripts
        mechanism = mechanism.parts[0]
    found = _AUDITORS.get((type(mechanism), plays))
    if found is None:
        raise TypeError(
            f"no audit of a {kind}: there is none for a mechanism of kind {mechanism.kind!r} in a "
            f"learner of {plays}"
        )
    engine = getattr(learner, "_engine", None)
    # Missing methods are named one by one, so that authors of a learner know what to add.
    missing = [name for name in found[0].needs if not hasattr(engine, name)]
    if missing:
        raise TypeError(f"no audit of a {kind}: its engine has no {', '.join(missing)}")
    return found


def find_family(learner: Learner) -> Family:
    """Return the replay class for a learner; ``TypeError`` with what is missing.

    Raises
    ------
    TypeError
        For a guarantee without a description, or whose description is not that of the held
        mechanisms; for an unknown kind of mechanism; and for an engine without the methods that a
        replay calls.
    """
    return _auditors(learner)[0](learner)


def find_known_family(learner: Learner) -> Family | None:
    """Return the replay class for a learner, or None.

    It is for audits that also work without a family but then check less.
    """
    try:
        return find_family(learner)
    except TypeError:
        return None


def find_scorer(learner: Learner, stream: Stream, neighbour: Stream) -> Scorer:
    """Return the scorer for a learner; ``TypeError`` or ``ValueError`` if the law is unknown."""
    family, scorer = _auditors(learner)
    if scorer is None:
        raise ValueError("the law of what such a learner releases is not known here")
    return scorer(family(learner), stream, neighbour)

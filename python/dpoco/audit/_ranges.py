"""Searches for ranges: what one record moves, and the likelihood of medians and noisy counts.

The places of values and the bins of counts are taken from their definitions; the noise of counts
is what is left of a search's cells once the counts are taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco._validation import FloatArray
from dpoco.audit._family import Change, Family, Play, Scorer, Scores
from dpoco.privacy.mechanisms.factorisations import Buffered, SquareRoot
from dpoco.privacy.mechanisms.range_search import RangeSearch
from dpoco.random import Source
from dpoco.ranges.bins import ABSENT, EDGES, group_candidates, places


class Searches(Family):
    """`RangeFinder`: selections of medians, then prefix sums of counts."""

    mechanism: RangeSearch

    def is_empty(self, record: tuple[Any, ...]) -> bool:
        return not np.any(np.isfinite(record[0]))

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        first = self.mechanism.first
        if t == first - 2:  # the last place is taken in the round that draws, and is forgotten
            play.memory["places"] = learner._values.copy()
        play.published.append(learner._centre.tobytes())
        return 0

    def finish(self, learner: Any, play: Play) -> None:
        play.note(centre=learner._centre.copy(), cells=learner._cells.copy())
        play.note(places=play.memory.get("places", learner._values))
        if learner.left == 0:
            play.published.append(learner.ranges.parts)

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        own = self.mechanism
        sides = 2.0 if self.relation == "replace" else 1.0
        if at < own.first:
            pairs = zip(base.notes["places"][0].T, other.notes["places"][0].T, strict=True)
            yield "scores of medians", max(_score_range(*pair) for pair in pairs), sides
        if np.array_equal(base.notes["centre"], other.notes["centre"], equal_nan=True):
            # Counts about the same medians are moved by records of counts alone.
            moved = _whiten(own, base.notes["cells"][0] - other.notes["cells"][0])
            columns = own.counts.summand.size
            reach = own.counts.factorisation.column(own.counts.pushes) * np.sqrt(sides * columns)
            yield "counts", _find_length(moved), 0.0 if at < own.first else float(reach)


def _find_length(moved: FloatArray) -> float:
    """Return a length, without what differences of doubles lose."""
    length = float(np.linalg.norm(moved))
    return length if length > 1e-6 else 0.0


def _score_range(ours: Any, theirs: Any) -> float:
    """Return how far log-probabilities of candidates can come apart, in units of the scale."""
    runs = [group_candidates(each) for each in (ours, theirs)]
    known = np.unique(np.concatenate([each.first[each.sizes > 0] for each in runs]))
    change = np.subtract(*(_scores_at(each, known) for each in runs))
    return float(change.max() - change.min())


def _scores_at(runs: Any, at: FloatArray) -> FloatArray:
    """Return the scores of candidates at these places."""
    held = runs.sizes > 0
    found = np.searchsorted(runs.first[held], at, side="right") - 1
    scores: FloatArray = runs.scores[held][found]
    return scores


def _whiten(own: RangeSearch, cells: FloatArray) -> FloatArray:
    """Return C times increments of prefix sums, for which draws are independent; columns apart."""
    factor, n = own.counts.factorisation, own.counts.pushes
    if isinstance(factor, SquareRoot):
        steps = np.arange(1, n)
        column = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])
    elif type(factor) is Buffered:
        rates, weights = 1.0 - np.array(factor.decay), np.array(factor.weights)
        column = np.concatenate([[1.0], (weights * rates ** np.arange(n - 1)[:, None]).sum(1)])
    else:
        raise ValueError(f"no law of counts with {factor.kind} is known here")
    whole = np.array([np.convolve(column, each)[:n] for each in cells.T])
    return whole.T


class DrawnRanges(Scorer):
    """The likelihood of a search's medians and of its noisy counts."""

    family: Searches

    def __init__(self, family: Searches, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        if len(self.streams[0]) != self.mechanism.longest:
            raise ValueError("stream must have all records of the search")

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        own = self.mechanism
        searched = np.array([each is None for each in learner._known])
        for record in self.streams[world].parts[0]:
            learner.observe(record)
        loss, uniforms = 0.0, []
        if own.first:
            drawn = places(learner._centre[searched])
            tables = [each.parts[0][: own.first, searched] for each in self.streams]
            for column, place in enumerate(drawn.tolist()):
                laws = [self._law(places(each[:, column]), place) for each in tables]
                loss += laws[world][0] - laws[1 - world][0]
                uniforms.append(laws[world][1])
        draws = [self._draws(learner, each.parts[0][own.first :]) for each in self.streams]
        loss += float(np.square(draws[1 - world]).sum() - np.square(draws[world]).sum()) / 2.0
        return loss, np.array(uniforms), draws[world]

    def _law(self, values: Any, place: int) -> tuple[float, float]:
        """Return the log-probability of a candidate, and the probability of all up to it."""
        runs = group_candidates(np.where(values >= ABSENT, ABSENT, values))
        held = runs.sizes > 0
        first, sizes = runs.first[held], runs.sizes[held].astype(float)
        scores = runs.scores[held] / self.mechanism.scale
        weights = np.exp(scores - scores.max())
        total = float(sizes @ weights)
        at = int(np.searchsorted(first, place, side="right")) - 1
        before = float((sizes * weights)[:at].sum()) + weights[at] * (place - first[at] + 0.5)
        return float(np.log(weights[at] / total)), before / total

    def _draws(self, learner: Any, rows: FloatArray) -> FloatArray:
        """Return the standard normal draws behind the counts, were these the records."""
        with np.errstate(all="ignore"):
            away = rows - learner._centre
        present = np.isfinite(rows) & np.isfinite(away)
        counts = np.zeros_like(learner._cells)
        for column in range(rows.shape[1]):
            bins = np.searchsorted(EDGES, away[present[:, column], column])
            counts[:, column] = np.bincount(bins, minlength=len(counts))
        whole = _whiten(self.mechanism, learner._cells - counts)
        return whole / float(self.mechanism.counts.scale)

    def score(self, runs: list[Any], world: int) -> Scores:
        from scipy.special import ndtr

        losses, medians, draws = zip(*runs, strict=True)
        chances = ndtr(np.array(draws))
        flat = chances.reshape(len(runs), -1)
        uniforms = np.concatenate([np.array(medians), flat], axis=1)
        return Scores(np.array(losses), uniforms)

"""The search for ranges, which uses the first records of a stream."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _core
from dpoco import _literals as literals
from dpoco._validation import (
    Fields,
    FloatArray,
    choice,
    float_array,
    instance,
    positive_int,
    require_memory,
    whole_if_float,
)
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting import ranges as planning
from dpoco.accounting.plan import Plan
from dpoco.accounting.ranges import RangePlan
from dpoco.errors import HorizonExceeded, StateError
from dpoco.learning.participation import Limiter, Participation, Person, Persons
from dpoco.learning.state import Stateful
from dpoco.privacy.mechanisms.range_search import RangeSearch
from dpoco.privacy.mechanisms.selections import PromisedScores, Selections
from dpoco.random import Source
from dpoco.ranges.bins import (
    ABSENT,
    EDGES,
    Thresholds,
    candidate,
    find_ends,
    group_candidates,
    places,
)


@dataclass(frozen=True)
class FoundRanges:
    """Middles and half-widths of the ranges of columns. They are released and may be published.

    Attributes
    ----------
    middle, half_width : tuple of float
        One value per column, in its units. A half-width of 0 switches a column off, because too few
        of its values were present.
    """

    middle: tuple[float, ...]
    half_width: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise for ranges that no search finds, because a file may contain them."""
        if len(self.middle) != len(self.half_width) or not self.middle:
            raise ValueError("ranges need a middle and a half-width for each column")
        if not all(map(math.isfinite, (*self.middle, *self.half_width))):
            raise ValueError("middles and half-widths must be finite")
        if min(self.half_width) < 0.0:
            raise ValueError("half-widths must be at least 0")

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.middle)

    @property
    def parts(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Middles, and half-widths."""
        return self.middle, self.half_width

    @property
    def length(self) -> float:
        """Length of a record, in half-widths, above which it is shortened: sqrt(d) / 2."""
        return 0.5 * math.sqrt(self.columns)

    def clip(self, records: ArrayLike) -> FloatArray:
        """Return records in half-widths from the middles, within [-1, 1], shape (n, d).

        Numbers that are missing or not finite, and columns that are switched off, become 0.

        Parameters
        ----------
        records : array_like of shape (n, d)
            In the units of the columns.

        Raises
        ------
        ValueError, TypeError
            For another number of columns, or another dtype.
        """
        rows = float_array("records", records, (None, self.columns))
        half = np.array(self.half_width)
        on = half > 0.0
        with np.errstate(all="ignore"):
            scaled = np.clip((rows - np.array(self.middle)) / np.where(on, half, 1.0), -1.0, 1.0)
        return np.where(np.isfinite(rows) & on, scaled, 0.0)

    def scale(self, records: ArrayLike) -> FloatArray:
        """Return records in the ball of radius 1: clipped, and divided by `length` or their length.

        Parameters
        ----------
        records : array_like of shape (n, d)
            In the units of the columns.

        Returns
        -------
        ndarray of float64, shape (n, d)
            Records of Euclidean length at most 1, as required by learners with
            ``feature_bound=1.0``.

        Raises
        ------
        ValueError, TypeError
            See `clip`.
        """
        rows = self.clip(records)
        squares = np.zeros(len(rows))
        for column in rows.T:  # in the same order on every machine
            squares += column * column
        return np.asarray(rows / np.maximum(np.sqrt(squares), self.length)[:, None])

    def to_dict(self) -> Fields:
        """Return a JSON-able dictionary that `from_dict` restores exactly."""
        return {name: list(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, record: Fields) -> FoundRanges:
        """Return the ranges written by `to_dict`; `StateError` for anything else."""
        if not isinstance(record, Mapping) or {*record} != {"middle", "half_width"}:
            raise StateError("found ranges have a middle and a half_width")
        try:
            return cls(*(tuple(map(float, record[name])) for name in ("middle", "half_width")))
        except (TypeError, ValueError) as error:
            raise StateError("malformed record of ranges") from error


Centre = Literal["median", "zero"] | Sequence[float | None]

_NEVER = -1e300  # score of an empty run of candidates
# A search may use one tenth of the rounds. The others are for the learner, whose regret it delays.
_TENTH = 10


class RangeFinder(Stateful):
    """Ranges of columns from the first records of a stream, with a guarantee.

    The finder draws a noisy median of every column from four tenths of its records, and noisy
    quantiles around it from the others. Its records must not reach the learner, nor the learner's
    records the finder. Then single rounds are protected by the weaker of the two guarantees
    (`dpoco.accounting.ranges.behind_ranges`).

    Parameters
    ----------
    columns : int
        Number d of columns whose ranges are searched.
    budget : Budget or None
        Budget of the ranges; None adds no noise and gives no guarantee. This and all following
        arguments are keyword-only.
    horizon : int or None
        Rounds of the whole stream, including those of the finder, which are at most a tenth. None:
        unknown.
    records : int, optional
        Rounds of the finder. Default: as few as the noise allows, at least 500. About 2,000 rounds
        are best for ten columns and up to 100,000 rounds.
    centre : {"median", "zero"} or sequence of float or None
        "zero": no column is far from 0 compared with its spread, which must be known in advance.
        Then there is no search for medians, which needs the most records. A sequence has a public
        centre for each column, or None for columns whose median is searched.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in one record, which is replaced or emptied.
    participation : Participation, optional
        How often one person may come. The budget then covers all rounds of a person; if the rule is
        enforced, `observe` and `run` take persons.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the counts.
    plan : Plan, optional
        Plan to use instead of calibration.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError
        If the finder needs more records than it may use. This depends on public sizes only.
    CalibrationError
        If the counts need noise of a scale that is not offered (8192), which only tiny budgets and
        people who come very often do.

    Notes
    -----
    A range aims at the quantiles .1 and .9. Noise hides these best, and private linear models learn
    more with them than with the full range. A missing value is not counted. Memory: 2 d numbers per
    record for the medians, and 259 d counts. Proof: ``docs/privacy/ranges.md``.

    Examples
    --------
    >>> import dpoco
    >>> import numpy as np
    >>> records = np.random.default_rng(0).normal([5.0, 1e6], [1.0, 1e3], size=(2000, 2))
    >>> finder = dpoco.ranges.RangeFinder(
    ...     2, budget=dpoco.Budget(epsilon=1.0, delta=1e-6), horizon=100_000, records=2000)
    >>> finder.run(records)
    >>> 4.0 < finder.ranges.middle[0] < 6.0
    True
    >>> bool(np.abs(finder.ranges.scale([[6.0, 1e6]])).max() <= 1.0)
    True
    """

    _mechanism: RangeSearch
    _guarantee: Guarantee
    # Medians and counts are drawn once each, given any earlier releases.
    _noise: ClassVar[str] = "fresh"

    def __init__(
        self,
        columns: int,
        *,
        budget: Budget | None,
        horizon: int | None = None,
        records: int | None = None,
        centre: Centre = "median",
        relation: literals.Relation = "replace",
        participation: Participation | None = None,
        numerics: literals.Numerics = "auto",
        plan: RangePlan | None = None,
        source: Source | None = None,
    ) -> None:
        arguments = {
            "columns": columns, "budget": budget, "horizon": whole_if_float(horizon),
            "records": records, "centre": centre, "relation": relation,
            "participation": participation, "numerics": numerics, "plan": plan, "source": source,
        }  # fmt: skip
        origin = Source() if source is None else instance("source", source, Source, "a Source")
        found = self._calibrate(arguments) if plan is None else plan
        self._set_up(arguments, found, origin.is_seeded, origin._claim())
        if budget is not None:
            self._guarantee.require(budget)

    @staticmethod
    def _calibrate(given: Fields) -> RangePlan:
        """Return the plan for a constructor's arguments, or raise because of public sizes."""
        budget, horizon, people = given["budget"], given["horizon"], given["participation"]
        if budget is not None:
            instance("budget", budget, Budget, "a dpoco.Budget or None").require_delta()
        if people is not None:
            instance("participation", people, Participation, "a dpoco.Participation or None")
        columns = positive_int("columns", given["columns"])
        known = _centres(given["centre"], columns)
        sizes = {
            "medians": sum(own is None for own in known), "budget": budget, "horizon": horizon,
            "relation": given["relation"], "participation": people,
        }  # fmt: skip
        needed = planning.needed_records(columns, **sizes)
        records = needed if given["records"] is None else positive_int("records", given["records"])
        ways = (
            "state the ranges instead (PublicScaler and feature_bound), or take a longer horizon "
            "or a larger epsilon; a RangeFinder with centre='zero' needs fewer records"
        )
        what = f"a private search for the ranges of {columns} column{'s' * (columns > 1)}"
        if records < needed:
            raise ValueError(f"{what} needs {needed:,} records, and has {records:,}: {ways}")
        if horizon is not None:
            most = positive_int("horizon", horizon) // _TENTH
            if records > most:
                raise ValueError(
                    f"{what} takes {records:,} records, and a tenth of {horizon:,} rounds is "
                    f"{most:,}: {ways}"
                )
        return planning.calibrate(columns, records=records, numerics=given["numerics"], **sizes)

    def _set_up(
        self, arguments: Fields, parameters: RangePlan | None, seeded: bool, claim: _core.Claim
    ) -> None:
        """Build the unstarted finder of a plan, after certifying it and comparing the arguments."""
        if not isinstance(parameters, Plan) or not isinstance(parameters.mechanism, RangeSearch):
            raise TypeError("plan must be a plan for a search for ranges")
        self._arguments, self._plan, self._is_seeded = arguments, parameters, seeded
        self._mechanism = own = parameters.mechanism
        people: Participation | None = arguments["participation"]
        stated = planning.guarantee(
            parameters, relation=arguments["relation"], budget=arguments["budget"], seeded=seeded
        )
        self._guarantee = stated
        columns = own.counts.summand.size
        self._known = _centres(arguments["centre"], columns)
        searched = sum(each is None for each in self._known)
        if columns != arguments["columns"] or searched != own.medians:
            raise ValueError("the plan and the arguments have different columns")
        if people is not None:
            people.check(arguments["horizon"] or own.longest)
            self._guarantee = people.of(stated)
            if people.enforced:
                secret = claim["key"] + int(claim["stream"]).to_bytes(32, "little")
                self._limiter = Limiter(people, own.longest, secret)
        require_memory({"the search": 2.0 * own.first * columns + 2.0 * len(EDGES) * columns})
        self._begin(claim)

    def _begin(self, claim: _core.Claim) -> None:
        """Build all objects that records change."""
        own, columns = self._mechanism, self._mechanism.counts.summand.size
        self._round = 0
        # Two engines with two derived keys, because with one key both would draw the same noise.
        self._secret = claim["key"] + int(claim["stream"]).to_bytes(8, "little")
        self._engine = _core.ContinualSum(own.counts, _derive(self._secret, "counts"))
        self._values = np.full((own.first, own.medians), ABSENT, dtype=np.int64)
        self._centre = np.array([np.nan if c is None else c for c in self._known])
        self._cells = np.zeros((own.counts.pushes, columns))
        self._ranges: FoundRanges | None = None
        if own.first == 0:
            self._begin_counts()

    # -- records ----------------------------------------------------------------------------------

    def observe(self, record: ArrayLike, *, person: Person = None) -> None:
        """Take one record. Nothing is returned, and only the ranges depend on the record.

        Parameters
        ----------
        record : array_like of shape (d,)
            Values that are not finite are missing.
        person : int, str or bytes
            Owner of the record, if people are limited. Keyword-only.

        Raises
        ------
        HorizonExceeded
            Once all records are taken.
        """
        row = float_array("record", record, (self._mechanism.counts.summand.size,))
        self.run(row[None, :], persons=None if person is None else [person])

    def run(self, records: ArrayLike, *, persons: Persons = None) -> None:
        """Take the rows of an array in their order, like `observe` for each.

        Parameters
        ----------
        records : array_like of shape (n, d)
            At most `left` rows.
        persons : array_like of int, str or bytes with shape (n,), optional
            Owners of the rows, if people are limited. Keyword-only.

        Raises
        ------
        HorizonExceeded
            If fewer rounds are left; no row is taken.
        """
        rows = float_array("records", records, (None, self._mechanism.counts.summand.size))
        self._check_active()
        digests = self._digests(persons, len(rows))
        with self._alone():
            self._engine.check_process()
            if len(rows) > self.left:
                raise HorizonExceeded(f"records for ranges: {len(rows)}, left: {self.left}")
            if self._limiter is not None and len(rows):
                passed = self._limiter.admit(self._round, digests)
                # Records beyond a person's limit become empty but keep their place, because rounds
                # are public.
                rows = np.where(passed[:, None], rows, np.nan)
            first = max(0, min(len(rows), self._mechanism.first - self._round))
            if first:
                searched = np.array([each is None for each in self._known])
                part = slice(self._round, self._round + first)
                self._values[part] = places(rows[:first, searched])
                self._round += first
            # We check the secret, which is erased last: after an interrupt in between, the run
            # continues here. Otherwise counts would have no noise.
            if self._round == self._mechanism.first and any(self._secret):
                self._draw_medians()
            self._count(rows[first:])

    def hand_over(self, learner: Any) -> None:
        """Make the following learner refuse people who had their only round in the search.

        Call it after the last record of the search and before the learner's first record, if both
        enforce the same participation.

        Parameters
        ----------
        learner : OnlineLearner
            The learner after the search, unstarted.

        Raises
        ------
        StateError
            If records of the search are missing, the learner has started, or its participation is
            different.
        """
        people: Participation | None = self._arguments["participation"]
        if self.left or learner.round or learner.get_params()["participation"] != people:
            raise StateError("a search hands over its people once, to a learner of the same rule")
        # If people may have several rounds, they may have this number in each part, because the
        # losses add up. For a single round, only one part is charged (docs/privacy/ranges.md, "One
        # round").
        if people is not None and people.rounds == 1 and self._limiter is not None:
            learner._limiter.restore(self._limiter.state())

    def _digests(self, persons: Persons, rounds: int | None) -> bytes:
        """Return the digests of the records' people, or raise if they are needed and not given."""
        if self._limiter is None:
            return super()._digests(persons, rounds)
        if persons is None:
            raise TypeError("persons are needed: the finder enforces a participation")
        return self._limiter.digests(persons, rounds)

    def _draw_medians(self) -> None:
        """Select a median of each column without a known centre, and forget the values.

        It may be called again after an interrupt: it draws the same medians and the same noise. A
        run of candidates with equal scores has one score, increased by the logarithm of its length,
        so the law is that of a selection among all candidates. The numbers of draws are public.
        """
        own, claim = self._mechanism, _derive(self._secret, "medians")
        runs = 2 * own.first + 1
        # A value moves the ranks of all candidates on one side of it by 1.
        chosen = Selections("gumbel", PromisedScores(1.0, False), own.scale, own.medians, 0.0)
        engine = _core.NoisyMax(chosen, runs, own.medians, True, claim)
        words = _core.Source(claim["key"], claim["stream"] + 1).words(2 * own.medians)
        drawn = []
        for column, pair in zip(self._values.T, words.reshape(-1, 2).tolist(), strict=True):
            first, sizes, scores = group_candidates(column)
            lengths = [own.scale * _core.local_log(max(size, 1)) for size in sizes.astype(float)]
            raised = np.where(sizes > 0, scores + np.array(lengths), _NEVER)
            run = engine.select(raised)
            # With 128 bits, all candidates of a run are equally likely up to 2^-100.
            step = (int(sizes[run]) * (pair[0] << 64 | pair[1])) >> 128
            drawn.append(candidate(int(first[run]) + step))
        self._centre[[each is None for each in self._known]] = drawn
        self._begin_counts()
        # Neither memory nor states keep the values of the first part.
        self._values = np.full((own.first, own.medians), ABSENT, dtype=np.int64)

    def _begin_counts(self) -> None:
        """Draw the noise of all prefix sums, so that no state contains a count without noise."""
        counts, noise = self._mechanism.counts, np.empty_like(self._cells)
        engine = _core.ContinualSum(counts, _derive(self._secret, "counts"))
        engine.run(np.zeros_like(noise), noise)
        # Differences of the prefix sums' noise, so that counts can be added to bins.
        self._cells, self._engine = np.diff(noise, axis=0, prepend=0.0), engine
        # The key is not needed any more, and could be used to remove the noise.
        self._secret = bytes(len(self._secret))

    def _count(self, rows: FloatArray) -> None:
        """Add each present value to its bin, counted from the column's centre."""
        # This comes first, so that no record is counted twice after an interrupt.
        self._round += len(rows)
        with np.errstate(all="ignore"):
            away = rows - self._centre
        bins = np.searchsorted(EDGES, away)  # a bin contains its upper edge
        present = np.isfinite(rows) & np.isfinite(away)
        for column in range(rows.shape[1]):
            mine = bins[present[:, column], column]
            self._cells[:, column] += np.bincount(mine, minlength=len(self._cells))

    def _find_ranges(self) -> FoundRanges:
        """Return the ranges, which are a function of the noisy counts and the medians."""
        own, sums = self._mechanism, np.cumsum(self._cells, axis=0)
        up_to, beyond = planning.deviations(own.counts)
        last = own.counts.scale * own.counts.factorisation.column(own.counts.pushes)
        thresholds = Thresholds.of(own.second, up_to, beyond, last)
        middles, halves = [], []
        for centre, column in zip(self._centre.tolist(), sums.T, strict=True):
            low, high = find_ends(column, thresholds) or (0.0, 0.0)
            middles.append(centre + 0.5 * (low + high))
            halves.append(0.5 * (high - low))
        return FoundRanges(tuple(middles), tuple(halves))

    # -- facts ------------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """Number of records taken so far."""
        return self._round

    @property
    def horizon(self) -> int:
        """Number of records of the search."""
        return self._mechanism.longest

    @property
    def left(self) -> int:
        """Number of missing records."""
        return self._mechanism.longest - self._round

    @property
    def plan(self) -> RangePlan:
        """The plan that the finder is built from."""
        return self._plan  # type: ignore[no-any-return]

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of the ranges alone."""
        return self._guarantee

    @property
    def ranges(self) -> FoundRanges:
        """The ranges, which may be published; `StateError` before all records were taken."""
        if self.left > 0:
            raise StateError(f"ranges need {self.left} more records")
        # Computed here and not in `run`, where an interrupt could leave a finder without ranges.
        if self._ranges is None:
            self._ranges = self._find_ranges()
        return self._ranges

    def __repr__(self) -> str:
        own = self._mechanism
        return (
            f"RangeFinder({own.counts.summand.size}, records={own.longest})\n  {self._guarantee!r}"
        )

    # -- state ------------------------------------------------------------------------------------

    def _is_started(self) -> bool:
        return self._round > 0

    @classmethod
    def _read_plan(cls, record: Any) -> Any:
        """Return the plan of a state; a search has neither tuning nor forecast."""
        return Plan.from_dict(record)

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        """Return the number of columns in a header; the payload has counts for each of them."""
        return int(header["plan"]["mechanism"]["counts"]["summand"]["dimension"])

    def _payload(self) -> bytes:
        """Return everything that records change; its length reveals nothing about them."""
        found = self.ranges if self.left == 0 else None  # states have equal length
        shown = np.zeros((2, self._cells.shape[1])) if found is None else np.array(found.parts)
        people = b"" if self._limiter is None else self._limiter.state()
        out = io.BytesIO()
        np.savez(
            out, engine=np.frombuffer(self._engine.state(), dtype=np.uint8),
            people=np.frombuffer(people, dtype=np.uint8), values=self._values,
            centre=self._centre, cells=self._cells, shown=shown,
            secret=np.frombuffer(self._secret, dtype=np.uint8),
            round=np.array([self._round]),
        )  # fmt: skip
        return out.getvalue()

    def _go_on(self, payload: bytes) -> None:
        """Continue from a result of `_payload`; `StateError` for anything else."""
        try:
            with np.load(io.BytesIO(payload), allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
            own = {"values": self._values, "centre": self._centre, "cells": self._cells}
            if any(
                (arrays[n].shape, arrays[n].dtype) != (a.shape, a.dtype) for n, a in own.items()
            ):
                raise StateError("state is corrupt: it is of another search")
            if not 0 <= int(arrays["round"][0]) <= self._mechanism.longest:
                raise StateError("state is corrupt: an impossible round")
            self._engine.restore(arrays["engine"].tobytes())
            if self._limiter is not None:
                self._limiter.restore(arrays["people"].tobytes())
            self._values, self._centre = arrays["values"], arrays["centre"]
            self._cells, (self._round,) = arrays["cells"], arrays["round"].tolist()
            self._secret = arrays["secret"].tobytes()
            middle, half = map(tuple, arrays["shown"].tolist())
            # Before the end, the bytes are zeros, so that all states have equal size.
            self._ranges = FoundRanges(middle, half) if self.left == 0 else None
        except StateError:
            raise
        except Exception as error:
            raise StateError(f"state is corrupt ({type(error).__name__})") from None


def _centres(centre: Centre, columns: int) -> tuple[float | None, ...]:
    """Return the public centre of each column; None if its median is searched."""
    if isinstance(centre, str):
        named = choice("centre", centre, ("median", "zero"))
        return ((None if named == "median" else 0.0),) * columns
    found = tuple(None if own is None else float(own) for own in centre)
    if len(found) != columns or not all(own is None or math.isfinite(own) for own in found):
        raise ValueError(f"centre must be 'median', 'zero', or {columns} finite numbers or None")
    return found


def _derive(secret: bytes, purpose: str) -> _core.Claim:
    """Return the key and stream of one of the engines."""
    return {
        "key": hashlib.sha256(b"dpoco ranges " + purpose.encode() + secret).digest(),
        "stream": 1,
    }

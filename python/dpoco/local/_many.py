"""Many rounds at once: questions that depend on public coins alone, one report or more to each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.errors import RoundOrderError
from dpoco.local._queries import ThresholdQuery
from dpoco.local._reports import Report, ReportBatch
from dpoco.local._specs import ROUND_OFFSET, RoundSpec

if TYPE_CHECKING:
    from dpoco.local._rules import Settings

__all__ = ["FAMILIES", "OpenBlock", "RoundReports", "RoundSpecs"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Words = NDArray[np.uint64]

FAMILIES = ("bisection", "scheffe", "mean_test")
_ROWS = 4096


class RoundSpecs(Sequence[RoundSpec]):
    """The public specifications of consecutive rounds: a sequence of `RoundSpec`.

    Made by `DistributionLearner.round_specs`. Specifications are built when they are asked for,
    and equal those that `round_spec` would have given. Holds 8 K bytes a bit of each round.
    """

    def __init__(self, settings: Settings, first: int, count: int) -> None:
        self._settings = settings
        self.first = first
        self._count = count
        self._coefficients: FloatArray = _core.local_threshold_questions(
            settings.query, settings.public_seed, first, count, settings.bits, settings.hypotheses
        )

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> RoundSpec: ...
    @overload
    def __getitem__(self, index: slice) -> list[RoundSpec]: ...
    def __getitem__(self, index: int | slice) -> RoundSpec | list[RoundSpec]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        place = range(self._count)[index]
        settings = self._settings
        return RoundSpec(
            round=self.first + place,
            channel="bit",
            epsilon=settings.epsilon,
            hypotheses=settings.hypotheses,
            labels=settings.labels,
            fingerprint=settings.fingerprint,
            queries=tuple(ThresholdQuery.of_row(row) for row in self.coefficients([place])),
        )

    @cached_property
    def digests(self) -> Words:
        """Digest of each specification, shape (n,): eight bytes as a little-endian word."""
        settings = self._settings
        body = np.frombuffer(self[0].to_bytes()[:-8], dtype=np.uint8)
        size, each = body.size, 8 * settings.hypotheses + 5  # a query: kind, K, coefficients
        tail = size - settings.bits * each
        words = np.empty(self._count, dtype="<u8")
        for start in range(0, self._count, _ROWS):
            stop = min(start + _ROWS, self._count)
            bodies = np.tile(body, (stop - start, 1))
            rounds = np.arange(self.first + start, self.first + stop, dtype="<u8")
            bodies[:, ROUND_OFFSET : ROUND_OFFSET + 8] = rounds.view(np.uint8).reshape(-1, 8)
            rows = self._coefficients[start * settings.bits : stop * settings.bits]
            queries = bodies[:, tail:].reshape(stop - start, settings.bits, each)
            raw = np.ascontiguousarray(rows, dtype="<f8").view(np.uint8)
            queries[:, :, 5:] = raw.reshape(stop - start, settings.bits, each - 5)
            bodies[:, tail:] = queries.reshape(stop - start, -1)
            text = memoryview(bodies.tobytes())
            words[start:stop] = np.frombuffer(
                b"".join(
                    hashlib.sha256(text[i : i + size]).digest()[:8]
                    for i in range(0, len(text), size)
                ),
                dtype="<u8",
            )
        return words.astype(np.uint64)

    def coefficients(self, places: Any) -> FloatArray:
        """Return the coefficients of the questions of some rounds, shape (len(places) bits, K)."""
        bits = self._settings.bits
        blocks = self._coefficients.reshape(self._count, bits, -1)[places]
        return np.ascontiguousarray(blocks).reshape(-1, blocks.shape[-1])

    def __repr__(self) -> str:
        return f"<RoundSpecs: rounds {self.first} to {self.first + self._count - 1}>"


@dataclass(frozen=True, eq=False)
class RoundReports:
    """Reports to different rounds of one `RoundSpecs`, in an order that stands.

    Attributes
    ----------
    rounds : int array of shape (n,)
        Number of each report's round.
    digests : uint64 array of shape (n,)
        Digest of its specification, as a little-endian word.
    channel : str
        Channel of all of them.
    nonces : uint64 array of shape (n,)
        As of `ReportBatch`.
    values : int array of shape (n, width)
        A report a row.
    simulated : bool
        Whether any noise was reproducible.
    """

    rounds: IntArray
    digests: Words
    channel: str
    nonces: Words
    values: IntArray
    simulated: bool = False

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for arrays that do not fit."""
        # The batch checks channel, nonces and values.
        batch = ReportBatch(1, bytes(8), self.channel, self.nonces, self.values, self.simulated)
        rounds, digests = np.asarray(self.rounds), np.asarray(self.digests)
        for array in (rounds, digests):
            if array.shape != (len(batch),) or (array.dtype.kind not in "iu" and array.size):
                raise ValueError("there must be one round and one digest a report")
        object.__setattr__(self, "rounds", rounds.astype(np.int64))
        object.__setattr__(self, "digests", digests.astype(np.uint64))
        object.__setattr__(self, "nonces", batch.nonces)
        object.__setattr__(self, "values", batch.values)

    def __len__(self) -> int:
        """Return the number of reports."""
        return len(self.nonces)

    @classmethod
    def from_reports(cls, reports: Iterable[Report]) -> RoundReports:
        """Return single reports as one batch; ``ValueError`` if their channels or widths differ."""
        given = list(reports)
        if not given:
            raise ValueError("a batch needs a report")
        if not all(isinstance(report, Report) for report in given):
            raise TypeError("a batch needs reports")
        kinds = {(report.channel, len(report.values)) for report in given}
        if len(kinds) != 1:
            raise ValueError("the reports answer different kinds of specifications")
        channel, width = kinds.pop()
        return cls(
            np.array([report.round for report in given], dtype=np.int64),
            np.frombuffer(b"".join(report.digest for report in given), dtype="<u8"),
            channel,
            np.frombuffer(b"".join(report.nonce for report in given), dtype="<u8"),
            np.array([report.values for report in given], dtype=np.int64).reshape(-1, width),
            any(report.simulated for report in given),
        )

    @classmethod
    def from_batch(cls, batch: ReportBatch) -> RoundReports:
        """Return a batch of reports to one round in this form."""
        count = len(batch)
        digest = int.from_bytes(batch.digest, "little")
        return cls(
            np.full(count, batch.round, dtype=np.int64),
            np.full(count, digest, dtype=np.uint64),
            batch.channel,
            batch.nonces,
            batch.values,
            batch.simulated,
        )


@dataclass
class OpenBlock:
    """Consecutive rounds that were opened together and still take reports."""

    specs: RoundSpecs
    answered: NDArray[np.bool_]
    parts: list[tuple[Words, IntArray]] = field(default_factory=list)  # nonces, places; sorted

    def __contains__(self, round: int) -> bool:
        return self.specs.first <= round < self.specs.first + len(self.specs)

    @property
    def last(self) -> int:
        """Number of the last round."""
        return self.specs.first + len(self.specs) - 1

    def digest(self, round: int) -> bytes:
        """Return the digest of one round's specification."""
        return int(self.specs.digests[round - self.specs.first]).to_bytes(8, "little")

    def admit(self, reports: RoundReports, oldest: int) -> IntArray:
        """Return the place of each report's round, or raise for reports it cannot take.

        `oldest` is the first round that is open still.
        """
        if len(reports) and int(reports.rounds.min()) < oldest:
            raise RoundOrderError(f"late: round {int(reports.rounds.min())} is closed")
        places: IntArray = reports.rounds - self.specs.first
        if ((places < 0) | (places >= len(self.specs))).any():
            raise ValueError("foreign report: it answers another round")
        if reports.channel != "bit" or (self.specs.digests[places] != reports.digests).any():
            raise ValueError("foreign report: it answers another specification")
        width = self.specs._settings.bits
        if reports.values.shape[1] != width:
            raise ValueError(f"malformed report: channel 'bit' sends {width} integers")
        nonces, own = _sorted(reports.nonces, places)
        if ((nonces[1:] == nonces[:-1]) & (own[1:] == own[:-1])).any():
            raise ValueError("duplicated report: a nonce occurs twice")
        for seen, at in self.parts:
            common = np.intersect1d(nonces, seen)
            if common.size and _pairs(nonces, own, common) & _pairs(seen, at, common):
                raise ValueError("duplicated report: its nonce has been seen")
        return places

    def record(self, nonces: Words, places: IntArray) -> None:
        """Remember the nonces of reports that were taken."""
        self.answered[places] = True
        self.parts.append(_sorted(nonces, places))
        while len(self.parts) > 1 and self.parts[-1][0].size >= self.parts[-2][0].size:
            last, before = self.parts.pop(), self.parts.pop()
            self.parts.append(
                _sorted(np.concatenate([before[0], last[0]]), np.concatenate([before[1], last[1]]))
            )

    def repeated(self) -> bool:
        """Return whether a round has had one nonce twice."""
        nonces, places = _sorted(*self.all_nonces())
        return bool(((nonces[1:] == nonces[:-1]) & (places[1:] == places[:-1])).any())

    def all_nonces(self) -> tuple[Words, IntArray]:
        """Return all nonces and the places of their rounds."""
        empty = (np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))
        parts = self.parts or [empty]
        return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])


def _sorted(nonces: Words, places: IntArray) -> tuple[Words, IntArray]:
    order = np.lexsort((places, nonces))
    return nonces[order], places[order]


def _pairs(nonces: Words, places: IntArray, among: Words) -> set[tuple[int, int]]:
    chosen = np.isin(nonces, among)
    return set(zip(nonces[chosen].tolist(), places[chosen].tolist(), strict=True))

"""Open rounds on the server: which reports may still come, and which have come already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.errors import RoundOrderError
from dpoco.local._many import OpenBlock, RoundSpecs
from dpoco.local._reports import Report, ReportBatch
from dpoco.local._specs import RoundSpec

__all__ = ["OpenRound", "OpenRounds", "as_batch"]

FloatArray = NDArray[np.float64]


@dataclass
class OpenRound:
    """A round that still takes reports."""

    spec: RoundSpec
    matrix: FloatArray | None
    context: int | None  # of a table
    nonces: list[NDArray[np.uint64]] = field(default_factory=list)  # each sorted

    @property
    def reports(self) -> int:
        """How many reports have come."""
        return sum(part.size for part in self.nonces)

    def admit(self, batch: ReportBatch) -> NDArray[np.uint64]:
        """Return the batch's nonces, sorted, or raise ``ValueError`` for reports it cannot take."""
        spec = self.spec
        if (batch.round, batch.digest, batch.channel) != (spec.round, spec.digest, spec.channel):
            raise ValueError("foreign report: it answers another specification")
        _check_values(spec, batch.values)
        fresh = np.sort(batch.nonces)
        if fresh.size > 1 and (fresh[1:] == fresh[:-1]).any():
            raise ValueError("duplicated report: a nonce occurs twice")
        for part in self.nonces:
            small, large = (fresh, part) if fresh.size <= part.size else (part, fresh)
            at = np.minimum(np.searchsorted(large, small), large.size - 1)
            if (large[at] == small).any():
                raise ValueError("duplicated report: its nonce has been seen")
        return fresh

    def record(self, nonces: NDArray[np.uint64]) -> None:
        """Remember the nonces of reports that were taken."""
        self.nonces.append(nonces)
        # As many parts as binary digits of their number: each nonce is moved O(log n) times.
        while len(self.nonces) > 1 and self.nonces[-1].size >= self.nonces[-2].size:
            last = self.nonces.pop()
            self.nonces[-1] = np.sort(np.concatenate([self.nonces[-1], last]), kind="stable")


class OpenRounds:
    """The latest rounds, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rounds: OrderedDict[int, OpenRound] = OrderedDict()
        self.last = 0
        self.blocks: list[OpenBlock] = []

    def __iter__(self) -> Any:
        return iter(self._rounds.values())

    def open(self, opened: OpenRound) -> None:
        """Open the next round, and close the oldest if there are too many."""
        self._rounds[opened.spec.round] = opened
        self._advance(opened.spec.round)

    def open_block(self, block: OpenBlock) -> None:
        """Open the next rounds together, and close the oldest if there are too many."""
        self.blocks.append(block)
        self._advance(block.last)

    def _advance(self, last: int) -> None:
        self.last = last
        while self._rounds and next(iter(self._rounds)) < self.oldest:
            self._rounds.popitem(last=False)
        self.blocks = [block for block in self.blocks if block.last >= self.oldest]

    @property
    def limit(self) -> int:
        """Largest number of open rounds."""
        return self._limit

    @property
    def oldest(self) -> int:
        """The first round that may be open still."""
        return self.last - self._limit + 1

    def close(self) -> None:
        """Close all rounds."""
        self._rounds.clear()
        self.blocks.clear()

    def latest(self) -> OpenRound | None:
        """Return the round opened last, if it was opened alone."""
        return self._rounds.get(self.last)

    def latest_answered(self) -> bool:
        """Return whether the round opened last has had a report, or takes none any more."""
        if self.last in self._rounds:
            return self._rounds[self.last].reports > 0
        block = self.block_of(self.last)
        return block is None or bool(block.answered[self.last - block.specs.first])

    def block_of(self, round: int) -> OpenBlock | None:
        """Return the block with an open round of this number."""
        if round < self.oldest:
            return None
        return next((block for block in self.blocks if round in block), None)

    def same_block(self, specs: Any) -> OpenBlock:
        """Return the open block of these specifications, or raise."""
        if not isinstance(specs, RoundSpecs):
            raise TypeError(f"specs must be RoundSpecs; got {type(specs).__name__}")
        last = specs.first + len(specs) - 1
        if last > self.last:
            raise RoundOrderError(f"round {last} has not been opened")
        block = self.block_of(last)
        if block is None:
            raise RoundOrderError(f"late: round {last} is closed")
        if block.specs is not specs and (
            block.specs.first != specs.first
            or len(block.specs) != len(specs)
            or not np.array_equal(block.specs.digests, specs.digests)
        ):
            raise ValueError("foreign specifications: not those of these rounds")
        return block

    def of(self, spec: Any) -> OpenRound:
        """Return the open round of a specification, or raise."""
        if not isinstance(spec, RoundSpec):
            raise TypeError(f"spec must be a RoundSpec; got {type(spec).__name__}")
        opened = self._rounds.get(spec.round)
        if opened is None:
            if spec.round <= self.last:
                raise RoundOrderError(f"late: round {spec.round} is closed")
            raise RoundOrderError(f"round {spec.round} has not been opened")
        if opened.spec.digest != spec.digest:
            raise ValueError(f"foreign specification: not that of round {spec.round}")
        return opened


def as_batch(reports: Any) -> ReportBatch | None:
    """Return reports as one batch; None for none."""
    if isinstance(reports, ReportBatch):
        return reports if len(reports) else None
    if isinstance(reports, Report):
        return ReportBatch.from_reports([reports])
    if isinstance(reports, (str, bytes)) or not isinstance(reports, Iterable):
        raise TypeError(f"reports must be reports; got {type(reports).__name__}")
    given = list(reports)
    return ReportBatch.from_reports(given) if given else None


def _check_values(spec: RoundSpec, values: NDArray[np.int64]) -> None:
    if values.ndim != 2 or values.shape[1] != spec.width:
        raise ValueError(f"malformed report: channel {spec.channel!r} sends {spec.width} integers")
    if spec.channel in ("bit", "coordinate"):
        if values.size and not (values.min() >= 0 and values.max() <= 1):
            raise ValueError("malformed report: a bit must be 0 or 1")
    elif spec.channel == "subset":
        assert spec.labels is not None
        if values.size and not (values.min() >= 0 and values.max() < spec.labels):
            raise ValueError("malformed report: a label of a subset is out of range")
        if (values[:, 1:] <= values[:, :-1]).any():
            raise ValueError("malformed report: a subset must be ascending, without repetitions")

"""Rounds on the server: many specifications at once, which are open, and which reports came."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.errors import RoundOrderError, StateError
from dpoco.local._hedge import Hedge
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._posterior import Posterior
from dpoco.local._queries import ThresholdQuery
from dpoco.local._questions import COIN_FAMILIES
from dpoco.local._reports import RoundReports
from dpoco.local._settings import Settings
from dpoco.local._specs import ROUND_OFFSET, RoundSpec

__all__ = [
    "Nonces",
    "OpenRounds",
    "RoundSpecs",
    "Rounds",
    "coins_alone",
    "reopen",
    "stored_rounds",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Words = NDArray[np.uint64]
Arrays = Mapping[str, NDArray[Any]]
Part = tuple[Words, "IntArray | None"]  # keys of nonces, and the places of their rounds

_ROWS = 4096
_ODD = np.uint64(0x9E3779B97F4A7C15)


class RoundSpecs(Sequence[RoundSpec]):
    """The public specifications of consecutive rounds: a sequence of `RoundSpec`.

    Made by `DistributionLearner.round_specs`. Specifications are built when they are asked for,
    and equal those that `round_spec` would have given. Holds 8 K bytes a bit of each round.
    """

    def __init__(self, settings: Settings, first: int, count: int) -> None:
        self._settings = settings
        self.first = first
        drawn: FloatArray = _core.local_threshold_questions(
            settings.query, settings.public_seed, first, count, settings.bits, settings.hypotheses
        )
        # Of the questions, shape (rounds, bits, K).
        self.coefficients = drawn.reshape(count, settings.bits, settings.hypotheses)

    def __len__(self) -> int:
        return len(self.coefficients)

    @overload
    def __getitem__(self, index: int) -> RoundSpec: ...
    @overload
    def __getitem__(self, index: slice) -> list[RoundSpec]: ...
    def __getitem__(self, index: int | slice) -> RoundSpec | list[RoundSpec]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        queries = tuple(ThresholdQuery.of_row(row.copy()) for row in self.coefficients[place])
        return self._settings.round_spec(self.first + place, "bit", queries=queries)

    @cached_property
    def digests(self) -> Words:
        """Digest of each specification, shape (n,): eight bytes as a little-endian word."""
        count, bits, hypotheses = self.coefficients.shape
        body = np.frombuffer(self[0].to_bytes()[:-8], dtype=np.uint8)
        size, each = body.size, 8 * hypotheses + 5  # a query: kind, K, coefficients
        words = np.empty(count, dtype="<u8")
        for start in range(0, count, _ROWS):
            rows = self.coefficients[start : start + _ROWS].astype("<f8")
            bodies = np.tile(body, (len(rows), 1))
            rounds = np.arange(self.first + start, self.first + start + len(rows), dtype="<u8")
            bodies[:, ROUND_OFFSET : ROUND_OFFSET + 8] = rounds.view(np.uint8).reshape(-1, 8)
            queries = bodies[:, size - bits * each :].reshape(len(rows), bits, each)
            queries[:, :, 5:] = rows.view(np.uint8)
            bodies[:, size - bits * each :] = queries.reshape(len(rows), -1)
            text = memoryview(bodies.tobytes())
            digests = (
                hashlib.sha256(text[i : i + size]).digest()[:8] for i in range(0, len(text), size)
            )
            words[start : start + len(rows)] = np.frombuffer(b"".join(digests), dtype="<u8")
        return words.astype(np.uint64)

    def __repr__(self) -> str:
        return f"<RoundSpecs: rounds {self.first} to {self.first + len(self) - 1}>"


def coins_alone(settings: Settings, hypotheses: Hypotheses) -> bool:
    """Return whether questions depend on public coins alone, as those of `RoundSpecs` do."""
    plain = hypotheses.kind == "array" and settings.channel == "bit"
    return plain and settings.query in COIN_FAMILIES


class Nonces:
    """Nonces that have come, and to which of some rounds: none comes twice to a round.

    Kept in sorted parts, as many as binary digits of their number: each nonce is moved O(log n)
    times. Sorted is the nonce plus its place times an odd number: two different reports to
    different rounds are taken for one with probability 2^-64, as two to one round are.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []

    def __len__(self) -> int:
        return sum(keys.size for keys, _ in self._parts)

    def copy(self) -> Nonces:
        """Return another one with the same nonces."""
        other = Nonces()
        other._parts = self._parts.copy()  # arrays are replaced, never changed
        return other

    def fresh(self, nonces: Words, places: IntArray | None = None) -> Part:
        """Return nonces of reports in the form to `add`; ``ValueError`` if one comes twice.

        `places` are those of their rounds, None for a single round.
        """
        keys, order = _sorted(nonces, places)
        if keys.size > 1 and (keys[1:] == keys[:-1]).any():
            raise ValueError("duplicated report: a nonce occurs twice")
        for seen, _ in self._parts:
            small, large = (keys, seen) if keys.size <= seen.size else (seen, keys)
            at = np.minimum(np.searchsorted(large, small), large.size - 1)
            if (large[at] == small).any():
                raise ValueError("duplicated report: its nonce has been seen")
        return keys, order

    def add(self, part: Part) -> None:
        """Remember nonces that are `fresh`."""
        self._parts.append(part)
        while len(self._parts) > 1 and len(self._parts[-1][0]) >= len(self._parts[-2][0]):
            (later, after), (keys, places) = self._parts.pop(), self._parts.pop()
            keys = np.concatenate([keys, later])
            if places is None or after is None:
                self._parts.append((np.sort(keys, kind="stable"), None))
                continue
            places = np.concatenate([places, after])
            order = np.argsort(keys, kind="stable")
            self._parts.append((keys[order], places[order]))

    def all(self) -> tuple[Words, IntArray]:
        """Return all nonces, sorted, and the places of their rounds."""
        found = [_nonces_of(*part) for part in self._parts]
        nonces = np.concatenate([np.empty(0, dtype=np.uint64), *(own for own, _ in found)])
        places = np.concatenate([np.empty(0, dtype=np.int64), *(at for _, at in found)])
        order = np.argsort(nonces, kind="stable")
        return nonces[order], places[order]


def _sorted(nonces: Words, places: IntArray | None) -> Part:
    if places is None:
        return np.sort(nonces), None
    keys = nonces + places.astype(np.uint64) * _ODD
    order = np.argsort(keys, kind="stable")
    return keys[order], places[order]


def _nonces_of(keys: Words, places: IntArray | None) -> tuple[Words, IntArray]:
    if places is None:
        return keys, np.zeros(keys.shape, dtype=np.int64)
    return keys - places.astype(np.uint64) * _ODD, places


class Rounds:
    """Consecutive rounds that were opened together, often one, and still take reports.

    Parameters
    ----------
    specs : sequence of RoundSpec
        Of the rounds; channel and width are those of the first.
    matrix : array of shape (K, M), optional
        The hypotheses in the context of a single round.
    context : int, optional
        That context, of a table.
    """

    def __init__(
        self,
        specs: Sequence[RoundSpec],
        matrix: FloatArray | None = None,
        context: int | None = None,
    ) -> None:
        self.specs, self.matrix, self.context = specs, matrix, context
        self.spec = specs[0]
        self.first, self.last = self.spec.round, self.spec.round + len(specs) - 1
        self.nonces = Nonces()
        self.answered = np.zeros(len(specs), dtype=np.bool_)  # by place

    def admit(self, reports: RoundReports, oldest: int) -> IntArray | None:
        """Return the place of each report's round, or raise for reports they cannot take.

        `oldest` is the first round that is open still. None for a single round.
        """
        places: IntArray | None = None
        if isinstance(self.specs, RoundSpecs):
            earliest = int(reports.rounds.min())
            if self.first <= earliest < oldest:
                raise RoundOrderError(f"late: round {earliest} is closed")
            places = reports.rounds - self.first
            if ((places < 0) | (places >= len(self.specs))).any():
                raise ValueError("foreign report: it answers another round")
            same = not (self.specs.digests[places] != reports.digests).any()
        else:
            digest = int.from_bytes(self.spec.digest, "little")
            same = not (reports.digests != digest).any()
            same = same and not (reports.rounds != self.first).any()
        if not same or reports.channel != self.spec.channel:
            raise ValueError("foreign report: it answers another specification")
        self.spec.check_values(reports.values)
        return places

    def record(self, fresh: Part, places: IntArray | None) -> None:
        """Remember the nonces of reports that were taken."""
        self.nonces.add(fresh)
        self.answered[0 if places is None else places] = True


class OpenRounds:
    """The latest rounds, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.last = 0
        self._open: list[Rounds] = []  # in ascending order

    def __iter__(self) -> Iterator[Rounds]:
        return iter(self._open)

    @property
    def oldest(self) -> int:
        """The first round that may be open still."""
        return self.last - self.limit + 1

    def open(self, rounds: Rounds, last: int | None = None) -> None:
        """Open rounds, by default the next ones, and close the oldest if there are too many."""
        self._open.append(rounds)
        self.last = rounds.last if last is None else last
        self._open = [kept for kept in self._open if kept.last >= self.oldest]

    def close(self) -> None:
        """Close all rounds."""
        self._open.clear()

    def latest_answered(self) -> bool:
        """Return whether the round opened last has had a report, or takes none any more."""
        latest = next((rounds for rounds in self._open if rounds.last == self.last), None)
        return latest is None or bool(latest.answered[-1])

    def of(self, asked: RoundSpec | RoundSpecs) -> Rounds:
        """Return the open rounds of specifications, or raise."""
        if not isinstance(asked, (RoundSpec, RoundSpecs)):
            raise TypeError(f"specs must be RoundSpec or RoundSpecs; got {type(asked).__name__}")
        last = asked.round if isinstance(asked, RoundSpec) else asked.first + len(asked) - 1
        if last > self.last:
            raise RoundOrderError(f"round {last} has not been opened")
        found = next((rounds for rounds in self._open if rounds.first <= last <= rounds.last), None)
        if found is None or last < self.oldest:
            raise RoundOrderError(f"late: round {last} is closed")
        if isinstance(asked, RoundSpec):
            own = found.specs[asked.round - found.first].digest == asked.digest
        else:
            specs = found.specs
            own = asked is specs or (
                isinstance(specs, RoundSpecs) and np.array_equal(asked.digests, specs.digests)
            )
        if not own:
            raise ValueError(f"foreign specification: not that of round {last}")
        return found


def stored_rounds(
    found: OpenRounds, hypotheses: Hypotheses
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the records of open rounds, "rounds" one by one and "blocks", and their arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    rounds: list[dict[str, Any]] = []
    blocks: list[list[int]] = []
    for opened in found:
        nonces, places = opened.nonces.all()
        if isinstance(opened.specs, RoundSpecs):
            index = len(blocks)
            arrays[f"block_nonces.{index}"], arrays[f"block_places.{index}"] = nonces, places
            blocks.append([opened.first, len(opened.specs)])
            continue
        index = len(rounds)
        spec = base64.b64encode(opened.spec.to_bytes()).decode()
        rounds.append({"spec": spec, "context": opened.context})
        arrays[f"nonces.{index}"] = nonces
        if hypotheses.kind == "callable" and opened.matrix is not None:
            arrays[f"matrix.{index}"] = opened.matrix  # the context itself may be anything
    return {"rounds": rounds, "blocks": blocks}, arrays


def reopen(
    into: OpenRounds,
    body: Mapping[str, Any],
    arrays: Arrays,
    hypotheses: Hypotheses,
    settings: Settings,
    rule: Posterior | Hedge,
) -> int:
    """Open the rounds of a state up to ``into.last``, and return how many reports they had."""
    found = []
    for index, record in enumerate(body["rounds"]):
        spec = RoundSpec.from_bytes(base64.b64decode(record["spec"], validate=True))
        context, matrix = record["context"], None
        if settings.protect == "label":
            if hypotheses.kind == "callable":
                given = arrays[f"matrix.{index}"]
                matrix = Hypotheses(given, hypotheses.count, hypotheses.labels).matrix()
            else:
                matrix = hypotheses.matrix(context)
        _check_spec(spec, settings, rule, matrix)
        nonces = arrays[f"nonces.{index}"]
        opened = Rounds([spec], matrix, context)
        found.append(_with_nonces(opened, nonces, None))
    _check_order(found)
    for index, (first, count) in enumerate(body["blocks"]):
        if (
            type(first) is not int
            or type(count) is not int
            or not 1 <= count <= into.limit
            or not 1 <= first < 2**63 - count
            or not coins_alone(settings, hypotheses)
        ):
            raise StateError("state is corrupt: impossible rounds")
        opened = Rounds(RoundSpecs(settings, first, count))
        nonces, places = arrays[f"block_nonces.{index}"], arrays[f"block_places.{index}"]
        found.append(_with_nonces(opened, nonces, places))
    found.sort(key=lambda rounds: rounds.first)
    _check_order(found)
    if found and not (into.oldest <= found[0].last and found[-1].last <= into.last):
        raise StateError("state is corrupt: impossible counts")
    for opened in found:
        into.open(opened, last=into.last)
    return sum(len(opened.nonces) for opened in found)


def _check_order(found: Sequence[Rounds]) -> None:
    if any(later.first <= earlier.last for earlier, later in pairwise(found)):
        raise StateError("state is corrupt: a round comes twice")


def _with_nonces(opened: Rounds, nonces: NDArray[Any], places: NDArray[Any] | None) -> Rounds:
    """Return rounds with the nonces of their reports, or raise for impossible ones."""
    fits = nonces.dtype == np.uint64 and nonces.ndim == 1
    if places is not None:
        fits = fits and places.dtype == np.int64 and places.shape == nonces.shape
        inside = (places >= 0) & (places < len(opened.specs))
        fits = fits and bool(inside.all())
    if not fits:
        raise StateError("state is corrupt: impossible nonces")
    if nonces.size:
        try:
            opened.record(opened.nonces.fresh(nonces, places), places)
        except ValueError:
            raise StateError("state is corrupt: a nonce comes twice") from None
    return opened


def _check_spec(
    spec: RoundSpec,
    settings: Settings,
    rule: Posterior | Hedge,
    matrix: NDArray[np.float64] | None,
) -> None:
    """Refuse a round that is not this learner's: its channel decides how reports are read."""
    # A single label leaves no subsets; one loss may be sent with additive noise.
    allowed = {
        "auto": ("bit", "subset"),
        "subset": ("subset", "bit", "coordinate"),
        "coordinate": ("coordinate", "vector"),
    }.get(settings.channel, (settings.channel,))
    asked = (spec.hypotheses, spec.labels, spec.fingerprint, spec.epsilon)
    own = (settings.hypotheses, settings.labels, settings.fingerprint, settings.epsilon)
    if spec.channel not in allowed or asked != own or not rule.accepts(spec, matrix):
        raise StateError("state is corrupt: a round is not of this learner")
    # Where weights do not shape questions, the round can be asked for again.
    if settings.interactive or isinstance(rule, Hedge):
        return
    if rule.specify(spec.round, matrix).digest != spec.digest:
        raise StateError("state is corrupt: a round is not of this learner")

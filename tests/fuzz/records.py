"""Messages and records: JSON of guarantees and ledgers, bytes of rounds, reports and sources."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.mutations import changed_bytes, changed_json, odd
from tests.fuzz.subjects import ONLINE, _servers, server

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.local import DistributionLearner, Hypotheses, LocalClient, Report, ReportBatch, RoundSpec
from dpoco.random import Source

__all__ = ["subjects"]

_DIGEST = 8


def subjects() -> dict[str, Callable[[random.Random], None]]:
    """Return a function for each format."""
    return {
        "Guarantee": _guarantee,
        "Budget": _budget,
        "Ledger": _ledger,
        "RoundSpec": _spec,
        "Report": functools.partial(_report, False),
        "ReportBatch": functools.partial(_report, True),
        "Source": _source,
    }


@functools.cache
def _guarantees() -> list[Any]:
    named = [online.kind._from_bytes(online.states[0]).guarantee for online in ONLINE.values()]
    return [json.loads(guarantee.to_json()) for guarantee in named]


def _text(rng: random.Random, record: Any) -> Any:
    for _ in range(rng.choice((1, 1, 2, 3))):
        record = changed_json(rng, record)
    kind = rng.randrange(20)
    if kind == 0:
        return odd(rng, 1.0)
    if kind == 1:
        return rng.choice(["[" * 100_000, '{"x":' * 100_000, "1" * 10_000, "", b"\xff\xfe"])
    text = json.dumps(record)
    return text if kind > 3 else changed_bytes(rng, text.encode()).decode("utf-8", "replace")


def _guarantee(rng: random.Random) -> None:
    text = _text(rng, rng.choice(_guarantees()))
    try:
        read = dpoco.Guarantee.from_json(text)
    except (dpoco.StateError, TypeError):
        return
    assert dpoco.Guarantee.from_json(read.to_json()) == read or _has_nan(read)
    str(read), repr(read)
    for question, at in ((read.delta_at, 0.5), (read.epsilon_at, 1e-6)):
        try:
            answer = question(at)
        except (ValueError, dpoco.DpocoError):
            continue
        assert answer >= 0.0, f"{question.__name__} is {answer}"


def _has_nan(guarantee: Any) -> bool:
    return "nan" in json.dumps(guarantee.to_dict()).lower()


def _budget(rng: random.Random) -> None:
    record = changed_json(rng, dpoco.Budget(1.0, 1e-6).to_dict())
    try:
        read = dpoco.Budget.from_dict(record)
    except (dpoco.StateError, ValueError, TypeError):
        return
    assert read.epsilon > 0.0
    assert 0.0 <= read.delta < 1.0


@functools.cache
def _ledgers() -> list[Any]:
    found = []
    for currency, delta in (("basic", 0.0), ("gaussian", 1e-5), ("renyi", 1e-5)):
        ledger = Ledger(dpoco.Budget(100.0, delta), currency=currency)
        for record in _guarantees():
            guarantee = dpoco.Guarantee.from_dict(record)
            try:
                ledger.charge(guarantee, "test", same_unit=True)
            except (ValueError, dpoco.DpocoError):
                continue
        found.append(json.loads(ledger.to_json()))
    return found


def _ledger(rng: random.Random) -> None:
    text = _text(rng, rng.choice(_ledgers()))
    try:
        read = Ledger.from_json(text)
    except (dpoco.StateError, TypeError):
        return
    assert 0.0 <= read.spent <= 1.0 + 1e-9, "a ledger beyond its budget"
    read.report(), repr(read), read.guarantee, read.remaining
    Ledger.from_json(read.to_json())


@functools.cache
def _specs() -> list[RoundSpec]:
    found = [server(kind).round_spec() for kind in _servers.KINDS]
    learner = DistributionLearner(
        Hypotheses(_servers.FC), epsilon=1.0, public_seed=7, query="hadamard"
    )
    return [*found, learner.round_spec()]


def _spec(rng: random.Random) -> None:
    data = rng.choice(_specs()).to_bytes()
    if rng.random() < 0.9:
        body = changed_bytes(rng, data[:-_DIGEST])
        data = body + hashlib.sha256(body).digest()[:_DIGEST]
    else:
        data = changed_bytes(rng, data)
    try:
        spec = RoundSpec.from_bytes(data)
    except ValueError:
        return
    assert spec.to_bytes() == data
    _answer(spec)


def _answer(spec: RoundSpec) -> None:
    """Whatever comes from a server that lies: a device answers within its budget, or refuses."""
    for protect in ("label", "label_and_context"):
        client = LocalClient(Hypotheses(_servers.FC), 2.0, protect=protect, simulation_seed=1)
        try:
            report = client.respond(spec, None, 2)
        except (ValueError, TypeError, dpoco.DpocoError):
            assert client.spent == 0.0, "refused, and charged"
            continue
        assert spec.epsilon <= client.spent <= 2.0
        assert Report.from_bytes(report.to_bytes()) == report
        assert len(report.values) == spec.width


@functools.cache
def _sent() -> list[tuple[RoundSpec, bytes, bytes]]:
    found = []
    for spec in _specs():
        client = LocalClient(
            Hypotheses(_servers.FC), 9.0, 9, simulation_seed=1,
            protect="label_and_context" if spec.labels is None else "label",
        )  # fmt: skip
        try:
            reports = [client.respond(spec, None, 1), client.respond(spec, None, 2)]
        except (ValueError, dpoco.DpocoError):
            continue
        batch = ReportBatch.from_reports(reports)
        found.append((spec, reports[0].to_bytes(), batch.to_bytes()))
    assert len(found) >= 8
    return found


def _report(batch: bool, rng: random.Random) -> None:
    spec, one, many = rng.choice(_sent())
    data = changed_bytes(rng, many if batch else one)
    kind: Any = ReportBatch if batch else Report
    try:
        read = kind.from_bytes(data)
    except ValueError:
        return
    assert read.to_bytes() == data  # one encoding only
    with contextlib.suppress(ValueError):  # of another round, or out of range
        spec.check_reports(read)


def _source(rng: random.Random) -> None:
    source = Source.seeded(2)
    source.uniform(rng.choice((1, 70)))
    data = changed_bytes(rng, source.to_bytes())
    try:
        read = Source.from_bytes(data)
    except dpoco.StateError:
        return
    assert read.to_bytes() == data
    assert np.isfinite(read.uniform(3)).all()

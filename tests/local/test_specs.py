"""Round specifications and reports: exact round trips, and nothing malformed gets through."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import math
import pickle

import numpy as np
import pytest
from local_cases import FA, FC, bit_spec, coordinate_spec, subset_spec

import dpoco
from dpoco.local import (
    ClientPool,
    DistributionLearner,
    HadamardQuery,
    Hypotheses,
    LocalClient,
    LossQuery,
    Report,
    ReportBatch,
    RoundSpec,
    ThresholdQuery,
)
from dpoco.local._messages import CHANNELS

DIGEST = bytes(range(8))
NONCE = bytes(range(8, 16))


def all_specs():
    yield bit_spec(FA)
    yield bit_spec(FC, epsilon=0.3, bits=3, round=2**62)
    yield subset_spec(FC, 3)
    yield coordinate_spec(FA)
    yield RoundSpec(1, "coordinate", 1.0, 3, None, queries=(LossQuery(1, 0.0, 1.0, 0.1),))
    yield RoundSpec(
        1, "bit", 1.0, 3, 4, queries=(HadamardQuery(3), ThresholdQuery([1, math.nan, 0]))
    )


@pytest.mark.parametrize("spec", list(all_specs()), ids=lambda spec: spec.channel)
def test_round_trips(spec):
    data = spec.to_bytes()
    again = RoundSpec.from_bytes(data)
    assert again == spec
    assert again.digest == spec.digest == data[-8:]
    assert len(spec.digest) == 8
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.width >= 1


def test_digest_stands_for_everything():
    digests = {spec.digest for spec in all_specs()}
    base = bit_spec(FA)
    for change in (
        {"round": 2},
        {"epsilon": math.nextafter(1.0, 2.0)},
        {"labels": 5},
        {"labels": None},
        {"queries": (ThresholdQuery([1.0, 0.0, 0.0]),)},
    ):
        digests.add(dataclasses.replace(base, **change).digest)
    assert len(digests) == 6 + 5


IMPOSSIBLE = [
    {"round": 0}, {"round": 2**63}, {"channel": "bits"}, {"channel": "subset"},
    {"channel": "coordinate"}, {"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": 30.000001},
    {"epsilon": math.nan}, {"epsilon": math.inf}, {"hypotheses": 0}, {"hypotheses": 4},
    {"labels": 0}, {"labels": -4}, {"labels": 2**31}, {"queries": ()},
    {"queries": (HadamardQuery(4),)}, {"queries": (HadamardQuery(1),) * 65},
    {"queries": (LossQuery(3, 0.0, 1.0, 0.1),)}, {"queries": (ThresholdQuery([1.0]),)},
    {"subset_size": 1},
]  # fmt: skip


@pytest.mark.parametrize("change", IMPOSSIBLE, ids=str)
def test_what_no_device_may_answer_cannot_be_built(change):
    with pytest.raises(ValueError):  # noqa: PT011
        dataclasses.replace(bit_spec(FA), **change)


@pytest.mark.parametrize("size", [0, 4, 5, -1, None])
def test_subset_sizes(size):
    with pytest.raises(ValueError, match="subset_size"):
        dataclasses.replace(subset_spec(FA, 1), subset_size=size)


@pytest.mark.parametrize("change", [{"round": 1.0}, {"epsilon": "1"}, {"queries": (3,)},
                                    {"hypotheses": None}, {"labels": True}])  # fmt: skip
def test_types(change):
    with pytest.raises(TypeError):
        dataclasses.replace(bit_spec(FA), **change)


@pytest.mark.parametrize("spec", list(all_specs()), ids=lambda spec: spec.channel)
def test_cut_specifications_are_refused(spec):
    """Other damage: `tests/fuzz/records.py`."""
    data = spec.to_bytes()
    for broken in (*(data[:cut] for cut in range(len(data))), data + b"\0"):
        with pytest.raises(ValueError):  # noqa: PT011
            RoundSpec.from_bytes(broken)
    with pytest.raises(TypeError):
        RoundSpec.from_bytes("text")


# -- reports ---------------------------------------------------------------------------------------

VALUES = {"bit": (1, 0, 1), "subset": (0, 5, 2**31 - 1), "coordinate": (1,)}


@pytest.mark.parametrize("channel", CHANNELS)
def test_reports_round_trip(channel):
    for simulated in (False, True):
        report = Report(3, DIGEST, NONCE, channel, VALUES[channel], simulated)
        data = report.to_bytes()
        assert Report.from_bytes(data) == pickle.loads(pickle.dumps(report)) == report
        other = Report(3, DIGEST, NONCE, channel, (0,) * len(VALUES[channel]))
        assert len(other.to_bytes()) == len(data)
        for cut in range(len(data)):
            with pytest.raises(ValueError):  # noqa: PT011
                Report.from_bytes(data[:cut])


@pytest.mark.parametrize(
    ("channel", "values"),
    [("bit", (2,)), ("bit", (-1,)), ("coordinate", (3,)), ("subset", (-1,)), ("subset", (2**31,)),
     ("nothing", (0,))],
)  # fmt: skip
def test_values_out_of_range(channel, values):
    with pytest.raises(ValueError):  # noqa: PT011
        Report(1, DIGEST, NONCE, channel, values)


def test_malformed_heads():
    for arguments in (
        (0, DIGEST, NONCE),
        (1, b"1", NONCE),
        (1, DIGEST, b"1"),
        (True, DIGEST, NONCE),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            Report(*arguments, "bit", (0,))
    with pytest.raises(TypeError):
        Report.from_bytes(3)


def test_batches_round_trip():
    rng = np.random.default_rng(0)
    for n in (0, 1, 5):
        batch = ReportBatch(
            2, DIGEST, "subset", rng.integers(0, 2**64, n, dtype=np.uint64),
            np.sort(rng.integers(0, 100, (n, 3)), axis=1),
        )  # fmt: skip
        assert ReportBatch.from_bytes(batch.to_bytes()) == batch
        assert len(batch) == n
        if n:
            reports = batch.split()
            assert ReportBatch.from_reports(reports) == batch
            assert reports[0].nonce == int(batch.nonces[0]).to_bytes(8, "little")
            assert Report.from_bytes(reports[-1].to_bytes()) == reports[-1]
    with pytest.raises(ValueError, match="needs"):
        ReportBatch.from_reports([])
    with pytest.raises(ValueError, match="different"):
        ReportBatch.from_reports([Report(1, DIGEST, NONCE, "bit", (0,)),
                                  Report(2, DIGEST, NONCE, "bit", (0,))])  # fmt: skip
    mixed = [Report(1, DIGEST, NONCE, "bit", (0,)), Report(1, DIGEST, NONCE, "bit", (1,), True)]
    assert ReportBatch.from_reports(mixed).simulated  # one is enough


def test_malformed_batches():
    nonces, bits = np.zeros(2, dtype=np.uint64), np.zeros((2, 1), dtype=np.int64)
    for n, v in ((nonces[:1], bits), (nonces, bits[0]), (nonces, bits + 0.5), (nonces, bits + 2)):
        with pytest.raises(ValueError):  # noqa: PT011
            ReportBatch(1, DIGEST, "bit", n, v)


def test_a_specification_checks_reports():
    spec = subset_spec(FC, 2)
    good = Report(1, spec.digest, NONCE, "subset", (1, 5))
    spec.check_reports(good)
    spec.check_reports(ReportBatch.from_reports([good, good]))
    for bad in (
        Report(2, spec.digest, NONCE, "subset", (1, 5)),
        Report(1, DIGEST, NONCE, "subset", (1, 5)),
        Report(1, spec.digest, NONCE, "bit", (0, 1)),
        Report(1, spec.digest, NONCE, "subset", (1,)),
        Report(1, spec.digest, NONCE, "subset", (1, 6)),
        Report(1, spec.digest, NONCE, "subset", (5, 1)),
        Report(1, spec.digest, NONCE, "subset", (5, 5)),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            spec.check_reports(bad)
    bits = bit_spec(FA, bits=2)
    bits.check_reports(Report(1, bits.digest, NONCE, "bit", (1, 0)))
    with pytest.raises(ValueError, match="2 integers"):
        bits.check_reports(Report(1, bits.digest, NONCE, "bit", (1,)))


# -- the class of hypotheses ----------------------------------------------------------------------


def test_devices_refuse_other_hypotheses_of_the_same_size():
    """Numbers, not sizes alone: else a device would answer about a class it does not hold."""
    rows = np.random.default_rng(0).dirichlet(np.ones(4), size=3)
    other = rows[::-1].copy()
    for source, foreign in ((rows, other), (np.stack([rows, other]), np.stack([other, rows]))):
        own, x = Hypotheses(source), None if source.ndim == 2 else 0
        for given in ({}, {"learner": "hedge"},
                      {"channel": "subset"},
                      {"learner": "hedge", "protect": "label_and_context"}):  # fmt: skip
            learner = DistributionLearner(own, epsilon=1.0, **given)
            protect = given.get("protect", "label")
            spec = learner.round_spec(x if protect == "label" else None)
            assert spec.fingerprint == own.fingerprint
            LocalClient(Hypotheses(source.copy()), 1.0, protect=protect).respond(spec, x, 1)
            device = LocalClient(Hypotheses(foreign), 1.0, protect=protect)
            with pytest.raises(ValueError, match="other hypotheses"):
                device.respond(spec.to_bytes(), x, 1)
            assert device.spent == 0.0
            pool = ClientPool(Hypotheses(foreign), 1, 1.0, protect=protect)
            with pytest.raises(ValueError, match="other hypotheses"):
                pool.respond(spec, [x] if protect != "label" else x, [1])


def test_functions_have_no_fingerprint():
    rows = np.random.default_rng(0).dirichlet(np.ones(4), size=3)
    function = Hypotheses(lambda x: rows, 3, 4)
    spec = DistributionLearner(function, epsilon=1.0).round_spec(1)
    assert spec.fingerprint == bytes(16)
    LocalClient(Hypotheses(lambda x: rows[::-1], 3, 4), 1.0).respond(spec, 1, 2)  # cannot be seen
    array = DistributionLearner(Hypotheses(rows), epsilon=1.0).round_spec()
    LocalClient(function, 1.0).respond(array, 1, 2)  # nor on this side


def test_fingerprints_are_checked_and_constant_in_size():
    base = next(all_specs())
    marked = dataclasses.replace(base, fingerprint=bytes(range(16)))
    assert len(marked.to_bytes()) == len(base.to_bytes())
    assert RoundSpec.from_bytes(marked.to_bytes()) == marked
    assert marked.digest != base.digest
    for wrong in (b"", bytes(15), bytes(17), "0" * 16, bytearray(16), None):
        with pytest.raises(ValueError, match="fingerprint"):
            dataclasses.replace(base, fingerprint=wrong)


def test_reports_hold_integers():
    for values in ((0.7,), (1.0,), ("1",), (None,), (np.float64(1.0),)):
        with pytest.raises(TypeError):
            Report(1, bytes(8), NONCE, "bit", values)
    assert Report(1, bytes(8), NONCE, "bit", tuple(np.array([1, 0], np.uint8))).values == (1, 0)


# -- any numbers: a device answers, or raises what is documented and has spent nothing ------------

RNG = np.random.default_rng(3)
CLASSES = [
    Hypotheses(RNG.dirichlet(np.ones(4), 3)),
    Hypotheses(RNG.dirichlet(np.ones(4), 1)),
    Hypotheses(np.ones((2, 1))),
]
TINY = [5e-324, 1e-320, 1e-300, 1e-100, 1e-20, 1e-10]
SHARES = [*TINY, 1e-3, 0.5, math.nextafter(1.0, 0.0)]
EPSILONS = [*SHARES, 1.0, 3.0, 30.0]
NUMBERS = [*EPSILONS, 0.0, -1.0, 2.0, 1e300, math.inf, -math.inf, math.nan]


def answer(hypotheses, spec, label=0):
    """What becomes of a round; whatever is not documented goes up."""
    client = LocalClient(hypotheses, 30.0)
    try:
        client.respond(spec, None, label)
    except (ValueError, TypeError, dpoco.BudgetExceeded) as error:
        assert client.spent == 0.0
        assert client.reports_left == 1
        return type(error).__name__
    return "answered"


def hostile(rng, channel):
    """A class and a round about it, with numbers from the corners."""

    def pick(values):
        return values[int(rng.integers(len(values)))]

    def query():
        kind = pick(("threshold", "hadamard", "loss")) if channel == "bit" else "loss"
        if kind == "threshold":
            return ThresholdQuery([pick(NUMBERS) for _ in range(hypotheses.count)])
        if kind == "hadamard":
            return HadamardQuery(int(pick([1, 2, 3])))
        index = int(rng.integers(hypotheses.count))
        return LossQuery(index, pick(NUMBERS), pick(NUMBERS), pick(NUMBERS))

    hypotheses, epsilon = pick(CLASSES), pick(EPSILONS)
    options = {}
    if channel in ("bit", "coordinate"):
        options["queries"] = [query() for _ in range(pick([1, 3]) if channel == "bit" else 1)]
    else:
        options["subset_size"] = pick([1, 3])
    labels = hypotheses.labels
    return hypotheses, RoundSpec(1, channel, epsilon, hypotheses.count, labels, **options)


@pytest.mark.parametrize(("channel", "rounds"), [("bit", 40), ("subset", 40), ("coordinate", 40)])
def test_numbers_from_the_corners(channel, rounds):
    rng, seen = np.random.default_rng(1), collections.Counter()
    while seen.total() < rounds:
        try:
            hypotheses, spec = hostile(rng, channel)
        except ValueError:  # no round at all
            continue
        seen[answer(hypotheses, spec, label=int(rng.integers(2)))] += 1
        body = bytearray(spec.to_bytes()[:-8])  # and with damage that the digest does not show
        body[int(rng.integers(len(body)))] = int(rng.integers(256))
        answer(hypotheses, bytes(body) + hashlib.sha256(body).digest()[:8])
    assert seen["answered"] >= rounds // 8
    assert set(seen) <= {"answered", "ValueError", "BudgetExceeded"}


@pytest.mark.parametrize("huge", [10**400, -(10**400)], ids=["plus", "minus"])
def test_integers_beyond_doubles(huge):
    with pytest.raises(ValueError, match="must be finite"):
        RoundSpec(1, "subset", huge, 3, 4, subset_size=1)
    query = LossQuery(0, huge, huge, huge)
    assert answer(CLASSES[0], RoundSpec(1, "coordinate", 1.0, 3, 4, queries=[query])) == "answered"

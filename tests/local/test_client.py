"""The device: what it refuses, what it spends, and that nothing but noise depends on the label."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle

import numpy as np
import pytest
from local_cases import FA, FC, bit_spec, coordinate_spec, fixed, refused, subset_spec, words_drawn

import dpoco
from dpoco.local import ClientPool, Hypotheses, LocalClient, LossQuery, RoundSpec
from dpoco.local._randomizers import bit_randomizer

LABELS = [0, 1, 3, None, -1, 4, 10**40, 2.0, "cat", float("nan"), [1]]
HOSTILE = (math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0)


@pytest.mark.parametrize("spec", [bit_spec(FA), bit_spec(FA, bits=3), subset_spec(FA, 2),
                                  coordinate_spec(FA)])  # fmt: skip
def test_size_and_sending_do_not_depend_on_the_label(spec):
    sizes = set()
    for label in LABELS:
        client = LocalClient(fixed(FA), 1.0)
        report = client.respond(spec, None, label)
        spec.check_reports(report)
        assert not report.simulated
        sizes.add(len(report.to_bytes()))
        assert client.spent == 1.0
        assert words_drawn(client) == (3 if spec.channel == "subset" else spec.width)
    assert len(sizes) == 1


def test_the_report_is_the_law():
    """With the words known, every bit is what its threshold says."""
    spec = bit_spec(FC, epsilon=2.0, bits=3)
    for seed, label in itertools.product(range(5), (0, 5, None)):
        client = LocalClient(fixed(FC), 2.0, simulation_seed=seed)
        report = client.respond(spec.to_bytes(), None, label)
        words = dpoco.random.Source.seeded(seed).words(3).tolist()
        randomizer = bit_randomizer(2.0, 3)
        for word, query, bit in zip(words, spec.queries, report.values, strict=True):
            phi = 0.0 if label is None else query.values(FC)[label]
            assert bit == int((word >> 11) < randomizer.threshold(phi))
        assert report.simulated
        assert (report.round, report.digest, report.channel) == (1, spec.digest, "bit")


def test_budget():
    client = LocalClient(fixed(FA), 1.0, max_reports=100)
    assert (client.remaining, client.reports_left) == (1.0, 100)
    for t in range(1, 11):  # ten times 0.1 is 1, whatever doubles say
        client.respond(bit_spec(FA, epsilon=0.1, round=t), None, 1)
    assert client.spent == pytest.approx(1.0)
    assert client.remaining == pytest.approx(0.0, abs=1e-15)
    refused(client, bit_spec(FA, epsilon=1e-9, round=11), dpoco.BudgetExceeded, x=None, y=1)


def test_a_round_beyond_the_budget_draws_nothing():
    client = LocalClient(fixed(FA), 0.5, max_reports=3)
    refused(client, bit_spec(FA, epsilon=0.6), dpoco.BudgetExceeded, x=None, y=1)
    refused(client, bit_spec(FA, epsilon=math.nextafter(0.5, 1) * (1 + 1e-15)),
            dpoco.BudgetExceeded, x=None, y=1)  # fmt: skip
    client.respond(bit_spec(FA, epsilon=0.5), None, 1)
    assert client.remaining == 0.0


def test_number_of_reports():
    client = LocalClient(fixed(FA), 10.0, max_reports=2)
    client.respond(bit_spec(FA), None, 0)
    client.respond(bit_spec(FA), None, 0)
    assert client.remaining == 0.0
    refused(client, bit_spec(FA, round=2), dpoco.BudgetExceeded, x=None, y=0)


def tampered(spec, **changes):
    spec = copy.copy(spec)
    for name, value in changes.items():
        object.__setattr__(spec, name, value)
    return spec


@pytest.mark.parametrize("changes", [
    {"epsilon": math.nan}, {"epsilon": math.inf}, {"epsilon": -1.0}, {"epsilon": 0.0},
    {"epsilon": 31.0}, {"round": 0}, {"channel": "subset"}, {"channel": "other"},
    {"queries": ()}, {"hypotheses": 4}, {"labels": 5}, {"labels": None}
])  # fmt: skip
def test_tampered_rounds_are_refused(changes):
    refused(LocalClient(fixed(FA), 100.0), tampered(bit_spec(FA), **changes), ValueError,
            x=None, y=1)  # fmt: skip


def test_rounds_of_other_classes_and_kinds_are_refused():
    client = LocalClient(fixed(FA), 100.0)
    refused(client, bit_spec(FC), ValueError, x=None, y=1)
    refused(client, tampered(coordinate_spec(FA), queries=(LossQuery(3, 0.0, 1.0, 0.1),)),
            ValueError, x=None, y=1)  # fmt: skip
    for size in (0, 4):
        refused(client, tampered(subset_spec(FA, 1), subset_size=size), ValueError, x=None, y=1)
    refused(client, b"junk", ValueError, x=None, y=1)
    refused(client, {"round": 1}, TypeError, x=None, y=1)
    refused(client, bit_spec(FA), ValueError, x=3, y=1)  # no contexts here

    class Trojan(RoundSpec):
        pass

    trojan = Trojan(1, "bit", 1.0, 3, 4, queries=bit_spec(FA).queries)
    refused(client, trojan, TypeError, x=None, y=1)


def test_public_contexts_fail_before_anything_is_spent():
    table = Hypotheses(np.stack([FA, FA[::-1]]))
    client = LocalClient(table, 10.0, max_reports=5)
    for spec in (bit_spec(FA), subset_spec(FA, 1)):
        refused(client, spec, ValueError, x=7, y=1)
        refused(client, spec, TypeError, x="monday", y=1)
    client.respond(bit_spec(FA), 1, 2)
    assert client.reports_left == 4


# -- noise, copies, guarantee ----------------------------------------------------------------------


def test_noise_is_fresh():
    """Two devices with the same data differ; a device's reports do, too."""
    spec = bit_spec(FA, epsilon=0.5, bits=60)
    clients = [LocalClient(fixed(FA), 10.0, max_reports=2) for _ in range(3)]
    reports = [client.respond(spec, None, 1) for client in clients * 2]
    assert len({report.values for report in reports}) == 6
    assert len({report.nonce for report in reports}) == 6
    assert not any(report.simulated for report in reports)


def test_simulations_are_reproducible_and_say_so():
    def run(seed):
        client = LocalClient(fixed(FA), 10.0, max_reports=3, simulation_seed=seed)
        reports = [client.respond(bit_spec(FA, round=t, bits=20), None, 2) for t in (1, 2, 3)]
        assert not client.guarantee.certified
        assert "SIMULATED" in str(client.guarantee)
        return reports

    assert run(5) == run(5)
    assert run(5) != run(6)
    assert all(report.simulated for report in run(5))


def test_no_argument_takes_public_coins_or_a_source():
    import inspect

    names = set(inspect.signature(LocalClient).parameters)
    assert names == {"hypotheses", "epsilon_max", "max_reports", "protect", "ledger",
                     "simulation_seed"}  # fmt: skip


def test_messages_hold_no_data():
    client = LocalClient(fixed(FA), 0.5)
    for spec in (bit_spec(FC), bit_spec(FA), tampered(bit_spec(FA), epsilon=math.nan)):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            client.respond(spec, None, 987654321)
        assert "987654321" not in str(caught.value)
        assert "987654321" not in repr(client)


# -- one device and many ---------------------------------------------------------------------------


@pytest.fixture(params=["client", "ledger", "pool"])
def devices(request, tmp_path):
    """Build one device, or two users in a pool, and return them with the arguments of a report."""

    def build(epsilon, **more):
        if request.param != "pool":
            path = tmp_path / "ledger" if request.param == "ledger" else None
            client = LocalClient(fixed(FA), epsilon, ledger=path, **more)
            return client, (bit_spec(FA), None, 1)
        return ClientPool(fixed(FA), 2, epsilon, **more), (bit_spec(FA), None, [0, 1])

    return build


def test_budgets_are_not_copied(devices):
    client, given = devices(1.0)
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied"):
            copier(client)
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                client.respond(*given)
            except dpoco.StateError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    client.respond(*given)
    assert np.all(client.spent == 1.0)


def test_guarantee(devices):
    device = devices(2.5, max_reports=4)[0]
    guarantee = device.guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.view) == (2.5, 0.0, "server")
    assert guarantee.certified
    assert guarantee.horizon == 4
    assert dpoco.Guarantee.from_json(guarantee.to_json()) == guarantee
    if isinstance(device, LocalClient):
        device.close()
    assert not devices(2.5, simulation_seed=0)[0].guarantee.certified

"""Ledgers as values: stored form, threads, refusals that change nothing, text."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import multiprocessing
import pickle
import threading

import numpy as np
import pytest

from dpoco.accounting import Budget, Guarantee, noisy_max, sum_release
from dpoco.accounting import _certificate as certificates
from dpoco.accounting import ledger as ledgers
from dpoco.accounting.ledger import Ledger
from dpoco.errors import BudgetExceeded, CalibrationError, StateError
from dpoco.mechanisms import ContinualSum

from .by_hand import gaussian, restated, stated

BUDGET = Budget(1.0, 1e-6)


def filled(**options):
    ledger = Ledger(BUDGET, **options)
    ledger.charge(gaussian(0.05, truncation_mass=1e-13), "first")
    selection = noisy_max.guarantee(noisy_max.calibrate(4, budget=Budget(0.05, 0.0)))
    ledger.charge(selection, "selection", same_unit=True)
    import dp_accounting as dpa

    ledger.charge(dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(50.0), 3), "an event")
    return ledger


@pytest.mark.parametrize(
    "options",
    [
        {}, {"currency": "renyi"}, {"adaptive": False}, {"currency": "basic"},
        {"side_share": 0.3}, {"adaptive": False, "currency": "gaussian"},
    ],
)  # fmt: skip
def test_round_trip(options):
    if options.get("currency") == "basic":
        ledger = Ledger(BUDGET, **options)
        ledger.charge(gaussian(0.05), "first")
    else:
        ledger = filled(**options)
    again = Ledger.from_json(ledger.to_json())
    assert again.to_json() == ledger.to_json()
    assert (again.spent, again.remaining, again.currency) == (
        ledger.spent, ledger.remaining, ledger.currency,
    )  # fmt: skip
    assert again.guarantee == ledger.guarantee
    assert again.report() == ledger.report()
    assert [e.price for e in again.entries] == [e.price for e in ledger.entries]
    assert Ledger.from_json(Ledger(BUDGET).to_json()).entries == ()


def test_ledgers_whose_relation_said_two_things():
    """What a joint guarantee of then changed is unknown: it is charged as for emptied rounds."""
    ledger = Ledger(BUDGET, view="others", currency="gaussian")
    ledger.charge(dataclasses.replace(gaussian(0.02), view="others"), "a bandit")
    event = pytest.importorskip("dp_accounting").GaussianDpEvent(50.0)
    ledger.charge(event, "an event")
    old = json.loads(ledger.to_json())
    for record in (old, *old["entries"], old["entries"][0]["guarantee"]):
        record.pop("change", None)
        del record["view"]
        record |= {"version": 1, "relation": "joint"}
    found = Ledger.from_dict(old)
    assert (found.relation, found.view) == ("replace", "others")
    assert [e.price.main for e in found.entries] == [
        pytest.approx(4.0 * e.price.main) for e in ledger.entries
    ]
    assert Ledger.from_json(found.to_json()).to_json() == found.to_json()
    for record in (old, *old["entries"], old["entries"][0]["guarantee"]):
        record["relation"] = "local"
    assert (found := Ledger.from_dict(old)).view == "server"
    assert [e.price for e in found.entries] == [e.price for e in ledger.entries]


def test_records_that_are_none():
    record = filled().to_dict()
    overspent = {**record, "entries": record["entries"] * 40, "ways": record["ways"] * 40}
    entry = record["entries"][0]
    for wrong in (
        {**record, "kind": "x"}, {**record, "version": 3}, {**record, "more": 1},
        {**record, "budget": {"epsilon": 1.0}}, {**record, "relation": "x"},
        {**record, "view": "x"}, overspent,
        {**record, "entries": 3}, {**record, "ways": record["ways"][1:]}, {**record, "ways": 3},
        {**record, "ways": ["gold"] * 3}, {**record, "ways": [{}] * 3},
        {**record, "entries": [3]}, {**record, "unit": 3},
        {**record, "entries": [{**entry, "label": 3}]}, {**record, "currency": "gold"},
        {**record, "entries": [{**entry, "view": "server"}]}, {**record, "side_share": -1.0},
        {**record, "entries": [{**entry, "guarantee": None}]}, {**record, "adaptive": 1},
        {**record, "entries": [{**entry, "guarantee": None, "cost": {"parts": [{"count": 0}]}}]},
        {**record, "entries": [{**entry, "same_unit": 0}]},
        {**record, "entries": [
            {**entry, "guarantee": None, "cost": {"parts": [{"count": 1, "mu": -1.0}]}}
        ]},
        {**record, "entries": [
            {**entry, "guarantee": None, "cost": {"parts": [{"count": 1, "gold": 1.0}]}}
        ]},
    ):  # fmt: skip
        with pytest.raises(StateError):
            Ledger.from_dict(wrong)
    for text in ("", "[]", "{", json.dumps(overspent)):
        with pytest.raises(StateError):
            Ledger.from_json(text)


def test_a_stored_ledger_keeps_its_currency_and_its_prices(monkeypatch):
    """A share of the side may not pay for a point that all of the side would pay for."""
    import dataclasses as dc

    # Points that say more than the parameters do.
    for module in (certificates, ledgers):
        monkeypatch.setattr(module, "contradicts_itself", lambda stated: False)
    charge = restated(gaussian(0.2), epsilon=0.05, delta=3e-7, mu=None, rho=0.02)
    ledger = Ledger(BUDGET, currency="renyi", side_share=0.5)
    ledger.open(lambda budget: dc.make_dataclass("L", ["guarantee"])(charge), "small", share=0.9)
    assert ledger.entries[0].way == "point"
    other = Ledger(BUDGET, currency="gaussian", side_share=0.5)
    both = restated(charge, mu=0.1, rho=0.02)
    other.open(lambda budget: dc.make_dataclass("L", ["guarantee"])(both), "small", share=0.5)
    assert other.entries[0].way == "parts"
    assert other.affordable(restated(both, mu=None))
    for book in (ledger, other):
        again = Ledger.from_json(book.to_json())
        assert [(e.way, e.price) for e in again.entries] == [(e.way, e.price) for e in book.entries]
    first = Ledger(BUDGET)
    first.charge(gaussian(0.05), "decides")
    assert first.to_dict()["currency"] == "gaussian"


def test_a_forked_process_reads_and_does_not_spend():
    """Six jobs that inherit a ledger of 1 would spend 0.9 each, and the parent would see none."""
    ledger = Ledger(BUDGET)
    ledger.charge(gaussian(0.05), "before")

    def attempts(send):
        refused = 0
        for act in (
            lambda: ledger.charge(gaussian(0.01), "x"),
            lambda: ledger.affordable(gaussian(0.01)),
            lambda: ledger.open(lambda budget: None, "x"),
            ledger.to_json,
        ):
            try:
                act()
            except StateError:
                refused += 1
        send.send(
            (refused, len(ledger.entries), ledger.spent == before, "1 charges" in repr(ledger))
        )

    before = ledger.spent
    context = multiprocessing.get_context("fork")
    with ledger._lock:  # as a thread that charges while the process forks
        receive, send = context.Pipe(duplex=False)
        child = context.Process(target=attempts, args=(send,))
        child.start()
    assert receive.poll(60.0)
    assert receive.recv() == (4, 1, True, True)
    child.join(60.0)
    ledger.charge(gaussian(0.05), "after")
    assert len(ledger.entries) == 2


def test_sums_run_along_and_are_exact(monkeypatch):
    """A charge looks at no earlier entry; what it adds up is what fsum adds up."""
    ledger = Ledger(Budget(5.0, 1e-5), currency="gaussian")
    rng = np.random.default_rng(4)
    for mu in np.exp(rng.uniform(-9.0, -2.0, 40)):
        ledger.charge(gaussian(float(mu), truncation_mass=1e-15), "x")
    for name in ("main", "side"):
        total = math.fsum(getattr(entry.price, name) for entry in ledger.entries)
        assert getattr(ledger._total(), name) == total
    ledger._entries = None  # nobody may look
    monkeypatch.setattr(Ledger, "_enter", lambda self, entry, currency: None)
    ledger.charge(gaussian(0.01), "y")


def test_copies_are_refused():
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            way(Ledger(BUDGET))


def test_refusals_change_nothing():
    ledger = filled()
    before = ledger.to_json()
    loud = {"match": "'loud' costs mu"}
    with pytest.raises(BudgetExceeded, **loud):
        ledger.charge(gaussian(0.5), "loud")
    with pytest.raises(BudgetExceeded, match="no privacy"):
        ledger.charge(Guarantee.none(3), "nothing")
    with pytest.raises(ValueError, match="same_unit"):
        ledger.charge(dataclasses.replace(gaussian(0.001), unit="one user"), "other unit")
    with pytest.raises(ValueError, match="label"):
        ledger.charge(gaussian(0.001), " ")
    with pytest.raises(TypeError, match="Guarantee or a dp_accounting event"):
        ledger.charge(0.1, "a number")
    with pytest.raises(ValueError, match="relation"):
        ledger.charge(gaussian(0.001), "x", relation="swap")
    for share in (0.0, 1.5, math.nan):
        with pytest.raises(ValueError, match="share"):
            ledger.open(lambda budget: None, "x", share=share)
    assert not ledger.affordable(gaussian(0.5))
    assert ledger.affordable(gaussian(0.01))
    with pytest.raises(ValueError, match="unit"):
        ledger.affordable(dataclasses.replace(gaussian(0.001), unit="one user"))
    assert ledger.to_json() == before


def test_bad_ledgers():
    for wrong, kind in (
        ({"relation": "swap"}, ValueError), ({"view": "joint"}, ValueError),
        ({"relation": "zero_out", "view": "server"}, ValueError),
        ({"currency": "gold"}, ValueError),
        ({"side_share": 1.0}, ValueError), ({"adaptive": 1}, TypeError), ({"unit": 3}, TypeError),
    ):  # fmt: skip
        with pytest.raises(kind):
            Ledger(BUDGET, **wrong)
    with pytest.raises(TypeError, match="Budget"):
        Ledger(1.0)
    with pytest.raises(CalibrationError, match="delta"):
        Ledger(Budget(1.0, 0.0), currency="gaussian")
    assert Ledger(Budget(1.0, 0.0)).currency == "basic"


def test_a_learner_is_never_seen_before_it_is_charged():
    """`make` fails or its learner does not fit: nothing is charged, and nothing handed out."""
    ledger = Ledger(BUDGET)
    made = []

    class Loud:
        def __init__(self, budget):
            made.append(budget)
            self.guarantee = gaussian(5.0)

    with pytest.raises(BudgetExceeded, match="nothing fits"):
        ledger.open(Loud, "loud")
    assert len(made) == 13  # from 1 down to 1 / 4096
    assert made[-1].epsilon == 2.0**-12

    def fail(budget):
        raise CalibrationError("never")

    with pytest.raises(BudgetExceeded):
        ledger.open(fail, "never")
    with pytest.raises(ZeroDivisionError):
        ledger.open(lambda budget: 1 // 0, "broken")
    assert ledger.entries == ()
    assert ledger.spent == 0.0
    assert ledger.remaining == BUDGET


def test_threads_share_one_budget():
    """200 threads ask for a fortieth each: forty get it, whoever comes first."""
    ledger = Ledger(Budget(1.0, 0.0))
    pure = stated(pure=0.025)
    barrier, refused = threading.Barrier(50), []

    def work():
        barrier.wait()
        for _ in range(4):
            try:
                ledger.charge(pure, "share")
            except BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries) == 40
    assert len(refused) == 160
    assert math.fsum(e.price.main for e in ledger.entries) <= 1.0


def test_a_ledger_is_certified_only_if_every_charge_is():
    event = pytest.importorskip("dp_accounting").GaussianDpEvent(50.0)
    own = sum_release.guarantee(sum_release.calibrate(2, horizon=9, budget=BUDGET), budget=BUDGET)
    for charge, options, certified in (
        (own, {}, True), (own, {"same_unit": True}, False), (event, {}, False),
    ):  # fmt: skip
        book = Ledger(Budget(2.0, 1e-5))
        assert book.charge(charge, "only", **options).certified is certified
        assert book.guarantee.certified is certified
        assert ("NOT CERTIFIED" in book.report()) is not certified
        believed = [text for text in book.guarantee.conditions if "PROMISED" in text]
        assert bool(believed) is not certified


def test_the_guarantee_of_a_ledger():
    ledger = filled()
    g = ledger.guarantee
    assert (g.epsilon, g.delta, g.change, g.view) == (1.0, 1e-6, "replace", "everyone")
    assert g.unit == "one round"
    assert not g.certified  # of scores whose sensitivity is promised
    assert g.delta_at(1.0) == 1e-6
    assert Guarantee.from_json(g.to_json()) == g
    assert "PROMISED, not enforced: all charges are about one round." in g.conditions
    assert any(text.startswith("first: ") for text in g.conditions)
    assert "first, selection, an event" in g.mechanism
    ledger.charge(gaussian(0.01, seeded=True), "a test")
    assert not ledger.guarantee.certified
    assert "NOT CERTIFIED" in ledger.report()
    plan = filled(adaptive=False)
    assert plan.guarantee.epsilon < 0.6
    assert all(entry.price == (0.0, 0.0) for entry in plan.entries)
    assert (
        plan.guarantee.conditions[0] == "The operator fixed all charges before the first release."
    )
    joint = Ledger(BUDGET, view="others")
    joint.charge(dataclasses.replace(gaussian(0.01), view="others"), "bandit")
    assert any("Nobody who reacts" in text for text in joint.guarantee.conditions)


def test_the_report_shows_every_number():
    ledger = filled()
    text = ledger.report()
    assert text == str(ledger)
    assert f"Spent:      {ledger.spent:.2%}" in text
    assert f"Left:       epsilon = {ledger.remaining.epsilon:.6g}" in text
    assert "for one more charge with Gaussian noise" in text
    for number, entry in enumerate(ledger.entries, 1):
        assert f"{number}. {entry.label}: " in text
        assert f"mu^2 {entry.price.main:.4g}" in text
    assert "had these charges been fixed in advance" in text
    assert "docs/privacy/ledger.md" in text
    assert "3 charges" in repr(ledger)
    empty = Ledger(BUDGET)
    assert "Charges:    none" in empty.report()
    assert "decided by the first charge" in empty.report()
    full = Ledger(Budget(1.0, 0.0))
    full.charge(stated(pure=1.0), "all")
    assert "Left:       nothing" in full.report()
    assert full.remaining is None


def test_a_ledger_of_people_takes_guarantees_for_people_only():
    single = Budget(0.2, 1e-6)
    parameters = sum_release.calibrate(3, horizon=100, budget=single)
    one = sum_release.guarantee(parameters, budget=single)
    book = Ledger(Budget(2.0, 1e-5))
    charges = [book.charge(one.for_person(*rule), "a sum") for rule in ((3, 9), (2, 1))]
    prices = [entry.price.main for entry in charges]
    assert prices == [one.for_person(3, 9).mu ** 2, one.for_person(2).mu ** 2]
    assert book.unit == book.guarantee.unit == "one person"
    for rule in ("at most 3 rounds, any two at least 9 apart", "at most 2 rounds"):
        assert any(f"Each person contributes {rule}" in text for text in book.guarantee.conditions)
    for other in (one, one.for_person(1)):  # says nothing of people, or of her only round
        with pytest.raises(ValueError, match="protects 'one person'"):
            book.charge(other, "mixed")
    assert Ledger.from_json(book.to_json()).guarantee == book.guarantee
    book.charge(one.for_person(1), "her only round", same_unit=True)
    records = Ledger(Budget(2.0, 1e-5))
    records.charge(one, "a sum")
    with pytest.raises(ValueError, match="protects 'one round'"):
        records.charge(one.for_person(3, 9), "mixed")


@pytest.mark.parametrize("adaptive", [True, False])
def test_what_roundings_leave_of_a_budget_is_nothing(adaptive):
    """A share of 1e-12 is no budget that anybody could spend."""
    ledger = Ledger(BUDGET, adaptive=adaptive)
    ledger.open(lambda budget: ContinualSum(2, horizon=100, budget=budget, bound=1.0), "all of it")
    assert 1.0 - 1e-9 < ledger.spent <= 1.0
    assert ledger.remaining is None
    assert "nothing" in ledger.report()


def test_a_doubled_charge_is_said_where_it_is_seen():
    """In the report, in the guarantee and in a refusal, each with the cheap way."""
    emptied = dataclasses.replace(gaussian(0.1), change="zero_out")
    cheap = "a ledger with relation='zero_out' charges it once"
    doubled, once = Ledger(BUDGET), Ledger(BUDGET, relation="zero_out")
    for ledger in (doubled, once):
        ledger.charge(emptied, "a sum")
    assert doubled.entries[0].price.main == pytest.approx(4.0 * once.entries[0].price.main)
    assert cheap in " ".join(doubled.report().split())
    assert any(cheap in text for text in doubled.guarantee.conditions)
    assert cheap not in once.report()
    large = dataclasses.replace(gaussian(0.2), change="zero_out")
    with pytest.raises(BudgetExceeded, match="relation='zero_out'"):
        doubled.charge(large, "more")
    once.charge(large, "more")
    fixed = Ledger(BUDGET, adaptive=False)
    while fixed.affordable(large):
        fixed.charge(large, "more")
    with pytest.raises(BudgetExceeded, match="relation='zero_out'"):
        fixed.charge(large, "more")

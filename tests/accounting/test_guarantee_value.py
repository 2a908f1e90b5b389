"""Guarantees: curves, stored form, text, and what other accountants make of their events."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import pickle
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpoco.accounting as package
from dpoco.accounting import (
    Budget,
    Guarantee,
    events,
    noisy_max,
    polyhedral_frank_wolfe,
    sum_release,
)
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.rdp import zcdp_delta, zcdp_epsilon
from dpoco.accounting.statement import local_guarantee
from dpoco.domains import LpBall
from dpoco.errors import BudgetExceeded, StateError
from dpoco.local import BitRandomizer
from dpoco.losses import LogisticLoss
from dpoco.privacy.mechanisms.local_report import LocalReport

from .by_hand import restated, stated


def sum_guarantee(**options):
    budget = Budget(1.0, 1e-6)
    arguments = {"horizon": 1000, "budget": budget, "bound": 2.0, "norm": 3.0} | options
    arguments.setdefault("numerics", "float")
    parameters = sum_release.calibrate(20, **arguments)
    return sum_release.guarantee(parameters, budget=budget)


BASE, LATTICE = sum_guarantee(), sum_guarantee(numerics="lattice", norm=2.0)
CURVED = stated(
    horizon=20, profile={"kind": "bounded_range", "range": 0.1, "count": 20}, truncation_mass=1e-12
)


def coupled(**numbers):
    """Return the guarantee of draws of mu = 0.3 with bits."""
    bits = {"forced_switch": 0.05, "factor_floor": 0.9, "later_bits": 100, "shift": 2e-3}
    profile = {"kind": "gaussian", "mu": 0.3, **bits, **numbers}
    return restated(CURVED, epsilon=4.0, mu=None, profile=profile, truncation_mass=0.0)


COUPLED = [coupled(), restated(coupled(forced_switch=1.0, later_bits=0, shift=0.0), mu=0.3)]
COUPLED = [dataclasses.replace(each, epsilon=each.loss.epsilon(1e-6)) for each in COUPLED]


def test_a_guarantee_states_its_budget():
    assert BASE.epsilon <= 1.0
    assert BASE.epsilon == pytest.approx(1.0, rel=1e-9)
    assert BASE.delta == 1e-6
    assert BASE.private
    assert BASE.certified
    assert BASE.noise_multiplier == pytest.approx(1.0 / BASE.mu, rel=1e-15)
    assert BASE.noise_scale == pytest.approx(
        BASE.sensitivity * BASE.column_norm / BASE.mu, rel=1e-14
    )
    assert BASE.sensitivity == pytest.approx(4.0 * 20 ** (1 / 2 - 1 / 3), rel=1e-14)
    assert BASE.sensitivity_norm == "l2"
    assert BASE.rho == pytest.approx(BASE.mu**2 / 2)


def test_the_curve_is_the_exact_one_and_its_inverse():
    assert BASE.delta_at(1.0) <= 1e-6
    for epsilon in (0.0, 0.3, 2.0, 5.0):
        exact = gaussian_delta(epsilon, BASE.mu) + (1 + math.exp(epsilon)) * BASE.truncation_mass
        assert BASE.delta_at(epsilon) == pytest.approx(min(1.0, exact), rel=1e-9)
    for delta in (1e-9, 1e-4, 0.01):
        epsilon = BASE.epsilon_at(delta)
        assert BASE.delta_at(epsilon) <= delta
        assert epsilon == pytest.approx(gaussian_epsilon(BASE.mu, delta), rel=1e-5)
    assert BASE.epsilon_at(1e-18) == math.inf  # the truncated tails alone cost more
    assert BASE.truncation_mass == 20_000 / 2**64


def test_a_zcdp_guarantee_has_the_zcdp_curve():
    other = restated(BASE, mu=None, rho=0.05, epsilon=4.0, truncation_mass=1e-12)
    charged = zcdp_delta(2.0, 0.05) + (1 + math.exp(2.0)) * 1e-12
    assert other.delta_at(2.0) == pytest.approx(charged, rel=1e-12)
    assert other.delta_at(other.epsilon_at(1e-5)) <= 1e-5
    bare = restated(BASE, mu=None, rho=None, delta=0.0)
    assert bare.delta_at(1.0) == 0.0
    assert bare.delta_at(0.5) == 1.0
    assert bare.epsilon_at(0.5) == bare.epsilon
    with pytest.raises(ValueError, match="event"):
        _ = bare.event


def test_no_privacy_says_so():
    none = Guarantee.none(10)
    assert not none.private
    assert not none.certified
    assert none.epsilon == math.inf
    assert none.delta_at(100.0) == 1.0
    assert none.epsilon_at(0.5) == math.inf
    assert "No differential privacy" in str(none)
    assert repr(none).startswith("<Guarantee: NOT PROTECTED: ")
    assert Guarantee.from_json(none.to_json()) == none
    silent = sum_release.calibrate(3, horizon=10, budget=None)
    assert silent.mechanism.scale == 0.0
    assert not sum_release.guarantee(silent).private


def test_the_text_names_what_who_when_and_where():
    text = str(BASE)
    for part in ("epsilon = 1,", "delta = 1e-06", "one round", "1000 rounds", "l3 norm 2"):
        assert part in text
    assert "Proof:" in text
    assert "docs/privacy/continual_sum.md" in text
    assert "rounding of double precision" in text
    assert "NOT CERTIFIED" not in text
    assert repr(BASE).count("\n") == 0
    seeded = sum_release.guarantee(sum_release.calibrate(2, horizon=9, budget=None))
    assert "No differential privacy" in str(seeded)


def test_the_text_speaks_of_the_unit():
    with pytest.raises(ValueError, match="protects 'one round', not 'one record'"):
        dataclasses.replace(BASE, unit="one record")
    bare = {"description": None, "certified": True}
    records = dataclasses.replace(BASE, unit="one record", horizon=1, **bare)
    text = " ".join(str(records).split())
    assert "round" not in text.split("Stated by")[0]
    assert "two data sets that differ in the data of one record, replaced by any other data" in text
    assert "released once" in text
    assert repr(records).endswith("replace one record, 1 release>")
    several = dataclasses.replace(records, horizon=5, change="zero_out")
    assert "over at most 5 releases" in str(several)
    assert "in the data of one record, empty in one of them" in str(several)
    user = dataclasses.replace(BASE, unit="one user's record", view="others", **bare)
    assert (
        "one user's record: all others together, who do not see what the user is shown, cannot"
        in str(user)
    )
    assert "1000 rounds" in str(user)
    assert repr(dataclasses.replace(BASE, horizon=1)).endswith("1 round>")
    assert "at most 1 release" in repr(Guarantee.none(1, unit="one record"))
    assert "what is released may reveal" in str(Guarantee.none(1, unit="one record"))


def test_seeded_noise_is_not_certified():
    parameters = sum_release.calibrate(2, horizon=9, budget=Budget(1.0, 1e-5))
    seeded = sum_release.guarantee(parameters, seeded=True)
    assert not seeded.certified
    assert "NOT CERTIFIED" in str(seeded)
    assert "SEEDED" in str(seeded)
    assert seeded.delta == 1.0 / 90


def test_round_trips_are_exact():
    claimed = dataclasses.replace(
        BASE, claimed=(0.1, 1e-6), paper_epsilon=1.0 / 3.0, horizon=999, regret_bound=math.pi
    )
    notes = {"draws": 600.0, "sampler": "exact", "step size": math.inf, "block": None}
    for guarantee in (BASE, claimed, dataclasses.replace(CURVED, details=notes), *COUPLED):
        assert Guarantee.from_dict(guarantee.to_dict()) == guarantee
        assert Guarantee.from_json(guarantee.to_json()) == guarantee
        assert pickle.loads(pickle.dumps(guarantee)) == guarantee
        assert json.loads(guarantee.to_json())["version"] == 2
        assert hash(guarantee) == hash(Guarantee.from_json(guarantee.to_json()))
    notes["draws"] = 3.0
    assert dataclasses.replace(CURVED, details=notes).details is not notes


def test_records_without_the_later_fields_still_load():
    plain = dataclasses.replace(Guarantee.none(3), epsilon=8.0, delta=1e-6)
    record = plain.to_dict()
    assert not {"profile", "regret_bound", "details", "numerics", "description"} & set(record)
    assert Guarantee.from_dict(record) == plain
    full = record | {"profile": None, "regret_bound": None, "details": {}}
    assert Guarantee.from_dict(full) == plain


def test_the_text_states_composition_regret_and_details():
    details = {"forced switch": 0.05, "sampler": "exact", "horizon left": None}
    text = str(dataclasses.replace(COUPLED[0], regret_bound=501.0, details=details, horizon=1002))
    for part in (
        "mu = 0.3 (GDP) together, the bit of the changed block and 100 later bits",
        "Regret:     at most 501 in expectation (0.5 a round)",
        "do not depend on the decisions",
        "forced switch: 0.05",
        "sampler: exact",
        "horizon left: none",
    ):
        assert part in text
    bare = dataclasses.replace(Guarantee.none(10), regret_bound=5.0, details={"block": 2.0})
    assert "Regret:     at most 5 " in str(bare)
    assert "block: 2" in str(bare)
    assert "Regret" not in str(COUPLED[0])
    assert "bit" not in str(COUPLED[1]).split("Composed:")[1].split("\n")[0]


def test_draws_without_random_bits_are_gaussian():
    pytest.importorskip("dp_accounting")
    assert COUPLED[1].event == events.gaussian_event(0.3)
    assert COUPLED[1].delta_at(1.0) == gaussian_delta(1.0, 0.3)
    assert COUPLED[1].epsilon_at(1e-6) == pytest.approx(gaussian_epsilon(0.3, 1e-6), rel=1e-12)


@pytest.mark.parametrize(
    ("relation", "change", "view"),
    [("replace", "replace", "everyone"), ("zero_out", "zero_out", "everyone"),
     ("local", "replace", "server"), ("joint", "zero_out", "others")],
)  # fmt: skip
def test_records_whose_relation_said_two_things(relation, change, view):
    now = dataclasses.replace(BASE, change=change, view=view, description=None)
    record = {k: v for k, v in now.to_dict().items() if k not in ("change", "view")}
    old = record | {"version": 1, "relation": relation}
    assert Guarantee.from_dict(old) == now
    for wrong in ({"version": 2}, {"change": "replace"}, {"relation": ["joint"]}):
        with pytest.raises(StateError):
            Guarantee.from_dict(old | wrong)


@settings(max_examples=100, deadline=None)
@given(
    epsilon=st.floats(1e-300, 1e300),
    mu=st.floats(1e-9, 1e3),
    mass=st.floats(0.0, 1.0),
)
def test_any_float_survives_json(epsilon, mu, mass):
    stated = {"mu": mu, "rho": None, "description": None}
    other = restated(BASE, epsilon=math.inf, truncation_mass=mass, **stated)
    assert Guarantee.from_json(other.to_json()) == other
    other = restated(other, epsilon=epsilon, mu=None)
    assert Guarantee.from_json(other.to_json()) == other


EDITS = [
    ("epsilon", 0.1), ("epsilon", 1.01), ("epsilon", 0.99), ("delta", 1e-9), ("mu", 0.1),
    ("rho", 0.01), ("noise_scale", 2.0), ("column_norm", 0.5), ("noise_multiplier", 9.0),
    ("sensitivity", 3.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "factor"), EDITS)
def test_edited_numbers_contradict_the_others(name, factor):
    record = {**BASE.to_dict(), name: getattr(BASE, name)}  # as earlier versions repeat numbers
    assert Guarantee.from_dict(record) == BASE
    changed = record | {name: factor * record[name] if name != "epsilon" else factor}
    with pytest.raises(StateError, match="contradicts itself"):
        Guarantee.from_dict(changed)
    ledger = Ledger(Budget(5.0, 1e-5))
    ledger.charge(BASE, "x")
    stored = json.loads(ledger.to_json())
    stored["entries"][0]["guarantee"] = changed
    with pytest.raises(StateError):
        Ledger.from_dict(stored)


@pytest.mark.parametrize(
    "guarantee",
    [
        noisy_max.guarantee(noisy_max.calibrate(4, budget=Budget(0.5, 0.0))),
        CURVED,
        local_guarantee(
            LocalReport(0.5, 9, (BitRandomizer(0.5).law,)), released="bits", delta=1e-6
        ),
    ],
)
def test_edited_profiles_contradict_epsilon(guarantee):
    record = guarantee.to_dict()
    assert Guarantee.from_dict(record) == guarantee
    name = next(n for n in ("epsilon", "range") if n in record["profile"])
    for factor in (0.5, 0.99, 1.01):
        edited = record["profile"] | {name: factor * record["profile"][name]}
        with pytest.raises(StateError, match="contradicts itself"):
            Guarantee.from_dict(record | {"profile": edited})


PURE = noisy_max.guarantee(noisy_max.calibrate(4, budget=Budget(0.5, 0.0)))
REPEATED = noisy_max.guarantee(
    noisy_max.calibrate(4, horizon=50, noise="exponential", budget=Budget(0.5, 1e-6)),
    budget=Budget(0.5, 1e-6),
)


SELECTED = polyhedral_frank_wolfe.guarantee(
    LpBall(3, 1.0),
    LogisticLoss(1.0),
    polyhedral_frank_wolfe.calibrate(
        LpBall(3, 1.0), LogisticLoss(1.0), horizon=100, budget=Budget(0.5, 0.0)
    ),
)


@pytest.mark.parametrize(
    ("guarantee", "added"),
    [
        (PURE, {"mu": 1e-9}), (PURE, {"rho": 1e-9}), (PURE, {"truncation_mass": 1e-6}),
        (SELECTED, {"rho": 1e-9}), (SELECTED, {"mu": 1e-9}),
        (PURE, {"rho": 1e-5, "delta": 1e-6, "epsilon": zcdp_epsilon(1e-5, 1e-6)}),
        (REPEATED, {"rho": 1e-5, "epsilon": zcdp_epsilon(1e-5, 1e-6)}),
        (BASE, {"profile": {"kind": "pure", "epsilon": 0.1}, "epsilon": 0.1, "delta": 0.0}),
        (CURVED, {"mu": 0.01, "epsilon": gaussian_epsilon(0.01, 1e-6)}),
        (CURVED, {"rho": 1e-5, "epsilon": zcdp_epsilon(1e-5, 1e-6)}),
        (BASE, {"sensitivity": 0.0}), (LATTICE, {"noise_scale": "inf"}),
    ],
)  # fmt: skip
def test_parameters_that_promise_more_than_the_others_contradict_them(guarantee, added):
    """A ledger prices by each of them."""
    record = guarantee.to_dict()
    assert Guarantee.from_dict(record) == guarantee
    with pytest.raises(StateError, match="contradicts itself"):
        Guarantee.from_dict(record | added)


def test_malformed_records():
    good = BASE.to_dict()
    broken = [
        {}, 3, good | {"version": 3}, good | {"kind": "dpoco.budget"}, good | {"extra": 1},
        {k: v for k, v in good.items() if k != "mu"}, good | {"change": "other"},
        good | {"view": "nobody"}, good | {"view": "server", "change": "zero_out"},
        good | {"relation": "replace"}, good | {"epsilon": "many"}, good | {"epsilon": -1.0},
        good | {"noise_scale": "nan"}, good | {"truncation_mass": None},
        good | {"noise_multiplier": True}, good | {"claimed": [True, 1e-6]},
        good | {"conditions": 3}, good | {"details": 3}, good | {"profile": 3},
        good | {"profile": {}}, good | {"profile": {"kind": "other"}},
        good | {"claimed": ["a", "b"]},
    ]  # fmt: skip
    for record in broken:
        with pytest.raises(StateError):
            Guarantee.from_dict(record)
    with pytest.raises(StateError):
        Guarantee.from_json("{")


@pytest.mark.parametrize(
    "change",
    [{"epsilon": math.nan}, {"delta": 1.5}, {"mu": 0.0}, {"rho": -1.0}, {"truncation_mass": 2.0}],
)
def test_fields_are_validated(change):
    with pytest.raises(ValueError, match="must be"):
        restated(BASE, **change)
    with pytest.raises(ValueError, match="must be"):
        BASE.delta_at(-1.0)
    with pytest.raises(ValueError, match="must be"):
        BASE.epsilon_at(1.0)
    with pytest.raises(TypeError, match="delta must be a real number; got str"):
        BASE.epsilon_at("1e-9")
    with pytest.raises(TypeError, match="epsilon must be a real number; got str"):
        BASE.delta_at("1")
    assert BASE.epsilon_at(0.0) == math.inf


# -- hand-over to dp_accounting ----------------------------------------------------------------


def test_events():
    accounting = pytest.importorskip("dp_accounting")
    renyi = accounting.rdp.RdpAccountant(
        orders=[1 + 0.05 * k for k in range(1, 2000)], neighboring_relation=events.relation()
    )
    got = renyi.compose(events.zcdp_event(0.1), 3).get_epsilon(1e-5)
    assert got == pytest.approx(zcdp_epsilon(0.3, 1e-5), rel=1e-4)
    assert isinstance(Guarantee.none(3).event, accounting.NonPrivateDpEvent)
    assert BASE.event == events.gaussian_event(BASE.mu)


def test_only_safe_paths_of_dp_accounting_are_used():
    """No randomized-response event is made (count ignored), no REPLACE_ONE asked for (doubled?)."""
    root = Path(package.__file__).parent
    sources = {path.name: path.read_text() for path in root.rglob("*.py")}
    assert "events.py" in sources
    for text in sources.values():
        assert "RandomizedResponseDpEvent(" not in text
        assert "NeighboringRelation.REPLACE_ONE" not in text
    users = [name for name, text in sources.items() if '"dp_accounting"' in text]
    assert users == ["events.py"]
    assert "Accountant" not in sources["events.py"]


def every_kind():
    """Return guarantees of all kinds of curves, exact and with truncated tails."""
    bits = {"forced_switch": 0.05, "factor_floor": 0.9, "later_bits": 100, "shift": 2e-3}
    draws = {"cap": 60, "sensitivity_ratio": 0.03, "b": 0.001, "dimension": 5, "rank": 1}
    tracker = {"learning_rate": 0.1, "forced_switch": 0.1, "batch": 4, "horizon": 100,
               "share_rate": 0.02, "experts": 5, "prior": "share", "max_resamples": 9}  # fmt: skip
    profiles = [
        {"kind": "pure", "epsilon": 0.9},
        {"kind": "gaussian", "mu": 0.3, **bits},
        {"kind": "renyi", "relation": "replace", **draws, **bits},
        {"kind": "tracker", **tracker},
    ]
    loose = restated(BASE, mu=None, rho=None, epsilon=9.0, truncation_mass=0.0)
    curves = [restated(loose, mu=0.25), restated(loose, rho=0.03)]
    curves += [restated(loose, profile=profile) for profile in profiles]
    return curves + [restated(each, truncation_mass=1e-9) for each in curves]


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
@pytest.mark.parametrize("stated", every_kind())
@pytest.mark.parametrize("epsilon", [0.05, 0.4, 0.8])
def test_a_budget_is_kept_exactly_up_to_the_curve(stated, epsilon):
    """What `require` accepts is the region above the curve, in either coordinate."""
    delta = stated.delta_at(epsilon)
    assert 1e-12 < delta < 0.5
    for kept in (Budget(epsilon, delta), Budget(epsilon * (1 + 1e-6), delta)):
        stated.require(kept)
    smaller = epsilon * (1 - 1e-6)
    assert stated.delta_at(smaller) > delta * (1 + 1e-8)  # the curve falls there
    for missed in (Budget(epsilon, delta * (1 - 1e-6)), Budget(smaller, delta)):
        with pytest.raises(BudgetExceeded):
            stated.require(missed)
    with pytest.raises(BudgetExceeded):
        Guarantee.none(10).require(Budget(1e6, 1e-3))


def test_a_pure_budget_is_kept_by_pure_curves_alone():
    pure, *others = (each for each in every_kind() if each.profile is not None)
    pure.require(Budget(0.9, 0.0))
    with pytest.raises(BudgetExceeded):
        pure.require(Budget(0.9 * (1 - 1e-9), 0.0))
    tracker = next(each for each in others if each.profile["kind"] == "tracker")
    largest = tracker.epsilon_at(0.0)
    tracker.require(Budget(largest, 0.0))
    with pytest.raises(BudgetExceeded):
        tracker.require(Budget(largest * (1 - 1e-9), 0.0))
    for each in (BASE, *every_kind()):
        if each.truncation_mass > 0.0 or each.mu is not None:
            with pytest.raises(BudgetExceeded):
                each.require(Budget(500.0, 0.0))


def test_what_another_program_releases_is_added_up_and_never_rounded_down():
    rounded = 0
    for each, releases in itertools.product((0.1, 0.3, 0.7, 1.9), (1, 2, 3, 5, 7, 11, 1000)):
        options = {"horizon": 1000, "releases": releases}
        pure = Guarantee.pure_epsilon(each, **options)
        assert Fraction(pure.epsilon) >= releases * Fraction(each)
        assert pure.epsilon <= math.nextafter(releases * each, math.inf)
        normal = Guarantee.gaussian(
            sensitivity=each, noise_scale=1.0, delta=1e-6, **options
        ).description.sensitivity
        assert Fraction(normal) ** 2 >= releases * Fraction(each) ** 2
        assert normal <= each * math.sqrt(releases) * (1.0 + 1e-15)
        nearest = Fraction(each * releases), Fraction(each * math.sqrt(releases)) ** 2
        rounded += nearest[0] < releases * Fraction(each)
        rounded += nearest[1] < releases * Fraction(each) ** 2
    assert rounded > 5  # sums that are too small when they are rounded to nearest

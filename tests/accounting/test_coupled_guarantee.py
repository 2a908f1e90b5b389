"""Guarantees that carry a composed profile: curve, charge, stored form, text, event."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle

import pytest

from dpoco.accounting import Guarantee, events
from dpoco.errors import StateError
from dpoco.privacy.losses.coupled_bits import CoupledBits
from dpoco.privacy.losses.gaussian import Gaussian, gaussian_delta
from dpoco.privacy.losses.tilted_draws import TiltedDraws

BITS = {"forced_switch": 0.05, "factor_floor": 0.9, "later_bits": 1000, "shift": 0.002}
GAUSSIAN = {"kind": "gaussian", "mu": 0.3, **BITS}
DRAWS = {"cap": 600, "sensitivity_ratio": 0.01, "b": 0.001, "dimension": 5, "rank": 1}
RENYI = {"kind": "renyi", "relation": "replace", **DRAWS, **BITS}
TILTED = TiltedDraws(change="replace", **DRAWS, **BITS)
SCHEDULED = {"forced_switch": 1.0, "factor_floor": 1.0, "later_bits": 0, "shift": 0.0}


def guarantee(coupling, **fields):
    own = {
        "epsilon": 8.0, "delta": 1e-6, "change": "replace", "view": "everyone", "sensitivity": 2.0,
        "sensitivity_norm": "l2", "noise_scale": 200.0, "calibration": "tight", "certified": True,
        "reference": "Theorem A (docs/privacy/gibbs_draws.md)", "profile": coupling,
        "conditions": ("losses are Lipschitz",),
    }  # fmt: skip
    return dataclasses.replace(Guarantee.none(1002, "all decisions"), **{**own, **fields})


def test_the_curve_is_the_composed_profile():
    stated = guarantee(GAUSSIAN)
    loss = CoupledBits(draws=0.3, **BITS)
    for epsilon in (0.0, 0.5, 2.0):
        assert stated.delta_at(epsilon) == loss.delta(epsilon)
    for delta in (1e-3, 1e-9):
        assert stated.epsilon_at(delta) == loss.epsilon(delta)
    renyi, loss = guarantee(RENYI), TILTED
    for epsilon in (0.5, 2.0):
        assert renyi.delta_at(epsilon) == loss.delta(epsilon)
    assert renyi.epsilon_at(1e-5) == loss.epsilon(1e-5)


def test_inexact_draws_are_charged():
    exact, mass = guarantee(GAUSSIAN), 1e-8
    charged = guarantee(GAUSSIAN, truncation_mass=mass)
    for epsilon in (0.5, 2.0):
        want = exact.delta_at(epsilon) + (1 + math.exp(epsilon)) * mass
        assert charged.delta_at(epsilon) == pytest.approx(want, rel=1e-12)
    for delta in (1e-3, 1e-6):
        epsilon = charged.epsilon_at(delta)
        assert charged.delta_at(epsilon) <= delta
        assert exact.epsilon_at(delta) < epsilon < 1.1 * exact.epsilon_at(delta)
        assert charged.delta_at(epsilon * (1 - 1e-6)) > delta
    assert guarantee(GAUSSIAN, truncation_mass=1e-5).epsilon_at(1e-6) == 8.0  # the stated point
    assert guarantee(GAUSSIAN, truncation_mass=1e-5, delta=1e-3).epsilon_at(1e-6) == math.inf
    renyi = guarantee(RENYI, truncation_mass=mass)
    assert renyi.delta_at(renyi.epsilon_at(1e-5)) <= 1e-5
    assert renyi.epsilon_at(1e-5) > guarantee(RENYI).epsilon_at(1e-5)


@pytest.mark.parametrize("coupling", [GAUSSIAN, RENYI, GAUSSIAN | SCHEDULED, None])
def test_round_trips_are_exact(coupling):
    epsilon = 8.0 if coupling is None else guarantee(coupling, epsilon=99.0).epsilon_at(1e-6)
    stated = guarantee(
        coupling,
        epsilon=epsilon,
        regret_bound=1.0 / 3.0,
        details={"draws": 600.0, "sampler": "exact", "step size": math.inf, "block": None},
    )
    assert Guarantee.from_json(stated.to_json()) == stated
    assert Guarantee.from_dict(stated.to_dict()) == stated
    assert pickle.loads(pickle.dumps(stated)) == stated
    assert hash(stated) == hash(Guarantee.from_json(stated.to_json()))
    assert json.loads(stated.to_json())["version"] == 2


def test_records_without_the_later_fields_still_load():
    plain = guarantee(None)
    record = plain.to_dict()
    assert not {"profile", "regret_bound", "details"} & set(record)
    assert Guarantee.from_dict(record) == plain
    full = record | {"profile": None, "regret_bound": None, "details": {}}
    assert Guarantee.from_dict(full) == plain


@pytest.mark.parametrize(
    "coupling",
    [
        {},
        3,
        {"kind": "other", "mu": 1.0},
        GAUSSIAN | {"extra": 1},
        {k: v for k, v in GAUSSIAN.items() if k != "mu"},
        GAUSSIAN | {"mu": -1.0},
        GAUSSIAN | {"mu": "many"},
        GAUSSIAN | {"later_bits": 2.5},
        GAUSSIAN | {"forced_switch": 0.0},
        GAUSSIAN | {"later_bits": math.inf},
        RENYI | {"relation": "other"},
        RENYI | {"cap": -1},
        RENYI | {"b": math.nan},
    ],
)
def test_malformed_profiles(coupling):
    with pytest.raises(ValueError):  # noqa: PT011 - many texts
        guarantee(coupling)
    good = guarantee(GAUSSIAN).to_dict()
    with pytest.raises(StateError):
        Guarantee.from_dict(good | {"profile": coupling})
    with pytest.raises(StateError):
        Guarantee.from_dict(good | {"details": 3})


def test_the_text_states_composition_regret_and_details():
    text = str(
        guarantee(
            GAUSSIAN,
            regret_bound=501.0,
            details={"forced switch": 0.05, "sampler": "exact", "horizon left": None},
        )
    )
    for part in (
        "mu = 0.3 (GDP) together, the bit of the changed block and 1000 later bits",
        "Regret:     at most 501 in expectation (0.5 a round)",
        "do not depend on the decisions",
        "forced switch: 0.05",
        "sampler: exact",
        "horizon left: none",
        "Proof:",
    ):
        assert part in text
    assert "at most 600 draws" in str(guarantee(RENYI))
    assert "bit" not in str(guarantee(GAUSSIAN | SCHEDULED)).split("Composed:")[1].split("\n")[0]
    bare = dataclasses.replace(Guarantee.none(10), regret_bound=5.0, details={"block": 2.0})
    assert "Regret:     at most 5 " in str(bare)
    assert "block: 2" in str(bare)
    assert "Regret" not in str(guarantee(GAUSSIAN))


def test_only_draws_without_random_bits_have_an_event():
    pytest.importorskip("dp_accounting")
    scheduled = guarantee(GAUSSIAN | SCHEDULED, mu=0.3)
    assert scheduled.event == events.gaussian_event(0.3)
    assert scheduled.delta_at(1.0) == gaussian_delta(1.0, 0.3)
    assert scheduled.epsilon_at(1e-6) == Gaussian(0.3).epsilon(1e-6)
    for coupling in (GAUSSIAN, RENYI, RENYI | SCHEDULED):
        with pytest.raises(ValueError, match="no dp_accounting event"):
            _ = guarantee(coupling).event


def test_the_stored_profile_cannot_be_changed_from_outside():
    mine = dict(GAUSSIAN)
    stated = guarantee(mine, details=(notes := {"a": 1.0}))
    mine["mu"] = 0.1
    notes["a"] = 2.0
    assert stated.profile == GAUSSIAN
    assert stated.details == {"a": 1.0}

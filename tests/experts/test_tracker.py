"""The oblivious tracker's order of calls, bad input and edges."""

from __future__ import annotations

import dataclasses
import importlib.util
import threading
from pathlib import Path

import numpy as np
import pytest

import dpoco
from dpoco import _core
from dpoco.accounting.oblivious_tracker import ObliviousTrackerParameters
from dpoco.experts import ObliviousTracker

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

_spec = importlib.util.spec_from_file_location(
    "tracker_cases", Path(__file__).with_name("tracker_cases.py")
)
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)
T, N, LOSSES, CONFIGURATIONS = cases.T, cases.N, cases.LOSSES, cases.CONFIGURATIONS
make = cases.make


def configured(test):
    return pytest.mark.parametrize("name", CONFIGURATIONS)(test)


# ---- order of calls -----------------------------------------------------------------------------


@configured
@pytest.mark.parametrize("horizon", [1, 2, 3, 7])
def test_the_horizon_is_a_wall(name, horizon):
    learner = make(name, horizon=horizon)
    with pytest.raises(dpoco.HorizonExceeded):
        learner.run(LOSSES[: horizon + 1])
    assert learner.round == 0
    learner.run(LOSSES[:horizon])
    state = learner._engine.state()
    own, played = np.empty(1), np.empty(1, dtype=np.int64)
    for breach in (
        learner.decide,
        lambda: learner.observe(LOSSES[0]),
        lambda: learner.run(LOSSES[:1]),
        lambda: learner._engine.observe(horizon, LOSSES[0]),
        lambda: learner._engine.run(LOSSES[:1].copy(), own, played),
    ):
        with pytest.raises(dpoco.HorizonExceeded):
            breach()
        assert learner._engine.state() == state


def test_every_instruction_set_gives_the_same_decisions():
    losses = np.random.default_rng(3).random((60, 37))
    before = dpoco.random.instruction_set()
    for name in CONFIGURATIONS:
        states = []
        try:
            for chosen in ("baseline", "auto"):
                dpoco.random.select_instruction_set(chosen)
                learner = make(name, experts=37, horizon=60)
                learner.run(losses)
                states.append(learner._engine.state())
        finally:
            dpoco.random.select_instruction_set(before)
        assert states[0] == states[1]


# ---- edges of the parameters --------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["share", "at_most"])
def test_one_expert(prior):
    learner = make(None, experts=1, budget=dpoco.Budget(1.0, 1e-6), switches=3, prior=prior)
    assert learner.guarantee.epsilon == 0.0
    trace = learner.run(np.random.default_rng(0).random((T, 1)))
    assert not trace.decisions.any()
    assert learner.resamples == 0
    assert not any(learner._engine.variates_drawn())


@configured
def test_one_round(name):
    learner = make(name, horizon=1)
    assert 0 <= learner.decide() < N
    learner.observe(LOSSES[0])
    assert learner.resamples == 0
    with pytest.raises(dpoco.HorizonExceeded):
        learner.decide()
    private = make(None, horizon=1, budget=dpoco.Budget(1.0, 1e-6))
    assert private.guarantee.epsilon == 0.0


@pytest.mark.parametrize("options", [{"batch": T}, {"batch": 10 * T}, {"max_resamples": 0}])
@pytest.mark.parametrize("prior", ["share", "at_most"])
def test_without_coins_nothing_depends_on_the_losses(prior, options):
    options = {"switches": 3, "prior": prior, "budget": dpoco.Budget(1.0, 1e-6), **options}
    first, second = (make(None, **options) for _ in range(2))
    assert first.guarantee.epsilon == 0.0
    one = first.run(LOSSES).decisions
    two = second.run(1.0 - LOSSES).decisions
    assert np.array_equal(one, two)
    assert first.resamples == 0
    assert first._engine.variates_drawn() == second._engine.variates_drawn()


def test_a_static_path_stays_between_draws():
    learner = make("static", learning_rate=1e-6, forced_switch=0.0)
    assert len(np.unique(learner.run(LOSSES).decisions)) == 1


def test_at_most_keeps_its_count_within_a_batch():
    for seed in range(20):
        learner = make("at most", seed=seed, batch=T)
        assert len(learner.run(LOSSES).switches) <= 3


def test_always_draws_afresh_at_every_batch():
    learner = make("always", batch=3)
    learner.run(LOSSES)
    assert learner.resamples == (T - 1) // 3
    capped = make("always", batch=3, max_resamples=5)
    for t in range(T):
        assert capped.resamples == min(t // 3, 5)
        capped.decide()
        capped.observe(LOSSES[t])


def test_an_endless_stream():
    learner = make(None, horizon=None, budget=dpoco.Budget(1.0, 1e-6), share_rate=0.01)
    assert learner.horizon == 10**12
    assert learner.parameters.horizon is None
    assert learner.guarantee.epsilon <= 1.0
    learner.run(LOSSES)
    twin = ObliviousTracker._from_bytes(learner._to_bytes())
    assert np.array_equal(twin.run(LOSSES).decisions, learner.run(LOSSES).decisions)
    for wrong in ({"prior": "at_most"}, {"share_rate": 0.0}, {}):
        with pytest.raises(ValueError, match="endless"):
            make(None, horizon=None, budget=dpoco.Budget(1.0, 1e-6), **wrong)
    # Without privacy nothing has to be forgotten.
    options = {"share_rate": 0.0, "learning_rate": 0.5}
    static = make(None, horizon=None, **options).run(LOSSES).decisions
    assert np.array_equal(static, make(None, **options).run(LOSSES).decisions)


def test_fresh_draws_can_be_counted_from_another_thread():
    """A count of its own for readers; `_engine.resamples` is read while rounds are played."""
    learner = make("always", horizon=10**6)
    losses = np.tile(LOSSES, (5000, 1))
    counts, over = [0], threading.Event()

    def watch():
        while not over.is_set():
            counts.append(learner.resamples)

    watcher = threading.Thread(target=watch)
    watcher.start()
    learner.run(losses)
    over.set()
    watcher.join()
    assert counts == sorted(counts)
    assert counts[-1] <= learner.resamples == len(losses)
    assert ObliviousTracker._from_bytes(learner._to_bytes()).resamples == len(losses)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"experts": 0}, "experts"),
        ({"experts": 2.0}, "experts"),
        ({"horizon": 0}, "horizon"),
        ({"switches": -1}, "switches"),
        ({"prior": "uniform"}, "prior"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"forced_switch": 1.5}, "forced_switch"),
        ({"batch": 0}, "batch"),
        ({"share_rate": 0.81}, "share_rate"),
        ({"share_rate": 1e-200}, "share_rate"),
        ({"share_rate": 0.1, "prior": "at_most"}, "share_rate"),
        ({"max_resamples": -1}, "max_resamples"),
        ({"loss_range": (1.0, 1.0)}, "loss_range"),
        ({"on_violation": "warn"}, "on_violation"),
        ({"calibration": "paper"}, "calibration"),
        ({"budget": 1.0}, "budget"),
        ({"source": 3}, "source"),
        ({"experts": 2**32, "switches": 10, "prior": "at_most"}, "experts"),
    ],
)
def test_bad_arguments(options, word):
    # The largest number of experts may be more than the machine has memory for.
    with pytest.raises((TypeError, ValueError, MemoryError), match=word):
        ObliviousTracker(**{"experts": N, "horizon": T, "budget": None, **options})


def test_the_engine_refuses_what_it_cannot_do():
    good = {**_settings(make()), "key": bytes(32), "stream": 0}
    _core.ObliviousTracker(good)
    for name, value in (
        ("learning_rate", 0.0), ("learning_rate", np.nan), ("share_rate", 0.9),
        ("share_rate", 1e-101), ("block", 0), ("forced_switch", -0.1), ("rounds", 0),
        ("experts", 0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r".+"):
            _core.ObliviousTracker({**good, name: value})
    engine = _core.ObliviousTracker(good)
    for state in ((1, 0), (0, N)):
        with pytest.raises(ValueError, match="no such state"):
            engine.nonprivate_set_state(*state)


def _settings(learner):
    p = learner.parameters
    shared = learner._shared_settings({})
    own = ("prior", "switches", "share_rate", "learning_rate", "forced_switch", "max_resamples")
    return {**shared, **{name: getattr(p, name) for name in own}, "block": p.batch}


def test_parameters_override_calibration_but_not_the_budget():
    mild = make(None, horizon=4000, budget=dpoco.Budget(0.5, 1e-6), switches=2).parameters
    learner = make(None, horizon=4000, budget=dpoco.Budget(0.5, 1e-6), parameters=mild)
    assert learner.parameters == mild
    assert learner.guarantee.epsilon <= 0.5
    wild = dataclasses.replace(mild, learning_rate=2.0)
    with pytest.raises(dpoco.BudgetExceeded):
        make(None, horizon=4000, budget=dpoco.Budget(0.5, 1e-6), parameters=wild)
    with pytest.raises(ValueError, match="contradicts"):
        make(None, horizon=4000, parameters=mild, batch=mild.batch + 1)
    with pytest.raises(TypeError, match="ObliviousTrackerParameters"):
        make(None, parameters={"batch": 1})
    assert ObliviousTrackerParameters.from_dict(mild.to_dict()) == mild


# ---- losses -------------------------------------------------------------------------------------


@configured
def test_losses_are_clipped_and_what_is_not_finite_counts_as_zero(name):
    wild = LOSSES.copy()
    wild[3] = [np.nan, np.inf, -np.inf, 7.0, -3.0]
    tame = LOSSES.copy()
    tame[3] = [0.0, 0.0, 0.0, 1.0, 0.0]
    got, want = make(name), make(name)
    assert np.array_equal(got.run(wild).decisions, want.run(tame).decisions)
    assert got._engine.variates_drawn() == want._engine.variates_drawn()
    assert got.nonprivate_violations == 5
    strict = make(name, on_violation="raise")
    strict.run(tame)
    strict = make(name, on_violation="raise")
    strict.decide()
    with pytest.raises(ValueError, match="outside"):
        strict.observe(wild[3])
    assert strict.round == 0


def test_another_range_is_an_affine_map():
    """Powers of two, so that the map is exact."""
    plain, mapped = make("at most"), make("at most", loss_range=(-2.0, 6.0))
    losses = np.round(LOSSES * 1024.0) / 1024.0
    assert np.array_equal(plain.run(losses).decisions, mapped.run(8.0 * losses - 2.0).decisions)
    bound = plain.parameters.regret_bound
    assert mapped.guarantee.regret_bound == pytest.approx(8.0 * bound)
    assert mapped.parameters.regret_bound == bound


@pytest.mark.parametrize("name", ["share", "static", "at most"])
def test_a_common_shift_changes_the_coin_but_not_the_weights(name):
    """The law of a fresh draw is that of the differences; how often one is made is not."""
    first, second = make(name), make(name)
    losses = np.round(LOSSES * 512.0) / 1024.0
    shifts = np.random.default_rng(1).integers(0, 257, size=(T, 1)) / 512.0
    for row, other in zip(losses, losses + shifts, strict=True):
        keep_one, law_one, moves_one = first._engine.nonprivate_kernel(row)
        keep_two, law_two, moves_two = second._engine.nonprivate_kernel(other)
        assert np.abs(law_one - law_two).max() < 1e-13
        assert np.array_equal(moves_one, moves_two)
        if row is not losses[-1]:
            second._engine.nonprivate_set_state(*first._engine.nonprivate_state())
        for learner, values in ((first, row), (second, other)):
            learner.decide()
            learner.observe(values)
    _, law_one, _ = make(name)._engine.nonprivate_kernel(losses[0])
    keep_one, _, _ = make(name)._engine.nonprivate_kernel(np.zeros(N))
    keep_two, _, _ = make(name)._engine.nonprivate_kernel(np.ones(N))
    assert keep_two == pytest.approx(keep_one * np.exp(-0.5), rel=1e-12)

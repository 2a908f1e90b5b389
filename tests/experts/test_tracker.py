"""The oblivious tracker's edges, and what a common shift changes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import dpoco
from dpoco import _core
from dpoco.experts import ObliviousTracker

from . import tracker_cases as cases

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, N, LOSSES, CONFIGURATIONS = cases.T, cases.N, cases.LOSSES, cases.CONFIGURATIONS
make = cases.make


def configured(test):
    return pytest.mark.parametrize("name", CONFIGURATIONS)(test)


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

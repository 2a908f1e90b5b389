"""The oblivious tracker's edges, state files, and what a common shift changes."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.descriptions import unchecked
from tests.probes import probes

import dpoco
from dpoco import _core
from dpoco.experts import ObliviousTracker
from dpoco.learning import state as _state

from . import tracker_cases as cases

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, N, LOSSES, CONFIGURATIONS = cases.T, cases.N, cases.LOSSES, cases.CONFIGURATIONS
make = cases.make


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
    assert learner.plan.mechanism.horizon is None
    assert learner.guarantee.epsilon <= 1.0
    learner.run(LOSSES)
    twin = ObliviousTracker._from_bytes(learner._to_bytes())
    assert np.array_equal(twin.run(LOSSES).decisions, learner.run(LOSSES).decisions)
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
    learner = make()
    good, sizes = learner._mechanism, learner._sizes()

    def build(description, problem):
        claim = {"key": bytes(32), "stream": 0}
        return _core.ObliviousTracker(description, problem, learner.plan.tuning.switches, claim)

    for name, value in (
        ("learning_rate", 0.0), ("learning_rate", np.nan), ("share_rate", 0.9),
        ("share_rate", 1e-101), ("batch", 0), ("forced", -0.1), ("horizon", T - 1),
        ("experts", 0), ("experts", N + 1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r".+"):
            build(unchecked(good, **{name: value}), sizes)
    for wrong in ({"rounds": 0}, {"rounds": T + 1}, {"experts": 0}):
        with pytest.raises(ValueError, match=r".+"):
            build(good, sizes | wrong)
    engine = build(good, sizes)
    for state in ((1, 0), (0, N)):
        with pytest.raises(ValueError, match="no such state"):
            probes.set_path(engine, *state)


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
            probes.set_path(second._engine, *first._engine.nonprivate_state())
        for learner, values in ((first, row), (second, other)):
            learner.decide()
            learner.observe(values)
    _, law_one, _ = make(name)._engine.nonprivate_kernel(losses[0])
    keep_one, _, _ = make(name)._engine.nonprivate_kernel(np.zeros(N))
    keep_two, _, _ = make(name)._engine.nonprivate_kernel(np.ones(N))
    assert keep_two == pytest.approx(keep_one * np.exp(-0.5), rel=1e-12)


# -- state files ----------------------------------------------------------------------------------


def planted(learner, fields):
    """The learner's state with doubles of the payload replaced."""
    header, payload = _state.unpack(learner._to_bytes())
    values = np.frombuffer(payload, dtype="<f8").copy()
    for place, value in fields:
        values[place] = value
    return _state.pack(header, values.tobytes())


def test_costs_that_would_overflow_are_refused():
    """Infinite sums of finite costs left no best expert to be found, and memory beyond was hit."""
    learner = make("at most")
    learner.run(LOSSES[:20])
    switches = 3
    rows = slice(-1 - switches * N, -1)
    first_offset = -1 - switches * N - 1 - switches
    for value in (1.7e308, 1e150):
        level = range(rows.start, rows.start + N)
        both = [*((place, value) for place in level), (first_offset, value)]
        for fields in (both, both[:1], both[-1:], [(first_offset, -value)]):
            with pytest.raises(dpoco.StateError, match="impossible weights"):
                ObliviousTracker._from_bytes(planted(learner, fields))
    with pytest.raises(dpoco.StateError, match="impossible weights"):
        ObliviousTracker._from_bytes(planted(learner, [(first_offset - 1, 1.0)]))
    # What is let in may be wrong, but is played to the end.
    level = range(rows.start, rows.start + N)
    twin = ObliviousTracker._from_bytes(
        planted(learner, [*((place, 1e149) for place in level), (first_offset, 1e149)])
    )
    twin.run(LOSSES[20:-1])
    assert np.isfinite(twin._engine.nonprivate_kernel(LOSSES[-1])[1]).all()


def test_weights_below_what_sharing_leaves_are_refused():
    learner = make("share")
    learner.run(LOSSES[:20])
    weights = range(-1 - N, -1)
    for value in (5e-324, 1e-90, 0.01, 3.0):
        with pytest.raises(dpoco.StateError, match="impossible weights"):
            ObliviousTracker._from_bytes(planted(learner, [(place, value) for place in weights]))
    least = 0.1 / (N - 1)
    twin = ObliviousTracker._from_bytes(planted(learner, [(place, least) for place in weights]))
    twin.run(LOSSES[20:])


def test_a_small_file_cannot_ask_for_much_memory():
    learner = make("", switches=1, prior="at_most", learning_rate=0.5)
    header, payload = _state.unpack(learner._to_bytes())
    plan = header["object"]["plan"]
    header["object"]["arguments"].update(switches=2**26, horizon=10**12)
    plan["tuning"]["switches"], plan["mechanism"]["horizon"] = 2**26, 10**12
    bad = _state.pack(header, payload)
    with pytest.raises(dpoco.StateError, match="header and payload differ"):
        ObliviousTracker._from_bytes(bad)
    # One expert, more switches than rounds, one without: as large as they are.
    for options in (
        {"experts": 1, "switches": 10**6, "prior": "at_most"},
        {"switches": 10**6, "prior": "at_most"},
        {"switches": 10**6},
    ):
        learner = make("", learning_rate=0.5, **options)
        assert ObliviousTracker._from_bytes(learner._to_bytes()).plan == learner.plan

"""The coupled learners: decisions out of the domain, traces, short streams, clipped records."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oco.coupled_problems import FEW

T = 24


@pytest.mark.parametrize(
    "name",
    [
        "weights density_ratio ball linear",
        "weights scheduled ball huber",
        "leader density_ratio ball linear",
        "leader density_ratio box logistic",
    ],
)
def test_unbounded_decisions(coupled, name):
    """The domain is only what regret is measured against: decisions leave it."""
    changes = {"unbounded": True, "max_switches": T}
    if name.startswith("weights"):
        changes |= {"regularization": 0.5}
    else:
        changes |= {"step_size": 1.0, "barrier_weight": 0.0}
    stream = coupled.stream(name, T)
    for part in stream.data:
        part[...] = np.abs(part)
    whole, single = (coupled.make(name, **changes) for _ in range(2))
    want = stream.play(whole, 0, T)
    for t in range(T):
        assert np.array_equal(single.decide(), want[t])
        stream.observe(single, t)
    assert any(not whole.domain.contains(each) for each in want)
    assert np.isfinite(want).all()
    loaded = type(whole)._from_bytes(whole._to_bytes())
    assert np.array_equal(loaded.last_decision, single.last_decision)


@pytest.mark.parametrize("name", FEW)
def test_the_trace_is_that_of_the_clipped_records(coupled, name):
    stream, learner = coupled.stream(name, T), coupled.make(name)
    trace = learner.run(*stream.data)
    kept = trace.decisions
    for t in (0, 3, 11, T - 1):
        assert trace.losses[t] == pytest.approx(trace.comparator_losses(kept[t])[t], abs=1e-12)
    moves = np.flatnonzero(np.any(np.diff(kept, axis=0), axis=1))
    assert np.array_equal(trace.switches, moves)
    assert trace.switches.size == learner.switches
    short = coupled.make(name)
    with pytest.raises(ValueError, match="record_decisions"):
        _ = short.run(*stream.data, record_decisions=False).decisions
    assert np.array_equal(short.last_decision, learner.last_decision)


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("name", FEW)
def test_nothing_is_decided_over_a_single_block_or_without_a_switch(coupled, name):
    for own in [{"horizon": 1}, {"horizon": 5, "block": 5}, {"max_switches": 0}]:
        learner = coupled.make(name, **own)
        horizon = learner.horizon
        drawn = learner._engine.variates_drawn()
        decisions = coupled.stream(name, horizon).play(learner, 0, horizon)
        assert learner.switches == 0
        assert learner._engine.variates_drawn() == drawn
        assert (decisions == learner.last_decision).all()
        assert learner.guarantee.epsilon == 0.0  # nothing released depends on data


def test_huge_records_are_clipped(coupled, any_problem):
    """Not only do they do no harm: they act as the record on the bound does."""
    if any_problem.endswith("custom"):
        return
    huge, clipped = coupled.stream(any_problem, T), coupled.stream(any_problem, T)
    domain, loss = coupled.make(any_problem).domain, coupled.losses[any_problem.split()[3]]
    if huge.kind == "quadratic":
        matrices, vectors = clipped.data
        scaled = matrices * 1e3, vectors * 1e3
        factors = loss.scales(domain, *scaled)
        clipped.data = (factors[:, None, None] * scaled[0], factors[:, None] * scaled[1])
        huge.data = scaled
    else:
        norms = np.linalg.norm(huge.data[0], ord=domain.dual_exponent, axis=1)
        huge.data[0][...] *= (1e200 / norms)[:, None]
        clipped.data[0][...] /= norms[:, None]
    got, want = coupled.make(any_problem), coupled.make(any_problem)
    decisions = huge.play(got, 0, T)
    assert np.allclose(decisions, clipped.play(want, 0, T), atol=1e-8)
    assert got.switches == want.switches
    assert all(domain.contains(each) for each in decisions)


SAVED = [
    "weights density_ratio ball linear",
    "weights density_ratio box linear",
    "weights dartboard box logistic",
    "weights dartboard simplex squared",
    "weights anchored ball huber",
    "weights anchored simplex linear",
    "weights scheduled l3 quadratic",
    "leader density_ratio ball linear",
    "leader density_ratio box logistic",
    "leader density_ratio l3 squared",
    "leader density_ratio simplex quadratic",
    "leader scheduled ball huber",
    "leader scheduled simplex logistic",
]


@pytest.mark.parametrize("name", SAVED)
def test_the_state_grows_by_what_a_plan_says_of_a_record(coupled, name):
    learner, stream = coupled.make(name, block=1), coupled.stream(name, T)
    sizes = []
    for rounds in (0, 2, 5):  # with switches left, after which nothing would be kept
        stream.play(learner, learner.round, rounds)
        sizes.append(len(learner._engine.state()))
    each = learner._bytes_per_record
    assert (each > 0) == name.endswith(("logistic", "huber"))
    assert np.diff(sizes).tolist() == [2 * each, 3 * each]

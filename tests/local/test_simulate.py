"""Simulations: the compiled loop is the protocol bit for bit, and plays whatever else there is."""

from __future__ import annotations

import numpy as np
import pytest
from local_cases import FA, FC

from dpoco.environments import _local as module
from dpoco.environments import simulate_local
from dpoco.errors import HorizonExceeded
from dpoco.local import DistributionLearner, Hypotheses
from dpoco.random import Source

TABLE = np.stack([FC, FC[[1, 0, 3, 2]], FC[::-1]])

ROUNDS = 90
COMPILED = {
    "bisection": {"channel": "bit"},
    "scheffe": {"channel": "bit", "query": "scheffe", "bits": 3},
    "mean_test": {"channel": "bit", "query": "mean_test", "horizon": 400},
    "hadamard": {"channel": "bit", "query": "hadamard", "bits": 2},
    "adaptive": {"channel": "bit", "interactive": True, "bits": 2},
    "subset": {"channel": "subset", "subset_size": 2},
    "response": {"channel": "subset", "subset_size": 1},
    "auto": {"epsilon": 3.0},
    "auto interactive": {"epsilon": 2.5, "interactive": True},
    "auto small": {"epsilon": 0.2, "subset_size": 3},
    "hedge": {"learner": "hedge", "horizon": 400},
    "hedge fixed": {
        "learner": "hedge",
        "horizon": 400,
        "learning_rate": "worst_case",
        "mixing": 0.1,
    },
    "hedge wide": {"learner": "hedge", "mixing": 0.05, "range": "worst_case"},
}


def both(build, hypotheses, contexts, monkeypatch, rounds=ROUNDS):
    rng = np.random.default_rng(7)
    labels = rng.integers(-1, 8, size=rounds)
    found = []
    for compiled in (True, False):
        learner = DistributionLearner(
            Hypotheses(hypotheses), **{"epsilon": 1.5, "public_seed": 12, **build}
        )
        with monkeypatch.context() as patch:
            if not compiled:
                patch.setattr(module._Run, "compiled_settings", lambda self: None)
            trace = simulate_local(
                learner, labels, contexts, truth=2, source=Source.seeded(5),
                checkpoints=(1, 40, rounds),
            )  # fmt: skip
        found.append((learner, trace))
    return found


@pytest.mark.parametrize("kind", COMPILED)
@pytest.mark.parametrize("contexts", [False, True])
def test_compiled_loop_is_the_protocol(kind, contexts, monkeypatch):
    places = np.random.default_rng(1).integers(0, 3, size=ROUNDS) if contexts else None
    (one, fast), (two, slow) = both(COMPILED[kind], TABLE if contexts else FC, places, monkeypatch)
    np.testing.assert_array_equal(one.weights, two.weights)
    first, second = one._rule.state(), two._rule.state()
    np.testing.assert_array_equal(first["engine"], second["engine"])
    np.testing.assert_array_equal(fast.weights, slow.weights)
    np.testing.assert_allclose(fast.kl, slow.kl, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(fast.tv, slow.tv, rtol=1e-9, atol=1e-14)
    assert (fast.misses, fast.first_miss, fast.subsets) == (
        slow.misses, slow.first_miss, slow.subsets,
    )  # fmt: skip
    assert (one.round, one.reports) == (two.round, two.reports) == (ROUNDS, ROUNDS)
    assert not one.guarantee.certified
    if one.get_params()["learner"] == "hedge":
        assert one.risk_certificate() == pytest.approx(two.risk_certificate(), rel=1e-9)
    # Both go on alike.
    assert one.round_spec(None if places is None else 1) == two.round_spec(
        None if places is None else 1
    )


def test_everything_else_is_played_round_by_round():
    labels = np.random.default_rng(0).choice(4, p=FA[1], size=400)
    for build in (
        {"query": "loss", "channel": "bit", "learning_rate": 0.5},
        {"learner": "hedge", "channel": "subset"},
        {"learner": "hedge"},
        {"learner": "hedge", "protect": "label_and_context", "mixing": 0.1},
    ):
        learner = DistributionLearner(Hypotheses(FA), epsilon=6.0, public_seed=0, **build)
        trace = simulate_local(learner, labels, truth=1, source=Source.seeded(2))
        assert learner.reports == 400
        assert trace.kl[-50:].mean() < trace.kl[:20].mean()
    held = Hypotheses(lambda x: FA[:, ::x], 3, 4)
    learner = DistributionLearner(held, epsilon=6.0, public_seed=0)
    simulate_local(learner, labels, [1, -1] * 200, truth=1, source=Source.seeded(3))
    assert learner.weights.shape == (3,)


def test_arguments():
    learner = DistributionLearner(Hypotheses(FA), epsilon=1.0, horizon=10)
    before = learner.weights
    labels = np.zeros(10, dtype=int)
    for error, given, more in (
        (TypeError, np.zeros(10), {}),
        (TypeError, labels[None], {}),
        (ValueError, labels, {"truth": 3}),
        (ValueError, labels, {"truth": np.ones(3)}),
        (ValueError, labels, {"truth": np.ones(FA.shape[1])}),
        (ValueError, labels, {"truth": np.full(FA.shape[1], np.nan)}),
        (ValueError, labels, {"contexts": labels}),
        (ValueError, labels, {"checkpoints": (11,)}),
        (ValueError, labels, {"checkpoints": (0,)}),
        (ValueError, labels, {"beta": 0.0}),
        (TypeError, labels, {"source": 3}),
        (HorizonExceeded, np.zeros(11, dtype=int), {}),
    ):
        with pytest.raises(error):
            simulate_local(learner, given, **more)
        assert learner.round == 0
    np.testing.assert_array_equal(before, learner.weights)
    trace = simulate_local(learner, labels, progress=lambda done, total: None)
    assert trace.kl is None
    with pytest.raises(ValueError, match="no truth"):
        trace.kl_risk  # noqa: B018
    assert not learner.guarantee.certified  # one process has seen all labels
    with pytest.raises(ValueError, match="read-only"):
        trace.weights[...] = 0
    assert "not private" in repr(trace)


def test_chunks_do_not_matter(monkeypatch):
    labels = np.random.default_rng(2).integers(0, 6, size=100)
    found = []
    for chunk in (8192, 7):
        monkeypatch.setattr(module, "_CHUNK", chunk)
        learner = DistributionLearner(Hypotheses(FC), epsilon=2.0, public_seed=1)
        trace = simulate_local(
            learner, labels, truth=0, source=Source.seeded(1), checkpoints=(5, 50, 99)
        )
        found.append((learner.weights.tobytes(), trace.kl.tobytes(), trace.weights.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("extra", [{}, {"learning_rate": 0.3}, {"range": "worst_case"}])
def test_contexts_on_which_all_agree(extra, monkeypatch):
    """Compiled code skips reports about them, too: the weights stay where they are."""
    table = np.stack([np.tile(FC[:1], (4, 1)), FC])
    build = {"learner": "hedge", "mixing": 0.1, **extra}
    contexts = np.repeat([0, 1], ROUNDS // 2)
    (one, trace), (other, again) = both(build, table, contexts, monkeypatch)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(trace.weights, again.weights)
    if extra != {"range": "worst_case"}:  # whose range does not look at contexts
        np.testing.assert_array_equal(trace.weights[:2], np.full((2, 4), 0.25))
    assert np.ptp(trace.weights[2]) > 0.0

"""How records were read: of every kind of trace, counted against records made for it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dpoco
from dpoco import evaluation, losses
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.datasets import PublicScaling, Stream
from dpoco.domains import Box, LpBall
from dpoco.experts import PrefixHedge
from dpoco.oco import CoupledRegularizedLeader, LipschitzLearner, NoisyFTRL

NAN, INF = float("nan"), float("inf")
BALL = LpBall(2, 2.0, 1.0)
# Within bounds, at the bound, missing, not finite, too long.
ROWS = np.array([[0.1, 0.2], [0.6, 0.8], [NAN, 0.5], [0.0, -INF], [3.0, 4.0]])


def free(learner, *problem, **options):
    return learner(*problem, horizon=10, budget=None, **options)


def test_records_of_generalised_linear_losses():
    trace = free(NoisyFTRL, BALL, losses.LogisticLoss(1.0)).run(ROWS, [1.0, 2.0, -1.0, NAN, 0.5])
    read = trace.nonprivate_records
    assert read.records == 5
    assert read.shares == {
        "empty": 0.4, "clipped": 0.2, "label_missing": 0.2, "label_out_of_range": 0.4,
        "missing": 0.4,
    }  # fmt: skip
    assert read.columns == {"0": {"missing": 0.2}, "1": {"missing": 0.2}}
    labels = free(NoisyFTRL, BALL, losses.SquaredLoss(1.0, 2.0)).run(ROWS[:2], [INF, -2.0])
    shares = labels.nonprivate_records.shares
    assert (shares["empty"], shares["label_missing"], shares["label_out_of_range"]) == (0.5, 0.5, 0)


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_gradients_and_matrices():
    read = free(NoisyFTRL, BALL, losses.LinearLoss(1.0)).run(ROWS).nonprivate_records
    assert read.shares == {"empty": 0.4, "clipped": 0.2, "missing": 0.4}
    budget = dpoco.Budget(1.0, 1e-6)
    learner = CoupledRegularizedLeader(
        BALL, losses.QuadraticLoss(3.0, 1.0), horizon=4, budget=budget,
    )  # fmt: skip
    matrices = np.array([np.eye(2), 9.0 * np.eye(2), -np.eye(2), np.full((2, 2), NAN)])
    shares = learner.run(matrices, np.zeros((4, 2))).nonprivate_records.shares
    assert shares == {"empty": 0.5, "clipped": 0.25}


def test_losses_of_experts():
    learner = PrefixHedge(3, horizon=10, budget=None, loss_range=(-1.0, 1.0))
    table = [[0.0, 1.0, -1.0], [NAN, 0.0, 2.0], [INF, 0.0, -1.5], [0.0, 0.0, 0.0]]
    read = learner.run(table).nonprivate_records
    assert read.shares == {"missing": 0.5, "out_of_range": 0.5}
    assert read.columns["0"] == {"missing": 0.5, "out_of_range": 0.0}
    assert read.columns["1"] == {"missing": 0.0, "out_of_range": 0.0}
    assert read.columns["2"] == {"missing": 0.0, "out_of_range": 0.5}


BANDITS = [(LinUCB, 2), (HighDimensionalBandit, LpBall(2, 1.0, 1.0))]


@pytest.mark.parametrize(("kind", "shape"), BANDITS)
def test_contexts_and_rewards(kind, shape):
    learner = kind(2, shape, horizon=500, budget=None, context_bound=1.0, reward_bound=1.0)
    rewards = [[0.0, 1.0], [NAN, 0.0], [2.0, 0.0], [0.0, -INF], [0.0, -9.0]]
    read = learner.run(ROWS, rewards).nonprivate_records
    assert read.shares == {
        "missing": 0.4, "empty": 0.4, "clipped": 0.2, "reward_missing": 0.4,
        "reward_out_of_range": 0.4,
    }  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("kind", "shape"), BANDITS)
def test_contexts_that_overflow_are_clipped_without_a_warning(kind, shape):
    learner = kind(2, shape, horizon=500, budget=None, context_bound=1e-3, reward_bound=1.0)
    trace = learner.run([[1e308, 0.0], [1e-4, 0.0]], np.zeros((2, 2)))
    assert trace.nonprivate_records.shares["clipped"] == 0.5


@pytest.mark.parametrize("as_array", [True, False])
def test_lipschitz_losses(as_array):
    learner = LipschitzLearner(Box([0.0], [1.0]), lipschitz=1.0, horizon=10, budget=None)
    given = [learner.points[:, 0] * slope for slope in (1.0, -0.5, 7.0, NAN)]
    read = learner.run(np.array(given) if as_array else [lambda x, g=g: g for g in given])
    assert read.nonprivate_records.shares == {"clipped": 0.5}


def test_no_records_and_no_stream(tmp_path):
    learner = free(NoisyFTRL, BALL, losses.LogisticLoss(1.0))
    empty = learner.run(np.empty((0, 2)), []).nonprivate_records
    assert (empty.records, set(empty.shares.values())) == (0, {0.0})
    trace = learner.run(ROWS, np.zeros(5))
    evaluation.save(trace, tmp_path / "trace.npz")
    bandit = free(LinUCB, 2, 2, context_bound=1.0, reward_bound=1.0).run(ROWS, np.zeros((5, 2)))
    evaluation.save(bandit, tmp_path / "bandit.npz")
    for name in ("trace", "bandit"):
        with pytest.raises(ValueError, match="this trace has no stream"):
            _ = evaluation.load(tmp_path / f"{name}.npz").nonprivate_records
    assert pickle.loads(pickle.dumps(bandit)).nonprivate_records == bandit.nonprivate_records


def test_nothing_shows_shares_by_itself():
    trace = free(NoisyFTRL, BALL, losses.LogisticLoss(1.0)).run(ROWS, np.zeros(5))
    read = trace.nonprivate_records
    for text in (repr(read), repr(trace)):
        assert "not private, for evaluation only" in text
        assert "0." not in text
    assert "Not private" in type(read).__doc__
    assert "Not private" in type(trace).nonprivate_records.__doc__


def stream_of(rows, labels, low, high):
    raw = Stream("raw", rows, labels, ("a", "b"), "classification")
    return raw.scaled(PublicScaling(low, high))


def test_a_scaled_stream_remembers_what_saturated():
    stream = stream_of([[0.0, 1.0], [2.0, 3.0], [-5.0, NAN], [INF, 0.5]], np.zeros(4), 0.0, [1, 2])
    assert stream.feature_names == ("a", "b", "constant")
    outside = [[0, 0, 0], [1, 1, 0], [1, 0, 0], [1, 0, 0]]
    assert stream.nonprivate_flags["out_of_range"].tolist() == np.array(outside, bool).tolist()
    assert stream.take(2).nonprivate_flags["out_of_range"].shape == (2, 3)
    assert "flags" not in str(stream.summary())


def test_reports_count_the_rows_that_were_played():
    rows = np.tile([[0.5, 0.5], [0.5, 9.0], [NAN, 0.5], [0.5, 0.5]], (50, 1))
    stream = stream_of(np.concatenate([rows, np.full((100, 2), 77.0)]), np.zeros(300), 0.0, 1.0)
    domain, loss = LpBall(3, 2.0, 1.0), losses.LogisticLoss(2.0)
    squared = losses.SquaredLoss(2.0, 1.0)
    budget = dpoco.Budget(1.0, 1e-5)
    game = evaluation.game_of_records(
        dpoco.frank_wolfe.TreeFrankWolfe, stream, domain, loss, horizon=200
    )
    report = evaluation.compare_private(game, budget, seed=1)
    game = evaluation.game_of_records(
        dpoco.frank_wolfe.SufficientStatistics, stream, domain, squared, horizon=200
    )
    fit = evaluation.compare_private(game, budget, seed=1)
    for read in (report.nonprivate_records, fit.nonprivate_records):
        assert read["records"] == 200
        assert read["shares"] == {
            "empty": 0.25, "clipped": 0.0, "label_missing": 0.0, "label_out_of_range": 0.0,
            "missing": 0.25, "out_of_range": 0.25,
        }  # fmt: skip
        assert read["columns"]["a"] == {"missing": 0.25, "out_of_range": 0.0}
        assert read["columns"]["b"] == {"missing": 0.0, "out_of_range": 0.25}
    for each in (report, fit):
        record = each.to_dict()
        del record["nonprivate_records"], record["rows"]  # as in earlier reports
        assert type(each).from_dict(record).nonprivate_records == {}

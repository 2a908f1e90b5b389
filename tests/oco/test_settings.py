"""What engines are built from where no release shows it: without noise, without bounds."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

import dpoco
from dpoco.accounting.continuous_multiplicative_weights import clip_error
from dpoco.domains import LpBall
from dpoco.frank_wolfe import PolyhedralFrankWolfe
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
from dpoco.oco import CoupledRegularizedLeader, NoisyFTRL, NoisyNewton

BUDGET = dpoco.Budget(5.0, 1e-6)


@pytest.mark.parametrize(
    ("forced", "block", "horizon", "error"),
    [(0.5, 2, 10, 1 / 80), (0.0, 2, 10, 1 / 90), (0.0, 1, 1, 1.0), (1.0, 1, 1, 0.5)],
)
def test_clipping_may_cost_a_share_of_the_forced_switches(forced, block, horizon, error):
    keep = SimpleNamespace(forced=forced)
    drawn = SimpleNamespace(keep=keep, block=block, rounds=horizon)
    assert clip_error(drawn) == pytest.approx(error, rel=1e-15)


def test_without_bounds_there_is_no_radius(coupled):
    changes = {"step_size": 1.0, "barrier_weight": 0.0, "unbounded": True}
    for more, radius in (({}, coupled.domains["l3"].radius_from_center()), (changes, math.inf)):
        learner = coupled.make("leader maximal l3 quadratic", **more)
        assert learner._loss_settings()["radius"] == radius


def test_couplings_are_restated_but_where_nothing_is_decided(coupled):
    for name, changes in (
        ("leader scheduled ball linear", {}),
        ("leader maximal ball linear", {"max_switches": 5}),
    ):
        with pytest.raises(ValueError, match="coupling"):
            coupled.make(name, **changes, options={"coupling": "density_ratio"})


def test_states_hold_a_coordinate_less_than_a_simplex_has():
    for dimension, held in ((1, 1), (2, 1), (5, 4)):
        header = {"arguments": {"domain": {"dimension": dimension}}}
        assert CoupledRegularizedLeader._header_dimension(header) == held


def test_notes_say_so_only_where_noise_dominates():
    loss = SquaredLoss(1.0, 1.0, feature_bound_l2=1.0)
    long = NoisyFTRL(LpBall(3), loss, horizon=10**6, budget=BUDGET, statistics="quadratic")
    assert long._noise_note() is None  # nor was there a warning
    with pytest.warns(dpoco.NoiseDominatesWarning, match="all directions for 2"):
        NoisyFTRL(LpBall(3), loss, horizon=24, budget=BUDGET, statistics="quadratic")


def test_dimensions_go_up_to_the_largest():
    options = {"horizon": 9, "budget": None}
    NoisyNewton(LpBall(3), LogisticLoss(1.0), max_dimension=3, **options)
    with pytest.raises(ValueError, match="exceeds max_dimension=2"):
        NoisyNewton(LpBall(3), LogisticLoss(1.0), max_dimension=2, **options)


def test_leaves_of_linear_losses_have_no_slope():
    learner = PolyhedralFrankWolfe(LpBall(2, 1.0), LinearLoss(1.0), horizon=3, budget=None)
    assert learner.run([[1.0, 0.0]] * 3).decisions[-1][0] < 0.0

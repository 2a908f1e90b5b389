"""What cannot fit into memory is refused before it is allocated; nothing here allocates it."""

from __future__ import annotations

import re

import pytest

import dpoco
from dpoco import _validation, bandits, experts, frank_wolfe, mechanisms, oco
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}
BALL, SMALL, MANY = LpBall(20_000), LpBall(600), 2_000_000
LARGE = {
    "tree": lambda: frank_wolfe.TreeFrankWolfe(BALL, LinearLoss(1.0), horizon=9, budget=BUDGET),
    "polyhedral": lambda: frank_wolfe.PolyhedralFrankWolfe(
        LpBall(60_000, 1.0), LinearLoss(1.0), horizon=9, budget=BUDGET
    ),
    "leader": lambda: oco.NoisyFTRL(BALL, LinearLoss(1.0), horizon=9, budget=BUDGET),
    "squares": lambda: oco.NoisyFTRL(
        SMALL, SquaredLoss(1.0, 1.0), horizon=9, budget=BUDGET, statistics="quadratic"
    ),
    "ctrl": lambda: oco.CoupledRegularizedLeader(
        SMALL, QuadraticLoss(1.0, 1.0), horizon=9, budget=BUDGET
    ),
    "weights": lambda: oco.ContinuousMultiplicativeWeights(
        SMALL, LogisticLoss(1.0), horizon=9, budget=BUDGET
    ),
    "net": lambda: oco.LipschitzLearner(
        Box([0.0, 0.0], [1.0, 1.0]), lipschitz=1.0, horizon=9, budget=BUDGET,
        resolution=(256, 256),
    ),
    "hedge": lambda: experts.PrefixHedge(200_000, horizon=9, budget=BUDGET),
    "detector": lambda: experts.ShiftDetector(200_000, horizon=9, budget=BUDGET),
    "linucb": lambda: bandits.LinUCB(3, 400, horizon=9, budget=BUDGET, **BOUNDED),
    "phases": lambda: bandits.ResidualPhases(3, 400, horizon=9, budget=BUDGET, **BOUNDED),
    "arms": lambda: bandits.HighDimensionalBandit(
        9, LpBall(9000, 1.0), horizon=90, budget=BUDGET, **BOUNDED
    ),
    "sum": lambda: mechanisms.ContinualSum(60_000, horizon=9, budget=BUDGET, bound=1.0),
    "history": lambda: mechanisms.ContinualSum(
        3000, horizon=400, budget=BUDGET, method="toeplitz", bound=1.0
    ),
    "ball": lambda: LpBall(MANY),
    "simplex": lambda: Simplex(MANY),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_too_large_is_refused_with_the_estimate(name, monkeypatch):
    monkeypatch.setenv("DPOCO_MEMORY_LIMIT", "1.5e6")
    with pytest.raises(
        MemoryError, match=r"this needs at least .* bytes, most of them for"
    ) as caught:
        LARGE[name]()
    needed, part = map(float, re.findall(r"([0-9.]+e\+[0-9]+)", str(caught.value))[:2])
    assert needed > 1.5e6
    assert needed / 2.0 <= part <= needed
    # The estimate is no more than what is there: what is refused could not have been.
    monkeypatch.setenv("DPOCO_MEMORY_LIMIT", repr(1.01 * needed))
    made = LARGE[name]()
    grows = ("ctrl", "weights", "history")  # by the round
    if hasattr(made, "_to_bytes") and name not in grows:
        assert len(made._to_bytes()) > 0.2 * needed


def test_a_billion_coordinates_need_more_than_a_laptop(monkeypatch):
    monkeypatch.setenv("DPOCO_MEMORY_LIMIT", "4e9")
    with pytest.raises(MemoryError, match=r"at least 8e\+09 bytes.*the centre of the domain"):
        LpBall(10**9)
    with pytest.raises(MemoryError, match="the running sum"):
        mechanisms.ContinualSum(10**9, horizon=100, budget=BUDGET, bound=1.0)
    monkeypatch.setenv("DPOCO_MEMORY_LIMIT", "1.5e6")
    mechanisms.ContinualSum(
        60_000, horizon=1, budget=BUDGET, method="tree", bound=1.0
    )  # one node, no more


def test_the_limit_is_the_machine_s_memory_unless_it_is_set(monkeypatch):
    monkeypatch.delenv("DPOCO_MEMORY_LIMIT", raising=False)
    assert 2**28 <= _validation.memory_limit() <= 2**50
    uncached = _validation._machine_memory.__wrapped__
    monkeypatch.setattr(_validation, "_machine_memory", uncached)
    monkeypatch.setattr(_validation.os, "sysconf", lambda _: 2**20)
    monkeypatch.setattr(_validation.Path, "read_text", lambda _: "max\n")
    assert _validation.memory_limit() == 2.0**40
    monkeypatch.setattr(_validation.Path, "read_text", lambda _: "1048576\n")
    assert _validation.memory_limit() == 2.0**20
    monkeypatch.delattr(_validation.os, "sysconf")
    monkeypatch.setattr(_validation.Path, "read_text", lambda _: "max\n")
    assert _validation.memory_limit() == 16 * 2**30
    monkeypatch.setenv("DPOCO_MEMORY_LIMIT", "many")
    with pytest.raises(ValueError, match="DPOCO_MEMORY_LIMIT must be a number of bytes"):
        _validation.memory_limit()

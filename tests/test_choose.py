"""`dpoco.choose`: what fits a problem, in the order of what regret to expect."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dpoco
from dpoco.domains import Box, LpBall, Polytope, Simplex, VertexSet
from dpoco.environments import LinearWorld, SwitchingStochastic, play_bandit
from dpoco.evaluation import best_fixed_decision, best_switching_sequence
from dpoco.losses import (
    CustomLoss,
    HuberLoss,
    LinearLoss,
    LogisticLoss,
    SquaredLoss,
)
from dpoco.random import Source

BUDGET, PURE = dpoco.Budget(1.0, 1e-6), dpoco.Budget(1.0, 0.0)
BALL, LOG = LpBall(3, 2.0, 1.0), LogisticLoss(1.0)
PROBLEMS = {
    "ball": (BALL, LOG),
    "l1 ball": (LpBall(4, 1.0, 2.0), SquaredLoss(1.0, 1.0)),
    "l1.5 ball": (LpBall(4, 1.5, 1.0), HuberLoss(1.0, 1.0)),
    "cube": (LpBall(2, float("inf"), 1.0), LOG),
    "long box": (Box([-100.0, -0.001], [1.0, 0.001]), LOG),
    "simplex": (Simplex(3), LinearLoss(1.0)),
    "vertices": (VertexSet(np.eye(3)), LOG),
    "polytope": (Polytope(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4)), LOG),
    "one coordinate": (LpBall(1, 2.0, 1.0), SquaredLoss(1.0, 1.0)),
    "custom losses": (BALL, CustomLoss(1.0, 1.0)),
    "bounded slopes": (BALL, LogisticLoss(1.0, slope_bound=0.5)),
    "many coordinates": (LpBall(500, 2.0, 1.0), LOG),
    "experts": 5,
    "one expert": 1,
    "arms": (3, 4),
    "one arm": (1, 1),
    "many arms": (5000, 2),
    "long contexts": (2, 5000),
}
GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "choose.md"
quiet = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
BANDITS = {"arms", "one arm", "many arms", "long contexts"}
UNIT = {"context_bound": 1.0, "reward_bound": 1.0}
WITH_PURE = {"l1 ball", "simplex", "vertices", "experts", "one expert"} | BANDITS - {"many arms"}


def names(choices):
    return [each.learner.partition(".")[2] for each in choices]


def refused(name, horizon, budget):
    """Whether nothing fits, or the horizon is missed."""
    if horizon is None and budget is PURE:
        return "expert" not in name
    if horizon is None:
        return name in BANDITS or name == "vertices"
    # One arm's first pull depends on nothing.
    return budget is PURE and name not in WITH_PURE and (name, horizon) != ("many arms", 1)


def made(choice, **more):
    """Return the learner in the units in which it was ranked."""
    return choice.make(**(UNIT if choice.learner.startswith("bandits.") else {}), **more)


def test_a_bandit_that_was_chosen_asks_for_the_bounds_on_its_data():
    for each in dpoco.choose((3, 4), horizon=10**6, budget=BUDGET):
        with pytest.raises(TypeError, match="bound"):
            each.make()
        wide = each.make(context_bound=2.0, reward_bound=5.0)
        assert (wide._context_bound(), wide._reward_range()) == (2.0, (-5.0, 5.0))


@quiet
@pytest.mark.parametrize("budget", [BUDGET, PURE, None], ids=["budget", "pure", "no budget"])
@pytest.mark.parametrize("horizon", [1, 400, None])
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_choice_is_built_and_keeps_to_the_budget(name, horizon, budget):
    problem, covered = PROBLEMS[name], {"horizon": horizon, "budget": budget}
    if refused(name, horizon, budget):
        with pytest.raises((dpoco.CalibrationError, ValueError), match=r"delta|horizon"):
            dpoco.choose(problem, **covered)
        return
    choices = dpoco.choose(problem, **covered)
    expected = [np.inf if c.predicted_regret is None else c.predicted_regret for c in choices]
    assert expected == sorted(expected)
    for each in choices:
        learner = made(each, source=Source.seeded(1))
        assert type(learner).__name__ == each.learner.partition(".")[2]
        assert each.learner in str(each)
        assert learner.plan == each.plan
        assert learner.guarantee.regret_bound == each.guarantee.regret_bound
        if budget is not None:
            each.guarantee.require(budget)
        if each.predicted_regret is not None:
            assert 0.0 <= each.privacy_cost <= each.predicted_regret


def test_what_fits_is_there():
    def found(problem, **more):
        return set(names(dpoco.choose(problem, horizon=1000, budget=BUDGET, **more)))

    assert found((BALL, LOG)) == {"NoisyNewton", "NoisyFTRL", "TreeFrankWolfe"}
    assert found(PROBLEMS["bounded slopes"]) == {"NoisyNewton", "NoisyFTRL"}
    assert found(PROBLEMS["many coordinates"]) == {"NoisyFTRL", "TreeFrankWolfe"}
    assert found(PROBLEMS["custom losses"]) == {"NoisyFTRL", "TreeFrankWolfe"}
    assert found(PROBLEMS["vertices"]) == {"PolyhedralFrankWolfe"}
    assert found(PROBLEMS["many arms"]) == {"LinUCB"}
    assert found(PROBLEMS["long contexts"]) == {"HighDimensionalBandit"}
    squared = dpoco.choose(PROBLEMS["l1 ball"], horizon=1000, budget=BUDGET)
    assert {"statistics": "quadratic"} in [each.options for each in squared]
    still = found(5)
    assert {"EpochSelector", "PrefixHedge", "WindowSelector"} < still
    assert still - found(5, switches=3) == {"EpochSelector", "PrefixHedge"}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_less_budget_never_costs_less(name, delta):
    if delta == 0.0 and name not in WITH_PURE:
        return
    costs = {}
    for epsilon in (0.03, 0.3, 3.0, 30.0):
        budget = dpoco.Budget(epsilon, delta)
        for each in dpoco.choose(PROBLEMS[name], horizon=2000, budget=budget):
            key = (each.learner, *each.options.items())
            costs.setdefault(key, []).append(each.privacy_cost)
    simulated = [found for found in costs.values() if found[0] is not None]
    assert all(found == sorted(found, reverse=True) for found in simulated)
    assert any(found[0] > found[-1] for found in simulated) or name in (
        "custom losses",
        "many arms",  # which nothing is known of, or can be learned
    )


@quiet
@pytest.mark.parametrize("name", ["ball", "experts", "arms"])
def test_people_who_come_back_cost_more(name):
    one = dpoco.choose(PROBLEMS[name], horizon=400, budget=BUDGET)
    people = dpoco.Participation(5, 10)
    several = dpoco.choose(PROBLEMS[name], horizon=400, budget=BUDGET, participation=people)
    assert set(names(one)) == set(names(several))
    single = {(each.learner, *each.options.items()): each.privacy_cost for each in one}
    for each in several:
        assert each.privacy_cost > single[(each.learner, *each.options.items())]
        assert made(each).guarantee.person == (5, 10)


def test_experts_are_ranked_by_bounds_where_nothing_was_simulated():
    common = {"horizon": 2000, "budget": BUDGET}
    for adversary in ("oblivious", "adaptive"):
        asked = {**common, "switches": 2, "adversary": adversary}
        choices, plans = dpoco.choose(6, **asked), dpoco.choose(6, **asked, by="bound")
        bounds = [each.regret_bound * 2000 for each in choices]
        assert bounds == pytest.approx([plan.guarantee.regret_bound for plan in plans])
        assert bounds == sorted(bounds)
    shifting = {"horizon": 10**5, "budget": PURE, "switches": 5, "adversary": "shifting"}
    near, known = dpoco.choose(6, **shifting), dpoco.choose(6, **shifting, gap=0.4)
    window, informed = (c[names(c).index("WindowSelector")] for c in (near, known))
    assert informed.predicted_regret < window.predicted_regret
    assert informed.plan.tuning.window < window.plan.tuning.window
    assert names(dpoco.choose(6, horizon=3, budget=BUDGET, switches=10**9))


@pytest.mark.parametrize(
    ("problem", "error", "match"),
    [
        ((np.ones(10**6), 3), TypeError, "a problem is .{90,200}$"),
        (2**31, MemoryError, "experts"),
        ((100, 10**5), MemoryError, "arms"),
    ],
)
def test_large_input_is_one_clear_line(problem, error, match, monkeypatch):
    monkeypatch.setenv("DPOCO_MEMORY_LIMIT", "1e8")
    with pytest.raises(error, match=match) as raised:
        dpoco.choose(problem, horizon=1000, budget=BUDGET)
    assert "\n" not in str(raised.value)


def test_decisions_that_do_not_fit_into_the_memory_are_one_clear_line(monkeypatch):
    monkeypatch.setenv("DPOCO_MEMORY_LIMIT", "1e8")
    with pytest.raises(MemoryError, match="decisions") as raised:
        dpoco.choose((LpBall(10**7, 2.0, 1.0), LOG), horizon=1000, budget=BUDGET)
    assert "\n" not in str(raised.value)


# ---- worlds that predictions were not fitted to --------------------------------------------------


def logistic_world(rounds, d, seed):
    """Return records of columns that are clipped, and a constant; few labels are 1."""
    r = np.random.default_rng(seed)
    spread, (turn, _) = np.geomspace(1, 0.1, d - 1), np.linalg.qr(r.normal(size=(d - 1, d - 1)))
    rows = np.clip((r.normal(size=(rounds, d - 1)) * spread) @ turn.T * 0.5, -1, 1)
    rows = np.hstack([rows, np.ones((rounds, 1))])
    target = r.normal(size=d)
    target *= 6.0 / np.linalg.norm(target)
    target[-1] = -1.5
    return rows, (r.random(rounds) < 1 / (1 + np.exp(-rows @ target))).astype(float)


def records(name, rounds, d):
    """Return a problem, and the regret of a learner a round."""
    if name in ("logistic", "noise for labels"):
        rows, labels = logistic_world(rounds, d, 90)
        if name == "noise for labels":
            labels = np.random.default_rng(94).integers(0, 2, rounds).astype(float)
        stream = rows, labels
        problem = LpBall(d, 2.0, 8.0), LogisticLoss((d / 3) ** 0.5)
    else:
        p, target = (1.0, "sparse5") if name.startswith("sparse") else (2.0, "gaussian")
        made = dpoco.datasets.linear_regression_stream(rounds, d, p, 91, target=target)
        stream = made.features, np.clip(made.labels, -1, 1)
        huber = name.endswith("huber")
        loss = HuberLoss(1.0, 1.0, threshold=0.25) if huber else SquaredLoss(1.0, 1.0)
        narrow = Box([-(d**-0.5)] * d, [d**-0.5] * d)
        problem = narrow if name == "narrow box" else LpBall(d, p, 1.0), loss
    best = best_fixed_decision(*problem, *stream, tolerance=1e-4).average_loss
    return problem, lambda learner: learner.run(*stream).average_loss - best


def experts(name, rounds, count):
    switches = 0 if name == "still experts" else 7
    world = SwitchingStochastic(count, rounds, switches=switches, gap=0.25, seed=92).matrix()
    best = best_switching_sequence(world, switches=switches).total_loss / rounds
    return count, lambda learner: learner.run(world).average_loss - best


def arms(name, rounds, d):
    def regret(learner):
        world = LinearWorld(4, d, rounds, sparsity=2, seed=93)
        return np.mean(world.means.max(axis=1) - play_bandit(learner, world).rewards)

    return (4, d), regret


def played(name, rounds, size, epsilon):
    """Return measured and predicted regret of all choices."""
    make = arms if name == "arms" else (experts if "experts" in name else records)
    problem, regret = make(name, rounds, size)
    shifts = {"switches": 7, "adversary": "shifting"} if name == "shifting experts" else {}
    budget = dpoco.Budget(epsilon, 0.1 / rounds)
    choices = dpoco.choose(problem, horizon=rounds, budget=budget, **shifts)
    return [
        (np.mean([regret(made(c, plan=c.plan, source=Source.seeded(k))) for k in range(4)]),
         c.predicted_regret)
        for c in choices
    ]  # fmt: skip


HELD_OUT = [
    "logistic", "squared", "huber", "sparse squared", "sparse huber", "still experts",
    "shifting experts", "arms",
]  # fmt: skip


@quiet
@pytest.mark.parametrize("name", [name for name in HELD_OUT if "experts" not in name])
def test_the_first_is_about_the_best(name):
    (first, predicted), *others = played(name, 1500, 6, 1.0)
    assert others
    assert first <= 2.0 * min(regret for regret, _ in others)
    assert 0.2 < first / predicted < 6.0


@quiet
def test_the_guide_says_how_good_choices_are():
    worlds = [
        played(name, rounds, size, epsilon)
        for name in HELD_OUT
        for rounds, size in ((2000, 5), (20_000, 12))
        for epsilon in (0.3, 3.0)
    ]
    costs = [measured[0][0] / min(regret for regret, _ in measured) for measured in worlds]
    ratios = [regret / predicted for (regret, predicted), *_ in worlds]
    said = re.search(
        r"the best in (\d+) of (\d+) worlds; in the other world it had ([\d.]+) times the regret "
        r"of the best one. Its own regret was ([\d.]+) to ([\d.]+) times",
        " ".join(GUIDE.read_text().split()),
    )
    assert said is not None
    best, all_worlds, most, low, high = (float(number) for number in said.groups())
    assert abs(sum(cost == 1.0 for cost in costs) - best) <= 1.0  # last digits are a machine's
    assert len(costs) == all_worlds
    assert max(costs) <= most <= 2.0
    assert low <= min(ratios)
    assert max(ratios) <= high <= 6.0


@quiet
@pytest.mark.parametrize(
    ("name", "low", "high"), [("noise for labels", 0.05, 1.0), ("narrow box", 1.0, 30.0)]
)
def test_numbers_are_off_where_no_decision_explains_labels_but_the_order_is_useful(name, low, high):
    for rounds, d in ((2000, 5), (20_000, 12)):
        for epsilon in (0.3, 3.0):
            (first, predicted), *others = played(name, rounds, d, epsilon)
            assert first <= 3.0 * min(regret for regret, _ in others)
            assert low < first / predicted < high


def test_bounds_of_frank_wolfe_learners_and_reasons_of_the_bandit_are_told():
    ball, squared = dpoco.domains.LpBall(10, p=1.0), dpoco.losses.SquaredLoss(1.0, 1.0)
    records = dpoco.choose((ball, squared), horizon=10**7, budget=dpoco.Budget(1.0, 1e-9))
    told = [each for each in records if each.learner.startswith("frank_wolfe.")]
    assert len(told) == 2
    for each in told:
        assert each.useful
        assert each.scope == "stochastic"
        assert each.unproved is None
        assert f"proved bound {each.regret_bound:.3g} for stochastic losses" in str(each)
    arms = dpoco.choose((2, 10), horizon=10**5, budget=dpoco.Budget(1.0, 1e-6))
    reasons = {each.learner: each.unproved for each in arms}
    assert reasons["bandits.LinUCB"] is None
    assert "no bound is proved, because" in reasons["bandits.HighDimensionalBandit"]
    assert any(reasons["bandits.HighDimensionalBandit"] in str(each) for each in arms)


def test_contexts_that_are_continuous_have_a_learner_of_their_own():
    budget = dpoco.Budget(1.0, 1e-6)
    usual = dpoco.choose((5, 10), horizon=10**5, budget=budget)
    assert usual[0].name == "LinUCB"
    assert "ResidualPhases" not in {each.name for each in usual}
    told = dpoco.choose((5, 10), horizon=10**5, budget=budget, continuous=True)
    assert told[0].name == "ResidualPhases"
    assert {each.name for each in usual} < {each.name for each in told}
    made = told[0].make(intercept=0.5, context_bound=1.0, reward_bound=1.0)
    assert made.plan.tuning.intercept == 0.5
    moving = dpoco.choose((5, 10), horizon=10**5, budget=budget, continuous=True, drift=True)
    assert (moving[0].name, moving[0].options) == ("ResidualPhases", {"half_life": 30_000.0})
    assert moving[1].name == "LinUCB"
    assert "half_life" in moving[1].options
    hidden = dpoco.choose(
        (5, 10), horizon=100, budget=dpoco.Budget(0.1, 1e-6), continuous=True, drift=True
    )
    assert "half_life" not in hidden[0].options
    rule = dpoco.Participation(3, separation=100, enforced=False)
    people = dpoco.choose(
        (5, 10), horizon=10**5, budget=budget, continuous=True, participation=rule
    )
    assert people[0].predicted_regret > told[0].predicted_regret
    with pytest.raises(ValueError, match="continuous=True is for bandits"):
        dpoco.choose(10, horizon=100, budget=budget, continuous=True)


@pytest.mark.parametrize("epsilon", [1e6, 1e100])
def test_a_budget_beyond_all_laws_is_predicted_as_no_noise(epsilon):
    found = dpoco.choose(3, horizon=100, budget=dpoco.Budget(epsilon, 1e-6))
    free = dpoco.choose(3, horizon=100, budget=None)
    known = {each.learner: each.predicted_regret for each in free}
    for each in found:
        assert each.predicted_regret == pytest.approx(known[each.learner], rel=0.2)

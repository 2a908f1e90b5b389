"""Published running losses: an independent account of what is released, bias, error bars, words."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from tests.oco.test_forgetting import BALL, BUDGET, LOSS, draws, inverse, make, power_series
from tests.samples import replays

import dpoco
from dpoco.accounting import forgetting
from dpoco.cli._render import describe_loss
from dpoco.domains import LpBall
from dpoco.environments import DriftingRegression
from dpoco.learning.model import Model
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

OPTIONS = [{}, {"half_life": 300.0}, {"half_life": "auto"}]


@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_the_damped_sum_of_losses_and_noise(options):
    world = DriftingRegression("turning", 2000, 3, seed=2)
    learner = make(horizon=2000, running_loss=True, budget=dpoco.Budget(8.0, 1e-6), **options)
    assert learner.estimated_loss is None  # nothing is released
    played = learner.run(0.9 * world.features, world.labels).losses
    total = learner._mechanism
    lengths = forgetting.batch_lengths(total.batch, total.growth, total.pushes)
    ends = np.cumsum(lengths).astype(int)
    ends = ends[ends < 2000]
    half_life = {None: math.inf, "auto": 200.0}.get(options.get("half_life"), 300.0)
    noise = draws(total)[: len(ends), -1]
    increments = np.diff(np.cumsum(played)[ends - 1] + noise / total.summand.loss_weight, prepend=0)
    value = rounds = 0.0
    for increment, length in zip(increments, lengths, strict=False):
        kept = 2.0 ** (-length / half_life)
        value, rounds = kept * value + increment, kept * rounds + length
    found = learner.estimated_loss
    assert found.rounds == pytest.approx(rounds)
    assert found.mean == pytest.approx(value / rounds, abs=2e-5)  # releases are rounded


@pytest.mark.parametrize("half_life", [None, 300.0])
def test_its_deviation_is_that_of_matrices(half_life):
    learner = make(horizon=2000, running_loss=True, half_life=half_life)
    world = DriftingRegression("constant", 2000, 3, seed=2)
    learner.run(world.features, world.labels)
    total = learner._mechanism
    lengths = forgetting.batch_lengths(total.batch, total.growth, total.pushes)
    n = int((np.cumsum(lengths) < 2000).sum())
    if half_life is None:  # the square root of 1/(1 - x)
        coefficients = np.cumprod([1.0, *((2 * i - 1) / (2 * i) for i in range(1, n))])
        row, rounds = np.linalg.norm(coefficients), lengths[:n].sum()
    else:
        kept = 2.0 ** (-lengths[0] / half_life)
        decoder = inverse(power_series(total.factorisation, n))
        damped = np.array([kept ** np.arange(i + 1) @ decoder[: i + 1][::-1] for i in range(n)])
        row, rounds = np.linalg.norm(damped), (lengths[0] * kept ** np.arange(n)).sum()
    expected = total.scale * row / total.summand.loss_weight / rounds
    assert learner.estimated_loss.deviation == pytest.approx(expected, rel=1e-9)


def errors(options, reacts, trials=200):
    """Errors of estimates in their own deviations, on short streams."""
    world = DriftingRegression("turning", 60, 3, seed=4)
    found = np.empty(trials)
    new = make(horizon=60, running_loss=True, batch=4, **options)
    for seed, learner in enumerate(replays(new, trials)):
        losses, seen = [], None
        for features, label in zip(world.features, world.labels, strict=True):
            decision = learner.decide()
            if reacts:  # to the decision, and to the loss that was published
                seen = learner.estimated_loss if learner.round % 4 == 0 else seen
                label = np.sign(decision @ features) * (
                    -1.0 if seen is None else np.sign(seen.mean)
                )
            losses.append((decision @ features - label) ** 2)
            learner.observe(features, label)
        own = learner.estimated_loss
        lengths = forgetting.batch_lengths(4, learner._mechanism.growth, learner._mechanism.pushes)
        ends = np.cumsum(lengths).astype(int)
        half_life = {None: math.inf, "auto": 6.0}.get(options.get("half_life"), 20.0)
        exact, start = 0.0, 0
        for end in ends[ends < 60]:
            exact = exact * 2.0 ** ((start - end) / half_life) + sum(losses[start:end])
            start = end
        found[seed] = (own.mean - exact / own.rounds) / own.deviation
    return found


@pytest.mark.parametrize("reacts", [False, True])
@pytest.mark.parametrize("options", [{}, {"half_life": 20.0}, {"half_life": "auto"}])
def test_it_is_unbiased_and_its_errors_are_as_large_as_it_says(options, reacts):
    found = errors(options, reacts)
    assert abs(found.mean()) < 5.0 / math.sqrt(len(found))  # false alarm 6e-7
    assert 0.75 < found.std() < 1.25  # five deviations


def test_a_loss_that_is_not_wanted_is_not_there():
    assert make().estimated_loss is None
    assert make().plan == make(running_loss=False).plan
    with pytest.raises(ValueError, match="quadratic"):
        NoisyFTRL(BALL, LOSS, horizon=100, budget=BUDGET, running_loss=True)
    with pytest.raises(ValueError, match="running_loss=True contradicts"):
        make(plan=make().plan, running_loss=True)


@pytest.mark.parametrize("options", OPTIONS)
def test_noise_grows_by_three_percent_and_the_guarantee_says_what_is_published(options):
    plain, own = make(**options), make(running_loss=True, **options)
    growth = own.plan.mechanism.scale / plain.plan.mechanism.scale
    assert 1.02 < growth < 1.035
    assert "and their running loss" in str(own.guarantee)
    assert any("losses to [0, 6.25]" in each for each in own.guarantee.conditions)
    own.guarantee.verify()


def test_huge_features_whose_margin_overflows_move_it_by_no_more_than_the_largest_loss():
    learner = NoisyFTRL(
        LpBall(2, 2.0, 1e3), LOSS, horizon=50, statistics="quadratic", running_loss=True,
        budget=BUDGET, source=Source.seeded(0),
    )  # fmt: skip
    most = learner.plan.mechanism.summand.loss_weight * learner.plan.mechanism.summand.largest_loss
    zero, seen = np.zeros(2), set()
    for at in ([-12.0, 8.0], [8.0, -12.0], [-700.0, -700.0], [700.0, 700.0], [1.0, -1.0]):
        with np.errstate(over="ignore", invalid="ignore"):
            seen.add(str(np.multiply(at, 3e307).sum()))
        leaf = learner._engine.leaf(np.array(at), zero, np.full(2, 3e307), 0.5)
        assert 0.0 <= leaf[-1] <= most
        assert np.linalg.norm(leaf) <= learner.guarantee.sensitivity
    assert "nan" in seen  # the products of raw entries have no sum
    # A record like this one is counted as one of the largest loss, whatever is released.
    learner.run(np.full((49, 2), 3e307), np.ones(49))
    assert np.isfinite(learner._engine.nonprivate_sum()).all()
    assert learner._engine.nonprivate_sum()[-1] <= 49 * most * (1 + 1e-9)


@pytest.mark.parametrize("options", OPTIONS)
def test_without_noise_it_is_exact(options):
    world = DriftingRegression("turning", 500, 3, seed=5)
    learner = make(horizon=500, budget=None, running_loss=True, batch=10, **options)
    losses = learner.run(0.9 * world.features, world.labels).losses
    found = learner.estimated_loss
    assert found.deviation == 0.0
    if not options:
        assert found.mean == pytest.approx(losses[: int(found.rounds)].mean(), rel=1e-9)


def test_models_and_reports_publish_it(tmp_path):
    world = DriftingRegression("turning", 1000, 3, seed=5)
    learner = NoisyFTRL(
        BALL, LOSS, horizon=1000, budget=dpoco.Budget(8.0, 1e-6), statistics="quadratic",
        running_loss=True,
    )  # fmt: skip
    learner.run(world.features, world.labels)
    schema = dpoco.datasets.Schema(
        features=("a", "b", "c"), ranges=((-1.0, 1.0),) * 3, intercept=False, task="regression",
        label="y", label_range=(-1.0, 1.0),
    )  # fmt: skip
    model, own = Model.of_schema(learner, schema), learner.estimated_loss
    assert model.estimated_loss == (own.mean, own.deviation, own.rounds)
    model.save(tmp_path / "model.json")
    assert Model.load(tmp_path / "model.json") == model
    assert dataclasses.replace(model, estimated_loss=None).to_dict().keys() < model.to_dict().keys()
    for wrong in ((math.nan, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 0.0)):
        with pytest.raises(ValueError, match="estimated loss"):
            dataclasses.replace(model, estimated_loss=wrong)
    said = describe_loss(dpoco.oco.EstimatedLoss(0.21234, 0.0061, 1000.0))
    assert said.startswith(
        "Estimated loss: 0.212 a round, with noise of +-0.012, over 1,000 rounds"
    )
    assert describe_loss(None) == ""

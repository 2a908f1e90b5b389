"""ResidualPhases: published numbers, an independent program, the lemma by search, noise, regret."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy
from tests.probes import probes
from tests.samples import replays

import dpoco
from dpoco import _core
from dpoco.audit import _sums, replay_audit
from dpoco.bandits import LinUCB, ResidualPhases
from dpoco.environments import LinearWorld
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.gaussian_sum import batch_starts
from dpoco.privacy.mechanisms.residuals import ResidualStatistics
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

from . import residual_phases_reference as program

BUDGET = dpoco.Budget(1.0, 1e-6)
BOUNDED = {"context_bound": 1.0, "reward_bound": 1.1}
NEAR = Neighbours(view="others")
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")  # short streams

# ---- published numbers ---------------------------------------------------------------------------

CLIPS = {
    None: [
        .33, .45625505, .54772872, .46855101, .40810468, .34174772, .22991400, .13727994,
        .17152153, .19412713, .19884495,
    ],
    .1: [
        .22, .31845623, .36110670, .27333524, .20658442, .14641207, .1, .17166345, .19603984,
        .20119971, .19901712,
    ],
}  # fmt: skip
THETA = {
    None: ([.00154519, .30444208, -.27776867, -.91112963], .00046586, 57.57876661),
    .1: ([.00142950, .30434851, -.27664059, -.91150421], .00039460, 56.45529202),
}  # fmt: skip


@pytest.mark.parametrize("known", [None, 0.1])
def test_published_runs_to_their_digits(known):
    """Without noise, but with steps as if there were some. Over a second: 5000 rounds in NumPy."""
    world = LinearWorld(3, 4, 5000, seed=7)
    learner = program.Reference(
        3, 4, horizon=5000, first=99, sigma=9.13937781,
        draws=np.random.default_rng(0).normal(size=(2000, 4)), noise=lambda k: (0.0, 0.0, 0.0),
        coins=np.arange(5000) % 3, reward_bound=1.1, reward_noise=known,
    )  # fmt: skip
    arms = learner.run(world.contexts, world.rewards)
    theta, trace, regret = THETA[known]
    ends = [99, 227, 394, 611, 893, 1260, 1737, 2358, 3165, 4214, 5000]
    assert learner.ends == ends
    own = world.means.max(axis=1).sum() - world.means[np.arange(5000), arms].sum()
    assert own == pytest.approx(regret, abs=1e-6)
    assert learner.theta[0] == pytest.approx(theta, abs=1e-8)
    assert np.trace(learner.P[0]) == pytest.approx(trace, abs=1e-8)
    assert learner.clips == pytest.approx(CLIPS[known], abs=1e-8)


def test_published_plans_to_their_digits():
    plan = ResidualPhases(5, 10, horizon=10**5, budget=BUDGET, **BOUNDED).plan
    total = plan.mechanism
    ends = [
        411, 945, 1639, 2541, 3714, 5240, 7223, 9801, 13153, 17511, 23176, 30541, 40116, 52564,
        68746, 89783, 100000,
    ]  # fmt: skip
    assert program.ends(total.batch, 10**5) == ends
    starts = [*zip(batch_starts(total.batch, total.growth), range(18), strict=False)]
    assert [start for start, _ in starts][1:-1] == ends[:-1]
    assert total.pushes == 16
    # A published bound on how far records move the sum is 5.8 % above what they can.
    assert total.summand.movement(NEAR) == pytest.approx(math.sqrt(4.18), rel=1e-11)
    published = 9.13937781 * math.sqrt(4.18 / 4.68)
    column = total.factorisation.column(16)
    assert total.scale / column == pytest.approx(published, rel=1e-6)  # a lattice costs little


def test_the_strategy_is_the_published_one():
    total = ResidualPhases(5, 10, horizon=20_000, budget=BUDGET, **BOUNDED).plan.mechanism
    four = replace(total.factorisation, pushes=4)
    c = np.array([1.0, *(0.4 * (1.0 - four.decay[0]) ** k for k in range(3))])
    lag = np.subtract.outer(np.arange(4), np.arange(4))
    matrix = np.where(lag >= 0, c[np.maximum(lag, 0)], 0.0) / four.column(4) / four.levels
    assert matrix[:, 0] == pytest.approx([0.91681561, 0.36672624, 0.14669050, 0.05867620], abs=1e-8)
    inverse = np.linalg.inv(matrix)
    assert inverse.diagonal() == pytest.approx([1.09073186, 1.08885261, 1.07703296, 1], abs=1e-8)
    assert inverse.diagonal(-1) == pytest.approx([-0.43554104, -0.43081318, -0.4], abs=1e-8)
    assert matrix == pytest.approx(program.strategy(4), abs=1e-9)


def test_the_published_scale_of_residuals():
    counts = np.array([40.0, 15, 20, 30, 35, 45, 60, 60, 50, 45])
    assert program.fitted_scale(counts, 0.3, 0.0) == pytest.approx(0.35314401, abs=1e-8)


# ---- against an independent program --------------------------------------------------------------


def stream(arms, d, rounds, reach, intercept, one_hot, seed):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(arms, d))
    theta /= np.linalg.norm(theta, axis=1)[:, None] * reach
    contexts = rng.normal(size=(rounds, d)) * reach / math.sqrt(d)
    if intercept is not None:
        contexts[:, -1] = intercept
    if one_hot:
        contexts *= 0.5
        contexts[:, :one_hot] = 0.6 * reach * np.eye(one_hot)[rng.integers(one_hot, size=rounds)]
    rewards = contexts @ theta.T + rng.uniform(-0.1, 0.1, (rounds, arms))
    contexts[5], contexts[6] = np.nan, 9.0 * contexts[6]
    rewards[7], rewards[8] = np.inf, -5.0
    return contexts, rewards


def compared(kind, arms=3, d=4, rounds=3000, reach=1.0, constant=None, **options):
    """Play a learner and a program on one stream; the program is given the learner's noise.

    Returns the largest differences of noise (in its scale), coefficients and clips (relative), and
    whether an arm differed.
    """
    intercept = options.get("intercept")
    own = {"horizon": rounds, "budget": BUDGET, **BOUNDED, "context_bound": reach, **options}
    learner = ResidualPhases(arms, d, source=Source.seeded(3), **own)
    total, claim = learner.plan.mechanism, Source.seeded(3)._claim()
    vector = ClippedVector(total.summand.size, 2.0, 1.0, math.inf)
    silent = total.scale == 0.0
    tape = None if silent else _core.ContinualSum(
        replace(total, summand=vector, batch=1, growth=None), claim
    )  # fmt: skip
    kept, taped = [np.zeros(vector.size)], [np.zeros(vector.size)]
    far = {"noise": 0.0, "coefficients": 0.0, "clip": 0.0, "arms": 0}

    def noise(k):
        flat = np.concatenate([part.ravel() for part in reference.leaf])
        found = kept[-1] - kept[-2] - flat
        drawn = 0.0 if tape is None else taped[-1] - taped[-2]
        far["noise"] = max(far["noise"], np.abs(found - drawn).max() / (total.scale or 1.0))
        n, m = arms * d, len(reference.leaf[1])
        return found[:n].reshape(arms, d), found[n : n + m], found[n + m :]

    reference = kind(
        arms, d, horizon=rounds, first=total.batch, noise=noise, coins=None,
        sigma=total.scale / total.factorisation.column(total.pushes),
        draws=probes.public_draws(d).reshape(2000, d),
        reward_bound=own["reward_bound"], context_bound=reach, intercept=intercept,
        parameter_bound=own.get("parameter_bound", 1.0), reward_noise=own.get("reward_noise"),
        one_hot=options.get("one_hot", 0), any_law=options.get("context_law") == "any",
        half_life=options.get("half_life"),
    )  # fmt: skip
    one_hot = options.get("one_hot", 0)
    told = intercept if constant is None else constant
    contexts, rewards = stream(arms, d, rounds, reach, told, one_hot, 11)
    start = 0
    for end in reference.ends:
        played = learner.run(contexts[start:end], rewards[start:end]).actions
        kept.append(np.array(learner._engine.released()))
        if tape is not None and end < rounds:
            taped.append(np.array(tape.push(np.zeros(vector.size))))
        reference.coins = played if start == 0 else None
        for t, arm in zip(range(start, end), played, strict=True):
            x = contexts[t] if np.all(np.isfinite(contexts[t])) else np.zeros(d)
            x = x * min(1.0, reach / max(np.linalg.norm(x), 1e-300))
            far["arms"] += int(reference.decide(x) != arm)
            given = np.isfinite(rewards[t, arm]) and np.all(np.isfinite(contexts[t]))
            reference.observe(arm, x, rewards[t, arm] if given else None)
        gap = np.abs(reference.theta - learner.coefficients).max()
        far["coefficients"] = max(far["coefficients"], float(gap))
        far["clip"] = max(far["clip"], abs(learner.clip / reference.clip - 1.0))
        start = end
    return far


SETTINGS = {
    "unknown": {},
    "known": {"reward_noise": 0.1, "numerics": "float"},
    "lattice": {"numerics": "lattice", "relation": "zero_out"},
    "units": {"reach": 3.0, "parameter_bound": 0.3},
    "intercept": {"intercept": 0.5, "reach": 1.5},
    "categories": {"one_hot": 4, "reward_noise": 0.1},
    "mixed": {"one_hot": 3, "d": 6, "reach": 2.0},
    "mixed, with a constant": {"one_hot": 2, "d": 5, "intercept": 0.3},
    "one arm": {"arms": 1, "d": 3},
    "one entry": {"arms": 2, "d": 1},
    "many": {"arms": 4, "d": 9, "budget": dpoco.Budget(8.0, 1e-6)},
    "any law": {"context_law": "any"},
    "any law, units": {"context_law": "any", "reach": 3.0, "parameter_bound": 0.3, "d": 6},
    "any law, lattice": {"context_law": "any", "numerics": "lattice", "relation": "zero_out"},
    "any law, untold": {"context_law": "any", "constant": 0.5},
    "any law, one arm": {"context_law": "any", "arms": 1, "d": 2},
    "any law, more": {"context_law": "any", "budget": dpoco.Budget(8.0, 1e-6), "rounds": 6000},
    "half-life": {"half_life": 1500.0},
    "half-life, any law": {"half_life": 900.0, "context_law": "any", "reach": 3.0},
    "half-life, many phases": {
        "half_life": 300.0,
        "budget": dpoco.Budget(8.0, 1e-6),
        "rounds": 5000,
        "numerics": "lattice",
        "parameter_bound": 2.0,
    },
}


@pytest.mark.parametrize("name", SETTINGS)
def test_it_does_what_its_page_says(name):
    far = compared(program.Reference, **SETTINGS[name])
    assert far["noise"] < 1e-3  # releases are rounded to 2^-13 of the scale at least
    assert far["coefficients"] < 1e-8
    assert far["clip"] < 1e-8
    assert far["arms"] == 0


def test_without_noise_it_is_the_program_without_noise():
    far = compared(program.Reference, budget=None)
    # Variances that are 0 in the program are not quite: clips differ a little.
    assert far["noise"] < 1e-3
    assert far["coefficients"] < 1e-3


class Uncounted(program.Reference):
    def observe(self, arm, x, r):
        before = self.leaf[2].copy()
        held = self.leaf
        super().observe(arm, x, r)
        held[2][:] = before


class Unclipped(program.Reference):
    def observe(self, arm, x, r):
        own, self.clip = self.clip, 1e3
        super().observe(arm, x, None if r is None else r * 1e3)
        self.clip = own


class Counting(program.Reference):
    """Reads the number of rounds of an arm off the data."""

    def observe(self, arm, x, r):
        self.count = getattr(self, "count", np.zeros(self.arms)) + (np.arange(self.arms) == arm)
        super().observe(arm, x, r)

    def moments(self, k, lengths):
        whole, contexts = super().moments(k, lengths)
        return whole * self.count.max() / self.count.mean(), contexts


class Hopeful(program.Reference):
    def scores(self, x):
        return -super().scores(x)


class Uncorrected(program.Reference):
    def corrected(self, G, packed):
        return G


class Surer(program.Reference):
    """Shortens the belief's mean itself."""

    def close(self):
        super().close()
        self.mean = self.theta.copy()


class Centred(program.Reference):
    def normal(self, sums, lengths):
        sums[:, -self.d :] = 0.0
        return super().normal(sums, lengths)


@pytest.mark.parametrize("kind", [Uncorrected, Surer, Centred])
def test_planted_faults_with_any_law_are_seen(kind):
    """Coefficients are longer than the bound."""
    far = compared(
        kind, rounds=6000, constant=0.5, context_law="any", parameter_bound=0.4,
        budget=dpoco.Budget(8.0, 1e-6),
    )  # fmt: skip
    assert max(far["coefficients"], far["clip"]) > 1e-3 or far["arms"] > 0


class Certain(program.Reference):
    """Loses what it knows half as fast."""

    def close(self):
        self.half_life, given = 2.0 * self.half_life, self.half_life
        super().close()
        self.half_life = given


def test_a_half_life_that_is_not_kept_is_seen():
    far = compared(Certain, half_life=1500.0)
    assert max(far["coefficients"], far["clip"]) > 1e-3


@pytest.mark.parametrize("kind", [Uncounted, Unclipped, Counting, Hopeful])
def test_planted_faults_are_seen(kind):
    far = compared(kind)
    assert max(far["noise"], far["coefficients"], far["clip"]) > 1e-3 or far["arms"] > 0


# ---- privacy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("z", "mean"), [(0.25, None), (0.5, None), (0.8, None), (1.5, None), (0.5, 0.2), (0.3, 0.7)]
)
def test_records_move_the_sum_as_far_as_a_search_finds(z, mean):
    """Over lengths, angle and residuals, for one arm and for two; nothing is farther apart.

    Over a second: a search from 24 points.
    """
    summand = ResidualStatistics(2, 1.5, 2, 10, math.sqrt(z), 0.3, mean)
    edges = program.EDGES

    def leaf(length, angle, residual, arm):
        x = length * np.array([math.cos(angle), math.sin(angle)])
        vectors, bins = np.zeros((2, 2)), np.zeros(10)
        vectors[arm] = np.clip(residual, -1.0, 1.0) * x
        bins[np.count_nonzero(abs(residual) > edges)] = 0.3
        matrices = np.zeros((2, 3))
        matrices[0 if mean is None else arm] = math.sqrt(z) * program.pack(x)
        return np.concatenate([vectors.ravel(), matrices.ravel(), (mean or 0.0) * x, bins])

    rng, farthest = np.random.default_rng(1), 0.0
    bounds = [(0, 1), (0, 1), (0, math.pi), (-3, 3), (-3, 3)]
    for other in (0, 1):

        def apart(at, other=other):
            return -np.linalg.norm(leaf(at[0], 0.0, at[3], 0) - leaf(at[1], at[2], at[4], other))

        low, high = np.transpose(bounds)
        for _ in range(12):
            found = scipy.optimize.minimize(apart, rng.uniform(low, high), bounds=bounds)
            farthest = max(farthest, -found.fun)
    stated = summand.movement(NEAR)
    assert farthest <= stated
    assert farthest == pytest.approx(stated, rel=1e-6)
    empty = leaf(1.0, 0.3, 1.0, 0)
    assert np.linalg.norm(empty) == pytest.approx(summand.movement(Neighbours("zero_out")))


@pytest.mark.parametrize("law", ["normal", "any"])
def test_the_engine_adds_no_more_than_is_stated(law):
    """Pairs of records, on a learner in its third phase; a bound without the histogram is seen."""
    learner = ResidualPhases(
        2, 3, horizon=3000, budget=BUDGET, source=Source.seeded(5), context_law=law, **BOUNDED
    )
    world = LinearWorld(2, 3, 3000, seed=1)
    learner.run(world.contexts[:600], world.rewards[:600])
    engine, clip = learner._engine, learner.clip
    x = np.array([0.6, 0.0, 0.8])
    margin = float(learner.coefficients[0] @ x)
    one, other = engine.leaf(0, x, margin + 1.2 * clip), engine.leaf(0, -x, 3.0 * clip - margin)
    summand = learner.plan.mechanism.summand
    assert np.linalg.norm(one - other) == pytest.approx(summand.movement(NEAR), rel=1e-9)
    assert np.linalg.norm(one - other) > 2.0 * (1.02 if law == "normal" else 1.04)
    rng = np.random.default_rng(2)
    for _ in range(2000):
        rows = rng.normal(size=(2, 3))
        rows *= (rng.random(2) ** 0.2 / np.linalg.norm(rows, axis=1))[:, None]
        rewards, arms = rng.uniform(-1.1, 1.1, 2), rng.integers(2, size=2)
        leaves = [engine.leaf(*each) for each in zip(arms, rows, rewards, strict=True)]
        assert np.linalg.norm(leaves[0] - leaves[1]) <= summand.movement(NEAR)
        assert np.linalg.norm(leaves[0]) <= summand.movement(Neighbours("zero_out"))


@pytest.mark.parametrize(("law", "mean"), [("normal", 0.0), ("any", 0.2)])
def test_epsilon_is_that_of_what_moves_by_brute_force(law, mean):
    """At few phases: the covariance of all releases, and the farthest leaf in every phase."""
    learner = ResidualPhases(2, 2, horizon=400, budget=BUDGET, context_law=law, **BOUNDED)
    total, n = learner.plan.mechanism, learner.plan.mechanism.pushes
    assert 3 <= n <= 8
    noise = np.linalg.inv(program.strategy(n)) * total.scale / total.factorisation.column(n)
    inverse = np.linalg.inv(noise @ noise.T)
    apart = math.sqrt(4.0 + 4.0 * mean**2 + 2.0 * 0.3**2)
    mus = apart * np.sqrt(inverse.diagonal())
    assert learner.guarantee.mu == pytest.approx(mus.max(), rel=1e-6)
    assert learner.guarantee.mu >= mus.max() * (1.0 - 1e-9)
    assert mus.min() == pytest.approx(mus.max(), rel=1e-6)  # columns are equally long
    low, delta = learner.guarantee.epsilon - 0.01, 0.0
    mu = mus.max()
    for sign, z in ((1.0, mu / 2 - low / mu), (-math.exp(low), -mu / 2 - low / mu)):
        delta += sign * 0.5 * math.erfc(-z / math.sqrt(2.0))
    assert delta > 1e-6


@pytest.mark.parametrize("law", ["normal", "any"])
def test_releases_have_the_law_that_is_stated(law):
    """Increments over 60 seeds, whitened; a scale that is 5 % smaller is refused."""
    pushes = []
    new = ResidualPhases(
        2, 3, horizon=600, budget=BUDGET, source=Source.seeded(0), context_law=law, **BOUNDED
    )
    for learner in replays(new, 60):
        ends, rows = program.ends(learner.plan.mechanism.batch, 600)[:-1], [0.0]
        for length in np.diff([0, *ends]):
            learner.run(np.full((length, 3), np.nan), np.zeros((length, 2)))
            rows.append(np.array(learner._engine.released()))
        pushes.append(np.diff(np.array([rows[0] + np.zeros_like(rows[1]), *rows[1:]]), axis=0))
    total = new.plan.mechanism
    white = np.einsum("st,ntd->nsd", program.strategy(total.pushes), np.array(pushes))
    square = float((white**2).sum()) / (total.scale / total.factorisation.column(total.pushes)) ** 2
    low, high = scipy.stats.chi2(white.size).ppf([5e-7, 1 - 5e-7])
    assert low < square < high
    assert not low < square / 0.95**2 < high
    assert abs(np.mean(white[:, 0] * white[:, 1])) < 6 * total.scale**2 / math.sqrt(
        white[:, 0].size
    )


def uncounted(*arguments):
    found = kept(*arguments)
    found[-10:] = 0.0
    return found


kept = _sums.residual_statistics


def test_a_histogram_that_is_not_stated_is_found(monkeypatch):
    world = LinearWorld(2, 2, 40, seed=1)
    streams = (np.array(world.contexts), np.array(world.rewards))
    replacements = [(0, [0.0, 1.0], [1.0, -1.0]), (20, [1.0, 0.0], [-1.0, 1.0])]

    def made(source):
        return ResidualPhases(2, 2, horizon=40, budget=BUDGET, source=source, **BOUNDED)

    assert not replay_audit(made, streams, replacements).violated
    monkeypatch.setattr(_sums, "residual_statistics", uncounted)
    assert replay_audit(made, streams, replacements).violated


# ---- arguments -----------------------------------------------------------------------------------


def test_a_first_phase_that_is_too_short_is_warned_of():
    with pytest.warns(dpoco.NoiseDominatesWarning, match="first phase"):
        ResidualPhases(5, 10, horizon=2000, budget=BUDGET, **BOUNDED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ResidualPhases(5, 10, horizon=5000, budget=BUDGET, **BOUNDED)

    with pytest.warns(dpoco.NoiseDominatesWarning, match="half-life"):
        ResidualPhases(5, 10, horizon=50_000, budget=BUDGET, half_life=300, **BOUNDED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ResidualPhases(5, 10, horizon=5000, budget=BUDGET, half_life=1e6, **BOUNDED)


def test_phases_are_equally_long_where_arms_change():
    """Nothing else of the release changes: leaf, strategy and noise are what they were."""
    plain = ResidualPhases(5, 10, horizon=10**5, budget=BUDGET, **BOUNDED).plan
    own = ResidualPhases(5, 10, horizon=10**5, budget=BUDGET, half_life=30_000.0, **BOUNDED).plan
    total = own.mechanism
    length = round(0.7 * (plain.mechanism.batch**2 * 30_000.0) ** (1.0 / 3.0))
    assert (total.batch, total.growth, total.pushes) == (length, None, (10**5 - 1) // length)
    assert total.summand == plain.mechanism.summand
    assert total.scale / total.factorisation.column(total.pushes) == pytest.approx(
        plain.mechanism.scale / plain.mechanism.factorisation.column(16), rel=1e-6
    )
    # Many rounds of a person in one phase add up.
    column = total.column(Neighbours(rounds=3, separation=1))
    assert column == pytest.approx(3.0 * total.factorisation.column(total.pushes))


def test_a_single_round_releases_nothing():
    learner = ResidualPhases(2, 3, horizon=1, budget=BUDGET, **BOUNDED)
    assert learner.guarantee.epsilon == 0.0
    learner.decide([1.0, 0.0, 0.0])
    learner.observe(1.0)
    assert np.all(learner.coefficients == 0.0)


def test_all_rounds_of_a_person_in_one_phase_add_up():
    plan = ResidualPhases(2, 3, horizon=20_000, budget=BUDGET, **BOUNDED).plan
    total = plan.mechanism
    column = total.factorisation.column(total.pushes)
    assert total.column(Neighbours(rounds=3, separation=1)) == pytest.approx(3.0 * column)
    rule = dpoco.Participation(3, separation=50, enforced=False)
    few = ResidualPhases(2, 3, horizon=20_000, budget=BUDGET, participation=rule, **BOUNDED)
    assert few.guarantee.epsilon <= 1.0
    assert few.plan.mechanism.scale > 2.9 * total.scale


# ---- regret --------------------------------------------------------------------------------------


def regret(kind, world, rewards=None, **options):
    learner = kind(
        world.arms, world.dimension, horizon=world.horizon, budget=BUDGET, source=Source.seeded(1),
        **{"context_bound": 1.0, "reward_bound": world.reward_bound, **options},
    )  # fmt: skip
    rewards = world.rewards if rewards is None else rewards
    return float(learner.run(world.contexts, rewards).pseudo_regret(world.means)[-1])


@pytest.mark.parametrize("seed", range(3))
def test_it_has_less_than_half_of_the_regret_of_linucb(seed):
    world = LinearWorld(4, 6, 40_000, seed=seed)
    known, unknown = regret(ResidualPhases, world, reward_noise=0.1), regret(ResidualPhases, world)
    other = regret(LinUCB, world, reward_noise=0.1)
    assert 2.5 * known < other
    assert 2.0 * unknown < other


def test_a_learner_of_the_worst_arm_is_found_out():
    world = LinearWorld(3, 5, 10_000, seed=5)
    blind = float((world.means.max(axis=1) - world.means.mean(axis=1)).sum())
    assert regret(ResidualPhases, world) < 0.15 * blind
    assert regret(ResidualPhases, world, rewards=-world.rewards) > 1.5 * blind


def test_a_constant_that_is_told_is_learned():
    """Arms with offsets: without the constant the surrogate is far off, and corrected or not."""
    rng, rounds = np.random.default_rng(3), 20_000
    contexts = rng.normal(size=(rounds, 5))
    contexts[:, :4] *= 0.5 / np.linalg.norm(contexts[:, :4], axis=1)[:, None]
    contexts[:, 4] = 0.866
    theta = rng.normal(size=(4, 5))
    theta /= np.linalg.norm(theta, axis=1)[:, None]
    means = contexts @ theta.T
    rewards = means + rng.uniform(-0.1, 0.1, means.shape)
    found = {}
    for name, told in (
        ("told", {"intercept": 0.866}), ("untold", {}), ("any", {"context_law": "any"})
    ):  # fmt: skip
        learner = ResidualPhases(
            4, 5, horizon=rounds, budget=BUDGET, source=Source.seeded(2), **BOUNDED, **told
        )
        found[name] = float(learner.run(contexts, rewards).pseudo_regret(means)[-1])
    blind = float((means.max(axis=1) - means.mean(axis=1)).sum())
    assert found["told"] < 0.05 * blind
    assert found["any"] < 0.08 * blind
    assert max(found["told"], found["any"]) < found["untold"]


def test_categories_that_are_told_are_learned():
    """One-hot entries of uneven frequency beside others that depend on them."""
    rng, rounds, v = np.random.default_rng(1), 30_000, 0.7
    category = rng.choice(4, rounds, p=[0.5, 0.25, 0.15, 0.1])
    contexts = np.zeros((rounds, 8))
    contexts[np.arange(rounds), category] = v
    contexts[:, 4:] = (0.15 * rng.normal(size=(4, 4)))[category]
    contexts[:, 4:] += 0.2 * rng.normal(size=(rounds, 4))
    contexts /= np.maximum(1.0, np.linalg.norm(contexts, axis=1))[:, None]
    theta = rng.normal(size=(4, 8))
    theta /= np.linalg.norm(theta, axis=1)[:, None]
    means = contexts @ theta.T
    rewards = means + rng.uniform(-0.1, 0.1, means.shape)
    found = []
    for kind, options in ((ResidualPhases, {"one_hot": 4}), (LinUCB, {"reward_noise": 0.1})):
        learner = kind(
            4, 8, horizon=rounds, budget=BUDGET, source=Source.seeded(2), **BOUNDED, **options
        )
        found.append(float(learner.run(contexts, rewards).pseudo_regret(means)[-1]))
    assert found[0] < 0.6 * found[1]


def changing(kind, seed, rounds=30_000):
    """Arms that change their sign at half of the horizon, or turn by 90 degrees in a quarter."""
    world, half = LinearWorld(3, 4, rounds, seed=seed), rounds // 2
    if kind == "reversed":
        sign = np.where(np.arange(rounds) < half, 1.0, -1.0)[:, None]
        return world.contexts, sign * world.means, sign * world.rewards
    rng, angles = np.random.default_rng(seed), 2.0 * math.pi * np.arange(rounds) / rounds
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    means = np.empty((rounds, 3))
    for arm in range(3):
        plane = np.linalg.qr(rng.normal(size=(4, 2)))[0].T
        means[:, arm] = np.einsum("td,td->t", world.contexts, along @ plane)
    return world.contexts, means, means + rng.uniform(-0.1, 0.1, means.shape)


@pytest.mark.parametrize("law", ["normal", "any"])
@pytest.mark.parametrize("kind", ["reversed", "turning"])
def test_arms_that_change_are_followed(kind, law):
    """An eighth of the regret without a half-life, if that is neither far too long nor short."""
    contexts, means, rewards = changing(kind, 4)
    found = {}
    for half_life in (None, 9000.0, 3e7, 60.0):
        learner = ResidualPhases(
            3, 4, horizon=30_000, budget=dpoco.Budget(4.0, 1e-6), source=Source.seeded(2),
            half_life=half_life, context_law=law, **BOUNDED,
        )  # fmt: skip
        trace = learner.run(contexts, rewards)
        found[half_life] = float(trace.pseudo_regret(means)[-1])
    assert 8.0 * found[9000.0] < found[None]
    assert 8.0 * min(found[3e7], found[60.0]) > found[None]

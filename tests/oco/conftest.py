"""Learners with coupled decisions at parameters of a test's own, and streams for them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from tests.plans import coupled as numbers
from tests.plans import recoupled

from dpoco.accounting import continuous_multiplicative_weights, coupled_regularized_leader
from dpoco.accounting.coupled_runs import euclidean_problem
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import (
    CustomLoss,
    HuberLoss,
    LinearLoss,
    LogisticLoss,
    QuadraticLoss,
    SquaredLoss,
)
from dpoco.oco import (
    ContinuousMultiplicativeWeights,
    CoupledRegularizedLeader,
)
from dpoco.random import Source

D = 3
DOMAINS = {
    "ball": LpBall(D, 2.0, 1.0),
    "l3": LpBall(D, 3.0, 1.0),
    "box": Box([-1.0, 0.0, -0.5], [1.0, 2.0, 0.5]),
    "simplex": Simplex(D),
    "line": LpBall(1, 2.0, 1.0),
}
LOSSES = {
    "linear": LinearLoss(1.0),
    "logistic": LogisticLoss(1.0),
    "huber": HuberLoss(1.0, 1.0, threshold=0.5),
    "squared": SquaredLoss(1.0, 1.0),
    "quadratic": QuadraticLoss(2.0, 1.0),
    "custom": CustomLoss(lipschitz=1.0, smoothness=1.0),
}
ACCOUNTANTS = {
    ContinuousMultiplicativeWeights: continuous_multiplicative_weights,
    CoupledRegularizedLeader: coupled_regularized_leader,
}
LEARNERS = {"weights": ContinuousMultiplicativeWeights, "leader": CoupledRegularizedLeader}


def parse(name):
    """Of a name such as "weights dartboard ball logistic"."""
    learner, coupling, domain, loss = name.split()
    return LEARNERS[learner], coupling, DOMAINS[domain], LOSSES[loss]


def parameters(name, *, horizon=24, domain=None, loss=None, **own):
    """Return a plan: short blocks, many coins, a cap that binds; forecasts are zero."""
    kind, coupling, own_domain, own_loss = parse(name)
    domain, loss = domain or own_domain, loss or own_loss
    problem = euclidean_problem(domain, loss, own.get("unbounded", False))
    clip = 0.3 if coupling in ("density_ratio", "anchored") else 0.0
    maximal = coupling == "maximal"
    shared = {
        "coupling": coupling,
        "block": 1 if maximal else min(2, horizon),
        "forced_switch": {"scheduled": 1.0, "maximal": 0.0}.get(coupling, 0.4),
        "clip_high": clip,
        "clip_low": clip,
        "max_switches": None if maximal else 6,
        "regret_bound": 0.0,
        "expected_switches": 0.0,
    }
    quiet = ACCOUNTANTS[kind].calibrate(
        domain, loss, horizon=horizon, budget=None, unbounded=problem.unbounded
    )
    if kind is CoupledRegularizedLeader:
        shared |= {
            "step_size": min(0.2, 0.1 / max(problem.smoothness, 1e-9)),
            "noise_scale": (1.0 if maximal else 4.0) * problem.lipschitz,
        }
    else:
        exact = problem.family == "linear" and problem.linear_sampler
        shared |= {
            "inverse_temperature": 8.0 if maximal else 0.5,
            "regularization": 8.0,
            "factor_range": problem.factor_range if coupling == "dartboard" else 0.0,
            "anchors": 4 if coupling == "anchored" else 0,
            "sampler": "exact" if exact else "mcmc",
            "sampler_tolerance": 0.0 if exact else 1e-6,
        }
    return recoupled(quiet, **{**shared, **own})


def make(name, *, seed=1, source=None, budget=None, domain=None, loss=None, options=None, **own):
    """Return a learner; `options` are constructor arguments, the rest is of its plan."""
    kind, _, own_domain, own_loss = parse(name)
    more = {"relation": own.pop("relation")} if "relation" in own else {}
    plan = parameters(name, domain=domain, loss=loss, **own)
    settled = numbers(plan)
    return kind(
        domain or own_domain,
        loss or own_loss,
        horizon=settled.horizon,
        budget=budget,
        plan=plan,
        unbounded=settled.unbounded,
        source=source or Source.seeded(seed),
        **more,
        **(options or {}),
    )


class Softplus:
    """ln(1 + exp(<v, x>)) - y <v, x> as a user would write it."""

    def __init__(self, v, y, offset=0.0):
        self.v, self.y, self.offset = np.asarray(v, dtype=float), float(y), offset

    def value(self, x):
        margin = self.v @ x
        return float(np.logaddexp(0.0, margin) - self.y * margin + self.offset)

    def gradient(self, x):
        return (1.0 / (1.0 + math.exp(-(self.v @ x))) - self.y) * self.v

    def hessian(self, x):
        chance = 1.0 / (1.0 + math.exp(-(self.v @ x)))
        return chance * (1.0 - chance) * np.outer(self.v, self.v)


class Stream:
    """Records of one family: `data` is what `run` takes, or the objects of custom losses."""

    def __init__(self, name, rounds, seed=0):
        domain, loss = name.split()[2:]
        d = DOMAINS[domain].dimension
        rng = np.random.default_rng(seed)
        rows, labels = rng.normal(size=(rounds, d)), rng.normal(size=rounds)
        self.kind = loss
        if loss == "linear":
            self.data = (rows,)
        elif loss == "quadratic":
            factors = rng.normal(size=(rounds, d, d)) / d
            self.data = (factors @ factors.swapaxes(1, 2), rows)
        elif loss == "custom":
            unit = rows / np.linalg.norm(rows, axis=1)[:, None]
            self.data = ([Softplus(v, y > 0.0) for v, y in zip(unit, labels, strict=True)],)
        else:
            self.data = (rows, labels)

    def part(self, start, stop):
        return tuple(each[start:stop] for each in self.data)

    def observe(self, learner, t):
        learner.observe(*(each[t] for each in self.data))

    def play(self, learner, start, stop):
        """Return the decisions of these rounds; by `run` if the losses are arrays."""
        if self.kind != "custom":
            return learner.run(*self.part(start, stop)).decisions
        decisions = []
        for t in range(start, stop):
            decisions.append(learner.decide())
            self.observe(learner, t)
        return np.array(decisions).reshape(stop - start, learner.domain.dimension)


def admissible():
    """Names of all combinations of learner, coupling, domain and loss that work with privacy."""
    names = []
    for domain in ("ball", "l3", "box", "simplex"):
        for loss in LOSSES:
            problem = euclidean_problem(DOMAINS[domain], LOSSES[loss])
            couplings = ["dartboard", "anchored", "scheduled"]
            if problem.exact_normalizer:
                couplings.append("density_ratio")
            names += [f"weights {coupling} {domain} {loss}" for coupling in couplings]
            names += [f"leader {c} {domain} {loss}" for c in ("density_ratio", "scheduled")]
    return names


def pytest_generate_tests(metafunc):
    if "any_problem" in metafunc.fixturenames:
        metafunc.parametrize("any_problem", admissible())


class Broken:
    """A loss whose chosen functions misbehave."""

    def __init__(self, good, **replaced):
        self.good = good
        self.replaced = replaced

    def __getattr__(self, name):
        return self.replaced.get(name) or getattr(self.good, name)


def texts(error):
    """Messages of an exception and of what it came from."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.fixture(scope="session")
def coupled():
    """The functions above, for the tests of both learners."""
    return SimpleNamespace(
        make=make,
        plan=parameters,
        numbers=numbers,
        stream=Stream,
        softplus=Softplus,
        parse=parse,
        broken=Broken,
        texts=texts,
        learners=LEARNERS,
        domains=DOMAINS,
        losses=LOSSES,
    )

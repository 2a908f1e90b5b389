"""Standard problems of ``dpoco plan``: domains of diameter 1, losses of slope or range 1."""

from __future__ import annotations

import math
from typing import Any

from dpoco._validation import choice, positive_int
from dpoco.accounting import Budget
from dpoco.cli._plan_report import Scale, plan_report
from dpoco.domains import Box, Domain, LpBall, Simplex
from dpoco.learners import Learner
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, Loss

_LOSSES = ("linear", "logistic", "huber", "general")
_DOMAINS = ("ball", "box", "simplex")


def plan_records(
    entry: Learner, *, dimension: int, domain: str, loss: str, options: dict[str, Any], **asked: Any
) -> dict[str, Any]:
    """Plan a learner of convex losses on a domain of Euclidean diameter 1, slope 1."""
    positive_int("dimension", dimension, maximum=10**6)
    decisions = _domain(domain, dimension)
    losses = _loss(loss, decisions)
    predicted = entry.name.endswith("frank-wolfe")
    scale = Scale(_predicted if predicted else _convex, "predicted" if predicted else "proven",
                  "G D")  # fmt: skip
    return _planned(
        entry, (decisions, losses), options, scale,
        {"dimension": dimension, "domain": domain, "loss": loss, **options}, asked,
    )  # fmt: skip


def plan_surface(entry: Learner, *, dimension: int, options: dict[str, Any], **asked: Any) -> Any:
    """Plan the learner of Lipschitz losses on the interval or square of side 1, slope 1."""
    if dimension not in (1, 2):
        raise ValueError(f"dimension must be 1 or 2; got {dimension}")
    domain = Box([0.0] * dimension, [1.0] * dimension)
    options = {"lipschitz": 1.0, **options}
    # Two losses in the square differ by the slope times its diagonal at most.
    scale = Scale(lambda p: (p.regret_bound, math.sqrt(dimension)), "proven", "G D")
    return _planned(entry, (domain,), options, scale, {"dimension": dimension, **options}, asked)


def plan_experts_of(
    entry: Learner, *, experts: int, options: dict[str, Any], **asked: Any
) -> dict[str, Any]:
    """Plan a learner of experts, losses in [0, 1]."""
    scale = Scale(lambda p: (p.regret_bound, 1.0), "proven", "of the losses' range")
    return _planned(entry, (experts,), options, scale, {"experts": experts, **options}, asked)


def plan_arms(
    entry: Learner, *, arms: int, dimension: int, options: dict[str, Any], **asked: Any
) -> dict[str, Any]:
    """Plan a contextual bandit with rewards in [-1, 1]."""
    shape = {"arms": arms, "dimension": dimension, **options}
    if entry.name == "linucb":
        scale = Scale(lambda p: (p.regret_bound, 2.0 * p.reward_bound), "proven",
                      "of the rewards' range")  # fmt: skip
        return _planned(entry, (arms, dimension), options, scale, shape, asked)
    scale = Scale(lambda p: (p.predicted_error * p.horizon, p.attainable), "predicted",
                  "of what can be attained")  # fmt: skip
    problem = (arms, LpBall(dimension, 1.0, 1.0))
    return _planned(entry, problem, options, scale, shape, asked)


def plan_batch(
    entry: Learner, *, dimension: int, domain: str, loss: str, options: dict[str, Any], **asked: Any
) -> dict[str, Any]:
    """Plan one private fit to as many records as there would be rounds."""
    positive_int("dimension", dimension, maximum=10**6)
    decisions = _domain(domain, dimension)
    losses = _loss(choice("loss", loss, ("huber", "logistic")), decisions)
    cls = entry.load()

    def build(rounds: int, budget: Budget) -> Any:
        return cls(decisions, losses, records=rounds, budget=budget, **options)

    scale = Scale(lambda p: (math.nan, 1.0), None, "")
    problem = {"dimension": dimension, "domain": domain, "loss": loss, **options}
    return plan_report(entry, build, None, scale, problem=problem, **asked)


def plan_reports(
    entry: Learner, *, hypotheses: int, labels: int, options: dict[str, Any], **asked: Any
) -> dict[str, Any]:
    """Plan the server of locally private reports, for K hypotheses over M labels.

    The bound is that of ``learner="hedge"`` on the worst-case range, which holds for every class of
    K hypotheses and all labels; the class built here is a random one.
    """
    from dpoco.environments import dirichlet_class

    positive_int("hypotheses", hypotheses, maximum=4096)
    positive_int("labels", labels, maximum=4096)
    if hypotheses < 2 or labels < 2:
        raise ValueError("hypotheses and labels must be at least 2")
    cls = entry.load()
    from dpoco.local import Hypotheses

    known = Hypotheses(dirichlet_class(hypotheses, labels, seed=0))
    parts = asked["epsilon"]

    def build(rounds: int, budget: Budget) -> Any:
        return _Server(
            cls(
                known, epsilon=parts, horizon=rounds, learner="hedge", range="worst_case", **options
            )
        )

    scale = Scale(lambda p: (p.risk_bound, math.log(hypotheses)), "proven", "of log K nats")
    problem = {"hypotheses": hypotheses, "labels": labels, **options}
    return plan_report(
        entry, build, lambda rounds, budget: build(rounds, budget).parameters, scale,
        problem=problem, **{**asked, "delta": 0.0},
    )  # fmt: skip


class _ServerParameters:
    """The public choices of a server, in the shape of other learners' parameters."""

    regret_scope = None

    def __init__(self, server: Any) -> None:
        arguments = server.get_params()
        self.risk_bound = float(server.risk_bound())
        self._record = {
            name: value
            for name, value in arguments.items()
            if isinstance(value, (int, float, str)) and name != "public_seed"
        }
        self._record["mixing"] = server.mixing

    def to_dict(self) -> dict[str, Any]:
        return {"risk_bound": self.risk_bound, **self._record}


class _Server:
    def __init__(self, server: Any) -> None:
        self.parameters = _ServerParameters(server)
        self.guarantee = server.guarantee


def _planned(
    entry: Learner,
    problem: tuple[Any, ...],
    options: dict[str, Any],
    scale: Scale,
    facts: dict[str, Any],
    asked: dict[str, Any],
) -> dict[str, Any]:
    cls = entry.load()
    accountant = cls._accountant

    def build(rounds: int, budget: Budget) -> Any:
        return cls(*problem, horizon=rounds, budget=budget, **options)

    def calibrate(rounds: int, budget: Budget) -> Any:
        return accountant.calibrate(*problem, horizon=rounds, budget=budget, **options)

    return plan_report(entry, build, calibrate, scale, problem=facts, **asked)


def _convex(parameters: Any) -> tuple[float, float]:
    return parameters.regret_bound, parameters.lipschitz * parameters.diameter


def _predicted(parameters: Any) -> tuple[float, float]:
    return parameters.predicted_error * parameters.horizon, parameters.loss_range


def _domain(name: str, dimension: int) -> Domain:
    """Return the domain of Euclidean diameter 1."""
    choice("domain", name, _DOMAINS)
    if name == "ball":
        return LpBall(dimension, 2.0, 0.5)
    if name == "box":
        half = 0.5 / math.sqrt(dimension)
        return Box([-half] * dimension, [half] * dimension)
    return Simplex(dimension, math.sqrt(0.5))


def _loss(name: str, domain: Domain) -> Loss:
    """Return the family of losses that are 1-Lipschitz in l2."""
    choice("loss", name, _LOSSES)
    # The declared bound in the domain's dual norm follows from the one in l2.
    dual = math.pow(domain.dimension, max(0.0, 1.0 / domain.dual_exponent - 0.5))
    if name == "linear":
        return LinearLoss(dual, gradient_bound_l2=1.0)
    if name == "logistic":
        return LogisticLoss(dual, feature_bound_l2=1.0)
    if name == "huber":
        return HuberLoss(dual, feature_bound_l2=1.0)
    # A custom loss declares its bounds in the dual norm; these give 1 in l2.
    stretch = math.pow(domain.dimension, max(0.0, 0.5 - 1.0 / domain.dual_exponent))
    return CustomLoss(1.0 / stretch, 1.0 / stretch**2)

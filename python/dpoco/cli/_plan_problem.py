"""Standard problems of ``dpoco plan``: domains of diameter 1, losses of slope or range 1.

Parameters of the functions besides the learner are options of the command, as their docstrings say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from dpoco._validation import choice, positive_int
from dpoco.accounting import Budget
from dpoco.domains import Box, Domain, LpBall, Simplex
from dpoco.learners import Learner
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, Loss


@dataclass(frozen=True)
class Problem:
    """What a learner is planned for, and how to read the regret of its parameters.

    Attributes
    ----------
    arguments : tuple
        First arguments of the learner.
    bound : callable
        ``parameters -> (regret, range)``: regret over the horizon, and the largest there can be per
        round, in the same units.
    kind : {"proven", "predicted"} or None
        Whether it is a theorem, or an estimate of what the noise costs; None: nothing is known.
    unit : str
        Units, for the text.
    options : dict
        Further arguments of the learner.
    build : callable or None
        From rounds, budget and options to a learner, where it is not calibrated to both.
    """

    arguments: tuple[Any, ...]
    bound: Callable[[Any], tuple[float, float]]
    kind: str | None = "proven"
    unit: str = "G D"
    options: dict[str, Any] = field(default_factory=dict)
    build: Callable[..., Any] | None = None


def of_records(
    entry: Learner, dimension: int, loss: str = "logistic", domain: str = "ball"
) -> Problem:
    """Return convex losses on a domain of Euclidean diameter 1, slope 1.

    Parameters
    ----------
    dimension
        Coordinates of a decision, or of a context.
    loss : NAME
        linear, logistic, huber (unit slope) or general (any convex loss with Lipschitz constant G,
        for ctrl also with Hessians at most G/D).
    domain : NAME
        ball, box or simplex, of diameter D.
    """
    decisions = _domain(domain, dimension)
    problem = decisions, _loss(loss, decisions)
    if entry.name.endswith("frank-wolfe"):
        return Problem(
            problem, lambda p: (p.predicted_error * p.horizon, p.loss_range), "predicted"
        )
    return Problem(problem, lambda p: (p.regret_bound, p.lipschitz * p.diameter))


def of_functions(entry: Learner, dimension: int = 1) -> Problem:
    """Return Lipschitz losses on the interval or square of side 1, slope 1.

    Parameters
    ----------
    dimension
        1 or 2.
    """
    if dimension not in (1, 2):
        raise ValueError(f"dimension must be 1 or 2; got {dimension}")
    domain = Box([0.0] * dimension, [1.0] * dimension)
    # Two losses in the square differ by the slope times its diagonal at most.
    return Problem(
        (domain,), lambda p: (p.regret_bound, math.sqrt(dimension)), options={"lipschitz": 1.0}
    )


def of_experts(entry: Learner, experts: int) -> Problem:
    """Return losses of experts in [0, 1].

    Parameters
    ----------
    experts
        Number of experts.
    """
    return Problem((experts,), lambda p: (p.regret_bound, 1.0), unit="of the losses' range")


def of_arms(entry: Learner, arms: int, dimension: int) -> Problem:
    """Return a contextual bandit with rewards in [-1, 1].

    Parameters
    ----------
    arms
        Number of arms.
    dimension
        Coordinates of a decision, or of a context.
    """
    if entry.name == "linucb":
        return Problem(
            (arms, dimension), lambda p: (p.regret_bound, 2.0 * p.reward_bound),
            unit="of the rewards' range",
        )  # fmt: skip
    return Problem(
        (arms, LpBall(dimension, 1.0, 1.0)),
        lambda p: (p.predicted_error * p.horizon, p.attainable),
        "predicted",
        "of what can be attained",
    )


def of_batch(
    entry: Learner, dimension: int, loss: str = "logistic", domain: str = "ball"
) -> Problem:
    """Return one private fit to as many records as there would be rounds.

    Parameters
    ----------
    dimension
        Coordinates of a decision, or of a context.
    loss : NAME
        logistic or huber.
    domain : NAME
        ball, box or simplex, of diameter D.
    """
    decisions = _domain(domain, dimension)
    losses = _loss(choice("loss", loss, ("huber", "logistic")), decisions)
    cls = entry.load()

    def build(rounds: int, budget: Budget, options: dict[str, Any]) -> Any:
        return cls(decisions, losses, records=rounds, budget=budget, **options)

    return Problem((), lambda p: (math.nan, 1.0), None, "", build=build)


def of_reports(entry: Learner, hypotheses: int, labels: int) -> Problem:
    """Return a server of locally private reports, for K hypotheses over M labels.

    The bound is that of ``learner="hedge"`` on the worst-case range, which holds for every class of
    K hypotheses and all labels; the class built here is a random one.

    Parameters
    ----------
    hypotheses
        Number K of known distributions.
    labels
        Number M of labels.
    """
    from dpoco.environments import dirichlet_class
    from dpoco.local import Hypotheses

    positive_int("hypotheses", hypotheses, maximum=4096)
    positive_int("labels", labels, maximum=4096)
    if hypotheses < 2 or labels < 2:
        raise ValueError("hypotheses and labels must be at least 2")
    cls = entry.load()
    known = Hypotheses(dirichlet_class(hypotheses, labels, seed=0))

    def build(rounds: int, budget: Budget, options: dict[str, Any]) -> Any:
        server = cls(
            known, epsilon=budget.epsilon, horizon=rounds, learner="hedge", range="worst_case",
            **options,
        )  # fmt: skip
        bound = float(server.risk_bound())
        given = {
            name: value
            for name, value in server.get_params().items()
            if isinstance(value, (int, float, str)) and name != "public_seed"
        }
        record = {"risk_bound": bound, **given, "mixing": server.mixing}
        parameters = SimpleNamespace(risk_bound=bound, to_dict=lambda: record)
        return SimpleNamespace(parameters=parameters, guarantee=server.guarantee)

    return Problem(
        (), lambda p: (p.risk_bound, math.log(hypotheses)), unit="of log K nats", build=build
    )


def _domain(name: str, dimension: int) -> Domain:
    """Return the domain of Euclidean diameter 1."""
    positive_int("dimension", dimension, maximum=10**6)
    choice("domain", name, ("ball", "box", "simplex"))
    if name == "ball":
        return LpBall(dimension, 2.0, 0.5)
    if name == "box":
        half = 0.5 / math.sqrt(dimension)
        return Box([-half] * dimension, [half] * dimension)
    return Simplex(dimension, math.sqrt(0.5))


def _loss(name: str, domain: Domain) -> Loss:
    """Return the family of losses that are 1-Lipschitz in l2."""
    choice("loss", name, ("linear", "logistic", "huber", "general"))
    # The declared bound in the domain's dual norm follows from the one in l2.
    dual = math.pow(domain.dimension, max(0.0, 1.0 / domain.dual_exponent - 0.5))
    if name == "linear":
        return LinearLoss(dual, gradient_bound_l2=1.0)
    if name == "general":
        # A custom loss declares its bounds in the dual norm; these give 1 in l2.
        stretch = math.pow(domain.dimension, max(0.0, 0.5 - 1.0 / domain.dual_exponent))
        return CustomLoss(1.0 / stretch, 1.0 / stretch**2)
    return (LogisticLoss if name == "logistic" else HuberLoss)(dual, feature_bound_l2=1.0)

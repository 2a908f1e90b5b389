"""Reports of ``dpoco plan``: a learner's regret, noise, memory and smallest useful horizon.

Standard problems have domains of diameter 1 and losses of slope or range 1. The arguments of the
functions that make them, other than the learner, are options of the command.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np

from dpoco._validation import Fields, choice, positive_int
from dpoco.accounting import Budget, Guarantee, continual_sum
from dpoco.accounting.conditions import UNPROVED
from dpoco.cli._shell import SHOWN, console, say, table
from dpoco.domains import Box, Domain, LpBall, Simplex
from dpoco.errors import CalibrationError, StateError
from dpoco.learners import Learner
from dpoco.learning.participation import Participation
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, Loss, SquaredLoss
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.selections import Selections

PLAN_SCHEMA = "dpoco.plan/1"
TARGET = 0.1  # regret per round, as a share of the largest, for a horizon to be useful
_LARGEST = 10**12
_LOOKS = 12  # number of calibrations in the search for the smallest useful horizon
_CLOSE = 1.05


@dataclass(frozen=True)
class Problem:
    """The problem for which a learner is planned, and how to compute its regret.

    Attributes
    ----------
    arguments : tuple
        First arguments of the learner.
    bound : callable
        ``parameters -> (regret, range)``: regret over the horizon, and the largest possible regret
        per round, in the same units.
    kind : {"proven", "predicted"} or None
        Whether it is a theorem, or an estimate of the cost of noise; None if nothing is known.
    unit : str
        Name of the units, for the text.
    options : dict
        More arguments of the learner.
    build : callable or None
        Takes rounds, budget and options and returns a learner; for learners that are not calibrated
        to rounds and budget.
    """

    arguments: tuple[Any, ...]
    bound: Callable[[Any], tuple[float, float]]
    kind: str | None = "proven"
    unit: str = "G D"
    options: Fields = field(default_factory=dict)
    build: Callable[..., Any] | None = None


def plan_records(
    entry: Learner,
    dimension: Annotated[int, "Coordinates of a decision, or of a context."],
    loss: Annotated[
        str,
        "linear, logistic, squared, huber (unit slope) or general (any convex loss with Lipschitz "
        "constant G, for ctrl also with Hessians at most G/D).",
    ] = "logistic",
    domain: Annotated[str, "ball, box or simplex, of diameter D."] = "ball",
) -> Problem:
    """Return convex losses on a domain of Euclidean diameter 1, slope 1."""
    problem = standard_problem(dimension, loss, domain)
    if entry.name.endswith("frank-wolfe"):
        return Problem(
            problem,
            lambda p: (p.forecast.predicted_error * p.tuning.horizon, p.forecast.loss_range),
            "predicted",
        )
    if entry.name.startswith("noisy-"):
        return Problem(problem, lambda p: (p.forecast.regret_bound, p.forecast.loss_range))
    width = problem[0].diameter(2.0)
    return Problem(
        problem, lambda p: (p.forecast.regret_bound, p.mechanism.losses.lipschitz * width)
    )


def plan_functions(entry: Learner, dimension: Annotated[int, "1 or 2."] = 1) -> Problem:
    """Return Lipschitz losses on the interval or square of side 1, slope 1."""
    if dimension not in (1, 2):
        raise ValueError(f"dimension must be 1 or 2; got {dimension}")
    domain = Box([0.0] * dimension, [1.0] * dimension)
    # In the square, two losses differ by at most the slope times its diagonal.
    return Problem(
        (domain,),
        lambda p: (p.forecast.regret_bound, math.sqrt(dimension)),
        options={"lipschitz": 1.0},
    )


def plan_experts(entry: Learner, experts: Annotated[int, "Number of experts."]) -> Problem:
    """Return losses of experts in [0, 1]."""
    bound = "of the losses' range"
    return Problem((experts,), lambda plan: (plan.forecast.regret_bound, 1.0), unit=bound)


def plan_arms(
    entry: Learner,
    arms: Annotated[int, "Number of arms."],
    dimension: Annotated[int, "Coordinates of a decision, or of a context."],
) -> Problem:
    """Return a contextual bandit with rewards in [-1, 1]."""
    if entry.name == "linucb":
        return Problem(
            (arms, dimension), lambda p: (p.forecast.regret_bound, 2.0 * p.mechanism.summand.label),
            unit="of the rewards' range",
        )  # fmt: skip
    if entry.name == "residual-phases":  # no bound on its regret is proved
        return Problem((arms, dimension), lambda p: (math.inf, 2.0), kind=None)
    return Problem(
        (arms, LpBall(dimension, 1.0, 1.0)),
        lambda p: (p.forecast.predicted_error * p.tuning.horizon, p.forecast.attainable),
        "predicted",
        "of what can be attained",
    )


def plan_batch(
    entry: Learner,
    dimension: Annotated[int, "Coordinates of a decision, or of a context."],
    loss: Annotated[
        str, "logistic, huber or squared, with features of l2 norm 1 at most."
    ] = "logistic",
    domain: Annotated[str, "ball, box or simplex, of diameter D."] = "ball",
) -> Problem:
    """Return one private fit to as many records as there are rounds."""
    choice("loss", loss, ("huber", "logistic", "squared"))
    problem = standard_problem(dimension, loss, domain)
    return Problem(problem, lambda p: (math.nan, 1.0), None, "")


def plan_reports(
    entry: Learner,
    hypotheses: Annotated[int, "Number K of known distributions."],
    labels: Annotated[int, "Number M of labels."],
) -> Problem:
    """Return a server of locally private reports, for K hypotheses over M labels.

    The bound is that of ``learner="hedge"`` on the worst-case range, which holds for any K
    hypotheses and any labels; the hypotheses built here are random.
    """
    from dpoco.local import Hypotheses

    # Their table is made here: K M doubles.
    positive_int("hypotheses", hypotheses, maximum=4096)
    positive_int("labels", labels, maximum=4096)
    if hypotheses < 2 or labels < 2:
        raise ValueError("hypotheses and labels must be at least 2")
    cls = entry.load()
    known = Hypotheses(np.random.default_rng(0).dirichlet(np.ones(labels), hypotheses))

    def build(rounds: int, budget: Budget, options: Fields) -> Any:
        server = cls(
            known, epsilon=budget.epsilon, horizon=rounds, learner="hedge", range="worst_case",
            **options,
        )  # fmt: skip
        bound = float(server.risk_bound())
        given = {
            name: value
            for name, value in server.get_params().items()
            # The seed is drawn at random, but two plans of one problem must be equal.
            if isinstance(value, (int, float, str)) and name != "public_seed"
        }
        record = {"risk_bound": bound, **given, "mixing": server.mixing}
        plan = SimpleNamespace(
            mechanism=server.guarantee.description, forecast=None, risk_bound=bound,
            to_dict=lambda: record,
        )  # fmt: skip
        return SimpleNamespace(plan=plan, guarantee=server.guarantee)

    return Problem(
        (), lambda p: (p.risk_bound, math.log(hypotheses)), unit="of log K nats", build=build
    )


def standard_problem(dimension: int, loss: str, domain: str) -> tuple[Domain, Loss]:
    """Return the domain of Euclidean diameter 1, and losses of slope 1 on it."""
    decisions = _domain(domain, dimension)
    return decisions, _loss(loss, decisions)


def _domain(name: str, dimension: int) -> Domain:
    """Return the domain of Euclidean diameter 1."""
    positive_int("dimension", dimension, maximum=10**6)
    choice("domain", name, ("ball", "box", "simplex"))
    if name == "ball":
        return LpBall(dimension, 2.0, 0.5)
    if name == "box":
        # The diagonal of a cube is sqrt(d) times its side.
        half = 0.5 / math.sqrt(dimension)
        return Box([-half] * dimension, [half] * dimension)
    # Two vertices of the simplex are sqrt(2) apart.
    return Simplex(dimension, math.sqrt(0.5))


def _loss(name: str, domain: Domain) -> Loss:
    """Return the family of losses that are 1-Lipschitz in l2."""
    choice("loss", name, ("linear", "logistic", "squared", "huber", "general"))
    # The declared bound in the domain's dual norm follows from that in l2.
    dual = math.pow(domain.dimension, max(0.0, 1.0 / domain.dual_exponent - 0.5))
    if name == "linear":
        return LinearLoss(dual, gradient_bound_l2=1.0)
    if name == "general":
        # A custom loss declares its bounds in the dual norm; these correspond to 1 in l2.
        stretch = math.pow(domain.dimension, max(0.0, 0.5 - 1.0 / domain.dual_exponent))
        return CustomLoss(1.0 / stretch, 1.0 / stretch**2)
    if name == "squared":
        plain = SquaredLoss(dual, label_bound=0.5, feature_bound_l2=1.0)
        # The weight gives the declared slope.
        return replace(plain, weight=dual / plain.lipschitz(domain))
    if name == "logistic":
        return LogisticLoss(dual, feature_bound_l2=1.0)
    return HuberLoss(dual, label_bound=1.0, feature_bound_l2=1.0)


def plan_report(
    entry: Learner,
    problem: Problem,
    facts: Fields,
    options: Fields,
    rule: Participation | None = None,
    *,
    horizon: int,
    epsilon: float,
    delta: float | None,
) -> Fields:
    """Return the plan of one learner, JSON-able.

    `facts` and `options` are the given values, and `rule` says how often a person comes. If `delta`
    is None, it is a tenth of one over the horizon, also in the search.
    """
    positive_int("horizon", horizon)
    options = {**problem.options, **options}
    cls, build = entry.load(), problem.build

    def budget(rounds: int) -> Budget:
        return Budget._over(epsilon, delta, rounds)

    def share(plan: Any, rounds: int) -> float:
        total, largest = problem.bound(plan)
        return total / (rounds * largest)

    def make(rounds: int) -> Any:
        if build is not None:
            return build(rounds, budget(rounds), options)
        covered = {"records" if entry.plays == "batch" else "horizon": rounds}
        people = {} if rule is None else {"participation": rule}
        return cls(*problem.arguments, **covered, budget=budget(rounds), **people, **options)

    def share_at(rounds: int) -> float:
        """Return the regret per round at another horizon, as a share of the largest."""
        try:
            with warnings.catch_warnings():
                # Warnings are for the requested horizon and not for those of the search.
                warnings.simplefilter("ignore")
                found = make(rounds).plan
        except CalibrationError:  # no noise meets the budget on such a short stream
            return math.inf
        return share(found, rounds)

    asked = budget(horizon)
    with warnings.catch_warnings(record=True) as caught:
        for category in SHOWN:
            warnings.simplefilter("always", category)
        learner = make(horizon)
    plan, guarantee = learner.plan, learner.guarantee
    regret: Fields = {"kind": problem.kind, "unit": problem.unit}
    useful = None
    if problem.kind is not None:
        total, own = problem.bound(plan)[0], share(plan, horizon)
        proved = own if problem.kind == "proven" else None
        if proved is None and guarantee.regret_bound is not None:
            proved = guarantee.regret_bound / (horizon * problem.bound(plan)[1])
        regret.update(
            bound=_finite(total), per_round=_finite(total / horizon), share=_finite(own),
            scope=getattr(plan.forecast, "regret_scope", None), proved=_finite(proved),
            unproved=guarantee.details.get(UNPROVED),
        )  # fmt: skip
        useful = _smallest_useful(share_at, TARGET, (horizon, own))
    return {
        "schema": PLAN_SCHEMA,
        "learner": entry.name,
        "class": f"dpoco.{entry.path}",
        "problem": {
            "horizon": horizon,
            **{k: "inf" if v == math.inf else v for k, v in {**facts, **options}.items()},
        },
        "budget": {"epsilon": asked.epsilon, "delta": asked.delta},
        "regret": regret,
        "regret_bound_per_round": regret.get("proved"),
        "useful": {"target": TARGET, "horizon": useful},
        "noise": _noise(plan, guarantee),
        "memory": {
            "state_bytes": _state_bytes(learner),
            "bytes_per_record": getattr(learner, "_bytes_per_record", 0),
        },
        "notes": list(dict.fromkeys(str(warning.message) for warning in caught)),
        "parameters": plan.to_dict(),
        "guarantee": guarantee.to_dict(),
    }  # fmt: skip


def _smallest_useful(
    share: Callable[[int], float], target: float, known: tuple[int, float]
) -> int | None:
    """Return a horizon that meets the target, at most 5 % above the smallest; None above 10^12.

    Regret per round falls like a power of the horizon. So the search follows the slope between two
    points on a log scale, and bisects on this scale if the slope leads out of the interval.
    """
    # The requested plan is already known.
    values = dict([known])
    for _ in range(_LOOKS):
        low = max((rounds for rounds, found in values.items() if found > target), default=0)
        high = min((rounds for rounds, found in values.items() if found <= target), default=0)
        if high == 1 or (low and high and high <= max(low + 1, _CLOSE * low)):
            break
        if low >= _LARGEST:
            return None
        base, slope = high or low, -0.6
        if low and high and math.isfinite(values[low]):
            slope = math.log(values[high] / values[low]) / math.log(high / low)
        # Without two finite values there is no slope to follow.
        guess = base / 30.0 if high else base * 30.0
        if 0.0 < values[base] < math.inf:
            # A slope near 0 would lead out of all bounds.
            step = math.log(target / values[base]) / min(slope, -0.05)
            # The step goes slightly beyond the target, so that the other end of the interval moves.
            beyond = 0.985 if list(values.values())[-1] <= target else 1.015
            guess = base * math.exp(max(min(step, 9.0), -9.0)) * beyond
        if low and high:
            guess = guess if low < guess < high else math.sqrt(low * high)
            guess = min(max(round(guess), low + 1), high - 1)
        rounds = max(1, min(round(guess), _LARGEST))
        values[rounds] = share(rounds)
    return min((rounds for rounds, found in values.items() if found <= target), default=None)


def _noise(plan: Any, guarantee: Guarantee) -> Fields:
    """Return the scale of the noise and its ratio to the sensitivity, if there are such numbers."""
    own = plan.mechanism
    scale = getattr(own.part(Selections) or own.part(GaussianSum) or own, "scale", None)
    if scale is None and guarantee.noise_scale > 0.0:
        scale = guarantee.noise_scale
    errors = {}
    if isinstance(own, GaussianSum) and own.scale > 0.0:
        # The error of the noisiest sum at unit sensitivity and mu, and a lower bound for all sums.
        errors = {
            "sum_error": continual_sum.max_error(own.factorisation, own.pushes),
            "least_sum_error": continual_sum.lower_bound(own.pushes),
        }
    return {
        "mechanism": guarantee.mechanism,
        "scale": _finite(scale),
        "multiplier": _finite(guarantee.noise_multiplier),
        "sensitivity": _finite(guarantee.sensitivity),
        **errors,
    }


def _state_bytes(learner: object) -> int | None:
    """Return the size of a fresh learner's state, which it keeps between rounds."""
    pack = getattr(learner, "_to_bytes", None)
    try:
        return None if pack is None else len(pack())
    except StateError:  # losses given as Python objects have no state
        return None


def _memory(state_bytes: int | None, bytes_per_record: int | None) -> str | None:
    if bytes_per_record is None:
        return "all losses; a fresh decision asks them all"
    if state_bytes is None:
        return None
    state = f"{state_bytes:,} bytes of state"
    if bytes_per_record == 0:
        return state
    records = f"{bytes_per_record:,} for each distinct record"
    return f"{state}, and {records}; a fresh decision passes over all of them"


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _share_text(share: float | None, unit: str, scope: str | None) -> str:
    if share is None:
        return "none at this budget and horizon"
    whose = {"trivial": "any decisions", None: ""}.get(scope, f"{scope} losses")
    text = f"{share:.6g} {unit} a round"
    text += f" ({whose})" if whose else ""
    return f"{text}: says nothing" if share >= 1.0 else text


def print_plan(report: Fields, guarantee: Guarantee) -> None:
    """Print the plan to standard output."""
    shown = table([""], header=False)
    shown.add_column(overflow="fold")
    regret, useful, noise = report["regret"], report["useful"], report["noise"]
    shown.add_row("learner", report["class"])
    if regret["kind"] is None:
        shown.add_row("regret", "none is defined: one fit, no decisions on the way")
    else:
        if regret["kind"] == "predicted":
            shown.add_row("predicted error", _share_text(regret["share"], regret["unit"], None))
        shown.add_row(
            "regret bound",
            regret["unproved"] or _share_text(regret["proved"], regret["unit"], regret["scope"]),
        )
        reach = useful["horizon"]
        known = "none up to T = 1e12" if reach is None else f"T = {reach:,}"
        limit = f"{useful['target']:g} {regret['unit']} a round"
        shown.add_row("smallest useful", f"{known} (for at most {limit})")
    if noise["scale"] is not None:
        shown.add_row("noise scale", f"{noise['scale']:.6g}")
    if noise["multiplier"] is not None:
        shown.add_row("noise multiplier", f"{noise['multiplier']:.6g}")
    if "sum_error" in noise:
        error, least = noise["sum_error"], noise["least_sum_error"]
        shown.add_row("noise of sums", f"{error:.3f}, {least:.3f} at least by any factorisation")
    if (memory := _memory(**report["memory"])) is not None:
        shown.add_row("memory", memory)
    # These names have separate rows above, or mean nothing to a reader.
    seen = {"kind", "version", "regret_terms", "regret_bound", "noise_scale", "learner", "tuning"}
    parts = {name: value for name, value in report["parameters"].items() if name != "forecast"}
    for name, value in _numbers(parts):
        if name in seen:
            continue
        seen.add(name)
        shown.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    console().print(shown)
    for note in report["notes"]:
        say(f"note: {note}")
    say()
    say(str(guarantee))


def _numbers(record: Fields) -> Iterator[tuple[str, object]]:
    """Yield the plain values of a plan and of its parts, by name."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield name, value.get("kind", "")
            yield from _numbers(value)
        elif not isinstance(value, list) and name not in ("kind", "version"):
            yield name, value

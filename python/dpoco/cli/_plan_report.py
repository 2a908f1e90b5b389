"""What a plan says: regret, noise, memory and the smallest useful horizon of one learner."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from dpoco._validation import positive_float, positive_int
from dpoco.accounting import Budget, Guarantee, continual_sum
from dpoco.cli._plan_problem import Problem
from dpoco.cli._support import console, say, table, told
from dpoco.errors import CalibrationError, NoiseDominatesWarning, StateError
from dpoco.learners import Learner

PLAN_SCHEMA = "dpoco.plan/1"
_LARGEST = 10**12
_LOOKS = 12  # calibrations in the search for the smallest useful horizon
_CLOSE = 1.05


def plan_report(
    entry: Learner,
    problem: Problem,
    facts: dict[str, Any],
    options: dict[str, Any],
    *,
    horizon: int,
    epsilon: float,
    delta: float | None,
    target: float,
) -> dict[str, Any]:
    """Return the plan of one learner, JSON-able.

    `facts` and `options` are what was asked for; `delta` None is a tenth of one over the horizon,
    also in the search.
    """
    positive_int("horizon", horizon)
    if not 0.0 < positive_float("target", target) < 1.0:
        raise ValueError(f"target must be in (0, 1); got {target!r}")
    options = {**problem.options, **options}
    cls, build = entry.load(), problem.build

    def budget(rounds: int) -> Budget:
        return Budget._over(epsilon, delta, rounds)

    def share(parameters: Any, rounds: int) -> float:
        total, largest = problem.bound(parameters)
        return total / (rounds * largest)

    def share_at(rounds: int) -> float:
        try:
            if build is not None:
                parameters = build(rounds, budget(rounds), options).parameters
            else:
                parameters = cls._accountant.calibrate(
                    *problem.arguments, horizon=rounds, budget=budget(rounds), **options
                )
        except CalibrationError:  # no noise meets the budget on so short a stream
            return math.inf
        return share(parameters, rounds)

    asked = budget(horizon)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseDominatesWarning)
        if build is not None:
            learner = build(horizon, asked, options)
        else:
            learner = cls(*problem.arguments, horizon=horizon, budget=asked, **options)
    parameters, guarantee = learner.parameters, learner.guarantee
    regret: dict[str, Any] = {"kind": problem.kind, "unit": problem.unit}
    useful = None
    if problem.kind is not None:
        total, own = problem.bound(parameters)[0], share(parameters, horizon)
        regret.update(
            bound=_finite(total), per_round=_finite(total / horizon), share=_finite(own),
            scope=getattr(parameters, "regret_scope", None),
        )  # fmt: skip
        useful = _smallest_useful(share_at, target, (horizon, own))
    return {
        "schema": PLAN_SCHEMA,
        "learner": entry.name,
        "class": f"dpoco.{entry.path}",
        "problem": {
            "horizon": horizon, **{k: told(value) for k, value in {**facts, **options}.items()}
        },
        "budget": {"epsilon": asked.epsilon, "delta": asked.delta},
        "regret": regret,
        "regret_bound_per_round": regret.get("share") if problem.kind == "proven" else None,
        "useful": {"target": target, "horizon": useful},
        "noise": _noise(parameters, guarantee),
        "memory": {"state_bytes": _state_bytes(learner)},
        "notes": list(dict.fromkeys(str(warning.message) for warning in caught)),
        "parameters": parameters.to_dict(),
        "guarantee": guarantee.to_dict(),
    }  # fmt: skip


def _smallest_useful(
    share: Callable[[int], float], target: float, known: tuple[int, float]
) -> int | None:
    """Return a horizon that meets the target, at most 5 % above the smallest; None beyond 10^12.

    Regret per round falls like a power of the horizon, so the search follows the slope between two
    logarithms, and halves the logarithmic interval where that leads out of it.
    """
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
        guess = base / 30.0 if high else base * 30.0
        if 0.0 < values[base] < math.inf:
            step = math.log(target / values[base]) / min(slope, -0.05)
            # A little beyond where the slope points, so that the other end of the interval moves.
            beyond = 0.985 if list(values.values())[-1] <= target else 1.015
            guess = base * math.exp(max(min(step, 9.0), -9.0)) * beyond
        if low and high:
            guess = guess if low < guess < high else math.sqrt(low * high)
            guess = min(max(round(guess), low + 1), high - 1)
        rounds = max(1, min(round(guess), _LARGEST))
        values[rounds] = share(rounds)
    return min((rounds for rounds, found in values.items() if found <= target), default=None)


def _noise(parameters: Any, guarantee: Guarantee) -> dict[str, Any]:
    """Scale of the noise and its ratio to the sensitivity, where there are such numbers."""
    scale = None
    for holder in (parameters, getattr(parameters, "arm", None)):
        for name in ("noise_scale", "scale", "first_scale", "selection_scale"):
            if scale is None:
                scale = getattr(holder, name, None)
    if scale is None and guarantee.noise_scale > 0.0:
        scale = guarantee.noise_scale
    return {
        "mechanism": guarantee.mechanism,
        "scale": _finite(scale),
        "multiplier": _finite(guarantee.noise_multiplier),
        "sensitivity": _finite(guarantee.sensitivity),
        **_sum_error(parameters),
    }


def _sum_error(parameters: Any) -> dict[str, float]:
    """Noise of the noisiest sum at unit sensitivity and mu, and what none is below."""
    method = getattr(parameters, "method", getattr(parameters, "sum_method", None))
    if method not in continual_sum.METHODS or not parameters.noise_scale:
        return {}
    pushes = getattr(parameters, "pushes", parameters.horizon)
    return {
        "sum_error": continual_sum.max_error(method, pushes),
        "least_sum_error": continual_sum.lower_bound(pushes),
    }


def _state_bytes(learner: Any) -> int | None:
    """Size of the saved state of the fresh learner, which is what it keeps between rounds."""
    pack = getattr(learner, "_to_bytes", None)
    try:
        return None if pack is None else len(pack())
    except StateError:  # losses given as Python objects have no state that could be saved
        return None


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def print_plan(report: dict[str, Any], guarantee: Guarantee) -> None:
    """Print the plan to standard output."""
    shown = table([""], header=False)
    shown.add_column(overflow="fold")
    regret, useful, noise = report["regret"], report["useful"], report["noise"]
    shown.add_row("learner", report["class"])
    if regret["kind"] is None:
        shown.add_row("regret", "none is defined: one fit, no decisions on the way")
    else:
        name = "regret bound" if regret["kind"] == "proven" else "predicted error"
        share = regret["share"]
        text = "none at this budget and horizon"
        if share is not None:
            text = f"{share:.6g} {regret['unit']} a round"
            text += f" ({regret['scope']} losses)" if regret["scope"] else ""
            text += ": says nothing" if share >= 1.0 else ""
        shown.add_row(name, text)
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
    if report["memory"]["state_bytes"] is not None:
        shown.add_row("memory", f"{report['memory']['state_bytes']:,} bytes of state")
    skipped = ("kind", "version", "regret_terms", "regret_bound", "noise_scale", "learner")
    for name, value in report["parameters"].items():
        if name in skipped:
            continue
        shown.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    console().print(shown)
    for note in report["notes"]:
        say(f"note: {note}")
    say()
    say(str(guarantee))

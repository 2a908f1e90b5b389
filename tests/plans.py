"""Plans with other numbers than a planner's, and what tests read off them."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from dpoco import bandits
from dpoco.accounting import linucb, lipschitz
from dpoco.accounting.continual_sum import method_name
from dpoco.accounting.high_dimensional_bandit import arm_batch
from dpoco.accounting.leaf_bounds import LeafBounds
from dpoco.privacy.mechanisms.bounds import ClippedVector, GlmGradient
from dpoco.privacy.mechanisms.coupled_draws import (
    Always,
    Anchored,
    CoupledDraws,
    Dartboard,
    GibbsDraw,
    Maximal,
    TiltedMinimum,
    Window,
)
from dpoco.privacy.mechanisms.selections import VertexScores


def changed(plan: Any, **fields: Any) -> Any:
    """Return a plan whose mechanism has other fields."""
    return replace(plan, mechanism=replace(plan.mechanism, **fields))


def leaf(plan: Any) -> LeafBounds:
    """Return the bounds on what a round adds to a sum of gradients."""
    mechanism = plan.mechanism
    bounds = mechanism.summand if hasattr(mechanism, "summand") else mechanism.scores
    if isinstance(bounds, VertexScores):
        return LeafBounds(bounds.slope, bounds.leaf, bounds.leaf_l2)
    if isinstance(bounds, GlmGradient):
        return LeafBounds(bounds.slope, bounds.features, bounds.features_l2)
    assert isinstance(bounds, ClippedVector)
    return LeafBounds(None, bounds.bound, bounds.bound_l2)


def arms(plan: Any) -> SimpleNamespace:
    """Return the numbers that a plan of a high-dimensional bandit settles, and those of an arm."""
    part, tuning = plan.mechanism.parts[0], plan.tuning
    bounds = leaf(SimpleNamespace(mechanism=part))
    scores = getattr(part, "scores", None)
    offset = tuning.arm.offset if scores is None else scores.offset
    own = {"mechanism": part, "offset": offset, "slope": bounds.slope, "dual": bounds.dual}
    arm = SimpleNamespace(batch=arm_batch(part), **own)
    arm.noise_scale_at = lambda k: part.scale * k**-part.exponent
    fixed = bandits.HighDimensionalBandit._plan_arguments(plan)
    return SimpleNamespace(**{**fixed, "arm": arm})


def net(domain: Any, plan: Any) -> SimpleNamespace:
    """Return the numbers that a plan for Lipschitz losses on a net settles, and its regret."""
    total, rate = plan.mechanism, plan.tuning.learning_rate
    run = lipschitz.hedge_run(domain, plan)
    return SimpleNamespace(
        plan=plan,
        experts=math.prod(total.summand.counts),
        horizon=run.horizon,
        resolution=total.summand.counts,
        transform=total.summand.transform,
        lipschitz=total.summand.lipschitz,
        sum_method=method_name(total.factorisation),
        noise_scale=total.scale,
        learning_rate=rate,
        regret_terms=run.regret(rate).terms,
        **vars(plan.forecast),
    )


def linear_arms(plan: Any) -> SimpleNamespace:
    """Return the numbers that a plan of LinUCB settles, and those of its noise."""
    total, own = plan.mechanism, plan.tuning
    found = {
        **bandits.LinUCB._plan_arguments(plan),
        "noise_scale": total.scale,
        "pushes": max(total.pushes, 1),
        "noise_margin": linucb.find_confidence(total, own).margin,
        "confidence": linucb.find_confidence(total, own),
        "regret_terms": linucb.bound_regret(total, own)[1],
    }
    return SimpleNamespace(**{**found, **vars(plan.forecast)})


def coupled(plan: Any) -> SimpleNamespace:
    """Return the numbers that a plan of coupled decisions settles."""
    m, own, keep = plan.mechanism, vars(plan.tuning), plan.mechanism.keep
    width = getattr(keep, "width", 0.0)
    found = {
        "plan": plan,
        "horizon": m.rounds,
        "block": m.block,
        "decisions": m.decisions,
        "dimension": m.losses.dimension,
        "lipschitz": m.losses.lipschitz,
        "smoothness": m.losses.smoothness,
        "rank": m.losses.rank,
        "coupling": keep.kind,
        "forced_switch": keep.forced,
        "clip_high": getattr(keep, "high", width),
        "clip_low": getattr(keep, "low", width),
        "factor_range": getattr(keep, "span", 0.0),
        "max_switches": m.cap,
        "private": m.cap is not None,
        **own,
        **vars(plan.forecast),
    }
    if isinstance(m.draw, TiltedMinimum):
        found |= {"step_size": m.draw.step, "noise_scale": m.draw.noise}
    else:
        found |= {"inverse_temperature": m.draw.inverse_temperature,
                  "regularization": m.draw.regularization, "sampler_tolerance": m.draw.tolerance,
                  "unbounded": m.draw.half_width == math.inf}  # fmt: skip
    return SimpleNamespace(**found)


def recoupled(plan: Any, **changes: Any) -> Any:
    """Return a plan of coupled decisions with other numbers, by the names of `coupled`."""
    new, m = SimpleNamespace(**(vars(coupled(plan)) | changes)), plan.mechanism
    forced, high = new.forced_switch, new.clip_high
    keep = {
        "scheduled": lambda: Always(),
        "density_ratio": lambda: Window(forced, high, new.clip_low),
        "dartboard": lambda: Dartboard(forced, new.factor_range),
        "anchored": lambda: Anchored(forced, high),
        "maximal": lambda: Maximal(forced),
    }[new.coupling]()
    if isinstance(m.draw, TiltedMinimum):
        draw = TiltedMinimum(new.noise_scale, new.step_size)
    else:
        law = new.inverse_temperature, new.regularization
        body = math.inf if new.unbounded else m.draw.half_width
        draw = GibbsDraw(*law, body, new.sampler_tolerance)
    bounds = {name: getattr(new, name) for name in ("dimension", "lipschitz", "smoothness", "rank")}
    losses = replace(m.losses, **bounds)
    drawn = CoupledDraws(losses, draw, keep, new.horizon, new.block, new.max_switches)
    own = {name: getattr(new, name) for name in vars(plan.tuning)}
    ahead = {name: getattr(new, name) for name in vars(plan.forecast)}
    return replace(
        plan, mechanism=drawn, tuning=replace(plan.tuning, **own),
        forecast=replace(plan.forecast, **ahead),
    )  # fmt: skip

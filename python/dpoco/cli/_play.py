"""Which game ``dpoco run`` plays: by what the learner learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dpoco
from dpoco.cli._arms_problem import arms_problem, load_classes
from dpoco.cli._problem import Input, build_problem, expert_problem, load_losses, load_stream
from dpoco.cli._surface_problem import load_targets, surface_problem
from dpoco.learners import Learner

if TYPE_CHECKING:
    from dpoco.evaluation import FitReport, RunReport

__all__ = ["FAMILIES", "play"]

FAMILIES = ("records", "experts", "arms", "surface", "batch")

# Options that only some learners have a use for.
_ONLY = {
    "loss_range": ("experts", "learners of experts"),
    "switches": ("experts", "learners of experts"),
    "exploration": ("arms", "linucb"),
    "quantile": ("surface", "lipschitz"),
}
# What learners from something else than labelled records have no use for, and the reason.
_NOT_FOR = {
    "experts": (("label", "feature_range", "label_range", "p"), "takes losses"),
    "arms": (("p",), "learns which class is right"),
    "surface": (
        ("features", "feature_range", "p", "radius", "feature_bound"),
        "learns a number or a point near --label",
    ),
}


def play(entry: Learner, asked: dict[str, Any], common: dict[str, Any]) -> RunReport | FitReport:
    """Load what the learner learns from, and play.

    Parameters
    ----------
    entry : Learner
        The learner.
    asked : dict
        The options of the command, by name.
    common : dict
        ``repeats``, ``seed``, ``progress``, ``snapshot``, ``checkpoint``, ``resume`` and
        ``skip_played``.
    """
    _refuse(entry, asked)
    sums = asked["sum_method"]
    given = {
        "calibration": asked["calibration"],
        "noise": asked["noise"],
        "sum_method": None if sums == "auto" else sums,
        "step_scale": asked["step_scale"],
        "batch": asked["batch"],
    }
    limits: dict[str, Any] = {name: asked[name] for name in ("epsilon", "delta", "horizon")}
    if limits["horizon"] is None and common["resume"] is not None:
        limits["horizon"] = common["resume"].horizon
    columns = asked["features"]
    if columns is not None:
        columns = [name.strip() for name in columns.split(",")]
    source = Input.of(asked)
    if entry.plays == "experts":
        losses, facts = load_losses(source, columns, asked["loss_range"])
        return dpoco.evaluation.compare_private_experts(
            losses,
            entry.load(),
            stream=facts,
            **expert_problem(
                entry, len(losses), loss_range=asked["loss_range"], **limits,
                given={**given, "switches": asked["switches"]},
            ),
            **common,
        )  # fmt: skip
    if entry.plays == "surface":
        targets = load_targets(source, asked["label"], asked["label_range"])
        problem = surface_problem(entry, targets, **limits, quantile=asked["quantile"], given=given)
        return dpoco.evaluation.compare_private_lipschitz(**problem, **common)
    scales: tuple[Any, Any, Any] = (
        asked["feature_range"] or [],
        asked["label_range"],
        asked["intercept"],
    )
    if entry.plays == "arms":
        classes = load_classes(source, asked["label"], columns, *scales)
        problem = arms_problem(
            entry, classes, **limits, radius=asked["radius"],
            feature_bound=asked["feature_bound"],
            given={**given, "exploration": asked["exploration"]},
        )  # fmt: skip
        return dpoco.evaluation.compare_private_bandit(
            classes.stream.features, classes.rewards, entry.load(), stream=classes.facts(),
            nonprivate_flags=classes.stream.nonprivate_flags,
            **problem, **common,
        )  # fmt: skip
    stream = load_stream(source, asked["label"], columns, *scales, asked["loss"])
    p = asked["p"]
    made = build_problem(
        stream, entry, loss=asked["loss"], **limits, p=None if p is None else float(p),
        radius=asked["radius"], feature_bound=asked["feature_bound"], given=given,
    )  # fmt: skip
    if entry.plays == "batch":
        kept = {name: common[name] for name in ("repeats", "seed", "progress")}
        return dpoco.evaluation.compare_private_fit(
            stream, made.domain, made.loss, entry.load(), budget=made.budget,
            records=made.horizon, **kept, **made.options,
        )  # fmt: skip
    return dpoco.evaluation.compare_private(
        stream,
        made.domain,
        made.loss,
        learner=entry.load(),
        budget=made.budget,
        horizon=made.horizon,
        **common,
        **made.options,
    )


def _refuse(entry: Learner, asked: dict[str, Any]) -> None:
    """Raise for an option that the learner has no use for."""
    for name, (family, whose) in _ONLY.items():
        if asked[name] is not None and entry.plays != family:
            raise ValueError(f"--{name.replace('_', '-')} is for {whose}")
    names, reason = _NOT_FOR.get(entry.plays, ((), ""))
    for name in names:
        if asked[name] not in (None, []):
            raise ValueError(f"{entry.name} {reason}: no --{name.replace('_', '-')}")
    if entry.plays in ("experts", "surface") and not asked["intercept"]:
        raise ValueError(f"{entry.name} {reason}: no --no-intercept")
    if entry.plays in ("arms", "surface") and asked["loss"] != "logistic":
        raise ValueError(f"{entry.name} {reason}: no --loss")

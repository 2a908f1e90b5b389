"""``dpoco plan``: the parameters, the guarantee and the regret bound of a learner, before any data.

Domains have diameter 1 and losses are 1-Lipschitz, so bounds are in units of G D.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dpoco._validation import choice, positive_int
from dpoco.accounting import (
    Budget,
    Guarantee,
    continuous_multiplicative_weights,
    coupled_regularized_leader,
)
from dpoco.cli._plan_experts import experts_command
from dpoco.cli._support import errors_in_one_line
from dpoco.domains import Box, Domain, LpBall, Simplex
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, Loss

__all__ = ["plan_app"]

_LOSSES = ("linear", "logistic", "huber", "general")
_DOMAINS = ("ball", "box", "simplex")
_WIDTH = 100

plan_app = typer.Typer(
    help="Show what a budget buys: parameters, guarantee and regret bound, without data.",
    no_args_is_help=True,
)
plan_app.command("experts")(experts_command)

_Horizon = Annotated[int, typer.Option(help="Rounds.")]
_Dimension = Annotated[int, typer.Option(help="Coordinates of a decision.")]
_Epsilon = Annotated[float, typer.Option(help="Privacy budget.")]
_Delta = Annotated[float | None, typer.Option(help="Privacy budget. [default: 1/(10 horizon)]")]
_Loss = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="linear, logistic, huber (unit slope) or general (any convex loss with Lipschitz "
        "constant G, for ctrl also with Hessians at most G/D).",
    ),
]
_DomainName = Annotated[
    str, typer.Option("--domain", metavar="NAME", help="ball, box or simplex, of diameter D.")
]
_Relation = Annotated[str, typer.Option(metavar="NAME", help="replace or zero_out.")]
_Calibration = Annotated[str, typer.Option(metavar="NAME", help="tight, corrected or paper.")]
_Coupling = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto, density_ratio, scheduled; for comw also dartboard and anchored.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


@plan_app.command("ctrl")
def ctrl(
    horizon: _Horizon,
    dimension: _Dimension,
    epsilon: _Epsilon = 1.0,
    delta: _Delta = None,
    loss: _Loss = "general",
    domain: _DomainName = "ball",
    relation: _Relation = "replace",
    calibration: _Calibration = "tight",
    coupling: _Coupling = "auto",
    as_json: _Json = False,
) -> None:
    """Plan the coupled regularized leader (CTRL), for smooth convex losses."""
    with errors_in_one_line():
        _plan(
            "ctrl", horizon, dimension, epsilon, delta, loss, domain, relation, calibration,
            coupling, as_json,
        )  # fmt: skip


@plan_app.command("comw")
def comw(
    horizon: _Horizon,
    dimension: _Dimension,
    epsilon: _Epsilon = 1.0,
    delta: _Delta = None,
    loss: _Loss = "linear",
    domain: _DomainName = "ball",
    relation: _Relation = "replace",
    calibration: _Calibration = "tight",
    coupling: _Coupling = "auto",
    as_json: _Json = False,
) -> None:
    """Plan continuous multiplicative weights (P-COMW), for any convex Lipschitz losses."""
    with errors_in_one_line():
        _plan(
            "comw", horizon, dimension, epsilon, delta, loss, domain, relation, calibration,
            coupling, as_json,
        )  # fmt: skip


def _plan(
    learner: str, horizon: int, dimension: int, epsilon: float, delta: float | None, loss: str,
    domain: str, relation: str, calibration: str, coupling: str, as_json: bool,
) -> None:  # fmt: skip
    positive_int("horizon", horizon)
    positive_int("dimension", dimension, maximum=10**6)
    budget = Budget(epsilon, 1.0 / (10.0 * horizon) if delta is None else delta)
    decisions = _domain(domain, dimension)
    losses = _loss(loss, decisions)
    options: dict[str, Any] = {
        "horizon": horizon,
        "budget": budget,
        "calibration": calibration,
        "coupling": coupling,
        "relation": relation,
    }
    parameters: Any
    if learner == "ctrl":
        parameters = coupled_regularized_leader.calibrate(decisions, losses, **options)
        guarantee = coupled_regularized_leader.guarantee(
            decisions, losses, parameters, budget=budget
        )
    else:
        parameters = continuous_multiplicative_weights.calibrate(decisions, losses, **options)
        guarantee = continuous_multiplicative_weights.guarantee(
            decisions, losses, parameters, budget=budget
        )
    unit = parameters.lipschitz * parameters.diameter * horizon
    per_round = parameters.regret_bound / unit
    if as_json:
        report = {
            "regret_bound_per_round": per_round,
            "parameters": parameters.to_dict(),
            "guarantee": guarantee.to_dict(),
        }
        typer.echo(json.dumps(report, allow_nan=False, indent=2))
        return
    _print(parameters, guarantee, per_round)


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


def _print(parameters: Any, guarantee: Guarantee, per_round: float) -> None:
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width to respect
        console = Console(width=_WIDTH)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    trivial = parameters.radius / parameters.diameter
    table.add_row("regret bound", f"{per_round:.6g} G D a round (constant decision: {trivial:.6g})")
    for name, value in parameters.to_dict().items():
        if name in ("kind", "version", "regret_terms", "regret_bound"):
            continue
        table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    console.print(table)
    console.print()
    console.print(str(guarantee), markup=False, highlight=False, soft_wrap=True)

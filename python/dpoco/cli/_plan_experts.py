"""``dpoco plan experts``: every learner of experts with its proven bound, before any data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

import dpoco
from dpoco.accounting import Budget
from dpoco.cli._support import errors_in_one_line

if TYPE_CHECKING:
    from dpoco.experts import ExpertPlan

__all__ = ["experts_command"]

SCHEMA = "dpoco.plan-experts/1"
_WIDTH = 100


def experts_command(
    experts: Annotated[int, typer.Option(help="Number of experts.")],
    horizon: Annotated[int, typer.Option(help="Rounds.")],
    switches: Annotated[
        int, typer.Option(help="Switches of the sequence of experts to compete with.")
    ] = 0,
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    delta: Annotated[
        float | None,
        typer.Option(help="Privacy budget; 0: pure privacy. [default: 1/(10 horizon)]"),
    ] = None,
    adversary: Annotated[
        str, typer.Option(metavar="NAME", help="stationary, shifting, oblivious or adaptive.")
    ] = "oblivious",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Plan learning with expert advice: all admissible learners, smallest bound first.

    For example:

    dpoco plan experts --experts 10 --horizon 100000 --switches 5
    """
    with errors_in_one_line():
        plans = dpoco.experts.plan_experts(
            experts,
            horizon=horizon,
            budget=Budget._over(epsilon, delta, max(1, horizon)),
            switches=switches,
            adversary=adversary,
        )
        if as_json:
            record = {"schema": SCHEMA, "plans": [_record(plan) for plan in plans]}
            typer.echo(json.dumps(record, allow_nan=False, indent=2))
        else:
            _print(plans, horizon)


def _record(plan: ExpertPlan) -> dict[str, object]:
    return {
        "learner": plan.learner,
        "regret_bound": plan.regret_bound,
        "scope": plan.scope,
        "useful": plan.useful,
        "parameters": plan.parameters.to_dict(),
        "guarantee": plan.guarantee.to_dict(),
    }


def _print(plans: tuple[ExpertPlan, ...], horizon: int) -> None:
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width to respect
        console = Console(width=_WIDTH)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("learner", "regret bound", "a round", "holds for", "epsilon", "delta", "noise"):
        table.add_column(name, no_wrap=True)
    for plan in plans:
        table.add_row(
            plan.learner,
            f"{plan.regret_bound:.6g}"
            if plan.useful
            else f"{plan.regret_bound:.6g} (says nothing)",
            f"{plan.regret_bound / horizon:.4g}",
            f"{plan.scope} losses",
            f"{plan.guarantee.epsilon:.4g}",
            f"{plan.guarantee.delta:.4g}",
            str(getattr(plan.parameters, "noise", "")),
        )
    console.print(table)
    console.print()
    console.print(str(plans[0].guarantee), markup=False, highlight=False, soft_wrap=True)

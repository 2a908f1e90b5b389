"""``dpoco plan``: parameters, guarantee, noise, memory and regret of a learner, before any data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpoco
from dpoco.accounting import Budget, Guarantee
from dpoco.cli._plan_problem import (
    plan_arms,
    plan_batch,
    plan_experts_of,
    plan_records,
    plan_reports,
    plan_surface,
)
from dpoco.cli._plan_report import print_plan
from dpoco.cli._support import JsonFlag, console, errors_in_one_line, print_json, say, table
from dpoco.learners import LEARNERS, Learner

if TYPE_CHECKING:
    from dpoco.experts import ExpertPlan


SCHEMA = "dpoco.plan-experts/1"


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
    as_json: JsonFlag = False,
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
            print_json(record)
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
    shown = table(("learner", "regret bound", "a round", "holds for", "epsilon", "delta", "noise"))
    for plan in plans:
        shown.add_row(
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
    console().print(shown)
    say()
    say(str(plans[0].guarantee))


plan_app = typer.Typer(
    help="Show what a budget buys, without data: parameters, guarantee, noise, memory, regret "
    "bound and the smallest useful horizon of any learner.\n\n"
    "Domains have diameter D = 1 and losses slope G = 1 (or range 1).\n\n"
    "Example: dpoco plan ctrl --horizon 100000 --dimension 10 --epsilon 1",
    no_args_is_help=True,
    rich_markup_mode=None,
)
plan_app.command("experts")(experts_command)

_PLANNED = ("records", "surface", "experts", "arms", "batch", "reports")
_Horizon = Annotated[int, typer.Option(help="Rounds; for batch baselines, records.")]
_Dimension = Annotated[int, typer.Option(help="Coordinates of a decision, or of a context.")]
_Experts = Annotated[int, typer.Option(help="Number of experts.")]
_Arms = Annotated[int, typer.Option(help="Number of arms.")]
_Epsilon = Annotated[float, typer.Option(help="Privacy budget.")]
_Delta = Annotated[
    float | None,
    typer.Option(help="Privacy budget. [default: 1/(10 horizon); 0 for pure mechanisms]"),
]
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
_Switches = Annotated[
    int, typer.Option(help="Switches of the sequence of experts to compete with.")
]
_Target = Annotated[
    float,
    typer.Option(
        help="Regret per round, as a share of the largest, at which a horizon counts as useful."
    ),
]

_TARGET = 0.1


def _say(plan: Callable[..., dict[str, Any]], as_json: bool, *args: Any, **asked: Any) -> None:
    with errors_in_one_line():
        report = plan(*args, **asked)
        if as_json:
            print_json(report)
        else:
            print_plan(report, Guarantee.from_dict(report["guarantee"]))


def _coupled(entry: Learner, standard_loss: str) -> Callable[..., None]:
    def command(
        horizon: _Horizon,
        dimension: _Dimension,
        epsilon: _Epsilon = 1.0,
        delta: _Delta = None,
        loss: _Loss = standard_loss,
        domain: _DomainName = "ball",
        relation: _Relation = "replace",
        calibration: _Calibration = "tight",
        coupling: _Coupling = "auto",
        target: _Target = _TARGET,
        as_json: JsonFlag = False,
    ) -> None:
        options = {"relation": relation, "calibration": calibration, "coupling": coupling}
        _say(
            plan_records, as_json, entry, dimension=dimension, domain=domain, loss=loss,
            options=options, horizon=horizon, epsilon=epsilon, delta=delta, target=target,
        )  # fmt: skip

    return command


def _records(entry: Learner, standard_domain: str) -> Callable[..., None]:
    def command(
        horizon: _Horizon,
        dimension: _Dimension,
        epsilon: _Epsilon = 1.0,
        delta: _Delta = None,
        loss: _Loss = "logistic",
        domain: _DomainName = standard_domain,
        relation: _Relation = "replace",
        calibration: _Calibration = "tight",
        target: _Target = _TARGET,
        as_json: JsonFlag = False,
    ) -> None:
        _say(
            plan_records, as_json, entry, dimension=dimension, domain=domain, loss=loss,
            options={"relation": relation, "calibration": calibration}, horizon=horizon,
            epsilon=epsilon, delta=delta, target=target,
        )  # fmt: skip

    return command


def _surface(entry: Learner) -> Callable[..., None]:
    def command(
        horizon: _Horizon,
        dimension: Annotated[int, typer.Option(help="1 or 2.")] = 1,
        epsilon: _Epsilon = 1.0,
        delta: _Delta = None,
        calibration: _Calibration = "tight",
        target: _Target = _TARGET,
        as_json: JsonFlag = False,
    ) -> None:
        _say(
            plan_surface, as_json, entry, dimension=dimension,
            options={"calibration": calibration}, horizon=horizon, epsilon=epsilon, delta=delta,
            target=target,
        )  # fmt: skip

    return command


def _experts(entry: Learner) -> Callable[..., None]:
    def command(
        horizon: _Horizon,
        experts: _Experts,
        epsilon: _Epsilon = 1.0,
        delta: _Delta = None,
        calibration: _Calibration = "tight",
        target: _Target = _TARGET,
        as_json: JsonFlag = False,
    ) -> None:
        _say(
            plan_experts_of, as_json, entry, experts=experts, options={"calibration": calibration},
            horizon=horizon, epsilon=epsilon, delta=delta, target=target,
        )  # fmt: skip

    return command


def _trackers(entry: Learner, option: str) -> Callable[..., None]:
    def command(
        horizon: _Horizon,
        experts: _Experts,
        switches: _Switches = 0,
        epsilon: _Epsilon = 1.0,
        delta: _Delta = None,
        calibration: _Calibration = "tight",
        target: _Target = _TARGET,
        as_json: JsonFlag = False,
    ) -> None:
        _say(
            plan_experts_of, as_json, entry, experts=experts,
            options={option: switches, "calibration": calibration}, horizon=horizon,
            epsilon=epsilon, delta=delta, target=target,
        )  # fmt: skip

    return command


def _bandits(entry: Learner) -> Callable[..., None]:
    def command(
        horizon: _Horizon,
        arms: _Arms,
        dimension: _Dimension,
        epsilon: _Epsilon = 1.0,
        delta: _Delta = None,
        relation: _Relation = "replace",
        calibration: _Calibration = "tight",
        target: _Target = _TARGET,
        as_json: JsonFlag = False,
    ) -> None:
        _say(
            plan_arms, as_json, entry, arms=arms, dimension=dimension,
            options={"relation": relation, "calibration": calibration}, horizon=horizon,
            epsilon=epsilon, delta=delta, target=target,
        )  # fmt: skip

    return command


def _fits(entry: Learner) -> Callable[..., None]:
    def command(
        horizon: _Horizon,
        dimension: _Dimension,
        epsilon: _Epsilon = 1.0,
        delta: _Delta = None,
        loss: Annotated[str, typer.Option(metavar="NAME", help="logistic or huber.")] = "logistic",
        domain: _DomainName = "ball",
        calibration: _Calibration = "tight",
        as_json: JsonFlag = False,
    ) -> None:
        _say(
            plan_batch, as_json, entry, dimension=dimension, domain=domain, loss=loss,
            options={"calibration": calibration}, horizon=horizon, epsilon=epsilon, delta=delta,
            target=_TARGET,
        )  # fmt: skip

    return command


def _reports(entry: Learner) -> Callable[..., None]:
    def command(
        horizon: _Horizon,
        hypotheses: Annotated[int, typer.Option(help="Number K of known distributions.")],
        labels: Annotated[int, typer.Option(help="Number M of labels.")],
        epsilon: Annotated[float, typer.Option(help="Privacy of one report.")] = 1.0,
        target: _Target = _TARGET,
        as_json: JsonFlag = False,
    ) -> None:
        _say(
            plan_reports, as_json, entry, hypotheses=hypotheses, labels=labels, options={},
            horizon=horizon, epsilon=epsilon, delta=None, target=target,
        )  # fmt: skip

    return command


def _command(entry: Learner) -> tuple[Callable[..., None], str]:
    """Return the command of a learner, and the options of its example."""
    sized = "--horizon 100000 --dimension 10"
    if entry.name in ("ctrl", "comw"):
        return _coupled(entry, "general" if entry.name == "ctrl" else "linear"), sized
    if entry.plays == "records":
        return _records(entry, "simplex" if entry.name.startswith("poly") else "ball"), sized
    if entry.plays == "surface":
        return _surface(entry), "--horizon 100000"
    if entry.plays == "experts":
        own = {"oblivious-tracker": "switches", "batch-share": "switches",
               "shift-detector": "expected_shifts"}  # fmt: skip
        of = "--horizon 100000 --experts 10"
        if entry.name in own:
            return _trackers(entry, own[entry.name]), f"{of} --switches 5"
        return _experts(entry), of
    if entry.plays == "arms":
        return _bandits(entry), "--horizon 1000000 --arms 5 --dimension 10"
    if entry.plays == "batch":
        return _fits(entry), "--horizon 10000 --dimension 10"
    return _reports(entry), "--horizon 1000000 --hypotheses 8 --labels 16"


for _entry in (each for each in LEARNERS if each.plays in _PLANNED):
    _made, _example = _command(_entry)
    plan_app.command(
        _entry.name,
        help=f"Plan {_entry.path}: {_entry.about}.\n\nExample: dpoco plan {_entry.name} {_example}",
    )(_made)

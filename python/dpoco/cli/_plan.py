"""``dpoco plan``: parameters, guarantee, noise, memory and regret of a learner, before any data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import dpoco
from dpoco._calibrated import Option, options_of
from dpoco._validation import unknown
from dpoco.accounting import Budget, Guarantee
from dpoco.cli._options import own_options
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


_TARGET = 0.1
_PLANNED = ("records", "surface", "experts", "arms", "batch", "reports")
_LOSS = (
    "linear, logistic, huber (unit slope) or general (any convex loss with Lipschitz constant G, "
    "for ctrl also with Hessians at most G/D)."
)
_SIZE = {"dimension": (int, "Coordinates of a decision, or of a context.")}
_SET = {"loss": (str, _LOSS), "domain": (str, "ball, box or simplex, of diameter D.")}
# What describes the problem, by what learners play: types and help.
_PROBLEMS: dict[str, dict[str, tuple[type, str]]] = {
    "records": {**_SIZE, **_SET},
    "surface": {"dimension": (int, "1 or 2.")},
    "experts": {"experts": (int, "Number of experts.")},
    "arms": {"arms": (int, "Number of arms."), **_SIZE},
    "batch": {**_SIZE, **_SET, "loss": (str, "logistic or huber.")},
    "reports": {
        "hypotheses": (int, "Number K of known distributions."),
        "labels": (int, "Number M of labels."),
    },
}
_SIZED = "--horizon 100000 --dimension 10"
_EXAMPLES = {
    "records": _SIZED,
    "surface": "--horizon 100000",
    "experts": "--horizon 100000 --experts 10",
    "arms": "--horizon 1000000 --arms 5 --dimension 10",
    "batch": "--horizon 10000 --dimension 10",
    "reports": "--horizon 1000000 --hypotheses 8 --labels 16",
}
_PLANS: dict[str, Callable[..., dict[str, Any]]] = {
    "records": plan_records,
    "surface": plan_surface,
    "experts": plan_experts_of,
    "arms": plan_arms,
    "batch": plan_batch,
    "reports": plan_reports,
}
_ALSO = {"expected_shifts": "--switches"}  # as other trackers call it


def _defaults(entry: Learner) -> dict[str, Any]:
    """Return the defaults of what describes the problem."""
    if entry.plays == "surface":
        return {"dimension": 1}
    loss = {"ctrl": "general", "comw": "linear"}.get(entry.name, "logistic")
    return {"loss": loss, "domain": "simplex" if entry.ball == 1.0 else "ball"}


def _flag(name: str, kind: Any, default: Any, text: str, *declared: str) -> inspect.Parameter:
    metavar = "NAME" if kind in (str, str | None) else None
    option = typer.Option(*(declared or (f"--{name}",)), metavar=metavar, help=text)
    kept = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kept, default=default, annotation=Annotated[kind, option])


def _own_flag(option: Option) -> inspect.Parameter:
    """Return the flag of one option: its type, default and meaning are the constructor's."""
    kind, default = option.flag_type, option.default
    if option.name in _ALSO:
        default = 0
    flag = "--" + option.name.replace("_", "-")
    flag += f"/--no-{flag[2:]}" if kind is bool else ""
    declared = [flag, *([_ALSO[option.name]] if option.name in _ALSO else [])]
    optional = kind | None if default is None else kind
    return _flag(option.name, optional, default, option.help, *declared)


def command_of(entry: Learner) -> Callable[..., None]:
    """Return the command that plans a learner; its flags are the learner's own options."""
    empty, defaults = inspect.Parameter.empty, _defaults(entry)
    own = own_options(entry)
    flags = [_flag("horizon", int, empty, "Rounds; for batch baselines, records.")]
    flags += [
        _flag(name, kind, defaults.get(name, empty), text)
        for name, (kind, text) in _PROBLEMS[entry.plays].items()
    ]
    flags.append(_flag("epsilon", float, 1.0, "Privacy budget; of reports, of one."))
    if entry.plays != "reports":
        text = "Privacy budget. [default: 1/(10 horizon); 0 for pure mechanisms]"
        flags.append(_flag("delta", float | None, None, text))
    flags += map(_own_flag, own.values())
    if entry.plays != "batch":
        text = "Regret per round, as a share of the largest, at which a horizon counts as useful."
        flags.append(_flag("target", float, _TARGET, text))

    def command(*, as_json: bool, **given: Any) -> None:
        with errors_in_one_line():
            read = {name: own[name].read(given.pop(name)) for name in own}
            options = {name: value for name, value in read.items() if value is not None}
            asked = {"delta": None, "target": _TARGET, **given}
            report = _PLANS[entry.plays](entry, options=options, **asked)
            if as_json:
                print_json(report)
            else:
                print_plan(report, Guarantee.from_dict(report["guarantee"]))

    kept = inspect.Parameter.KEYWORD_ONLY
    flags.append(inspect.Parameter("as_json", kept, default=False, annotation=JsonFlag))
    command.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return command


def example_of(entry: Learner) -> str:
    """Return options with which a learner can be planned."""
    tracks = {"switches", "expected_shifts"} & options_of(entry.load()).keys()
    return _EXAMPLES[entry.plays] + (" --switches 5" if tracks else "")


class _Plans(TyperGroup):
    """The plans of all learners, each made when it is asked for: making one loads its learner."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return [*super().list_commands(ctx), *(e.name for e in LEARNERS if e.plays in _PLANNED)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was meant, or say which one probably was."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            ctx.fail(unknown("command", args[0], names))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None."""
        known = [each for each in LEARNERS if each.name == cmd_name and each.plays in _PLANNED]
        if not known:
            return super().get_command(ctx, cmd_name)
        (entry,) = known
        alone = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
        )
        example = f"Example: dpoco plan {entry.name} {example_of(entry)}"
        text = f"Plan {entry.path}: {entry.about}.\n\n{example}"
        alone.command(entry.name, help=text)(command_of(entry))
        return typer.main.get_command(alone)


plan_app = typer.Typer(
    cls=_Plans,
    help="Show what a budget buys, without data: parameters, guarantee, noise, memory, regret "
    "bound and the smallest useful horizon of any learner.\n\n"
    "Domains have diameter D = 1 and losses slope G = 1 (or range 1).\n\n"
    "Example: dpoco plan ctrl --horizon 100000 --dimension 10 --epsilon 1",
    no_args_is_help=True,
    rich_markup_mode=None,
)
plan_app.command("experts")(experts_command)

"""``dpoco plan``: parameters, guarantee, noise, memory and regret of a learner, before any data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer

import dpoco
from dpoco._options import Option, constructor_options
from dpoco.accounting import Budget, Guarantee
from dpoco.cli import _plan_report as plans
from dpoco.cli import _support as shell
from dpoco.cli._options import own_options, participation_of, takes_people
from dpoco.learners import LEARNERS, Learner

SCHEMA = "dpoco.plan-experts/1"


@shell.documented_options
def experts_command(
    experts: int,
    horizon: int,
    switches: int = 0,
    epsilon: float = 1.0,
    delta: float | None = None,
    adversary: str = "oblivious",
    gap: float = 0.0,
    as_json: shell.JsonFlag = False,
) -> None:
    """Plan learning with expert advice: all admissible learners, smallest bound first.

    For example:

    dpoco plan experts --experts 10 --horizon 100000 --switches 5

    Parameters
    ----------
    experts
        Number of experts.
    horizon
        Rounds.
    switches
        Switches of the sequence of experts to compete with.
    epsilon
        Privacy budget.
    delta
        Privacy budget; 0: pure privacy. [default: 1/(10 horizon)]
    adversary : NAME
        stationary, shifting, oblivious or adaptive.
    gap
        Of stationary and shifting losses: how much worse than the best expert all others are.
    """
    with shell.errors_in_one_line():
        budget = Budget._over(epsilon, delta, max(1, horizon))
        plans = dpoco.experts.plan_experts(
            experts, horizon=horizon, budget=budget, switches=switches,
            adversary=adversary,  # type: ignore[arg-type]  # checked there
            gap=gap,
        )  # fmt: skip
    if as_json:
        names = ("learner", "regret_bound", "scope", "useful")
        records = [
            {**{name: getattr(plan, name) for name in names},
             "parameters": plan.plan.to_dict(), "guarantee": plan.guarantee.to_dict()}
            for plan in plans
        ]  # fmt: skip
        shell.print_json({"schema": SCHEMA, "plans": records})
        return
    shown = shell.table(
        ("learner", "worst-case regret", "a round", "holds for", "epsilon", "delta", "noise")
    )
    for plan in plans:
        shown.add_row(
            plan.learner, f"{plan.regret_bound:.6g}{'' if plan.useful else ' (says nothing)'}",
            f"{plan.regret_bound / horizon:.4g}", f"{plan.scope} losses",
            f"{plan.guarantee.epsilon:.4g}", f"{plan.guarantee.delta:.4g}",
            str(getattr(plan.plan, "noise", "")),
        )  # fmt: skip
    shell.console().print(shown)
    shell.say()
    shell.say(str(plans[0].guarantee))


@shell.documented_options
def auto_command(
    horizon: int,
    dimension: int,
    loss: str = "logistic",
    domain: str = "ball",
    epsilon: float = 1.0,
    delta: float | None = None,
    rounds_per_person: int | None = None,
    separation: int | None = None,
    as_json: shell.JsonFlag = False,
) -> None:
    """Rank the learners of records by the regret to be expected, as dpoco run chooses.

    For example:

    dpoco plan auto --horizon 100000 --dimension 10

    Parameters
    ----------
    horizon
        Rounds.
    dimension
        Coordinates of a decision.
    loss : NAME
        linear, logistic, squared or huber, of slope 1.
    domain : NAME
        ball, box or simplex, of diameter 1.
    epsilon
        Privacy budget.
    delta
        Privacy budget; 0: pure privacy. [default: 1/(10 horizon)]
    rounds_per_person
        The budget is for all rounds of a person, who has at most so many.
    separation
        With --rounds-per-person: two of them are at least so many rounds apart.
    """
    with shell.errors_in_one_line():
        people = {"rounds_per_person": rounds_per_person, "separation": separation}
        choices = dpoco.choose(
            plans.standard_problem(dimension, loss, domain), horizon=horizon,
            budget=Budget._over(epsilon, delta, max(1, horizon)),
            participation=participation_of(people),
        )  # fmt: skip
    facts = ("learner", "options", "predicted_regret", "privacy_cost", "regret_bound", "scope")
    if as_json:
        records = [{name: getattr(each, name) for name in facts} for each in choices]
        shell.print_json({"schema": "dpoco.plan-auto/1", "choices": records})
        return
    shown = shell.table(("learner", "expected", "of it privacy", "proved", "holds for"))
    for each in choices:
        options = ", ".join(f"{name}={value}" for name, value in each.options.items())
        numbers = (each.predicted_regret, each.privacy_cost, each.regret_bound)
        shown.add_row(
            f"{each.learner}{f' ({options})' if options else ''}",
            *("" if number is None else f"{number:.3g}" for number in numbers),
            f"{each.scope} losses" if each.useful else "",
        )
    shell.console().print(shown)
    shell.say("  regret a round, in units of the loss; expected of independent records")
    shell.say()
    shell.say(str(choices[0].guarantee))


_TARGET = 0.1
_SIZED = "--horizon 100000 --dimension 10"
# What learners play: their standard problem, and an example.
_PLANNED: dict[str, tuple[Callable[..., plans.Problem], str]] = {
    "records": (plans.of_records, _SIZED),
    "surface": (plans.of_functions, "--horizon 100000"),
    "experts": (plans.of_experts, "--horizon 100000 --experts 10"),
    "arms": (plans.of_arms, "--horizon 1000000 --arms 5 --dimension 10"),
    "batch": (plans.of_batch, "--horizon 10000 --dimension 10"),
    "reports": (plans.of_reports, "--horizon 1000000 --hypotheses 8 --labels 16"),
}
_ALSO = {"expected_shifts": "--switches"}  # as other trackers call it
_UNITS = {"context_bound": 1.0, "reward_bound": 1.0}  # plans are in units of what has no default


def command_of(entry: Learner) -> Callable[..., None]:
    """Return the command that plans a learner; its flags are the learner's own options."""
    make, own = _PLANNED[entry.plays][0], own_options(entry)
    flags: list[inspect.Parameter] = []

    def flag(name: str, kind: Any, default: Any, values: str, text: str) -> None:
        shown = shell.option_of(kind, values, text)
        keyword = inspect.Parameter.KEYWORD_ONLY
        flags.append(inspect.Parameter(name, keyword, default=default, annotation=shown))

    empty, said = inspect.Parameter.empty, shell.documented(make)
    usual = {"ctrl": "general", "comw": "linear", "sufficient-statistics": "squared"}
    defaults = {"loss": usual.get(entry.name, "logistic"),
                "domain": "simplex" if entry.ball == 1.0 else "ball"}  # fmt: skip
    flag("horizon", int, empty, "", "Rounds; for one-time fits, records.")
    for name, parameter in inspect.signature(make, eval_str=True).parameters.items():
        if name in said:
            flag(name, parameter.annotation, defaults.get(name, parameter.default), *said[name])
    sizes = [each.name for each in flags[1:]]
    flag("epsilon", float, 1.0, "", "Privacy budget; of reports, of one.")
    if entry.plays != "reports":
        text = "Privacy budget. [default: 1/(10 horizon); 0 for pure mechanisms]"
        flag("delta", float | None, None, "", text)
    for name, option in own.items():
        usual_value = 0 if name in _ALSO else option.default
        kind, default = option.flag_type, _UNITS.get(name, usual_value)
        values = "NAME" if kind is str else ""
        if name in _ALSO:
            values = f"--{name.replace('_', '-')} {_ALSO[name]}"
        flag(name, kind | None if default is None else kind, default, values, _help_of(option))
    people = takes_people(entry)
    if people:
        text = "The budget is for all rounds of a person, who has at most so many."
        flag("rounds_per_person", int | None, None, "", text)
        text = "With --rounds-per-person: two of them are at least so many rounds apart."
        flag("separation", int | None, None, "", text)
    if entry.plays != "batch":
        text = "Regret per round, as a share of the largest, at which a horizon counts as useful."
        flag("target", float, _TARGET, "", text)

    def command(*, as_json: bool, **given: Any) -> None:
        with shell.errors_in_one_line():
            read = {name: own[name].read(given.pop(name)) for name in own}
            options = {name: value for name, value in read.items() if value is not None}
            facts = {name: given.pop(name) for name in sizes}
            problem = make(entry, **facts)
            named = ("rounds_per_person", "separation") if people else ()
            often = {name: given.pop(name) for name in named}
            rule = participation_of(often) if people else None
            facts.update({name: value for name, value in often.items() if value is not None})
            pure = {"delta": 0.0} if entry.plays == "reports" else {}
            asked = {"target": _TARGET, **pure, **given}
            report = plans.plan_report(entry, problem, facts, options, rule, **asked)
            if as_json:
                shell.print_json(report)
            else:
                plans.print_plan(report, Guarantee.from_dict(report["guarantee"]))

    kept = inspect.Parameter.KEYWORD_ONLY
    flags.append(inspect.Parameter("as_json", kept, default=False, annotation=shell.JsonFlag))
    command.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return command


def _help_of(option: Option) -> str:
    """Return the help of a learner's own option: the words it may be, and its sentence."""
    words = ", ".join(option.choices)
    if words and {int, float} & {*option.types}:
        words += " or a number"
    return f"{words}. {option.sentence}" if words else option.sentence


def example_of(entry: Learner) -> str:
    """Return options with which a learner can be planned."""
    tracks = {"switches", "expected_shifts"} & constructor_options(entry.load()).keys()
    return _PLANNED[entry.plays][1] + (" --switches 5" if tracks else "")


class _Plans(shell.Group):
    """The plans of all learners, each made when it is asked for: making one loads its learner."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return [*super().list_commands(ctx), *(e.name for e in LEARNERS if e.plays in _PLANNED)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None."""
        known = {each.name: each for each in LEARNERS if each.plays in _PLANNED}
        if cmd_name not in known:
            return super().get_command(ctx, cmd_name)
        entry = known[cmd_name]
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
plan_app.command("auto")(auto_command)
plan_app.command("experts")(experts_command)

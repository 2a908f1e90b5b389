"""``dpoco plan``: parameters, guarantee, noise, memory and regret of a learner, before any data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, field, make_dataclass
from typing import Annotated, Any

from typer.core import TyperCommand, TyperGroup

import dpoco
from dpoco._options import Option, argument_options, constructor_options
from dpoco._validation import unknown
from dpoco.accounting import Budget, Guarantee
from dpoco.cli import _plan_report as plans
from dpoco.cli import _shell as shell
from dpoco.cli._monitor import plan_statistics_command
from dpoco.cli._settings import Flag, make_participation, own_options, takes_people
from dpoco.learners import LEARNERS, Learner

SCHEMA = "dpoco.plan-auto/1"


def experts_command(
    experts: int = shell.option(..., "Number of experts."),
    horizon: int = shell.option(..., "Rounds."),
    switches: int = shell.option(0, "Switches of the sequence of experts to compete with."),
    epsilon: shell.Epsilon = 1.0,
    delta: shell.Delta = None,
    adversary: str = shell.option(
        "oblivious", "stationary, shifting, oblivious or adaptive.", metavar="NAME"
    ),
    gap: float = shell.option(
        0.0,
        "Of stationary and shifting losses: how much worse than the best expert all others are.",
    ),
    as_json: shell.JsonFlag = False,
) -> None:
    """Plan learning with expert advice: all admissible learners, smallest bound first.

    For example:

    dpoco plan experts --experts 10 --horizon 100000 --switches 5
    """
    choices = dpoco.choose(
        experts, horizon=horizon, budget=Budget._over(epsilon, delta, max(1, horizon)),
        switches=switches,
        adversary=adversary,  # type: ignore[arg-type]  # checked there
        gap=gap, by="bound",
    )  # fmt: skip
    _print_choices(choices, as_json)


def auto_command(
    horizon: int = shell.option(..., "Rounds."),
    dimension: int = shell.option(..., "Coordinates of a decision."),
    loss: str = shell.option(
        "logistic", "linear, logistic, squared or huber, of slope 1.", metavar="NAME"
    ),
    domain: str = shell.option("ball", "ball, box or simplex, of diameter 1.", metavar="NAME"),
    epsilon: shell.Epsilon = 1.0,
    delta: shell.Delta = None,
    rounds_per_person: shell.RoundsPerPerson = None,
    separation: shell.Separation = None,
    as_json: shell.JsonFlag = False,
) -> None:
    """Rank the learners of records by the regret to be expected, as dpoco run chooses.

    For example:

    dpoco plan auto --horizon 100000 --dimension 10
    """
    choices = dpoco.choose(
        plans.standard_problem(dimension, loss, domain), horizon=horizon,
        budget=Budget._over(epsilon, delta, max(1, horizon)),
        participation=make_participation(rounds_per_person, separation),
    )  # fmt: skip
    _print_choices(choices, as_json)


def _print_choices(choices: Sequence[dpoco.Choice], as_json: bool) -> None:
    """Print learners with their expected and proved regret, and the guarantee of the first one.

    JSON contains the guarantees of the others.
    """
    if as_json:
        facts = ("learner", "options", "predicted_regret", "privacy_cost", "regret_bound", "scope",
                 "useful")  # fmt: skip
        records = [
            {name: getattr(each, name) for name in facts} | {"guarantee": each.guarantee.to_dict()}
            for each in choices
        ]
        shell.print_json({"schema": SCHEMA, "choices": records})
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


_PROBLEM = "Problem"
_SIZED = "--horizon 100000 --dimension 10"
# By kind of rounds: the standard problem of learners, and an example.
_PLANNED: dict[str, tuple[Callable[..., plans.Problem], str]] = {
    "records": (plans.plan_records, _SIZED),
    "surface": (plans.plan_functions, "--horizon 100000"),
    "experts": (plans.plan_experts, "--horizon 100000 --experts 10"),
    "arms": (plans.plan_arms, "--horizon 1000000 --arms 5 --dimension 10"),
    "batch": (plans.plan_batch, "--horizon 10000 --dimension 10"),
    "reports": (plans.plan_reports, "--horizon 1000000 --hypotheses 8 --labels 16"),
}
_ALSO = {"expected_shifts": "--switches"}  # the name of this option in other trackers
_UNITS = {"context_bound": 1.0, "reward_bound": 1.0}  # units of options without default


def make_command(entry: Learner) -> TyperCommand | TyperGroup:
    """Return the command that plans a learner; its flags are the learner's own options."""
    make, own = _PLANNED[entry.plays][0], own_options(entry)
    usual = {"ctrl": "general", "comw": "linear", "sufficient-statistics": "squared"}
    defaults = {"loss": usual.get(entry.name, "logistic"),
                "domain": "simplex" if entry.ball == 1.0 else "ball"}  # fmt: skip
    sizes = argument_options(make)
    people = takes_people(entry)
    flags = [
        _flag("horizon", int, "Rounds; for one-time fits, records.", _PROBLEM),
        *(
            _flag(name, each.flag_type, each.sentence, _PROBLEM, defaults.get(name, each.default))
            for name, each in sizes.items()
        ),
        ("epsilon", shell.Epsilon, 1.0),
    ]
    if entry.plays != "reports":
        flags.append(("delta", shell.Delta, None))
    if people:
        flags += [
            ("rounds_per_person", shell.RoundsPerPerson, None),
            ("separation", shell.Separation, None),
        ]
    for name, option in own.items():
        default = 0 if name in _ALSO else _UNITS.get(name, option.default)
        also = (f"--{name.replace('_', '-')}", _ALSO[name]) if name in _ALSO else ()
        flags.append(_flag(name, option.flag_type, _help(option), "Learner", default, *also))

    def act(parsed: object) -> None:
        given = vars(parsed)
        as_json, horizon, epsilon = (given.pop(n) for n in ("as_json", "horizon", "epsilon"))
        # Options are texts, and are converted to the types of the learner's constructor.
        read = {name: own[name].read(given.pop(name)) for name in own}
        options = {name: value for name, value in read.items() if value is not None}
        facts = {name: given.pop(name) for name in sizes}
        problem = make(entry, **facts)
        delta = given.pop("delta", 0.0)
        rule = make_participation(**given) if people else None
        facts |= {name: value for name, value in given.items() if value is not None}
        report = plans.plan_report(
            entry, problem, facts, options, rule, horizon=horizon, epsilon=epsilon, delta=delta
        )
        if as_json:
            shell.print_json(report)
        else:
            plans.print_plan(report, Guarantee.from_dict(report["guarantee"]))

    # With keywords only, options with and without defaults may be in any order.
    options = make_dataclass("Plan", [*flags, ("as_json", shell.JsonFlag, False)], kw_only=True)
    example = f"Example: dpoco plan {entry.name} {example_options(entry)}"
    text = f"Plan {entry.path}: {entry.about}.\n\n{example}"
    return shell.command(options, entry.name, act, text)


def _flag(
    name: str, kind: type, text: str, panel: str, default: object = MISSING, *names: str
) -> Flag:
    """Return a field of the options of a plan."""
    empty = default is inspect.Parameter.empty
    shown = shell.option(..., text, *names, metavar="NAME" if kind is str else None, panel=panel)
    taken: Any = kind | None if default is None else kind
    return name, Annotated[taken, shown], field(default=MISSING if empty else default)


def _help(option: Option) -> str:
    """Return the help of a learner's own option: its allowed texts, and its sentence."""
    words = ", ".join(option.choices)
    if words and {int, float} & {*option.types}:
        words += " or a number"
    return f"{words}. {option.sentence}" if words else option.sentence


def example_options(entry: Learner) -> str:
    """Return options with which a learner can be planned."""
    tracks = {"switches", "expected_shifts"} & constructor_options(entry.load()).keys()
    return _PLANNED[entry.plays][1] + (" --switches 5" if tracks else "")


class _Plans(TyperGroup):
    """The plans of all learners, each made on demand, because making one loads its learner."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return [
            *super().list_commands(ctx),
            "statistics",
            *(e.name for e in LEARNERS if e.plays in _PLANNED),
        ]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None."""
        if cmd_name == "statistics":
            return plan_statistics_command
        known = {each.name: each for each in LEARNERS if each.plays in _PLANNED}
        # The other names are auto and experts, which rank learners.
        if cmd_name not in known:
            return super().get_command(ctx, cmd_name)
        return make_command(known[cmd_name])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the requested command, or raise with a suggestion."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            ctx.fail(unknown("learner", args[0], names))
        return super().resolve_command(ctx, args)


plan_app = shell.group(
    "Show what a budget buys, without data: parameters, guarantee, noise, memory, regret "
    "bound and the smallest useful horizon of any learner.\n\n"
    "Domains have diameter D = 1 and losses slope G = 1 (or range 1).\n\n"
    "Example: dpoco plan ctrl --horizon 100000 --dimension 10 --epsilon 1",
    _Plans,
)
plan_app.command("auto", cls=shell.Command)(auto_command)
plan_app.command("experts", cls=shell.Command)(experts_command)
COMMANDS = shell.commands(plan=plan_app)

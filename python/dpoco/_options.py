"""Options: the arguments of a constructor, as read by commands and planning.

Types, choices and defaults come from the annotations of the constructor. The help texts of commands
are in one table here, because an argument has the same meaning in every learner. A command's own
settings have their help text in the annotation. The docstring of a class explains more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["SENTENCES", "Option", "argument_options", "constructor_options"]

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
# One help text for every argument that commands take.
SENTENCES = {
    "adversary": "Losses that the regret bound is for; privacy does not depend on it.",
    "alarms": "Number of alarms that are answered; the noise grows with it.",
    "arm_learner": "How an arm learns; auto has the smaller predicted error.",
    "batch": "Rounds per update of the decision.",
    "block": "Rounds for each decision to stay or to switch.",
    "bound": "Vectors are clipped to this length.",
    "candidates": "Number of scores.",
    "context_bound": "Contexts are clipped to this length; public.",
    "context_law": "What contexts are like: normal, or any, at a little more noise.",
    "coupling": "How the decision of a block is kept or replaced.",
    "enforce": "Whether losses are clipped to their Lipschitz constant.",
    "expected_shifts": "Changes of the distribution to plan for: a guess.",
    "exploration": "Factor on the proven widths of the intervals; a regret bound needs 1.",
    "exponent": "Decay of the noise scales from choice to choice, 0 to 0.9.",
    "failure": "Probability that a confidence interval is wrong.",
    "false_alarm": "Probability of an alarm without a change.",
    "first": "Expert of the first round; drawn unless given.",
    "forced_rounds": "Rounds in which every arm is pulled before the learner chooses.",
    "forced_switch": "Probability of a fresh draw whatever the losses are.",
    "gap": "Lead of the best expert or arm over all others, as far as it is known.",
    "half_life": "Rounds after which a record counts half; auto (squared losses) costs nothing.",
    "intercept": "Last entry of every context, if that is a public constant above 0.",
    "largest": "Whether the largest score is sought, or the smallest.",
    "learning_rate": "Step per unit of loss; by default the one with the least regret bound.",
    "link": "How rewards depend on contexts.",
    "max_resamples": "Cap on fresh draws; afterwards the last decision is kept.",
    "max_switches": "Bound on the expected number of switches, without privacy only.",
    "method": "How running sums share their noise.",
    "noise": "Distribution of the noise.",
    "nominal_horizon": "Rounds to plan for if there is no horizon.",
    "norm": "Exponent of the norm of vectors.",
    "norm_order": "Order of the generalized Gaussian.",
    "numerics": "Exact integers (lattice), or doubles, whose rounding is not part of the proof.",
    "one_hot": "Entries in front of contexts of which exactly one is not zero.",
    "one_directional": "Whether a record moves all scores in the same direction.",
    "parameter_bound": "Largest length of an arm's coefficients; it widens the intervals.",
    "prior": "Distribution of sequences of experts before any loss.",
    "regularization": "Added to the diagonal, on top of the margin for noise.",
    "relation": "Whether neighbouring streams replace or empty one record.",
    "resolution": "Points of the net along an axis.",
    "reward_bound": "Rewards are clipped to this size; public.",
    "reward_noise": "Subgaussian constant of the rewards.",
    "ridge": "Ridge in spectral edges of the noise; auto chooses at no cost of privacy.",
    "running_loss": "Whether the estimated loss is published; noise grows by 3 %.",
    "sampler": "How a decision is drawn.",
    "select_share": "Part of epsilon for selections; the detector gets the rest.",
    "selection": "Noise of a selection.",
    "selector": "Noise of the choice of a vertex.",
    "sensitivity": "Largest change of one answer when a record is replaced: a promise.",
    "share_rate": "Probability that the best expert changes in a round.",
    "shrinkage": "How far decisions shrink towards the centre, 0 to 2.",
    "spread": "Largest rise of one query plus largest fall of another.",
    "statistics": "What is summed: gradients, or statistics that give every past squared loss.",
    "step_scale": "s in the steps s/(k + s).",
    "step_size": "Squared length per unit of loss; predicted has the least expected regret.",
    "sum_method": "How running sums share their noise.",
    "switches": "Switches of the sequences of experts to compare with.",
    "threshold_scale": "Factor on the thresholds: smaller means earlier and more false alarms.",
    "transform": "The transform of the losses that is summed.",
    "unbounded": "Whether decisions range over all of R^d.",
    "weights": "Weights of the gradient estimate.",
    "window": "Rounds of the longest window.",
    "windows": "Windows that the detector tests.",
}


@dataclass(frozen=True)
class Option:
    """One argument of a constructor.

    Attributes
    ----------
    name : str
        Name of the argument.
    types : tuple of type
        Allowed types; texts with a list of choices are ``str``.
    default : object
        ``inspect.Parameter.empty`` if it must be given.
    choices : tuple of str
        Allowed texts; empty if any text or none is allowed.
    sentence : str
        Help text of commands.
    """

    name: str
    types: tuple[type, ...]
    default: object = inspect.Parameter.empty
    choices: tuple[str, ...] = ()
    sentence: str = ""

    @property
    def flag_type(self) -> type:
        """Type of a command's flag: bool, int or float if no other is allowed, else text."""
        plain = [each for each in self.types if each is not NoneType and each is not tuple]
        return plain[0] if len(plain) == 1 and plain[0] in (bool, int, float) else str

    @property
    def kind(self) -> str:
        """Type of a value, in words for an error."""
        return _KINDS[self.flag_type]

    def read(self, value: object) -> Any:
        """Return the value of a flag or of a file of settings, where a text may be a number.

        Raises
        ------
        ValueError
            If the option cannot be this value.
        """
        if not isinstance(value, str):
            return value
        # The order matters: an integer must remain an int, although it is also a float.
        for kind in (bool, int, float):
            if kind in self.types:
                try:
                    return {"true": True, "false": False}[value] if kind is bool else kind(value)
                except (KeyError, ValueError):
                    continue
        if str not in self.types:
            raise ValueError(f"{self.name} must be {self.kind}; got {value!r}")
        return value


def constructor_options(constructed: type) -> dict[str, Option]:
    """Return every argument of a class's constructor, in order."""
    return argument_options(constructed.__init__)  # type: ignore[misc]  # of the class


@cache  # annotations are texts and must be evaluated
def argument_options(function: Callable[..., object]) -> dict[str, Option]:
    """Return every argument of a function but the first, in order."""
    hints = get_type_hints(function, include_extras=True)
    _, *arguments = inspect.signature(function).parameters.values()
    found = {}
    for argument in arguments:
        hint = hints.get(argument.name, str)
        sentence = SENTENCES.get(argument.name, "")
        inside = [each for each in get_args(hint) if each is Any or get_origin(each) is Annotated]
        if argument.default is None and inside:  # Python 3.10 makes the whole annotation optional
            (hint,) = inside
        if get_origin(hint) is Annotated:
            hint, sentence, *_ = get_args(hint)
        types, choices = _types(hint)
        found[argument.name] = Option(argument.name, types, argument.default, choices, sentence)
    return found


def _types(hint: object) -> tuple[tuple[type, ...], tuple[str, ...]]:
    """Return the types of an annotation, and the texts of its literals."""
    if get_origin(hint) is Literal:
        return (str,), get_args(hint)
    if get_origin(hint) not in (Union, UnionType):
        kind = get_origin(hint) or hint
        return (kind if kind is not Any and isinstance(kind, type) else object,), ()
    parts = [_types(each) for each in get_args(hint)]
    types = dict.fromkeys(kind for kinds, _ in parts for kind in kinds)
    return tuple(types), tuple(word for _, words in parts for word in words)

"""A guarantee in plain words, for lawyers, auditors and the people concerned.

``dpoco.accounting.attack_power`` computes every number from the guarantee's curve, and
``docs/privacy/explanations.md`` proves what the numbers mean. The page contains every condition of
the guarantee once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Context

from dpoco import _core
from dpoco._validation import positive_int
from dpoco.accounting._terms import Terms
from dpoco.accounting.attack_power import group_epsilon, guessing_probability, posterior, test_power

__all__ = ["odds_factor", "plain_sections", "span"]

_Section = tuple[str, str, tuple[str, ...]]  # title, text, items

_AGAINST = {
    "everyone": (
        "anyone who sees everything that is released, even if they know the mechanism and all "
        "other data, chose these data themselves, and have any computing power"
    ),
    "server": (
        "anyone, including the party that collects the reports: data are protected before they "
        "leave a device"
    ),
    "others": (
        "all other users together, who may combine what they are shown, but not against anyone "
        "who sees what the protected user is shown, or against the party that runs the mechanism"
    ),
}
_THINGS = {
    "one round": "What was recorded in any single round",
    "one record": "Any single record of the data set",
    "one person": "All that any one person contributes",
    "one user": "All records of any one user",
    "one user's record": "Any single record of a user",
    "one report": "What any single report was made of",
}
_LARGE = 10.0  # from this epsilon on, odds may change by a factor of 20,000
_RARE, _CANDIDATES, _SUSPICION = 1000, 100, 0.01
_CERTAIN = 0.999  # rounding up a larger share to tenths of a percent gives 100
# Largest difference of two probabilities up to which releases are called close, or similar.
_CLOSE, _SIMILAR = 0.1, 0.5
# First words of the conditions that belong to the section of the program.
_PROGRAM = ("The program", "The operating system", "Each user's device", "The device")


def span(guarantee: Terms) -> str:
    """Return "1000 rounds", or "1 release" if the records are a data set."""
    noun = "release" if guarantee.unit == "one record" else "round"
    return f"{guarantee.horizon} {noun}" + ("" if guarantee.horizon == 1 else "s")


def odds_factor(guarantee: Terms) -> tuple[float, float]:
    """Return the factor that odds can rise by, and the probability of exceeding it.

    The factor is e^epsilon, never exceeded, if delta is 0. Otherwise it is 2 e^epsilon, exceeded
    with probability at most 2 delta. The factor is infinite if no double can hold it.
    """
    # If delta > 0, odds may exceed e^epsilon with a probability far above delta. They exceed twice
    # this factor with probability at most 2 delta (docs/privacy/explanations.md, "Odds").
    factor = math.exp(guarantee.epsilon) if guarantee.epsilon < 700.0 else math.inf
    pure = guarantee.delta == 0.0
    return (factor, 0.0) if pure else (2.0 * factor, min(1.0, 2.0 * guarantee.delta))


def plain_sections(
    g: Terms, people: int | None = None, about: Mapping[str, str] | None = None
) -> Iterator[_Section]:
    """Yield title, text and items of every section.

    Parameters
    ----------
    g : Guarantee
        Guarantee of any learner. Without privacy there are two sections: the head, and one that
        states that nothing is promised.
    people : int, optional
        Number of people, for a warning; default: the number of rounds.
    about : mapping, optional
        Facts about the statement, by name: "Title", "File", "Operator" and the like.

    Raises
    ------
    ValueError, TypeError
        If `people` is not a number of people.
    """
    yield _head(about or {})
    if not g.private:
        yield "No privacy is promised", g.mechanism, g.conditions
        return
    # Warnings come before the protection, so that readers see them first.
    if warned := tuple(_warnings(g, people)):
        yield "WARNING", "", warned
    yield "What is protected", _protection(g), ()
    yield "Who is protected", "Everybody alike, however unusual their data are.", ()
    yield "Against whom", f"Against {_AGAINST[g.view]}.", ()
    lasting = "Later knowledge or faster computers do not weaken the protection."
    yield "For how long", f"For {span(g)} at most, taken together. {lasting}", ()
    yield "What an attacker could still learn", "", tuple(_risks(g))
    public, duties, program, rest = _sort_conditions(g)
    if public:
        yield "What counts as public", "", public
    yield "What the operator must do", "", (*duties, *_further_duties(g))
    if program:
        yield "What the program does", "", program
    if rest:
        yield "What the protection rests on", "", rest
    yield "What is not covered", "", tuple(_gaps(g))
    yield (
        "Words",
        "A release is anything that the system publishes or shows to a person, such as a decision "
        "or a sum. In a round the system makes one decision and receives one record.",
        (),
    )
    exact = f"epsilon = {g.epsilon:.6g}, delta = {g.delta:.6g}"
    yield "For experts", f"{exact}. Proof of the numbers: docs/privacy/explanations.md.", ()
    said = (f"Released: {g.mechanism}.", f"Proof: {g.reference}.")
    yield "Stated by the issuer, not checked", "", said


def _head(about: Mapping[str, str]) -> _Section:
    """Return the title and one line per fact in `about`."""
    named = {"Software": f"dpoco {_core.__version__}", **about}
    title = named.pop("Title", "")
    items = tuple(f"{name}: {value}" for name, value in named.items())
    return "Privacy statement" + (f": {title}" if title else ""), "", items


def _warnings(g: Terms, people: int | None) -> Iterator[str]:
    """Yield reasons not to rely on the numbers, beginning with the verdict's."""
    # Only the first applicable of the three. With a known seed nothing else matters, as in
    # `verdict`.
    if g.seeded:
        yield "The noise is reproducible. The numbers below would hold if it were secret."
    elif g.description is None:
        yield "The numbers below cannot be computed again. Only the issuer states them."
    elif g.doubts:
        yield "The numbers below hold if every promise is kept. The software enforces none of them."
    if g.epsilon > _LARGE:
        much = "an attacker's odds may change by a factor of more than twenty thousand"
        yield f"Hardly any protection: epsilon = {g.epsilon:.4g} is above {_LARGE:g}, so {much}."
    count, whom = (g.horizon, "rounds") if people is None else (people, "people")
    # Publishing all data of a random one of n people has a delta of 1/n.
    if g.delta * positive_int("people", count) > 1.0:
        fails = "With such a chance the protection of some of them may fail completely"
        yield f"{fails}: delta = {g.delta:.3g} is above 1 in {count:,}, the number of {whom}."


def _protection(g: Terms) -> str:
    """Return a description of what is protected, to print after the numbers."""
    other = "was left empty" if g.change == "zero_out" else "had been anything else"
    # At epsilon 0, delta bounds the difference of any two probabilities.
    # The unit of a caller's own mechanism may be any text, and is shown unchanged.
    thing, apart = _THINGS.get(g.unit, g.unit), g.delta_at(0.0)
    if g.epsilon > _LARGE:
        return f"{thing}, but in name only: the releases may show what it was."
    if apart <= _CLOSE:
        return f"{thing}: the releases look almost the same as if it {other}."
    if apart <= _SIMILAR:
        return f"{thing}: the releases look similar to what they would be if it {other}."
    if_other = f"the releases may differ clearly from what they would be if it {other}"
    return f"{thing}, weakly: {if_other}."


def _risks(g: Terms) -> Iterator[str]:
    """Yield the three risks of Opinion 05/2014 of the Article 29 Working Party and their bounds.

    Proof of each number: ``docs/privacy/explanations.md``.
    """
    # A bound for one record says nothing about a person who has several.
    own = g.unit in ("one person", "one user")
    many, one = ("people", "a protected person") if own else ("records", "a protected record")
    rare, of_many, half = _percent(1.0 / _RARE), _percent(1.0 / _CANDIDATES), _percent(0.5)
    yield (
        f"Singling out. An attacker reads all releases and writes a description that fits one in "
        f"{_RARE:,} {many} by chance. "
    ) + _bound_sentence(
        test_power(g, 1.0 / _RARE),
        f"It fits {one} with a chance of at most {{}}, instead of {rare}.",
        f"It could fit {one} with practical certainty.",
    )
    yield (
        f"Linkability. An attacker has {_CANDIDATES} {many} from another source. One of them is "
        f"{one}, and the attacker picks one after reading all releases. "
    ) + _bound_sentence(
        test_power(g, 1.0 / _CANDIDATES),
        f"The pick is right with a chance of at most {{}}, instead of {of_many}.",
        "The pick could be right with practical certainty.",
    )
    # The opinion's third risk is inference about a person who is already known.
    factor, exceeded = odds_factor(g)
    fails = f", except with a chance of {_at_most(exceeded, 2)}" if exceeded else ""
    suspicion = f"A suspicion that was {_percent(_SUSPICION)} likely"
    guess = _bound_sentence(
        guessing_probability(g),
        f"A guess is right with a chance of at most {{}}, instead of {half}. ",
        "The guess could be practically certain. ",
    )
    yield (
        "Inference. An attacker knows everything else, and finds two possible contents equally "
        f"likely. {guess}"
    ) + _bound_sentence(
        posterior(_SUSPICION, factor),
        f"{suspicion} becomes at most {{}} likely{fails}.",
        f"{suspicion} could become practically certain.",
    )
    yield (
        "Facts about people in general, which can also be found without these data, can always be "
        "learned."
    )
    yield (
        "Whether the releases are anonymous in the sense of recital 26 of the GDPR is a legal "
        "question. These three risks are those of Opinion 05/2014 of the Article 29 Working Party, "
        "and their numbers hold for every attack."
    )


def _sort_conditions(g: Terms) -> tuple[tuple[str, ...], ...]:
    """Return all conditions: public facts, duties, actions of the program, and the rest."""
    public, duties, program, rest = list[str](), list[str](), list[str](), list[str]()
    # The first words decide; `dpoco.accounting.conditions` fixes them: actor, verb, object. A
    # condition that begins otherwise goes to the rest, so no condition is lost.
    for text in g.conditions:
        if text.startswith("The operator") or text[:4].isupper():  # PROMISED, ASSUMED, SEEDED
            duties.append(text)
        elif " public" in text:
            public.append(text)
        else:
            (program if text.startswith(_PROGRAM) else rest).append(text)
    return tuple(public), tuple(duties), tuple(program), tuple(rest)


def _further_duties(g: Terms) -> tuple[str, ...]:
    """Return duties on which the proof does not depend, but the value of the guarantee does."""
    return (
        f"The operator stops after {span(g)}.",
        "The operator keeps raw data, logs and the key of the noise secret.",
        "The operator keeps track of all other releases about the same people: risks add up.",
    )


def _gaps(g: Terms) -> Iterator[str]:
    """Yield what the statement does not cover."""
    if g.unit not in ("one person", "one user"):
        # A guess between two equally likely contents is right with probability at most
        # (e^epsilon + delta) / (1 + e^epsilon).
        # Above 700 both sums are the same double, so the bound is 1.
        ten = math.exp(min(group_epsilon(g, 10), 700.0))
        yield f"More than {g.unit}: several of one person. " + _bound_sentence(
            (ten + g.delta) / (1.0 + ten),
            "Of ten together, a guess between two contents is right with a chance of at most {}.",
            "Of ten together, a guess between two contents could be practically certain.",
        )
    yield "Theft or misuse of the raw data, by this system or elsewhere."
    if g.view == "others":
        yield "Observers who see what the protected user is shown."
    if g.numerics == "float":
        yield "Information in the last digits of computed numbers."


def _at_most(bound: float, digits: int = 4) -> str:
    """Return an upper bound as text with so many digits, rounded up.

    Rounding to nearest would make the text false in half of all cases.
    """
    # We start from the shortest text of the double: 0.9 stays 0.9 although the double is a little
    # larger.
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(bound))
    return f"{float(shown):.{digits}g}"


def _bound_sentence(share: float, text: str, certain: str) -> str:
    """Return `text` with a bound on a probability, or `certain` if the bound says nothing."""
    return certain if share > _CERTAIN else text.format(_percent(share))


def _percent(share: float) -> str:
    """Return a bound as a percentage, rounded up."""
    # First round to nine digits. Otherwise a rounding error in the last digit of a bound would
    # raise the stated percentage by a tenth.
    return f"{math.ceil(round(1000.0 * share, 9)) / 10.0:g} %"

"""A guarantee as a statement and in plain words: what it protects, and what its numbers mean.

``dpoco.accounting.attack_power`` computes every number in the text from the guarantee's own curve.
``docs/privacy/explanations.md`` proves what they mean.
"""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpoco._validation import positive_int
from dpoco.accounting._loss_words import in_words
from dpoco.accounting._records import plain_float
from dpoco.accounting.attack_power import group_epsilon, guessing_probability, posterior, test_power
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.regret_bounds import UNPROVED

if TYPE_CHECKING:
    from dpoco.accounting._ledger_book import Book, Entry

__all__ = ["as_html", "explain", "facts", "neighbours", "one_line", "statement"]

_PRIORS = (0.5, 0.1, 0.01)
_FALSE_ALARMS = (0.05, 0.01, 0.001)
_GROUPS = (2, 5, 10)
_STATED = ("delta", "private", "certified", "change", "view", "unit", "horizon", "mechanism")
_WIDTH = 88

_AGAINST = {
    "everyone": (
        "anybody who sees everything that is released, even if they know the mechanism and all "
        "other data, chose these data themselves, and have any computing power"
    ),
    "server": (
        "anybody, including the party that collects the reports: data are protected before they "
        "leave a device"
    ),
    "others": (
        "all other users together, who may combine what they are shown, but not against anybody "
        "who sees what the protected user is shown, nor against the party that runs the mechanism"
    ),
}
_CHANGE = {
    "replace": "nobody can tell the data of {unit} from any other data that could have been there",
    "zero_out": "nobody can tell whether {unit} had any data; replaced data count as two changes",
}
_COMPUTED = {
    "lattice": "The proof covers what the program computes: data are rounded to a public grid, at "
    "a cost that is included, and the noise consists of whole steps of that grid with exactly the "
    "right probabilities. The last digits of a released number reveal nothing.",
    "float": "The proof is about real numbers. The program computes with 16 digits, and the proof "
    "does not cover what the last of them could reveal.",
}
_DOUBT = (
    "the numbers below hold for the same mechanism with secret noise and every promise kept; the "
    "conditions say why they are not proved for this one"
)
Section = tuple[str, str, tuple[str, ...]]  # title, text, items
_OPEN = {
    "server": "that a user takes part, when, and how often, is visible",
    "others": "the protected user's own outputs depend on her data and are not covered",
}

# Who outside the project has reviewed a proof: the page, to name, date and commit as it says there.
REVIEWS: dict[str, str] = {}


def facts(guarantee: Guarantee) -> dict[str, Any]:
    """Return the numbers behind `explain`, as a JSON-able dictionary.

    Keys: ``epsilon``, ``delta``, ``private``, ``certified``, ``change``, ``view``, ``unit``,
    ``horizon``, ``guessing`` (prior to the largest probability of a right guess), ``odds`` (the
    factor, the probability of exceeding it, and prior to posterior), ``power`` (false-alarm
    probability to the largest power), ``groups`` (number of units to epsilon at the same delta),
    ``paper_epsilon``,
    ``numerics`` (of the guarantee), ``conditions``, ``reference`` and ``review`` (of each page of
    a proof: "none", or who outside the project has reviewed it, when, and at which commit).
    """
    g = guarantee
    record: dict[str, Any] = {"epsilon": plain_float(g.epsilon)}
    record |= {name: getattr(g, name) for name in _STATED}
    if g.private:
        pure = g.delta == 0.0
        factor = math.exp(min(g.epsilon, 700.0)) * (1.0 if pure else 2.0)
        record |= {
            "guessing": {str(p): guessing_probability(g, p) for p in _PRIORS},
            "odds": {
                "factor": factor,
                "exceeded": 0.0 if pure else min(1.0, 2.0 * g.delta),
                "posterior": {str(p): posterior(p, factor) for p in _PRIORS},
            },
            "power": {str(a): test_power(g, a) for a in _FALSE_ALARMS},
            "groups": {str(k): plain_float(group_epsilon(g, k)) for k in _GROUPS},
        }
    paper = g.paper_epsilon
    pages = re.findall(r"docs/privacy/\w+\.md", f"{g.reference} docs/privacy/explanations.md")
    record |= {
        "paper_epsilon": None if paper is None else plain_float(paper),
        "numerics": g.numerics,
        "conditions": list(g.conditions),
        "reference": g.reference,
        "review": {page: REVIEWS.get(page, "none") for page in pages},
    }
    return record


def explain(guarantee: Guarantee, *, plain: bool = False, people: int | None = None) -> str:
    """Return the guarantee in words, for readers who do not know differential privacy.

    Parameters
    ----------
    guarantee : Guarantee
        Guarantee of any learner, mechanism or ledger.
    plain : bool, default False
        Return one page without technical terms, for lawyers, auditors and the people concerned:
        what is protected, for whom, for how long, what an attacker can still learn, what the
        operator must do, and what is not covered. It warns if epsilon is above 10 or delta above
        one over the number of people.
    people : int, optional
        Number of people, for that warning. Default: the number of rounds.

    Returns
    -------
    str
        Paragraphs of at most 88 columns. Every number is a bound that holds for every attack, not
        an estimate for some attacks.
    """
    g, sections = guarantee, list[Section]()
    if not g.private:
        sections.append(("No privacy is promised", g.mechanism, g.conditions))
    elif plain:
        sections += _for_everybody(g, people)
    else:
        if not g.certified:
            sections.append(("NOT CERTIFIED", _DOUBT, ()))
        record = facts(g)
        released = f"{g.mechanism}, over at most {_span(g)}. Everything below is about "
        bound = f"epsilon = {g.epsilon:.6g} and delta = {g.delta:.6g} allow."
        change = f"{g.unit}: {_CHANGE[g.change].format(unit=g.unit)}, beyond what {bound}"
        sections += [
            ("What is released", f"{released}all of it together.", ()),
            ("What is protected", change, ()),
            ("Against whom", f"{_AGAINST[g.view]}.", ()),
            (
                "What the numbers mean, for two streams that differ in this",
                "",
                tuple(_meaning(record)),
            ),
            ("What is not protected", "", tuple(_not_protected(g, record))),
        ]
        if g.numerics is not None:
            sections.append(("How it is computed", _COMPUTED[g.numerics], ()))
        sections.append(("Conditions", "", g.conditions))
        if g.paper_epsilon is not None:
            said = f"for the same noise they claim epsilon = {g.paper_epsilon:.6g} at this delta."
            sections.append(("With the published constants", said, ()))
        proof = f"{g.reference}; for the numbers above: docs/privacy/explanations.md"
        sections.append(("Proof", proof, ()))
        review = tuple(f"{page}: {who}" for page, who in record["review"].items())
        sections.append(("Reviewed outside the project", "", review))
    lines: list[str] = []
    for title, text, items in sections:
        lines.append(title)
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
        for item in items:
            lines += textwrap.wrap(item, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


_THINGS = {
    "one round": "What was recorded in any single round",
    "one record": "Any single record of the data set",
    "one person": "All that any one person contributes",
    "one user's record": "Any single record of a user",
}
_LARGE = 10.0  # epsilon from which odds may change twenty thousand times


def _for_everybody(g: Guarantee, people: int | None) -> Iterator[Section]:
    """Yield the sections of the page without terms."""
    if warned := tuple(_warnings(g, people)):
        yield "WARNING", "", warned
    other = "was left empty" if g.change == "zero_out" else "had been anything else"
    thing = _THINGS.get(g.unit, g.unit)
    yield "What is protected", f"{thing}: releases look almost the same as if it {other}.", ()
    yield "For whom", f"For everybody alike, however unusual, against {_AGAINST[g.view]}.", ()
    lasting = "Later knowledge or faster computers do not weaken the protection."
    yield "For how long", f"For {_span(g)} at most, taken together. {lasting}", ()
    yield "What an attacker could still learn", "", _learned(g)
    yield "What the operator must do", "", _duties(g)
    yield "What is not covered", "", _uncovered(g)
    exact = f"epsilon = {g.epsilon:.6g}, delta = {g.delta:.6g}; released: {g.mechanism}"
    yield "For experts", f"{exact}. Proof: {g.reference}.", ()


def _warnings(g: Guarantee, people: int | None) -> Iterator[str]:
    if not g.certified:
        yield f"This is not proved for the system as it is set up: {_DOUBT}."
    if g.epsilon > _LARGE:
        much = "an attacker's odds may change by a factor of more than twenty thousand"
        yield f"epsilon = {g.epsilon:.4g} is above {_LARGE:g}: {much}: hardly any protection."
    count, whom = (g.horizon, "rounds") if people is None else (people, "people")
    if g.delta * positive_int("people", count) > 1.0:
        fails = "with such a chance the protection of some of them may fail completely"
        yield f"delta = {g.delta:.3g} is above 1 in {count:,}, the number of {whom}: {fails}."


def _learned(g: Guarantee) -> tuple[str, ...]:
    odds = facts(g)["odds"]
    fails = f", except with a chance of {odds['exceeded']:.2g}" if odds["exceeded"] else ""
    return (
        "somebody who knows everything else and finds two possible contents equally likely guesses "
        f"right at most {_percent(guessing_probability(g))} times in 100 after seeing all "
        "releases, and 50 times without them",
        "a suspicion that is 1 % likely before becomes at most "
        f"{_percent(odds['posterior']['0.01'])} % likely{fails}",
        "anything that is true of people in general and would be found without this one, too",
    )


def _duties(g: Guarantee) -> tuple[str, ...]:
    most, apart = g.person or (0, 0)
    rule = f"make sure that nobody has more than {most} rounds, any two at least {apart} apart"
    promises = (each for each in g.conditions if each.split()[0].strip(",:").isupper())
    return (
        "fix all settings beforehand, without looking at the data",
        "publish the releases and nothing else: raw data, logs, evaluations, saved states and the "
        "key of the noise stay secret",
        f"stop after {_span(g)}, and continue a saved state only once",
        *((rule,) if g.person else ()),
        "keep track of all other releases about the same people, since risks add up",
        *(f"guarantee this yourself, since nothing enforces it: {each}" for each in promises),
    )


def _uncovered(g: Guarantee) -> tuple[str, ...]:
    ten, several = group_epsilon(g, 10), f"more than {g.unit}: the data of somebody who comes back"
    if ten < 700.0:
        right = (math.exp(ten) + g.delta) / (1.0 + math.exp(ten))
        several += f"; with ten of them the same guess may be right {_percent(right)} times in 100"
    return (
        *(() if g.unit == "one person" else (several,)),
        "theft or misuse of the raw data, before or beside this system",
        *((_OPEN[g.view],) if g.view in _OPEN else ()),
        *(("what the last digits of computed numbers reveal",) if g.numerics == "float" else ()),
    )


def _percent(share: float) -> str:
    """Return a bound as a percentage, rounded up."""
    return f"{min(100.0, math.ceil(1000.0 * share) / 10.0):g}"


def _meaning(record: dict[str, Any]) -> Iterator[str]:
    for prior, value in record["guessing"].items():
        p = float(prior)
        yield (
            f"an attacker who gives one of them probability {p:g} beforehand guesses right with "
            f"probability at most {value:.4g} afterwards ({max(p, 1.0 - p):g} without the releases)"
        )
    odds = record["odds"]
    after = ", ".join(f"{float(p):g} -> {v:.4g}" for p, v in odds["posterior"].items())
    extent = "(e^epsilon), whatever is released"
    if odds["exceeded"] > 0.0:
        extent = f"(2 e^epsilon), except with probability {odds['exceeded']:.3g} (2 delta)"
    yield (
        "the odds of the true stream rise by a factor of at most "
        f"{odds['factor']:.4g} {extent}; as probabilities: {after}"
    )
    for alarm, power in record["power"].items():
        yield (
            f"a test that raises a false alarm with probability {float(alarm):g} raises a true one "
            f"with probability at most {power:.4g}"
        )


def _not_protected(guarantee: Guarantee, record: dict[str, Any]) -> Iterator[str]:
    def number(value: float | str) -> str:
        return "nothing known" if isinstance(value, str) else f"{value:.4g}"

    groups = ", ".join(f"{k}: {number(epsilon)}" for k, epsilon in record["groups"].items())
    yield (
        f"more than {guarantee.unit}, such as several that one person contributes: epsilon at the "
        f"same delta, by number of units: {groups}"
    )
    yield (
        "facts about people in general: a conclusion that is reached with or without one unit does "
        "not breach this guarantee, whomever it concerns"
    )
    yield "the same data released elsewhere: costs add up, see dpoco's Ledger"
    if guarantee.view in _OPEN:
        yield _OPEN[guarantee.view]


def as_html(text: str) -> str:
    """Return lines as a notebook shows them, the first as a heading."""
    head, _, rest = html.escape(text).partition("\n")
    return f"<b>{head}</b><pre>{rest}</pre>"


# -- the statement, for those who know the terms ---------------------------------------------------

_OBSERVERS = {
    "everyone": "no observer of the releases can",
    "others": "all others together, who do not see what she is shown, cannot",
    "server": "nobody, the party that collects the reports included, can",
}
_CHANGES = {"replace": "replaced by any other data", "zero_out": "empty in one of them"}


_ARITHMETIC = {
    "lattice": "exact integers: how the program computes is part of the proof",
    "float": "double precision: the proof leaves out what the last digits may show",
}


def neighbours(change: str, view: str, unit: str) -> list[str]:
    """Return who cannot tell what apart, in two lines."""
    streams = "data sets" if unit == "one record" else "streams"
    apart = f"two {streams} that differ in the data of {unit}, {_CHANGES[change]}"
    if view == "server":
        apart = "any two values of one user's data, each user on their own"
    return [f"  Protected:  {unit}: {_OBSERVERS[view]} tell apart", f"              {apart},"]


def _span(guarantee: Guarantee) -> str:
    """Return "1000 rounds", or "1 release" of a data set of records."""
    noun = "release" if guarantee.unit == "one record" else "round"
    return f"{guarantee.horizon} {noun}" + ("" if guarantee.horizon == 1 else "s")


def one_line(guarantee: Guarantee) -> str:
    """Return the guarantee in one line."""
    if not guarantee.private:
        noisy = guarantee.noise_scale > 0.0
        doubt = "beyond what is accounted for" if noisy else "without privacy"
        return f"<Guarantee: none, {_span(guarantee)} {doubt}>"
    doubt = "" if guarantee.certified else ", not certified"
    seen = "" if guarantee.view == "everyone" else f", seen by {guarantee.view}"
    return (
        f"<Guarantee: epsilon={guarantee.epsilon:.6g}, delta={guarantee.delta:.6g}, "
        f"{guarantee.change} {guarantee.unit}{seen}, {_span(guarantee)}{doubt}>"
    )


def statement(guarantee: Guarantee) -> str:
    """Return the guarantee as a statement of several lines."""
    if not guarantee.private:
        lines = ["No differential privacy", f"  Released:   {guarantee.mechanism}"]
        lines += [f"  Note:       {text}" for text in guarantee.conditions]
        return "\n".join(lines + _utility(guarantee))
    numbers = (("mu", guarantee.mu, "GDP"), ("rho", guarantee.rho, "zCDP"))
    native = [
        f"{name} = {value:.6g} ({kind})" for name, value, kind in numbers if value is not None
    ]
    lines = [
        f"Differential privacy: epsilon = {guarantee.epsilon:.6g}, delta = {guarantee.delta:.6g}"
        + ("" if guarantee.certified else "  [NOT CERTIFIED, see conditions]"),
        f"  Released:   {guarantee.mechanism}, {_extent(guarantee)}",
        *neighbours(guarantee.change, guarantee.view, guarantee.unit),
        "              beyond a factor e^epsilon in probability, up to delta",
    ]
    lines += [f"  Equivalent: {', '.join(native)}"] if native else []
    if guarantee.beyond is not None:
        text = f"  Composed:   {in_words(guarantee.beyond)}"
        lines += textwrap.wrap(text, 100, subsequent_indent=" " * 14)
    if guarantee.claimed is not None:
        lines.append(
            f"  Claimed:    epsilon = {guarantee.claimed[0]:.6g}, "
            f"delta = {guarantee.claimed[1]:.6g} by "
            f"the composition of the {guarantee.calibration!r} calibration"
        )
    if guarantee.paper_epsilon is not None:
        lines.append(
            f"  Published:  epsilon = {guarantee.paper_epsilon:.6g} for the same noise, "
            "by the constants in print"
        )
    if guarantee.numerics is not None:
        lines.append(f"  Arithmetic: {_ARITHMETIC[guarantee.numerics]}")
    lines += _utility(guarantee)
    lines += ["  Conditions:"] + [f"    - {text}" for text in guarantee.conditions]
    lines.append(f"  Proof:      {guarantee.reference}")
    return "\n".join(lines)


def _extent(guarantee: Guarantee) -> str:
    if guarantee.unit == "one record" and guarantee.horizon == 1:
        return "released once"
    return f"over at most {_span(guarantee)}, taken together"


def _utility(guarantee: Guarantee) -> list[str]:
    """Return the lines on regret and on the parameters behind the numbers."""
    lines = []
    details = dict(guarantee.details)
    why = details.pop(UNPROVED, None)
    if why is not None:
        lines.append(f"  Regret:     {why}")
    if guarantee.regret_bound is not None:
        scope = details.pop("regret bound holds for", "data that do not depend on the decisions")
        per_round = guarantee.regret_bound / max(guarantee.horizon, 1)
        still = details.pop("regret without learning", None)
        if isinstance(still, float):
            lines.append(
                f"  Regret:     no useful bound ({per_round:.6g} a round is proved; without "
                f"learning it is at most {still / max(guarantee.horizon, 1):.6g})"
            )
        else:
            lines.append(
                f"  Regret:     at most {guarantee.regret_bound:.6g} in expectation "
                f"({per_round:.6g} a round), for {scope}"
            )
    if details:
        lines.append("  Details:")
        lines += [f"    {name}: {_plain(value)}" for name, value in details.items()]
    return lines


def _plain(value: float | str | None) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else f"{value:.6g}"


# -- the report of a ledger ------------------------------------------------------------------------

IN_WORDS = {
    "auto": "decided by the first charge",
    "basic": "epsilons and deltas add up",
    "gaussian": "squares of the GDP parameters add up",
    "renyi": "Renyi divergences of one order add up",
    "smallest bound": "the smallest bound of a plan that was fixed in advance",
}


def ledger_text(book: Book, unit: str | None, currency: str) -> str:
    """Return the report of a ledger."""
    budget, entries = book.budget, book.entries
    lines = [
        f"Privacy ledger: epsilon = {budget.epsilon:.6g}, delta = {budget.delta:.6g} for "
        "everything charged",
        *neighbours(book.change, book.view, unit or "the unit of the first charge"),
        "              beyond what the budget allows",
        f"  Currency:   {currency}: {IN_WORDS[currency]}"
        + (" (charges may react to releases)" if book.adaptive else ""),
        f"  Spent:      {book.spent():.2%}",
    ]
    left, for_one = book.remaining(), "nothing"
    if left is not None:
        noise = " with Gaussian noise" if currency in ("gaussian", "renyi") else ""
        both = f"epsilon = {left.epsilon:.6g}, delta = {left.delta:.6g}"
        for_one = f"{both} for one more charge{noise}"
    lines.append(f"  Left:       {for_one}")
    if book.adaptive and entries and math.isfinite(book.fixed_epsilon()):
        lines.append(
            f"  So far:     epsilon = {book.fixed_epsilon():.6g} at the same delta, had these "
            "charges been fixed in advance"
        )
    lines.append(f"  Charges:    {len(entries) or 'none'}")
    for number, entry in enumerate(entries, 1):
        lines.append(f"    {number}. {entry.label}: {_price(currency, entry)}")
    lines.append("  Proof:      docs/privacy/ledger.md")
    return "\n".join(lines)


def _price(currency: str, entry: Entry) -> str:
    cost, known = entry.cost, list[str]()
    if math.isfinite(cost.epsilon):
        known.append(f"epsilon = {cost.epsilon:.6g} at delta = {cost.delta:.3g}")
    if currency in ("gaussian", "renyi"):
        name = "mu^2" if currency == "gaussian" else "divergence"
        known.append(f"{name} {entry.price.main:.4g}")
        if entry.price.side > 0.0:
            known.append(f"delta {entry.price.side:.3g} on the side")
    if not getattr(entry.claim.guarantee, "certified", True):
        known.append("NOT CERTIFIED")
    return ", ".join(known) or "an event"

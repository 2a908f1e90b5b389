"""A guarantee as a statement and in plain words: what it protects, and what its numbers mean.

``dpoco.accounting.attack_power`` computes every number in the text from the guarantee's own curve.
``docs/privacy/explanations.md`` proves what they mean.

The verdict on a guarantee says whether anything is protected as configured, and on which promises
this relies. Every output about a guarantee begins with it: ``repr``, ``str``, `explain`, ``dpoco
explain`` and ``dpoco verify``. The verdict depends only on the description, the neighbours and the
set-up. When a record is read, and in `verify`, the stated numbers are checked against the
description.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpoco._json import plain_float
from dpoco._validation import Fields
from dpoco.accounting import conditions as meaning
from dpoco.accounting._plain_statement import odds_factor, plain_sections, span
from dpoco.accounting._terms import Terms
from dpoco.accounting.attack_power import group_epsilon, guessing_probability, posterior, test_power
from dpoco.accounting.conditions import UNPROVED
from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.combined import Either, Group, Together
from dpoco.privacy.losses.coupled_bits import Bits, CoupledBits
from dpoco.privacy.losses.decaying import Decaying, Returning
from dpoco.privacy.losses.flagged_draws import FlaggedDraws
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss, Pure
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.losses.tilted_draws import ReturningDraws, TiltedDraws

__all__ = ["Verdict", "explain", "facts", "issuer_says", "neighbours", "one_line", "scope",
           "statement", "verdict", "worst"]  # fmt: skip

# From worst to best, for `worst`. Codes 2, 3 and 4 have other meanings in other commands.
EXIT_CODES = {"not verified": 1, "not protected": 6, "only if": 5, "protected": 0}

ISSUER = "stated by the issuer, not checked"


@dataclass(frozen=True)
class Verdict:
    """Conclusion that a reader may draw from a guarantee.

    Attributes
    ----------
    kind : {"protected", "only if", "not protected", "not verified"}
        Proved and enforced; proved, but only if unenforced promises are kept; not protected as
        configured; or there is no description from which to recompute the statement.
    sentence : str
        One line that begins with the kind, "NOT PROTECTED" in capitals.
    exit_code : int
        Exit code of ``dpoco verify``, from `EXIT_CODES`.
    """

    kind: str
    sentence: str

    @property
    def exit_code(self) -> int:
        """Exit code of ``dpoco verify``."""
        return EXIT_CODES[self.kind]


def verdict(guarantee: Terms) -> Verdict:
    """Return the verdict on a guarantee.

    It concerns protection as configured. `verify` checks whether the numbers follow from the
    description. See ``docs/privacy/certificates.md``, "The verdict".
    """
    g = guarantee
    # The worst comes first: each question only makes sense after those before it.
    if not g.private:
        return Verdict("not protected", f"NOT PROTECTED: {_why_open(g)}")
    # This precedes promises and descriptions, which do not matter if the seed is known.
    if g.seeded:
        why = "the noise is seeded: whoever knows the seed can take it off"
        return Verdict("not protected", f"NOT PROTECTED: {why}; with secret noise {scope(g)}")
    if g.description is None:
        why = "nothing is described from which this could be computed again"
        return Verdict("not verified", f"not verified: {why}; {ISSUER}: {scope(g)}")
    if g.doubts:
        return Verdict("only if", f"only if {'; and '.join(g.doubts)}: {scope(g)}")
    return Verdict("protected", f"protected: {scope(g)}")


def worst(kinds: list[str]) -> str:
    """Return the kind of several statements together, which is their worst kind."""
    return min(kinds, key=list(EXIT_CODES).index)


def _why_open(g: Terms) -> str:
    """Return why there is no protection: no epsilon at this delta, or no noise at all."""
    # Without a loss, nothing is proved at any delta. With a loss, a larger delta may have an
    # epsilon.
    held = g.description is not None and g.description.loss(g.neighbours) is not None
    if held:
        return f"no epsilon holds at delta = {g.delta:.6g} for {g.unit} (at most {span(g)})"
    return f"there is no noise, or no proof: releases may reveal {g.unit} (at most {span(g)})"


# Short forms for one line; `_CHANGES` and `_OBSERVERS` below are clauses of a sentence.
_CHANGED = {"replace": "replaced by any other data", "zero_out": "present or empty"}
_SEEN_BY = {
    "everyone": "against everyone who sees the releases",
    "others": "against all others, who do not see what the protected user is shown",
    "server": "also against the party that collects the reports",
}


def scope(guarantee: Terms) -> str:
    """Return epsilon and delta with unit, change, view, horizon and person, in one line.

    An epsilon means nothing without these: the same number may protect one round or a person, from
    everybody or from other users only.
    """
    g = guarantee
    # If the description does not decide the unit, the issuer states it.
    whom = g.unit if g.description is None or _derived_unit(g) else f"{g.unit} ({ISSUER})"
    if g.person is not None:
        most, apart = g.person
        often = "round" if most == 1 else "rounds"
        near = f", any two at least {apart} apart" if apart > 1 else ""
        whom = f"one person with at most {most} {often}{near}"
    return (
        f"epsilon = {g.epsilon:.6g}, delta = {g.delta:.6g} for {whom}, {_CHANGED[g.change]}, "
        f"{_SEEN_BY[g.view]}, over at most {span(g)}"
    )


def _derived_unit(g: Terms) -> bool:
    """Return whether the description decides the unit of a change."""
    return g.description is not None and bool(meaning.units(g.description, g.view, g.person))


def issuer_says(guarantee: Terms) -> Fields:
    """Return the unproved statements of a certificate: texts and numbers from its issuer.

    Returns
    -------
    dict
        Statements by name, in the order of a report; empty ones are left out.
    """
    g = guarantee
    said: Fields = {"released": g.mechanism}
    if not _derived_unit(g):
        said["unit"] = g.unit
    # A description decides the arithmetic. Without a description, a record may state any.
    if g.description is None:
        said["numerics"] = g.numerics
    said |= {
        "further conditions": list(g.further),
        "calibration": g.calibration,
        "claimed": None if g.claimed is None else list(g.claimed),
        "epsilon of the published constants": g.paper_epsilon,
        "regret bound": g.regret_bound,
        "details": dict(g.details),
        "proof": g.reference,
    }
    return {n: v for n, v in said.items() if v is not None and v not in ("", [], {})}


def in_words(loss: Loss) -> str:
    """Return the loss in words, as a statement says it; for an unknown kind, its ``repr``."""
    # `Returning` is a subclass of `Decaying`, and `ReturningDraws` of `TiltedDraws`. The cases of
    # the base classes distinguish them.
    match loss:
        case Pure():
            return f"likelihood ratios of at most e^{loss.pure:.6g}, without exception"
        case Together():
            return "; and ".join(in_words(part) for part in loss.parts)
        case Either():
            return "for each record one of: " + "; or ".join(map(in_words, loss.parts))
        case Group():
            return f"a chain of {loss.size} changes, each of: {in_words(loss.one)}"
        case Gaussian():
            return f"mu = {loss.mu:.6g} (GDP)"
        case BoundedRange():
            text = f"log-likelihood ratios in an interval of length {loss.range:.6g}"
            return text if loss.count == 1 else f"{loss.count} releases with {text} each"
        case Responses():
            each = f"epsilon = {loss.each:.6g}"
            if loss.reports == 1:
                return f"one report with {each}, dominated by randomised response"
            return f"{loss.reports} randomised responses with {each} each"
        case Decaying():
            first, last = loss.range * loss.decay.at(np.array([1.0, float(loss.terms)]))
            kind = "of bounded range" if loss.law == "bounded_range" else "of pure epsilon"
            text = f"{loss.terms} selections {kind} {first:.6g} down to {last:.6g}"
            if isinstance(loss, Returning):
                text += f" for one of up to {loss.rounds} rounds of a person"
            return text
        case CoupledBits():
            return f"draws of mu = {loss.draws:.6g} (GDP) together{_bits(loss)}"
        case TiltedDraws():
            return (
                f"at most {loss.cap} draws of divergence alpha (Delta/sigma)^2/2 + V_alpha, "
                f"Delta/sigma = {loss.sensitivity_ratio:.6g}, b = {loss.b:.6g}{_bits(loss)}"
            )
        case FlaggedDraws():
            return _flagged_draws(loss)
    return repr(loss)


def _bits(loss: Bits) -> str:
    """Return which stay-or-switch bits are released besides the draws, as the end of a clause."""
    if loss.forced_switch == 1.0:  # every block switches, so bits carry no information
        return ""
    # Without a shift, the acceptance factors of later blocks do not depend on the changed record.
    later = loss.later_bits if loss.shift > 0.0 else 0
    changed = "the bit of the changed block"
    if isinstance(loss, ReturningDraws):
        changed = f"the bits of blocks with {loss.rounds} rounds of a person"
    return f", {changed} and {later} later bits"


def _flagged_draws(loss: FlaggedDraws) -> str:
    """Return the draws of the oblivious tracker in words: ranges, number, and coin."""
    series = loss.series
    text = f"draws of bounded range {series.first:.6g}"
    if loss.log_forgetting != 0.0:
        text += f", shrinking by {-math.expm1(series.log_ratio):.3g} a batch"
    text += f", made with probability at most {loss.resample_probability:.4g}"
    later = loss.boundaries - 1.0
    count = "without end" if later == math.inf else f"at most {max(later, 0.0):.0f} later ones"
    if loss.max_resamples is not None:
        count += f", {loss.max_resamples} at most"
    coin = "" if loss.forced_switch == 1.0 else "; the coin of the changed batch"
    return f"{text}: {count}{coin}"


# Examples: a coin flip, a guess and a rare suspicion; the usual levels of tests;
# people with several records.
_PRIORS = (0.5, 0.1, 0.01)
_FALSE_ALARMS = (0.05, 0.01, 0.001)
_GROUPS = (2, 5, 10)
# Fields that `facts` copies unchanged.
_STATED = ("delta", "private", "certified", "change", "view", "unit", "horizon", "mechanism")
_WIDTH = 88

# Outside reviews of proofs: page to name, date and commit, as stated on the page.
REVIEWS: dict[str, str] = {}


def facts(guarantee: Terms) -> Fields:
    """Return the numbers behind `explain`, and more of them, as a JSON-able dictionary.

    Keys: ``epsilon``, ``delta``, ``private``, ``certified``, ``change``, ``view``, ``unit``,
    ``horizon``, ``guessing`` (prior to the largest probability of a right guess), ``odds`` (the
    factor, "inf" if no double can hold it, the probability of exceeding it, and prior to
    posterior), ``power`` (false-alarm probability to the largest power), ``groups`` (number of
    units to epsilon at the same delta, "inf" if nothing is known), ``paper_epsilon``, ``numerics``
    (of the guarantee), ``conditions``, ``reference``, ``verdict`` and ``sentence`` (of
    `dpoco.accounting.explanation`), ``derived_conditions`` (the issuer states all other conditions,
    ``mechanism``, ``reference`` and ``paper_epsilon``), and ``review`` (for each proof page:
    "none", or who outside the project has reviewed it, when, and at which commit).

    ``guessing``, ``odds``, ``power`` and ``groups`` are missing without privacy. Numbers are exact;
    texts round them up.
    """
    g = guarantee
    # JSON has no infinity, so numbers that may be infinite are written as text.
    record: Fields = {"epsilon": plain_float(g.epsilon)}
    record |= {name: getattr(g, name) for name in _STATED}
    if g.private:
        factor, exceeded = odds_factor(g)
        record |= {
            "guessing": {str(p): guessing_probability(g, p) for p in _PRIORS},
            "odds": {
                "factor": plain_float(factor),
                "exceeded": exceeded,
                "posterior": {str(p): posterior(p, factor) for p in _PRIORS},
            },
            "power": {str(a): test_power(g, a) for a in _FALSE_ALARMS},
            "groups": {str(k): plain_float(group_epsilon(g, k)) for k in _GROUPS},
        }
    paper, found = g.paper_epsilon, verdict(g)
    record |= {
        "paper_epsilon": None if paper is None else plain_float(paper),
        "numerics": g.numerics,
        "conditions": list(g.conditions),
        "reference": g.reference,
        "verdict": found.kind,
        "sentence": found.sentence,
        "derived_conditions": list(g.derived),
        "review": _reviews(g),
    }
    return record


def explain(
    guarantee: Terms, *, people: int | None = None, about: Mapping[str, str] | None = None
) -> str:
    """Return the guarantee in plain words, for lawyers, auditors and the people concerned.

    The text says what is protected, for whom, for how long, what an attacker can still learn
    (singling out, linkability and inference), what the operator must do, and what is not covered.
    It warns if epsilon is above 10 or delta above one over the number of people. `facts` has more
    numbers.

    Parameters
    ----------
    guarantee : Guarantee
        Guarantee of any learner, mechanism or ledger.
    people : int, optional
        Number of people, for that warning. Default: the number of rounds.
    about : mapping of str to str, optional
        Facts about the statement, by name, such as "Title", "File", "Operator".

    Returns
    -------
    str
        Paragraphs of at most 88 columns, the verdict first. Every number is rounded up; it is a
        bound that holds for every attack, not an estimate for some attacks.

    Raises
    ------
    ValueError, TypeError
        If `people` is not a number of people.

    Notes
    -----
    Proof of the meaning of the numbers: ``docs/privacy/explanations.md``.
    """
    sections = [*plain_sections(guarantee, people, about)]
    if guarantee.private:
        reviews = tuple(f"{page}: {who}" for page, who in _reviews(guarantee).items())
        sections.append(("Reviewed outside the project", "", reviews))
    lines = textwrap.wrap(verdict(guarantee).sentence, _WIDTH, subsequent_indent="  ")
    for title, text, items in sections:
        lines.append(title)
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
        for item in items:
            lines += textwrap.wrap(item, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def _reviews(guarantee: Terms) -> dict[str, str]:
    """Return who outside the project has reviewed each page of the proof, or "none"."""
    # The second page proves the bounds on guessing, odds and tests.
    cited = f"{guarantee.reference} docs/privacy/explanations.md"
    pages = re.findall(r"docs/privacy/\w+\.md", cited)
    return {page: REVIEWS.get(page, "none") for page in pages}


# -- the statement, for those who know the terms ---------------------------------------------------

_OBSERVERS = {
    "everyone": "no observer of the releases can",
    "others": "all others together, who do not see what the user is shown, cannot",
    "server": "nobody, the party that collects the reports included, can",
}
_CHANGES = {"replace": "replaced by any other data", "zero_out": "empty in one of them"}


_ARITHMETIC = {
    "lattice": "exact integers: how the program computes is part of the proof",
    "float": "double precision: the proof leaves out what the last digits may show",
}


def neighbours(change: str, view: str, unit: str) -> str:
    """Return who cannot distinguish what, in two lines.

    Parameters
    ----------
    change, view, unit : str
        As in a guarantee or a ledger.
    """
    streams = "data sets" if unit == "one record" else "streams"
    apart = f"two {streams} that differ in the data of {unit}, {_CHANGES[change]}"
    if view == "server":
        apart = "any two values of one user's data, each user on their own"
    return f"  Protected:  {unit}: {_OBSERVERS[view]} tell apart\n              {apart},"


def one_line(guarantee: Terms) -> str:
    """Return the guarantee in one line; it begins with the verdict unless that is "protected"."""
    g, found = guarantee, verdict(guarantee)
    if not g.private:  # an infinite epsilon is not printed
        return f"<Guarantee: {found.sentence}>"
    seen = "" if g.view == "everyone" else f", seen by {g.view}"
    point = f"epsilon={g.epsilon:.6g}, delta={g.delta:.6g}, {g.change} {g.unit}{seen}, {span(g)}"
    doubt = {
        "protected": "",
        "not verified": "not verified, " if g.certified else "not verified, not certified, ",
        "not protected": "NOT PROTECTED (seeded noise), ",
        "only if": f"only if {'; and '.join(g.doubts)}: ",
    }
    return f"<Guarantee: {doubt[found.kind]}{point}>"


def statement(guarantee: Terms) -> str:
    """Return the guarantee as a statement of several lines: verdict, derived facts, and texts.

    Everything below "Stated by the issuer" comes from a record and cannot be computed from the
    description.

    Parameters
    ----------
    guarantee : Guarantee
        Guarantee of any learner, mechanism or ledger.

    Returns
    -------
    str
        Lines of at most about 100 columns.
    """
    g, first = guarantee, verdict(guarantee).sentence
    if not g.private:
        lines = [first, "No differential privacy", f"  Released:   {g.mechanism}"]
        lines += [f"  Note:       {text}" for text in g.conditions]
        return "\n".join(lines + _utility(g))
    # Parameters for other accountants, if they prove as much as the curve.
    numbers = (("mu", g.mu, "GDP"), ("rho", g.rho, "zCDP"))
    native = [
        f"{name} = {value:.6g} ({kind})" for name, value, kind in numbers if value is not None
    ]
    lines = [
        first,
        f"Differential privacy: epsilon = {g.epsilon:.6g}, delta = {g.delta:.6g}"
        + ("" if g.certified else "  [NOT CERTIFIED, see above]"),
        neighbours(g.change, g.view, g.unit),
        "              beyond a factor e^epsilon in probability, up to delta",
    ]
    lines += [f"  Equivalent: {', '.join(native)}"] if native else []
    if g.beyond is not None:
        text = f"  Composed:   {in_words(g.beyond)}"
        lines += textwrap.wrap(text, 100, subsequent_indent=" " * 14)
    if g.numerics is not None:
        lines.append(f"  Arithmetic: {_ARITHMETIC[g.numerics]}")
    lines += ["  Conditions:"] * bool(g.derived) + [f"    - {text}" for text in g.derived]
    lines += ["Stated by the issuer, not checked:", f"  Released:   {g.mechanism}, {_extent(g)}"]
    # Published claims are shown as the issuer's, whether or not they follow, so that readers can
    # compare.
    if g.claimed is not None:
        lines.append(
            f"  Claimed:    epsilon = {g.claimed[0]:.6g}, delta = {g.claimed[1]:.6g} by "
            f"the composition of the {g.calibration!r} calibration"
        )
    if g.paper_epsilon is not None:
        lines.append(
            f"  Published:  epsilon = {g.paper_epsilon:.6g} for the same noise, "
            "by the constants in print"
        )
    lines += _utility(g)
    lines += ["  Further conditions:"] * bool(g.further) + [f"    - {text}" for text in g.further]
    lines.append(f"  Proof:      {g.reference}")
    return "\n".join(lines)


def _extent(guarantee: Terms) -> str:
    """Return in words what the guarantee covers: rounds, releases or a person."""
    if guarantee.unit == "one record" and guarantee.horizon == 1:
        return "released once"
    return f"over at most {span(guarantee)}, taken together"


def _utility(guarantee: Terms) -> list[str]:
    """Return the lines on regret and on the parameters behind the numbers."""
    lines = []
    # Details with their own line are removed from the list that follows.
    details = dict(guarantee.details)
    why = details.pop(UNPROVED, None)
    if why is not None:
        lines.append(f"  Regret:     {why}")
    if guarantee.regret_bound is not None:
        scope = details.pop("regret bound holds for", "data that do not depend on the decisions")
        per_round = guarantee.regret_bound / max(guarantee.horizon, 1)
        still = details.pop("regret without learning", None)
        # A bound that a single decision without data also has would read like a promise to learn.
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
        lines += [f"    {name}: {_show(value)}" for name, value in details.items()]
    return lines


def _show(value: float | str | None) -> str:
    """Return a detail as printed in reports; numbers have six digits."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else f"{value:.6g}"

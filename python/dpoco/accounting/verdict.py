"""The verdict on a guarantee: is anything protected as configured, and what must be believed.

Every output about a guarantee begins with it: ``repr``, ``str``, `explain`, ``dpoco explain`` and
``dpoco verify``. It rests on the description, the neighbours and the set-up alone. Whether the
stated numbers follow from the description is checked where a record is read, and by `verify`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpoco.accounting import _meaning as meaning
from dpoco.accounting._plain_statement import span
from dpoco.accounting._terms import Terms

__all__ = ["Verdict", "issuer_says", "scope", "verdict", "worst"]

# In order of what is worst about several; 2, 3 and 4 have other meanings in other commands.
EXIT_CODES = {"not verified": 1, "not protected": 6, "only if": 5, "protected": 0}

ISSUER = "stated by the issuer, not checked"


@dataclass(frozen=True)
class Verdict:
    """What a reader may conclude from a guarantee.

    Attributes
    ----------
    kind : {"protected", "only if", "not protected", "not verified"}
        Proved and enforced; proved, but only if unenforced promises are kept; not protected as
        configured; or nothing is there from which the statement could be computed again.
    sentence : str
        One line that begins with the kind, "NOT PROTECTED" in capitals.
    exit_code : int
        Of ``dpoco verify``: one of `EXIT_CODES`.
    """

    kind: str
    sentence: str

    @property
    def exit_code(self) -> int:
        """Of ``dpoco verify``."""
        return EXIT_CODES[self.kind]


def verdict(guarantee: Terms) -> Verdict:
    """Return the verdict on a guarantee."""
    g = guarantee
    if not g.private:
        return Verdict("not protected", f"NOT PROTECTED: {_why_open(g)}")
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
    """Return the kind of several statements together: the worst of theirs."""
    return min(kinds, key=list(EXIT_CODES).index)


def _why_open(g: Terms) -> str:
    held = g.description is not None and g.description.loss(g.neighbours) is not None
    if held:
        return f"no epsilon holds at delta = {g.delta:.6g} for {g.unit} (at most {span(g)})"
    return f"there is no noise, or no proof: releases may reveal {g.unit} (at most {span(g)})"


_CHANGES = {"replace": "replaced by any other data", "zero_out": "present or empty"}
_OBSERVERS = {
    "everyone": "against everyone who sees the releases",
    "others": "against all others, who do not see what the protected user is shown",
    "server": "also against the party that collects the reports",
}


def scope(guarantee: Terms) -> str:
    """Return epsilon and delta with unit, change, view, horizon and person, in one line."""
    g = guarantee
    whom = g.unit if g.description is None or _derived_unit(g) else f"{g.unit} ({ISSUER})"
    if g.person is not None:
        most, apart = g.person
        often = "round" if most == 1 else "rounds"
        near = f", any two at least {apart} apart" if apart > 1 else ""
        whom = f"one person with at most {most} {often}{near}"
    return (
        f"epsilon = {g.epsilon:.6g}, delta = {g.delta:.6g} for {whom}, {_CHANGES[g.change]}, "
        f"{_OBSERVERS[g.view]}, over at most {span(g)}"
    )


def _derived_unit(g: Terms) -> bool:
    """Return whether the description decides what one change concerns."""
    return g.description is not None and bool(meaning.units(g.description, g.view, g.person))


def issuer_says(guarantee: Terms) -> dict[str, Any]:
    """Return the unproved statements of a certificate: words and numbers of its issuer."""
    g = guarantee
    said: dict[str, Any] = {"released": g.mechanism}
    if not _derived_unit(g):
        said["unit"] = g.unit
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

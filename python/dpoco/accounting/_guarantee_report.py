"""The text of a guarantee: what is protected, under which conditions, and the proof."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpoco.accounting.guarantee import Guarantee

__all__ = ["neighbours", "one_line", "statement"]

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
    native = [f"mu = {guarantee.mu:.6g} (GDP)"] if guarantee.mu is not None else []
    native += [f"rho = {guarantee.rho:.6g} (zCDP)"] if guarantee.rho is not None else []
    lines = [
        f"Differential privacy: epsilon = {guarantee.epsilon:.6g}, delta = {guarantee.delta:.6g}"
        + ("" if guarantee.certified else "  [NOT CERTIFIED, see conditions]"),
        f"  Released:   {guarantee.mechanism}, {_extent(guarantee)}",
        *neighbours(guarantee.change, guarantee.view, guarantee.unit),
        "              beyond a factor e^epsilon in probability, up to delta",
    ]
    if native:
        lines.append(f"  Equivalent: {', '.join(native)}")
    if guarantee.profile is not None:
        profile = guarantee.profile
        from dpoco.accounting import _profiles

        text = f"  Composed:   {_profiles.describe(profile)}"
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

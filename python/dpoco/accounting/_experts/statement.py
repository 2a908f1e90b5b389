"""What guarantees of experts' learners say of regret."""

from __future__ import annotations

from typing import Any

from dpoco.accounting.regret_bounds import stated_regret

__all__ = ["SCOPES_IN_WORDS", "regret_rows"]

SCOPES_IN_WORDS = {
    "stationary": "losses drawn independently from one law",
    "shifting": "losses drawn independently, from a law that changes a few times",
    "oblivious": "losses fixed in advance",
    "adaptive": "all losses, also such as react to the decisions",
}


def regret_rows(
    bound: float | None,
    scope: str | None,
    experts: int | None,
    horizon: int | None,
    details: dict[str, float | str | None],
) -> dict[str, Any]:
    """Return the fields of a guarantee that state a bound on regret, and details after it.

    Where `experts` is given, losses are in [0, 1]: uniform draws have regret at most T (1 - 1/N),
    and nothing has more than T.
    """
    rows: dict[str, float | str | None] = {}
    if scope is not None:
        rows["regret bound holds for"] = SCOPES_IN_WORDS[scope]
    if experts is not None and horizon is not None and bound is not None:
        stated = stated_regret(bound, horizon * (1.0 - 1.0 / experts), float(horizon))
        bound = stated["regret_bound"]
        rows |= stated["details"]
    return {"regret_bound": bound, "details": {**rows, **details}}

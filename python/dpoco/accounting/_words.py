"""What guarantees say in words, the same for all mechanisms: no number comes from here."""

from __future__ import annotations

import math

# Streams that bounds on regret hold for, in words.
REGRET_SCOPES = {
    "stationary": "losses drawn independently from one law",
    "shifting": "losses drawn independently, from a law that changes a few times",
    "oblivious": "losses fixed in advance",
    "adaptive": "all losses, also such as react to the decisions",
}


def norm_name(q: float) -> str:
    """Return "l2", "l3", "linf", ..."""
    return "linf" if q == math.inf else f"l{q:g}"


def noise_in_words(order: float) -> str:
    """Return "Gaussian noise" for order 2, or "generalized Gaussian noise, r = 3"."""
    return "Gaussian noise" if order == 2.0 else f"generalized Gaussian noise, r = {order:g}"

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


# What is said of people until somebody asks, and then: see `Guarantee.for_person`.
PER_ROUND = "; one person's data in several rounds are protected per round"
TIMES = "the times of a person's rounds"


def common_conditions(
    mass: float, seeded: bool, *, sums: bool = True, numerics: str | None = "float"
) -> tuple[str, str]:
    """Return what guarantees say of the source of the noise and of the arithmetic.

    `sums`: of sums with added noise; `numerics` None is what is released without arithmetic.
    """
    source = "the noise key comes from the operating system's entropy and stays secret"
    if seeded:
        source = "SEEDED SOURCE: the noise is reproducible; void outside tests"
    if numerics == "lattice":
        held = "there is nothing that the arithmetic cannot hold"
        if mass > 0.0:
            held = f"what the arithmetic cannot hold (total variation {mass:.2g}) in delta"
        arithmetic = (
            "numerics 'lattice': sums are exact integers, and noise is integers of exactly the "
            "law the proof is for (an ideal Gaussian rounded, or discrete Laplace); rounding of "
            f"the data is in epsilon, and {held}; assumed: ideal random bits and IEEE 754"
        )
    else:
        tails = "the noise has its full tails"
        if mass > 0.0:
            tails = (
                f"truncated tails of the samplers (total variation {mass:.2g}) are charged to delta"
            )
        arithmetic = (
            f"{tails}; that sums and noise are computed in double precision is not accounted for"
        )
        if sums:
            arithmetic += (
                ": sums with added noise are rounded to a coarse grid that hides it from known "
                "attacks, without proof"
            )
    return source, arithmetic


def noise_in_words(noise: str, order: float) -> str:
    """Return "Gaussian noise" or "generalized Gaussian noise of order r"."""
    return "Gaussian noise" if noise == "gaussian" else f"generalized Gaussian noise, r = {order:g}"

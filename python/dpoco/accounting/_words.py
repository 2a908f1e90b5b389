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


UNPROVED = "regret"  # the detail that says why no bound on regret is proved


def norm_name(q: float) -> str:
    """Return "l2", "l3", "linf", ..."""
    return "linf" if q == math.inf else f"l{q:g}"


# Conditions are read by lawyers: one sentence each, with an actor. What nobody enforces starts with
# a word in capitals, and the page without terms lists it among the operator's duties.
PROMISED = "PROMISED, not enforced: "
SEEDED = "SEEDED SOURCE: whoever knows the seed can subtract the noise; void outside tests."
# What a guarantee says of people, and what `Guarantee.for_person` says in its place.
PER_ROUND = "Each round is protected by itself: several rounds of one person are protected less."
EACH_PERSON, TIMES = "Each person contributes", "The times of a person's rounds"
RULE = "The limit is a fixed rule, not a count taken from the data."
DOUBLED = (
    "Counts as two changes (epsilon doubles), because the ledger is about replaced rounds and the "
    "guarantee about emptied ones: a ledger with relation='zero_out' charges it once."
)
CHARGES_REACT = "Charges may depend on releases, but not on the data themselves."
CHARGES_FIXED = "The operator fixed all charges before the first release."
CHARGED_BEFORE = (
    "The operator charges everything to this ledger that is released from the data, before it is "
    "released."
)
ONE_UNIT_EACH = "One change of the data changes at most one unit of what each learner sees."
INDEPENDENT = "The learners' noises are independent."
UNSEEN = "Nobody who reacts to releases sees what the protected user is shown."


def common_conditions(
    mass: float, seeded: bool, *, sums: bool = True, numerics: str | None = "float"
) -> tuple[str, ...]:
    """Return what guarantees say of the source of the noise and of the arithmetic.

    `sums`: of sums with added noise; `numerics` None is what is released without arithmetic.
    """
    source = SEEDED if seeded else "The operating system draws the noise key, which stays secret."
    if numerics == "lattice":
        arithmetic = (
            "The program adds exact integers and exactly rounded noise, so that the proof covers "
            "its arithmetic, given ideal random bits and IEEE 754."
        )
    elif sums:
        arithmetic = (
            "The proof does not cover the rounding of double precision, which the program hides "
            "from known attacks by releasing sums on a coarse grid."
        )
    else:
        arithmetic = "The proof does not cover the rounding of double precision."
    if mass > 0.0:
        tails = f"Delta includes {mass:.2g} for noise that the computer cannot hold."
        return source, tails, arithmetic
    return source, arithmetic


def noise_in_words(noise: str, order: float) -> str:
    """Return "Gaussian noise" or "generalized Gaussian noise of order r"."""
    return "Gaussian noise" if noise == "gaussian" else f"generalized Gaussian noise, r = {order:g}"

"""All conditions of guarantees that are not about one learner alone: one sentence each.

Lawyers read them: actor, verb, object. A condition that nothing enforces begins with a word in
capitals, and the statement without technical terms lists it among the operator's duties. Records
repeat conditions word for word, and a record that lacks one is refused: a sentence that changes
makes earlier certificates unreadable.
"""

from __future__ import annotations

UNPROVED = "regret"  # the detail that says why no bound on regret is proved
PROMISED = "PROMISED, not enforced: "

# -- promises, as clauses --------------------------------------------------------------------------

DECLARED_BOUND = (
    "no record moves a release by more than is stated, whatever the others are and whatever was "
    "released before"
)
DECLARED_NOISE = "every release has noise of the stated law and scale, drawn afresh"
SCORES = "one record changes each score by at most {sensitivity:g}{way}"
ONE_WAY = ", all of them the same way"
QUERIES = (
    "one record changes each query by at most {sensitivity:g}, the largest rise and the largest "
    "fall adding up to at most {spread:g}"
)
VECTORS = (
    "every round adds up at most {count} vectors of l2 norm at most {bound:g}, of which one person "
    "brings one"
)
LIPSCHITZ = "every loss is {slope:g}-Lipschitz and finite"
CONVEX = "every loss is convex and obeys the declared bounds (G = {lipschitz:.6g}{smooth}, l2)"
SMOOTH = ", beta_s = {smoothness:.6g}"
CHAIN = "every Markov chain draw is within total variation {tolerance:.3g} of its law"
SOME_BOUND = "a bound or a law that no engine keeps"
LIMIT_KEPT = "the caller keeps each person to this limit"

# -- noise and arithmetic --------------------------------------------------------------------------

SECRET_KEY = "The operating system draws the noise key, which stays secret."
SEEDED = "SEEDED SOURCE: whoever knows the seed can subtract the noise; void outside tests."
TAILS = "Delta includes {mass:.2g} for noise that the computer cannot hold."
ARITHMETIC = {
    "lattice": "The program adds exact integers and exactly rounded noise, so that the proof "
    "covers its arithmetic, given ideal random bits and IEEE 754.",
    "sums": "The proof does not cover the rounding of double precision, which the program hides "
    "from known attacks by releasing sums on a coarse grid.",
    "float": "The proof does not cover the rounding of double precision.",
    "draws": "All variates have their full tails, and coins exactly their probabilities, but the "
    "proof does not cover that the program computes both in double precision.",
}

# -- rounds and releases ---------------------------------------------------------------------------

PER_ROUND = "Each round is protected by itself: several rounds of one person are protected less."
PUBLIC = {
    "zero_out": "The number of rounds and their times are public.",
    "replace": "That somebody takes part in a round, and when, is public: the content is "
    "protected.",
}
# All others together, who do not see what a user is shown: what this leaves out.
JOINT = (
    "A user's record is the context and the rewards of all arms.",
    "All OTHER users, and everybody who sees the estimates, cannot tell this record from another.",
    "Nothing is hidden from whoever sees the user's own action or reward: a log of all actions is "
    "not covered.",
    "Other users' records do not depend on a user's own action and reward.",
)
STREAM = (
    "The operator fixed the bounds, the horizon and all parameters without looking at the data.",
    "The data may react to everything that was released before.",
    "If feedback is delayed, which feedback arrives, when and in which order depends on the data "
    "through released decisions only.",
    "The operator keeps saved states secret, and continues each of them on one stream only.",
    "The operator publishes released values only: traces, diagnostics, timing and memory are not "
    "covered.",
)
DELAYED = (
    "Feedback is delayed: a record counts in the round in which its feedback arrives, and which "
    "feedback arrives, when and in which order depends on the data through {seen} only."
)
FIXED_PARTS = "The operator fixed all parts in advance, and chose none in reaction to releases."
NO_NOISE = "The program adds no noise: {released} may reveal the data."
CLIPPED_LOSSES = "The program clips losses to their declared range."
FIT_FIXED = (
    "The operator fixed the bounds and all parameters without looking at the data.",
    "The number of records is public, like the bounds and all parameters.",
)
FIT_ALONE = "Each record is protected by itself: several records of one person are protected less."
FIT_ONCE = (
    "The operator fits the model once: another fit to the same data needs a budget.",
    "The operator publishes the fitted model only: timing, memory and interrupted fits are not "
    "covered.",
)

# -- people ----------------------------------------------------------------------------------------

EACH_PERSON, TIMES = "Each person contributes", "The times of a person's rounds"
RULE = "The limit is a fixed rule, not a count taken from the data."
TIMES_REACT = f"{TIMES} may depend on releases, but not on that person's data."
TIMES_FIXED = f"{TIMES} were fixed in advance."
TIMES_UNSEEN = f"{TIMES} do not depend on what only that person saw."
ONE_NAME = (
    "Each person comes under one name only: two accounts of a person count as two people.",
    "No two people share a name.",
)
REFUSED_PEOPLE = (
    "The program refuses people beyond the first {most}, which the guarantee does not cover."
)

# -- reports of devices ----------------------------------------------------------------------------

DEVICE = (
    "Each user's device counts its reports, and sends at most {count}.",
    "The operator fixed all parameters and hypotheses without looking at the protected labels.",
    "That a user takes part, and when, is public: shuffling of reports protects no further.",
    "The device sends reports only: its timing, memory and files are not covered.",
)
DEVICE_NOISE = "The operating system of the device draws the noise of each report."
SIMULATED = "SIMULATED REPORTS: the noise is reproducible, or one process saw all labels; void."

# -- several learners: ledgers and pools -----------------------------------------------------------

CHARGES_REACT = "Charges may depend on releases, but not on the data themselves."
CHARGES_FIXED = "The operator fixed all charges before the first release."
CHARGED_BEFORE = (
    "The operator charges everything to this ledger that is released from the data, before it is "
    "released."
)
ONE_UNIT_EACH = "One change of the data changes at most one unit of what each learner sees."
DOUBLED = (
    "Counts as two changes (epsilon doubles), because the ledger is about replaced rounds and the "
    "guarantee about emptied ones: a ledger with relation='zero_out' charges it once."
)
VIEW_COVERS = "What {more} cannot tell, {fewer} cannot tell."
EMPTY_IS_ZERO = "The learner treats an empty round as a zero record."
INDEPENDENT = "The learners' noises are independent."
UNSEEN = "Nobody who reacts to releases sees what the protected user is shown."
MOST_KEYS = "The pool has at most {keys} keys."
KEYS_PUBLIC = (
    "The keys, and how many records each of them gets and when, are public: the learners protect "
    "only what the records hold."
)
ONE_KEY = "One record under one key changes, and all other records of the same person stay."
KEYS_REACT = "The {where} of {who} may depend on releases."
KEYS_FIXED = "the {where} of {who} do not depend on releases"
FEW_KEYS = "one person has records under at most {keys}"
ONE_LEARNER_REACTS = "One learner's guarantee holds for a round that its own releases decide."


def promise(clause: str) -> str:
    """Return the condition that the caller keeps what nothing enforces."""
    return f"{PROMISED}{clause}."


def noise_conditions(mass: float, seeded: bool, arithmetic: str) -> tuple[str, ...]:
    """Return the conditions on the source of the noise, its tails, and the arithmetic."""
    source = SEEDED if seeded else SECRET_KEY
    tails = (TAILS.format(mass=mass),) if mass > 0.0 else ()
    return source, *tails, ARITHMETIC[arithmetic]

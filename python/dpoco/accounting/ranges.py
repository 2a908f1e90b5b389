"""Planning and accounting of private column ranges: the search, and the learner after it.

Claim: medians by Gumbel noise, and prefix sums of bins with correlated Gaussian noise, use disjoint
rounds; the learner gets all later rounds. For single rounds the guarantee is the worst of the
three, and for all rounds of a person it is their composition.

Proof: ``docs/privacy/ranges.md``. The bins, their edges and all constants here are public and the
same for everybody. They must not be chosen after looking at the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpoco._validation import FloatArray, choice, positive_int
from dpoco.accounting import release
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.noisy_max import scale_for, selection_budget
from dpoco.accounting.plan import Plan
from dpoco.accounting.regret_bounds import without_regret
from dpoco.accounting.release import on_lattice
from dpoco.accounting.statement import stated_delta
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.loss import charge
from dpoco.privacy.mechanisms.base import Parts
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import SquareRoot, square_root_norms, square_roots
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.participation import most_rounds
from dpoco.privacy.mechanisms.range_search import NOISE_LIMIT, RangeSearch, gaussian_range
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["BINS", "RangePlan", "behind_ranges", "calibrate", "deviations", "guarantee",
           "needed_records", "split"]  # fmt: skip

RangePlan = Plan[RangeSearch, None, None]

BINS = 259  # for the 258 edges +-2^(j/2), j = -48..80
FEWEST = 500  # least number of records of a search
MEDIAN_SHARE = 0.4  # share of the records for medians
FINDER_SHARE = 0.1  # share of mu^2 for the search if people return; half of it is for medians
_MEDIAN_RANKS = 44.0  # largest error of a median's rank, in scales of one-directional noise
_SPREADS = 8.0  # number of records for counts, in deviations of a cumulative count
# Share of a budget to plan for. The rest is for tails and rounding.
_SLACK = 1.0 - 1e-9


def _records(medians: bool, records: int) -> tuple[int, int]:
    """Return the number of records for medians and for counts."""
    first = int(MEDIAN_SHARE * records) if medians else 0
    return first, records - first


def calibrate(
    columns: int,
    *,
    medians: int,
    records: int,
    budget: Budget | None,
    horizon: int | None = None,
    relation: str = "replace",
    participation: release.Returning | None = None,
    numerics: str = release.DEFAULT_NUMERICS,
    exact_tails: bool | None = None,
) -> RangePlan:
    """Return the plan of a search with the least noise that keeps to `budget`.

    Parameters
    ----------
    columns, medians : int
        Columns whose ranges are searched, and the number of those whose median is drawn first.
    records : int
        Number of records of the search.
    budget : Budget or None
        Budget of the search alone. None adds no noise.
    horizon : int, optional
        Rounds of the whole stream, in which people may come; default: the rounds of the search.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    participation : Participation, optional
        How often one person may come. If a person's rounds may be in both, medians and counts have
        half of mu^2 each.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the counts.
    exact_tails : bool, optional
        Whether tails are charged as for integer draws; default: unless `numerics` is "float".

    Raises
    ------
    CalibrationError
        If no noise scale meets the budget.
    """
    columns = positive_int("columns", columns)
    choice("relation", relation, CHANGES)
    if isinstance(budget, Budget):
        budget.require_delta()
    first, second = _records(medians > 0, positive_int("records", records))
    # People come during the whole stream, although the search only has its first rounds.
    near = release.planned_neighbours(relation, participation, horizon or records, budget)
    vector = ClippedVector(columns, math.inf, float(second), math.inf)
    plain = GaussianSum(vector, SquareRoot(), pushes=BINS)
    if budget is None:
        return Plan(RangeSearch(second, plain, medians, first), None, None)
    mass = plain.tails(exact=numerics != "float" if exact_tails is None else exact_tails)
    allowed = _without_tails(budget, mass)
    mu = gaussian_mu(allowed.epsilon, allowed.delta)
    if medians and most_rounds(near.rounds, near.separation, records) > 1:
        # Medians and counts each have half of mu^2, because a person's rounds may be in both.
        mu *= math.sqrt(0.5)
    scale = _median_scale(medians, first, near, allowed, mu)

    def search_by(counts: GaussianSum) -> RangeSearch:
        return RangeSearch(second, counts, medians, first, scale)

    counts = _with_noise(plain, lambda own: search_by(own)._counts_loss(near).bare.mu, mu, numerics)
    return Plan(search_by(counts), None, None)


def _without_tails(budget: Budget, mass: float) -> Budget:
    """Return the part of `budget` for ideal noise; tails of medians and counts cost the same."""
    if 10.0 * mass >= budget.delta:
        raise CalibrationError(
            f"the truncated tails (total variation {mass:.3g}) cost more than delta = "
            f"{budget.delta:.3g}; raise delta, or take numerics='lattice'"
        )
    # Tails cost more at a larger epsilon. They get at most a quarter of delta. If they would take
    # more, we plan for a smaller epsilon; its guarantee also holds at the budget's epsilon.
    epsilon = min(budget.epsilon, math.log(0.25 * budget.delta / mass - 1.0))
    left = budget.delta - charge(epsilon, mass)
    return Budget._derived(_SLACK * epsilon, _SLACK * left)


def _median_scale(medians: int, first: int, near: Neighbours, budget: Budget, mu: float) -> float:
    """Return the scale of the medians' noise: all of `budget` for a single round, or mu."""
    if medians == 0:
        return 0.0
    # A single round is in one part only, so each part may spend the whole budget. All medians use
    # this round, one per column.
    length = selection_budget(budget, "gumbel", medians)
    if near.rounds > 1:
        length = _longest_range(mu / math.sqrt(medians) * _SLACK)
    return scale_for(near.sides * most_rounds(near.rounds, near.separation, first), length)


def _longest_range(mu: float) -> float:
    """Return the longest range that is mu-GDP."""
    low, high = 0.0, 1.0
    while gaussian_range(high) < mu:
        high *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gaussian_range(middle) <= mu else (low, middle)
    if low == 0.0:
        raise CalibrationError("the budget is too small for medians of so many columns")
    return low


def _with_noise(
    plain: GaussianSum, reached: Callable[[GaussianSum], float], mu: float, numerics: str
) -> GaussianSum:
    """Return the counts with the least noise for which `reached` gives mu."""
    choice("numerics", numerics, ("auto", "float", "lattice"))
    # In doubles, mu is proportional to 1 / scale. On a lattice, the grid changes with the scale.
    scale = reached(replace(plain, scale=1.0)) / mu
    for _ in range(100):
        if scale >= NOISE_LIMIT:
            raise CalibrationError(
                f"counts for ranges need noise of scale {scale:.4g} within this budget, and scales "
                f"are below {NOISE_LIMIT:.0f}: take a larger epsilon, or fewer columns"
            )
        if numerics == "float":
            return replace(plain, scale=scale)
        found = on_lattice(plain, Neighbours(), scale)
        needed = scale * reached(found) / mu
        if needed <= scale:
            return found
        scale = needed * (1.0 + 2.0**-50)
    raise CalibrationError("rounding costs more than this budget has; use numerics='float'")


def behind_ranges(search: Guarantee, learner: Guarantee, *, budget: Budget | None) -> Guarantee:
    """Return the guarantee of a search for ranges followed by a learner on all later rounds.

    It is about single rounds. If people return, `for_person` covers all rounds of a person.

    Parameters
    ----------
    search, learner : Guarantee
        Guarantees of the two, about the same change.
    budget : Budget or None
        Epsilon is stated at its delta.
    """
    # If either has no noise, nothing can be stated about both.
    if search.description is None or learner.description is None:
        rounds = search.horizon + learner.horizon
        return Guarantee.none(rounds, f"ranges of columns, and {learner.mechanism}")
    # The number of a round is public and decides which part uses it, so the worse curve holds.
    return Guarantee.about(
        Parts("one_of", (search.description, learner.description), "ranges"),
        Neighbours(search.change),
        released=f"{search.mechanism}; from the next {learner.horizon} rounds {learner.mechanism}",
        horizon=search.horizon + learner.horizon,
        delta=max(search.delta, learner.delta) if budget is None else budget.delta,
        reference=f"parallel composition; docs/privacy/ranges.md; {learner.reference}",
        seeded=search.seeded or learner.seeded,
        conditions=tuple(dict.fromkeys((*search.further, *learner.further))),
        details=without_regret(learner.details),
    )


def split(budget: Budget, people: bool) -> tuple[Budget, Budget]:
    """Return the budgets of a search and of the learner after it: the whole, or shares of mu^2.

    A single round is in one of them only, but people who return are in both.
    """
    if not people:
        return budget, budget
    mu, delta = gaussian_mu(budget.epsilon, budget.delta), budget.delta
    shares = FINDER_SHARE, 1.0 - FINDER_SHARE
    found = [gaussian_epsilon(math.sqrt(share) * mu, delta) for share in shares]
    return Budget._derived(found[0], delta), Budget._derived(found[1], delta)


def guarantee(
    plan: RangePlan,
    *,
    relation: str = "replace",
    budget: Budget | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return the guarantee of a search for single rounds, computed from its mechanism."""
    search = plan.mechanism
    columns = search.counts.summand.size
    return Guarantee.about(
        search,
        Neighbours(relation),
        released=f"ranges of {columns} columns from the first {search.longest} rounds",
        horizon=search.longest,
        delta=stated_delta(budget, search.longest),
        reference="medians by noisy max, quantiles from noisy counts; docs/privacy/ranges.md",
        seeded=seeded,
    )


def deviations(counts: GaussianSum) -> tuple[FloatArray, FloatArray]:
    """Return the deviations of the counts up to each edge and beyond it, each of shape (258,)."""
    # The noise of a prefix sum is a row of the factor times the draws.
    norms = square_root_norms()[:BINS]
    return counts.scale * norms[:-1], counts.scale * _norms_beyond()


@lru_cache(maxsize=1)
def _norms_beyond() -> FloatArray:
    """Return the norms of the differences between the last row and each earlier row."""
    # The last sum shares draws with earlier sums, so rows are subtracted before taking the norm.
    rows = square_roots()[:BINS]
    last = rows[::-1]
    norms = [np.linalg.norm(last - np.concatenate([rows[k::-1], np.zeros(BINS - 1 - k)]))
             for k in range(BINS - 1)]  # fmt: skip
    found = np.array(norms)
    found.setflags(write=False)
    return found


def needed_records(
    columns: int,
    *,
    medians: int,
    budget: Budget | None,
    horizon: int | None = None,
    relation: str = "replace",
    participation: release.Returning | None = None,
) -> int:
    """Return the number of records that a search needs, a function of public sizes.

    The error of a median's rank must be less than half of its records, and the noise of a count
    must be at most an eighth of the counted records.

    Raises
    ------
    CalibrationError
        If no number of records is enough.
    """
    if budget is None:  # there is no noise
        return FEWEST
    records = FEWEST
    # In a longer search a person has more rounds. This needs more noise, and hence a longer search,
    # so we iterate until both agree.
    for _ in range(200):
        plan = calibrate(
            columns, medians=medians, records=records, budget=budget, horizon=horizon,
            relation=relation, participation=participation, numerics="float", exact_tails=True,
        )  # fmt: skip
        search = plan.mechanism
        one_way = search.scale / 2.0
        share = 1.0 - MEDIAN_SHARE if medians else 1.0
        spread = float(deviations(search.counts)[0][-1])
        needed = max(
            math.ceil(2.0 * _MEDIAN_RANKS / MEDIAN_SHARE * one_way),
            math.ceil(_SPREADS * spread / share),
        )
        if needed <= records:
            return records
        records = needed
    raise CalibrationError("people come so often that no number of records is enough for ranges")

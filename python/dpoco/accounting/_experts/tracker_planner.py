"""Search for the parameters of the oblivious tracker with the least regret bound at a budget.

The bound L(sigma) / eta + eta Q(B) / 8 decreases in eta up to the best eta without privacy, so the
largest eta a budget allows is taken, for every B, p and sigma of a grid, and then around the best.

Proof of the bound and of the accounting: ``docs/privacy/tracker_accounting.md``.
"""

from __future__ import annotations

from dpoco.accounting._experts.tracker_arguments import Request
from dpoco.accounting._experts.tracker_parameters import largest_share_rate
from dpoco.accounting._experts.tracker_regret import Comparison
from dpoco.accounting._experts.tracker_search import Plan, Search
from dpoco.accounting.budget import Budget
from dpoco.errors import CalibrationError

__all__ = ["plan"]

_FORCED = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 3e-4)


def plan(request: Request, budget: Budget) -> Plan:
    """Return the plan of the least bound within the budget; arguments that are given are kept.

    Raises
    ------
    CalibrationError
        If no parameters meet the budget; it names the smallest epsilon in reach.
    """
    comparison, search = request.comparison, Search(request, budget)
    free_p, free_rate = request.forced_switch is None, request.share_rate is None
    batches = [2**k for k in range(search.longest.bit_length())]
    if request.batch is not None:
        batches = [request.batch]
    forced = list(_FORCED) if request.forced_switch is None else [request.forced_switch]
    rates = _rates(comparison) if free_rate else [request.share_rate]
    search.descend(batches, forced, rates)
    search.sweep(batches, forced, rates)
    best = search.best
    if best is None:
        smallest = search.smallest_epsilon(batches, forced, rates)
        raise CalibrationError(
            f"no parameters meet epsilon = {budget.epsilon:.6g} at delta = {budget.delta:.6g} with "
            f"the arguments that were fixed; the smallest epsilon in reach is {smallest:.6g}"
        )
    search.refine(request.batch is None, free_p, free_rate)
    return search.finish(forced if free_p else [])


def _rates(comparison: Comparison) -> list[float | None]:
    """Return the grid of sigma; for no switches also 0.

    Powers of two from S / (T - 1) on, and some from the largest sigma downwards, where the prior
    forgets so fast that small budgets allow a large eta.
    """
    if comparison.prior == "at_most":
        return [None]
    assert comparison.horizon is not None
    largest = largest_share_rate(comparison.experts)
    switches = min(comparison.switches, comparison.horizon - 1)
    rates: set[float] = {largest, largest / 2.0, largest / 8.0}
    rate = max(1, switches) / (comparison.horizon - 1)
    while rate < largest:
        rates.add(rate)
        rate *= 2.0
    return [*([] if switches else [0.0]), *sorted(rates)]

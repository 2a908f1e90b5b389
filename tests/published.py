"""Parameters of papers, asked for by the accountant of their learner."""

from __future__ import annotations

from inspect import signature

from dpoco import accounting
from dpoco.published import agarwal_ctrl, agarwal_lazy, asi_tracking, han_frank_wolfe

FUNCTIONS = {
    accounting.tree_frank_wolfe: han_frank_wolfe.tree_frank_wolfe,
    accounting.polyhedral_frank_wolfe: han_frank_wolfe.polyhedral_frank_wolfe,
    accounting.high_dimensional_bandit: han_frank_wolfe.high_dimensional_bandit,
    accounting.epoch_selector: asi_tracking.epoch_selector,
    accounting.shift_detector: asi_tracking.shift_detector,
    accounting.batch_share: asi_tracking.batch_share,
    accounting.lipschitz: agarwal_ctrl.lipschitz,
    accounting.continuous_multiplicative_weights: agarwal_lazy.continuous_multiplicative_weights,
    accounting.coupled_regularized_leader: agarwal_ctrl.coupled_regularized_leader,
}

ACCOUNTANTS = {
    "TreeFrankWolfe": "tree_frank_wolfe", "PolyhedralFrankWolfe": "polyhedral_frank_wolfe",
    "HighDimensionalBandit": "high_dimensional_bandit", "LipschitzLearner": "lipschitz",
    "CoupledRegularizedLeader": "coupled_regularized_leader",
    "ContinuousMultiplicativeWeights": "continuous_multiplicative_weights",
}  # fmt: skip


def accountant_for(kind):
    """Return the module with the planner of a learner."""
    name = ACCOUNTANTS.get(kind.__name__)
    return kind._accountant if name is None else getattr(accounting, name)


def planned(accountant, *problem, calibration="tight", **options):
    """Return calibrated parameters, or those of the paper: "paper" or "corrected"."""
    if calibration == "tight":
        return accountant.calibrate(*problem, **options)
    function = FUNCTIONS[accountant]
    if "corrected" in signature(function).parameters:
        options["corrected"] = calibration == "corrected"
    return function(*problem, **options)


def built(kind, *problem, calibration="tight", source=None, budget=None, **options):
    """Return a learner of these options; as printed whatever its parameters spend."""
    if calibration == "tight":
        return kind(*problem, source=source, budget=budget, **options)
    parameters = planned(
        accountant_for(kind), *problem, calibration=calibration, budget=budget, **options
    )
    own = {name: options[name] for name in ("horizon", "lipschitz") if name in options}
    return kind(*problem, source=source, budget=None, plan=parameters, **own)

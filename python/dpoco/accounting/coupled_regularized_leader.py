"""Parameters and accounting of the coupled regularized leader (CTRL).

Claim: the decisions, together with all stay-or-switch bits, are (epsilon, delta)-private with the
loss of `dpoco.privacy.mechanisms.coupled_draws`, also when the losses react to the decisions; and
for losses fixed in advance the expected regret is at most the stated bound
(`dpoco.accounting.regret_bounds`).

Proofs: ``docs/privacy/objective_perturbation.md``, ``docs/privacy/couplings.md`` and
``docs/privacy/oco_regret.md``. Source: Agarwal et al., CTRL (Algorithms 1 and 2), generalised to
blocks, accounting and regret corrected.
"""

from __future__ import annotations

import math

from dpoco.accounting import lazy_oco, oco_published
from dpoco.accounting._coupled_parameters import (
    LEADER_COUPLINGS,
    CoupledRegularizedLeaderParameters,
)
from dpoco.accounting._coupled_search import find_best
from dpoco.accounting._coupled_statement import (
    Costs,
    admissible,
    baseline_block,
    check_agreement,
    check_arguments,
    regret_condition,
    require_global_bounds,
    stated,
)
from dpoco.accounting._leader_setting import (
    STEP_FACTORS,
    LeaderSetting,
    assess,
    barrier_weight,
    curvature_of,
    drawn,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.euclidean import EuclideanProblem, euclidean_problem
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.published import PublishedClaim, leader_claim
from dpoco.domains import Domain
from dpoco.losses import Loss
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws
from dpoco.privacy.neighbours import Neighbours

__all__ = ["CoupledRegularizedLeaderParameters", "calibrate", "guarantee", "mechanism_of"]

# b = eta beta_s beyond which the conditions warn.
_LARGE_CURVATURE = 0.1


def calibrate(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int,
    budget: Budget | None,
    calibration: str = "tight",
    coupling: str = "auto",
    block: int | None = None,
    relation: str = "replace",
    unbounded: bool = False,
    max_switches: float | None = None,
) -> CoupledRegularizedLeaderParameters:
    """Return the parameters of the least proven regret bound that meets `budget`.

    Parameters
    ----------
    domain, loss
        A domain and a convex, smooth loss of this library. An l_p ball with p < 2 is possible for
        linear losses only.
    horizon : int
        Rounds T.
    budget : Budget or None
        None promises nothing: a fresh draw every round, or, with `max_switches`, a lazy learner.
    calibration : {"tight", "corrected", "paper"}
        "tight": exact or Renyi accounting, search over couplings, blocks and step sizes.
        "corrected": the published algorithm and composition, each step repaired. "paper": the
        published parameters.
    coupling : {"auto", "density_ratio", "scheduled", "maximal"}
        "maximal" only without privacy.
    block : int or None
        Rounds per stay-or-switch decision; None searches.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    unbounded : bool
        Whether decisions range over R^d and the domain is only the comparator class.
    max_switches : float or None
        Lazy mode: bound on the expected number of switches; only without a budget.

    Returns
    -------
    CoupledRegularizedLeaderParameters
        If no noise beats the constant decision, the parameters of that: ``max_switches`` 0, block
        = horizon, and a guarantee with epsilon 0.

    Raises
    ------
    ValueError, TypeError
        For contradictory or inadmissible arguments.

    Notes
    -----
    Deterministic; about 0.1 to 0.7 s.
    """
    if isinstance(budget, Budget):
        budget.require_delta()
    limit = check_arguments(
        horizon=horizon,
        budget=budget,
        calibration=calibration,
        coupling=coupling,
        couplings=LEADER_COUPLINGS,
        block=block,
        relation=relation,
        max_switches=max_switches,
    )
    problem = euclidean_problem(domain, loss, unbounded)
    setting = LeaderSetting(problem, horizon, relation, calibration, budget)
    if budget is None:
        if limit is not None:
            return lazy_oco.leader_lazy(setting, limit, coupling, block)
        return setting.quiet(baseline_block(coupling, block))
    require_global_bounds(problem)
    if calibration != "tight":
        return oco_published.leader_published(setting, budget, coupling, block)
    if horizon == 1:
        return setting.constant()
    couplings = admissible(coupling, ("scheduled", "density_ratio"), "private learning")
    factors = STEP_FACTORS if problem.smoothness > 0.0 else (1.0,)
    return find_best(setting, budget, couplings, factors, block)


def mechanism_of(
    domain: Domain, loss: Loss, parameters: CoupledRegularizedLeaderParameters
) -> CoupledDraws:
    """Return what the engine built from these draws and enforces.

    Raises
    ------
    ValueError
        If the parameters contradict the domain or the loss.
    """
    problem = euclidean_problem(domain, loss, parameters.unbounded)
    check_agreement(parameters, problem, ("smoothness",))
    _check_parameters(parameters, problem)
    return drawn(parameters, problem)


def guarantee(
    domain: Domain,
    loss: Loss,
    parameters: CoupledRegularizedLeaderParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from coupling, noise, step size and cap.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    parameters : CoupledRegularizedLeaderParameters
        Calibrated or the user's own; regret and switches in it are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters contradict the domain or the loss.
    """
    p = parameters
    mechanism = mechanism_of(domain, loss, p)
    problem = euclidean_problem(domain, loss, p.unbounded)
    regret, switches = assess(p)

    def claim(delta: float, corrected: bool) -> PublishedClaim:
        return leader_claim(
            horizon=p.horizon,
            dimension=p.dimension,
            lipschitz=p.lipschitz,
            smoothness=p.smoothness,
            step_size=p.step_size,
            noise_scale=p.noise_scale,
            delta=delta,
            corrected=corrected,
            generalized_linear=p.rank <= 1 and not corrected,
        )

    found = Costs(
        released="minimisers of the randomly tilted sum of the losses so far, and all "
        "stay-or-switch bits",
        reference="Agarwal et al., CTRL, corrected; docs/privacy/couplings.md, "
        "docs/privacy/objective_perturbation.md, docs/privacy/oco_regret.md",
        noise_scale=p.noise_scale,
        claim=claim,
        regret=regret,
        expected_switches=switches,
        conditions=_conditions(p, problem),
        details={
            "step_size": p.step_size,
            "noise_scale": p.noise_scale,
            "draw_sensitivity_ratio": mechanism.draw.moved(
                mechanism.losses, Neighbours(p.relation)
            ),
            "step_times_smoothness": math.inf if p.noise_growth else curvature_of(p),
            "rank": p.rank,
            "clip_high": p.clip_high,
            "clip_low": p.clip_low,
            "barrier_weight": p.barrier_weight,
            "lipschitz": p.lipschitz,
            "smoothness": p.smoothness,
        },
    )
    return stated(p, problem, mechanism, found, budget, seeded)


def _check_parameters(p: CoupledRegularizedLeaderParameters, problem: EuclideanProblem) -> None:
    if p.rank != min(problem.rank, problem.dimension):
        raise ValueError(f"parameters have rank {p.rank}, but the loss has {problem.rank}")
    if p.strong_convexity > problem.strong_convexity:
        raise ValueError("strong_convexity exceeds what the loss declares")
    if p.noise_growth and problem.unbounded:
        raise ValueError("growing noise needs bounded decisions")
    weight = barrier_weight(problem, p.horizon)
    if not math.isclose(p.barrier_weight, weight, rel_tol=1e-9):
        raise ValueError(f"barrier_weight must be {weight!r}; got {p.barrier_weight!r}")


def _conditions(
    p: CoupledRegularizedLeaderParameters, problem: EuclideanProblem
) -> tuple[str, ...]:
    texts = [regret_condition(p)]
    if problem.family != "linear":
        texts.append(
            "each minimiser is exact up to a residual of 1e-9 noise scales, or to what rounding "
            "of the decision leaves close to the boundary, which no theorem covers"
        )
    if p.private and curvature_of(p) > _LARGE_CURVATURE:
        texts.append(
            f"step size times smoothness is {curvature_of(p):.2g}: few Renyi orders are left"
        )
    if p.strong_convexity > 0.0:
        texts.append("ASSUMED: every loss is strongly convex with the declared modulus, unverified")
    return tuple(texts)

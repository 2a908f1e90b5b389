"""The guarantee of P-COMW parameters.

Proofs: ``docs/privacy/couplings.md``, ``docs/privacy/gibbs_draws.md`` and
``docs/privacy/oco_regret.md``.
"""

from __future__ import annotations

from dpoco.accounting import oco_published
from dpoco.accounting._oco.arguments import require_global_bounds
from dpoco.accounting._oco.gibbs_costs import (
    assess,
    exact_normalizer,
    factor_range_of,
    inexactness,
    linear_sampler,
    noise_to_signal,
    profile_of,
    sensitivity_of,
)
from dpoco.accounting._oco.guarantee_parts import (
    Accounted,
    build_guarantee,
    check_agreement,
    regret_condition,
    target_delta,
)
from dpoco.accounting._oco.parameters import ContinuousMultiplicativeWeightsParameters
from dpoco.accounting.budget import Budget
from dpoco.accounting.euclidean import EuclideanProblem, euclidean_problem
from dpoco.accounting.guarantee import Guarantee
from dpoco.domains import Domain
from dpoco.losses import Loss


def guarantee(
    domain: Domain,
    loss: Loss,
    parameters: ContinuousMultiplicativeWeightsParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from coupling, noise and cap.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    parameters : ContinuousMultiplicativeWeightsParameters
        Calibrated or the user's own; regret and switches in it are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters contradict the domain or the loss, or their coupling does not fit them.
    """
    p = parameters
    problem = euclidean_problem(domain, loss, p.unbounded)
    check_agreement(p, problem, ())
    _check_coupling(p, problem)
    delta = target_delta(budget, p.horizon)
    sensitivity = sensitivity_of(problem, p.relation)
    g = noise_to_signal(p)
    bound, switches = assess(p)
    claim = paper_epsilon = None
    if p.private and p.relation == "replace" and p.decisions > 0:
        printed = oco_published.gibbs_claim(
            horizon=p.horizon, noise_to_signal=g, delta=delta, corrected=False
        )
        paper_epsilon = printed.epsilon
        if p.calibration == "paper":
            claim = printed
        elif p.calibration == "corrected":
            claim = oco_published.gibbs_claim(
                horizon=p.horizon, noise_to_signal=g, delta=delta, corrected=True
            )
    found = Accounted(
        mechanism="decisions drawn from Gibbs laws of the losses so far, and all stay-or-switch "
        "bits",
        reference="Agarwal et al., P-COMW, corrected; docs/privacy/couplings.md, "
        "docs/privacy/gibbs_draws.md, docs/privacy/oco_regret.md",
        profile={"kind": "gaussian", **profile_of(p, problem)},
        sensitivity=sensitivity,
        noise_scale=p.lipschitz / g,
        assumed=inexactness(p),
        claim=claim,
        paper_epsilon=paper_epsilon,
        regret=bound,
        expected_switches=switches,
        conditions=_conditions(p, problem),
        details={
            "inverse_temperature": p.inverse_temperature,
            "regularization": p.regularization,
            "draw_mu": g * sensitivity / p.lipschitz,
            "clip_high": p.clip_high,
            "clip_low": p.clip_low,
            "sampler": p.sampler,
            "sampler_tolerance": p.sampler_tolerance,
            "lipschitz": p.lipschitz,
        },
    )
    return build_guarantee(p, problem, found, delta, seeded)


def _check_coupling(
    p: ContinuousMultiplicativeWeightsParameters, problem: EuclideanProblem
) -> None:
    quadratic = problem.unbounded and problem.family == "quadratic"
    if p.private:
        require_global_bounds(problem)
    if p.coupling in ("density_ratio", "maximal"):
        if not (exact_normalizer(problem) or (quadratic and not p.private)):
            raise ValueError(
                f"coupling {p.coupling!r} needs the normalising constant, known for linear losses "
                "on a ball, a box or R^d"
            )
        if p.coupling == "maximal" and p.block != 1:
            raise ValueError("coupling 'maximal' has block 1")
    if p.coupling == "anchored" and problem.unbounded:
        raise ValueError("coupling 'anchored' needs bounded decisions")
    if p.coupling == "anchored" and not p.clip_high == p.clip_low > 0.0:
        raise ValueError("coupling 'anchored' has one positive width: clip_high equals clip_low")
    if p.coupling == "dartboard" and p.factor_range < factor_range_of(problem) * (1.0 - 1e-9):
        raise ValueError(f"factor_range must be at least {factor_range_of(problem)!r}")
    if p.sampler == "exact" and not linear_sampler(problem):
        raise ValueError("no exact sampler on a polytope, or on an l_p ball with p other than 2")


def _conditions(
    p: ContinuousMultiplicativeWeightsParameters, problem: EuclideanProblem
) -> tuple[str, ...]:
    texts = [regret_condition(p)]
    if p.sampler == "exact":
        texts.append("draws are exact (rejection samplers); their running time depends on the data")
    else:
        texts.append(
            f"ASSUMED: every Markov chain draw is within total variation {p.sampler_tolerance:.2g} "
            "of its law, which cannot be verified; charged to delta"
        )
    if p.coupling == "anchored":
        texts.append(
            "the regret bound of coupling 'anchored' rests on a union bound over the rounds; its "
            "privacy does not"
        )
    if problem.unbounded and problem.family == "quadratic":
        texts.append("the regret bound assumes decisions where the losses are G-Lipschitz")
    return tuple(texts)

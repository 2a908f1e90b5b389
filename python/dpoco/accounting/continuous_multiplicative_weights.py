"""Parameters and accounting of continuous multiplicative weights (P-COMW).

Claim: the decisions, together with all stay-or-switch bits, are (epsilon, delta)-private with the
loss of `dpoco.privacy.mechanisms.coupled_draws`, also when the losses react to the decisions; and
for losses fixed in advance the expected regret is at most the stated bound
(`dpoco.accounting.regret_bounds`).

Proofs: ``docs/privacy/couplings.md``, ``docs/privacy/gibbs_draws.md`` and
``docs/privacy/oco_regret.md``. Source: Agarwal et al., P-COMW (Algorithm 1), generalised to blocks
and to couplings that need no normalising constant, accounting and regret corrected.
"""

from __future__ import annotations

from dataclasses import replace

from dpoco._validation import choice, real_float
from dpoco.accounting import lazy_oco, oco_published
from dpoco.accounting._coupled_parameters import (
    COUPLINGS,
    ContinuousMultiplicativeWeightsParameters,
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
from dpoco.accounting._gibbs_setting import (
    DEFAULT_ANCHORS,
    GibbsSetting,
    assess,
    drawn,
    envelope_acceptance,
    envelopes_are_tight_for,
    exact_normalizer,
    factor_range_of,
    linear_sampler,
    noise_to_signal,
    private_couplings,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.euclidean import EuclideanProblem, euclidean_problem
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.published import PublishedClaim, gibbs_claim
from dpoco.domains import Domain
from dpoco.losses import Loss
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws
from dpoco.privacy.neighbours import Neighbours

__all__ = [
    "ContinuousMultiplicativeWeightsParameters",
    "calibrate",
    "guarantee",
    "mechanism_of",
]

# Exact draws by rejection are preferred to chains where at least this part is surely accepted.
_FAIR_ACCEPTANCE = 1e-3


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
    sampler: str = "auto",
    sampler_tolerance: float | None = None,
    anchors: int = DEFAULT_ANCHORS,
) -> ContinuousMultiplicativeWeightsParameters:
    """Return the parameters of the least proven regret bound that meets `budget`.

    Parameters
    ----------
    domain, loss
        A domain and a convex loss of this library; the loss needs no smoothness.
    horizon : int
        Rounds T.
    budget : Budget or None
        None promises nothing: a fresh draw every round, or, with `max_switches`, a lazy learner.
    calibration : {"tight", "corrected", "paper"}
        "tight": exact accounting, search over couplings and blocks. "corrected": the published
        algorithm and composition, each step repaired. "paper": the published parameters.
    coupling : str
        "auto", or one of the couplings admissible for the problem: "density_ratio" (linear losses
        on a Euclidean ball, a box or R^d), "dartboard" and "anchored" (bounded decisions),
        "scheduled" (always), "maximal" (where "density_ratio" is, without privacy).
    block : int or None
        Rounds per stay-or-switch decision; None searches.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    unbounded : bool
        Whether decisions range over R^d and the domain is only the comparator class.
    max_switches : float or None
        Lazy mode: bound on the expected number of switches; only without a budget.
    sampler : {"auto", "exact", "mcmc"}
        "exact" never uses a Markov chain, at whatever cost; "auto" does not where the losses are
        linear, or where a public bound says that one proposal in a thousand is accepted, and
        otherwise uses a chain for draws that would be slow.
    sampler_tolerance : float or None
        Total variation to assume of one chain draw; None derives it from the budget.
    anchors : int
        K of the coupling "anchored".

    Returns
    -------
    ContinuousMultiplicativeWeightsParameters
        If no noise beats the constant decision, the parameters of that: ``max_switches`` 0, block
        = horizon, and a guarantee with epsilon 0.

    Raises
    ------
    ValueError, TypeError
        For contradictory or inadmissible arguments.
    CalibrationError
        If the published parameters exceed what can be represented.

    Notes
    -----
    Deterministic; about 0.1 to 0.5 s.
    """
    if isinstance(budget, Budget):
        budget.require_delta()
    limit = check_arguments(
        horizon=horizon,
        budget=budget,
        calibration=calibration,
        coupling=coupling,
        couplings=COUPLINGS,
        block=block,
        relation=relation,
        max_switches=max_switches,
    )
    problem = euclidean_problem(domain, loss, unbounded)
    setting = GibbsSetting(
        problem=problem,
        horizon=horizon,
        relation=relation,
        calibration=calibration,
        sampler=_sampler(problem, sampler),
        tolerance=_tolerance(sampler_tolerance),
        budget=budget,
        anchors=anchors,
    )
    if sampler == "auto" and setting.sampler == "mcmc" and envelopes_are_tight_for(problem):
        exact = _found(replace(setting, sampler="exact"), limit, coupling, block)
        if exact.max_switches == 0 or envelope_acceptance(exact, problem) >= _FAIR_ACCEPTANCE:
            return exact
    return _found(setting, limit, coupling, block)


def _found(
    setting: GibbsSetting, limit: float | None, coupling: str, block: int | None
) -> ContinuousMultiplicativeWeightsParameters:
    if setting.budget is None:
        if limit is not None:
            return lazy_oco.gibbs_lazy(setting, limit, coupling, block)
        return setting.quiet(baseline_block(coupling, block))
    require_global_bounds(setting.problem)
    if setting.calibration != "tight":
        return oco_published.gibbs_published(setting, setting.budget, coupling, block)
    if setting.horizon == 1:
        return setting.constant()
    couplings = admissible(coupling, private_couplings(setting.problem), "this domain and loss")
    return find_best(setting, setting.budget, couplings, (1.0,), block)


def mechanism_of(
    domain: Domain, loss: Loss, parameters: ContinuousMultiplicativeWeightsParameters
) -> CoupledDraws:
    """Return what the engine built from these draws and enforces.

    Raises
    ------
    ValueError
        If the parameters contradict the domain or the loss, or their coupling does not fit them.
    """
    problem = euclidean_problem(domain, loss, parameters.unbounded)
    check_agreement(parameters, problem)
    _check_coupling(parameters, problem)
    return drawn(parameters, problem)


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
    mechanism = mechanism_of(domain, loss, p)
    problem = euclidean_problem(domain, loss, p.unbounded)
    g = noise_to_signal(p)
    regret, switches = assess(p)

    def claim(delta: float, corrected: bool) -> PublishedClaim:
        return gibbs_claim(horizon=p.horizon, noise_to_signal=g, delta=delta, corrected=corrected)

    found = Costs(
        released="decisions drawn from Gibbs laws of the losses so far, and all stay-or-switch "
        "bits",
        reference="Agarwal et al., P-COMW, corrected; docs/privacy/couplings.md, "
        "docs/privacy/gibbs_draws.md, docs/privacy/oco_regret.md",
        noise_scale=p.lipschitz / g,
        claim=claim,
        regret=regret,
        expected_switches=switches,
        conditions=_conditions(p, problem),
        details={
            "inverse_temperature": p.inverse_temperature,
            "regularization": p.regularization,
            "draw_mu": mechanism.draw.moved(mechanism.losses, Neighbours(p.relation)),
            "clip_high": p.clip_high,
            "clip_low": p.clip_low,
            "sampler": p.sampler,
            "sampler_tolerance": p.sampler_tolerance,
            "lipschitz": p.lipschitz,
        },
    )
    return stated(p, problem, mechanism, found, budget, seeded)


def _check_coupling(
    p: ContinuousMultiplicativeWeightsParameters, problem: EuclideanProblem
) -> None:
    quadratic = problem.unbounded and problem.family == "quadratic"
    known = exact_normalizer(problem) or (quadratic and not p.private)
    if p.coupling in ("density_ratio", "maximal") and not known:
        raise ValueError(
            f"coupling {p.coupling!r} needs the normalising constant, known for linear losses "
            "on a ball, a box or R^d"
        )
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


def _sampler(problem: EuclideanProblem, asked: str) -> str:
    choice("sampler", asked, ("auto", "exact", "mcmc"))
    exact_linear = linear_sampler(problem)
    if asked == "exact" and not exact_linear:
        raise ValueError(
            "no exact sampler on a polytope, or on an l_p ball with p other than 2: "
            "use sampler='mcmc'"
        )
    if asked == "auto":
        return "exact" if problem.family == "linear" and exact_linear else "mcmc"
    return asked


def _tolerance(value: float | None) -> float | None:
    if value is None:
        return None
    tolerance = real_float("sampler_tolerance", value)
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"sampler_tolerance must be in (0, 1); got {tolerance!r}")
    return tolerance

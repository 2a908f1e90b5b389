"""Plans and accounting of continuous multiplicative weights (P-COMW).

Claim: the decisions, together with all stay-or-switch bits, are (epsilon, delta)-private with the
loss of `dpoco.privacy.mechanisms.coupled_draws`, even if the losses react to the decisions. For
losses fixed in advance, the expected regret is at most the stated bound
(`dpoco.accounting.regret_bounds`). In the lazy modes, the coupling "maximal" keeps every decision's
law unchanged and switches with probability TV(mu_t, mu_(t+1)) <= 2 Phi(g/2) - 1, g = G
sqrt(beta/lam). "density_ratio" switches with probability at most 1 - e^(-2a) in a round,
"dartboard" at most beta (G R T + regret) times in expectation, and "scheduled" at the ends of
blocks.

Proofs: ``docs/privacy/couplings.md``, ``docs/privacy/gibbs_draws.md`` and
``docs/privacy/oco_regret.md``. Source: Agarwal et al., P-COMW (Algorithm 1), generalised to blocks
and to couplings that need no normalising constant, accounting and regret corrected.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np

from dpoco import _core
from dpoco._validation import FloatArray, choice
from dpoco.accounting._coupled_setting import (
    ANCHORS,
    CONSTANT_SPREAD,
    Grid,
    Keep,
    Law,
    Setting,
    search_plan,
    state,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import known_horizon
from dpoco.accounting.coupled_regret import age_quantile, anchor_width
from dpoco.accounting.coupled_runs import (
    CHAINS,
    COUPLINGS,
    NO_SAMPLER,
    CoupledForecast,
    CoupledPlan,
    EuclideanProblem,
    GibbsPlan,
    GibbsRun,
    GibbsTuning,
    euclidean_problem,
    has_normalizer,
    open_gibbs,
)
from dpoco.accounting.gaussian import largest_fitting
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.regret_bounds import best_inverse_temperature, entropy_term, gibbs_regret
from dpoco.domains import Domain
from dpoco.losses import Loss
from dpoco.privacy.mechanisms.coupled_draws import Anchored, CoupledDraws, Dartboard, GibbsDraw

__all__ = ["CHAINS", "CoupledForecast", "GibbsPlan", "GibbsTuning", "calibrate", "clip_error",
           "exact_work", "guarantee"]  # fmt: skip

# We prefer exact draws by rejection to chains if at least this share of proposals is surely
# accepted.
_FAIR_ACCEPTANCE = 1e-3
# Largest gap of planes under kinks, in nats; number of rejections in a row that never occurs; and
# the work of one draw beyond which exact draws are refused.
_GAP, _PATIENCE_LOG, _MOST_WORK = 0.1, math.log(750.0), 750e9
_MOST_PLANES, _LARGEST_LOG = 2.0**30, 42.0
# The acceptance bound assumes that all smooth losses have their largest curvature. Real acceptance
# is far higher.
_LEAST_ACCEPTANCE = 1e-18
# Largest work of a chain with a proved distance, in steps times records.
_MOST_LOOKS = 1e9
# Noise of plans without privacy is free to choose: draws may cost about this share of the bound.
_QUIET_ENTROPY = 0.01
# The error of chains falls exponentially with their length, so only the range of doubles bounds the
# tolerance from below.
_LARGEST_TOLERANCE, _SMALLEST_TOLERANCE = 1e-3, 1e-300


class _Setting(Setting[GibbsRun]):
    """The problem of P-COMW: a law is (beta, lam), and no other parameter is varied."""

    kind = GibbsRun
    regret = staticmethod(gibbs_regret)

    def still_law(self) -> Law:
        q = self.problem
        lam = q.lipschitz / q.radius * math.sqrt(self.horizon)
        # On any convex body around the centre, the mean square distance from it is at most n /
        # (beta lam).
        return q.dimension / lam / (CONSTANT_SPREAD * q.radius) ** 2, lam

    def law(self, variant: float, block: int, noise: float) -> Law:
        return best_inverse_temperature(self.problem.lazy(self.horizon, block), noise)

    def draw(self, law: Law) -> GibbsDraw:
        q = self.problem
        return GibbsDraw(*law, math.inf if q.unbounded else q.half_width, 0.0)

    def window(
        self, run: GibbsRun, coupling: str, noise: float, error: float, forced: float = 0.0,
        tail: float = 0.0,
    ) -> Keep:  # fmt: skip
        if coupling == "dartboard":
            return Dartboard(forced, self.problem.factor_range)
        if coupling != "anchored":
            return super().window(run, coupling, noise, error, forced)
        m = run.mechanism
        # Union bound over all decisions, because the anchors may be too old at any of them.
        age = age_quantile(ANCHORS, m.block, forced, tail / max(m.decisions, 1))
        width = anchor_width(noise, error, anchors=ANCHORS, mean_age=age, horizon=self.horizon)
        return Anchored(forced, width)

    def quiet_noise(self, block: int) -> float:
        # Fixed-point iteration: the law depends on the noise, and the cost of drawing depends on
        # the law.
        own, noise = self.problem.lazy(self.horizon, block), 1.0
        rounds = float(block) ** 2 * own.blocks
        for _ in range(100):
            beta, lam = best_inverse_temperature(own, noise)
            term = entropy_term(own, beta, lam)
            following = math.sqrt(2.0 * beta * term / (_QUIET_ENTROPY * rounds))
            if abs(following - noise) <= 1e-9 * noise:
                break
            noise = following
        return noise

    def laziest(self, coupling: str, limit: float) -> list[CoupledPlan]:
        # Less noise means less regret but more switches, so we search for the largest ratio within
        # the limit.
        def at(log_noise: float) -> CoupledPlan:
            noise = math.exp(log_noise)
            return self.lazy(coupling, self.law(1.0, 1, noise), noise)

        low, high = math.log(1e-12), math.log(10.0)
        best = largest_fitting(lambda x: at(x).forecast.expected_switches <= limit, low, high, 60)
        return [] if best is None else [at(best)]

    def finish(self, run: GibbsRun) -> CoupledPlan:
        m = run.mechanism
        own = replace(run.tuning, anchors=ANCHORS if isinstance(m.keep, Anchored) else 0)
        if self.tuning.sampler != "exact":
            m = replace(m, draw=replace(_read_draw(m), tolerance=self.chain_tolerance(m)))
        return super().finish(replace(run, mechanism=m, tuning=own))

    def chain_tolerance(self, drawn: CoupledDraws) -> float:
        """Return the allowed total variation error of a Markov chain, per draw."""
        if self.budget is None or drawn.drawn == 0:
            return _LARGEST_TOLERANCE
        # A tenth of delta pays for all draws of chains at the budget's epsilon. Their error falls
        # exponentially with their length, so a larger share would hardly make them shorter.
        share = self.budget.delta / (10.0 * (1.0 + math.exp(min(self.budget.epsilon, 600.0))))
        return max(_SMALLEST_TOLERANCE, min(_LARGEST_TOLERANCE, share / drawn.drawn))

    def rough_law(self, variant: float, m: FloatArray, g: FloatArray) -> tuple[Grid, Grid, Grid]:
        q, horizon = self.problem, float(self.horizon)
        rounds = m * m * np.ceil(horizon / m)
        ell = np.full_like(g, 10.0)
        for _ in range(6):
            lam = q.lipschitz / q.radius * np.sqrt(rounds + 2.0 * q.dimension * ell / (g * g))
            ell = g * g * lam / q.lipschitz * q.diameter * horizon / q.dimension
            ell = 1.0 + np.log(np.maximum(1.0, ell))
        beta = g * g * lam / q.lipschitz**2
        return 0.0, q.lipschitz * horizon / lam + np.sqrt(q.dimension / (beta * lam)), beta


def envelope_acceptance(drawn: CoupledDraws, problem: EuclideanProblem) -> float:
    """Return a lower bound on the acceptance probability of the exact sampler's proposals.

    (1 + T beta_s / lam)^(-n/2): ``docs/privacy/gibbs_sampling.md``.
    """
    curvature = drawn.rounds * problem.smoothness / _read_draw(drawn).regularization
    return math.exp(-0.5 * problem.dimension * math.log1p(curvature))


def exact_work(drawn: CoupledDraws) -> tuple[int, int]:
    """Return the largest numbers of planes and proposals of a draw by rejection, for any losses.

    With so many planes, the affine minorant of losses with kinks is within 0.1 nats of the best
    one. Then the probability that so many proposals are all rejected is below exp(-750):
    ``docs/privacy/gibbs_sampling.md``.

    Parameters
    ----------
    drawn : CoupledDraws
        Coupled draws with a Gibbs law.

    Returns
    -------
    planes, proposals : int
        At most 2^30 and e^42.
    """
    law, n = _read_draw(drawn), drawn.losses.dimension
    signal = drawn.losses.lipschitz * math.sqrt(law.inverse_temperature / law.regularization)
    far = signal * drawn.rounds
    c = 2.0 * far  # lower bound on E exp(-c X), X with a chi law with n degrees of freedom
    chi = math.lgamma(n) - math.lgamma(0.5 * n) + (1.0 - 0.5 * n) * math.log(2.0)
    chi -= n * math.log(c) + n * (n + 1) / (2.0 * c * c)
    accepted = max(chi, -c * math.sqrt(n)) - _GAP
    proposals = math.exp(min(_PATIENCE_LOG - accepted, _LARGEST_LOG))
    return math.ceil(min(27.0 * far * far / _GAP, _MOST_PLANES)), math.ceil(proposals)


def clip_error(drawn: CoupledDraws) -> float:
    """Return the total variation that clipping may add to the law of a round."""
    # Forced switches forget errors: those of block / forced rounds add up to at most 1 / (2 T).
    if drawn.keep.forced > 0.0:
        return drawn.keep.forced / (2.0 * drawn.block * drawn.rounds)
    # Without forced switches, errors add up over all rounds.
    return 1.0 / (drawn.rounds * max(drawn.rounds - 1.0, 1.0))


def _read_draw(drawn: CoupledDraws) -> GibbsDraw:
    """Return the law of a fresh decision, which is a Gibbs law for this learner."""
    assert isinstance(drawn.draw, GibbsDraw)
    return drawn.draw


def calibrate(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int,
    budget: Budget | None,
    coupling: str = "auto",
    block: int | None = None,
    relation: str = "replace",
    unbounded: bool = False,
    max_switches: float | None = None,
    sampler: str = "auto",
) -> GibbsPlan:
    """Return the plan with the least proven regret bound that meets `budget`.

    Parameters
    ----------
    domain, loss
        A domain and a convex loss of this library; the loss needs no smoothness.
    horizon, budget, coupling, block, relation, unbounded, max_switches
        See `dpoco.oco.ContinuousMultiplicativeWeights`. "density_ratio" and "maximal" are for
        linear losses on a Euclidean ball, a box or R^d; "dartboard" and "anchored" are for bounded
        decisions.
    sampler : {"auto", "exact", "mcmc", "hit_and_run", "langevin", "proximal"}
        "exact" never uses a Markov chain, and is refused if a draw might take 10^9 proposals.
        "auto" uses no chain if the losses are linear, or if a public bound says that one proposal
        in a thousand is accepted; otherwise it uses a chain for draws that would be slow. The name
        of a chain selects that chain for all draws. "proximal" is refused if steps times rounds
        exceed 10^9.

    Returns
    -------
    Plan
        If no noise beats the constant decision, its plan: a cap of 0 switches, one block, and a
        guarantee with epsilon 0.

    Raises
    ------
    ValueError, TypeError
        For contradictory or inadmissible arguments.
    CalibrationError
        If no plan has so few switches.

    Notes
    -----
    Deterministic; takes about 0.1 to 0.5 s.
    """
    problem, horizon = euclidean_problem(domain, loss, unbounded), known_horizon(horizon)
    choice("sampler", sampler, ("auto", "exact", "mcmc", *CHAINS))
    if sampler == "proximal" and problem.unbounded:
        raise ValueError("sampler 'proximal' needs bounded decisions")
    if sampler == "exact" and not problem.linear_sampler:
        raise ValueError(f"{NO_SAMPLER}: use sampler='mcmc'")
    known = ("density_ratio",) if problem.exact_normalizer else ()
    lazy = ("maximal", "density_ratio") if has_normalizer(problem) else ()
    bounded = () if problem.unbounded else ("dartboard", "anchored")
    setting = _Setting(
        problem, horizon, relation, budget, ("scheduled", *known, *bounded),
        (*lazy, *bounded[:1]), variants=(1.0,), tuning=GibbsTuning(0, "exact"),
    )  # fmt: skip
    asked = (COUPLINGS, coupling, block, max_switches)
    # A public bound on the losses' curvature bounds the acceptance probability of envelopes.
    if sampler == "exact" or (sampler == "auto" and problem.linear_sampler and problem.enforced):
        plan = cast(GibbsPlan, search_plan(setting, *asked))
        drawn = plan.mechanism
        # `cap == 0` is the constant decision, whose only draw uses no data.
        fair = drawn.cap == 0 or envelope_acceptance(drawn, problem) >= _FAIR_ACCEPTANCE
        closed = problem.family == "linear" or problem.dimension == 1 or drawn.cap == 0
        smooth = problem.enforced and envelope_acceptance(drawn, problem) >= _LEAST_ACCEPTANCE
        if sampler == "exact" and not closed and not smooth:
            work = exact_work(drawn)[1]
            if work > _MOST_WORK:
                raise ValueError(
                    f"an exact draw from these laws may take {work:.0e} evaluations: use "
                    "sampler='auto', or less budget, a shorter horizon or fewer dimensions"
                )
        if sampler == "exact" or fair:
            return plan
    name = sampler if sampler in CHAINS else "mcmc"
    plan = cast(GibbsPlan, search_plan(replace(setting, tuning=GibbsTuning(0, name)), *asked))
    if name == "proximal" and plan.mechanism.cap != 0:
        law, rounds = _read_draw(plan.mechanism), plan.mechanism.rounds
        steps = _core.proximal_steps(
            problem.dimension, problem.radius, law.inverse_temperature, law.regularization,
            problem.lipschitz * rounds, law.tolerance,
        )  # fmt: skip
        if steps * rounds > _MOST_LOOKS:
            raise ValueError(
                f"a draw within the proved distance takes {steps:.0e} steps: use sampler='auto', "
                "or less budget, a shorter horizon or fewer dimensions"
            )
    return plan


def guarantee(
    domain: Domain,
    loss: Loss,
    plan: GibbsPlan,
    *,
    relation: str = "replace",
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    plan, relation, budget, seeded
        See `dpoco.accounting.statement`.

    Raises
    ------
    ValueError, TypeError
        If the plan contradicts the domain or the loss, or its coupling does not fit them.
    """
    run = open_gibbs(domain, loss, plan)
    return state(run, plan.calibration, relation=relation, budget=budget, seeded=seeded)

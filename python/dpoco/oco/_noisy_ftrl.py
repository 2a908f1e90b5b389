"""The leader on private sums (DP-FTRL), and Newton steps on such sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np

from dpoco import _core, domains, losses
from dpoco import _literals as literals
from dpoco._validation import Fields, FloatArray, Named, positive_int, whole_if_float
from dpoco.accounting import Budget, noisy_newton, sum_release
from dpoco.accounting import noisy_ftrl as accountant
from dpoco.accounting.forgetting import Forgetting, advise_half_lives, batch_lengths
from dpoco.accounting.leaf_bounds import record_length
from dpoco.accounting.noisy_ftrl_regret import LeaderPlan, LeaderTuning, RegretForecast, Ridge
from dpoco.accounting.noisy_newton import STEP_SHARE, NewtonPlan, NewtonTuning, learned_loss
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.learning.choice import Candidate, RecordProblem
from dpoco.learning.participation import Participation
from dpoco.learning.record_learner import RecordLearner
from dpoco.learning.state import stated_dimension
from dpoco.mechanisms import sum_entries
from dpoco.privacy.mechanisms.bounds import MomentsAndLoss, SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.random import Source

__all__ = ["EstimatedLoss", "NoisyFTRL", "NoisyNewton", "OptionWeight"]


@dataclass(frozen=True)
class EstimatedLoss:
    """The loss of the decisions played, from releases alone.

    Attributes
    ----------
    mean : float
        Estimated loss per round. It is unbiased for every stream, and may be negative because of
        the noise. A round without data, or with data that are not finite, has the loss 0.
    deviation : float
        Standard deviation of the Gaussian noise in `mean`. It does not include the variation of the
        records themselves.
    rounds : float
        Number of rounds in the mean; older rounds count less if the learner forgets.
    """

    mean: float
    deviation: float
    rounds: float


@dataclass(frozen=True)
class OptionWeight:
    """A candidate of a learner that chooses its options, and its weight in the decision.

    Attributes
    ----------
    half_life : float or None
        Rounds after which a record counts half; infinite without forgetting. None: the candidate is
        the domain's centre.
    ridge : float or None
        Ridge, in spectral edges of the noise; None for the domain's centre.
    weight : float
        In [0, 1]; all weights add up to 1.
    excess : float
        Estimated loss per round minus that of the reference candidate, which never forgets and has
        a ridge of 1; negative if this candidate is better. Recent rounds count most. The estimate
        is unbiased if the stream does not react to decisions.
    deviation : float
        Standard deviation of the noise in `excess`, for decisions that do not depend on noise.
    """

    half_life: float | None
    ridge: float | None
    weight: float
    excess: float
    deviation: float


class NoisyFTRL(RecordLearner):
    """Follow the regularised leader on privately summed gradients: DP-FTRL.

    The decision after t rounds is the Euclidean projection onto `domain` of c - eta G_t, where c is
    the domain's centre and G_t the noisy sum of the rounds' gradients. The whole sequence of
    decisions is (epsilon, delta)-differentially private for replacing one round's data, even if the
    stream is chosen adaptively. Use it for linear losses; for squared losses it can sum exact
    statistics instead.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set.
    loss : SquaredLoss, LogisticLoss, HuberLoss, GlmLoss, LinearLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    horizon : int or None
        Number of rounds, at most 1e12. None: unknown, at most 1e9 rounds, at the price of noise
        that is 1.1 to 1.6 times larger. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it. It must
        agree with `budget` and with every other argument that you pass.
    statistics : {"gradient", "quadratic"}
        "gradient" (default): the gradient at the round's decision. "quadratic", for `SquaredLoss`:
        (x x', y x), which determines every past loss; decisions are ridge regressions on the noisy
        sums. It is best for independent records; no regret bound is proved against adversaries.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        The continual sum. "auto" (default) has the least regret bound: "blt_normalised" unless
        another sum is more than 1 % better, and "toeplitz" for quadratic statistics.
    step_size : float or "predicted", optional
        eta, in squared length per unit of loss. Default: the step with the least regret bound,
        which holds for every stream. "predicted": the step with the least expected regret if the
        noise is independent of the records, computed from public constants. It is longer and mostly
        has half the regret where learning is possible, but a larger proved bound. Quadratic
        statistics have no step.
    batch : int, optional
        Rounds per decision, by default 1; an incomplete last batch is discarded. With quadratic
        statistics: rounds of the first batch; after e rounds comes a batch of max(batch, e // 4).
        The default is then so large that noise dominates until its end, at most horizon / 50. With
        a number as `half_life`, or without a horizon, all batches are equally long; with "auto"
        they grow like the root of the rounds before.
    half_life : float or "auto", optional
        Rounds after which a record counts half, for quadratic statistics of a stream whose truth
        moves. Default: records are never forgotten. "auto": the learner chooses among half-lives
        from a hundredth of the horizon to infinity, at no privacy cost; see `choices`.
    ridge : float or "auto", optional
        Ridge of quadratic statistics in spectral edges of the noise, 1 by default. "auto", the
        default with half_life="auto": the learner chooses among 1/4, 1/2, 1 and 2.
    running_loss : bool, default False
        Whether `estimated_loss` is published, for quadratic statistics. Noise grows by 3 %.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in the data of one round, which are replaced or emptied.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding is not part of the proof, or exact integers;
        see ``docs/privacy/lattice.md``.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip records beyond the bounds and count non-finite ones as zero.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `plan` gives less than `budget` asks for.

    Notes
    -----
    A `CustomLoss` is an object with ``gradient(theta)``, which is called at the round's decision.
    Its gradients are clipped to its ``lipschitz``, or to ``leaf_bound`` and ``leaf_bound_l2`` if
    these are given and smaller.

    Time O(d) per round and one projection (O(d) for Euclidean balls and boxes); memory about 12 d
    doubles with the default sum. Quadratic statistics take O(d^2) per round, for sums of length d(d
    + 1)/2 + d of which all pushes are kept (some 40 in 10^5 rounds), and one eigendecomposition,
    O(d^3), per decision. Proof of privacy and of `plan.forecast.regret_bound`:
    ``docs/privacy/noisy_ftrl.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.oco.NoisyFTRL(
    ...     dpoco.domains.LpBall(dimension=3, p=2.0, radius=1.0),
    ...     dpoco.losses.LinearLoss(gradient_bound=1.0),
    ...     horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> learner.decide()
    array([0., 0., 0.])
    >>> learner.observe([0.5, -0.2, 0.1])
    >>> learner.round
    1
    """

    plan: LeaderPlan
    _mechanism: GaussianSum
    _accountant: ClassVar = accountant
    _tuning, _forecast = LeaderTuning, RegretForecast
    _noise: ClassVar[str] = "fresh"
    # The sum takes the gradient at the round's decision only, not at the one before.
    _looks_back = False

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int | None,
        budget: Budget | None,
        plan: LeaderPlan | None = None,
        statistics: literals.Statistics = "gradient",
        sum_method: literals.SumMethod | None = None,
        step_size: float | Literal["predicted"] | None = None,
        batch: int | None = None,
        half_life: float | Literal["auto"] | None = None,
        ridge: float | Literal["auto"] | None = None,
        running_loss: bool = False,
        relation: literals.Relation = "replace",
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            accountant.calibrate, domain=domain, loss=loss, horizon=horizon, statistics=statistics,
            sum_method=sum_method, step_size=step_size, batch=batch, half_life=half_life,
            ridge=ridge, running_loss=running_loss, relation=relation, numerics=numerics,
            participation=participation,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {"on_violation": on_violation})

    @staticmethod
    def _rename_fields(plan: LeaderPlan) -> Fields:
        return {
            "statistics": accountant.read_statistics(plan),
            "running_loss": isinstance(plan.mechanism.summand, MomentsAndLoss),
        }

    def _noise_note(self) -> str | None:
        if accountant.read_statistics(self.plan) == "gradient":
            return super()._noise_note()
        if self.plan.tuning.forgets:
            return self._forgetting_note()
        why = f"it hides records of all directions for {self._ridge.hidden_rounds:.3g} rounds"
        return f"noise dominates: {why}" if self._ridge.shrinkage > 0.0 else None

    def _forgetting_note(self) -> str | None:
        """Return a warning if noise hides the rounds that every candidate remembers."""
        d, length = self._domain.dimension, record_length(self._domain, self._loss)
        for view in self._forgetting.views:
            # The spectral edge of the noise, over what one round adds to an eigenvalue if records
            # point in all directions alike; a half-life h remembers h / ln 2 rounds.
            hidden = math.sqrt(2.0 * d) * view.deviations[-1] * d / length**2
            if hidden <= min(view.half_life / math.log(2.0), self._horizon):
                return None
        return f"noise dominates: it hides {hidden:.3g} rounds, more than are remembered"

    @cached_property
    def _forgetting(self) -> Forgetting:
        return accountant.read_candidates(self._domain, self._loss, self.plan)

    @cached_property
    def _ridge(self) -> Ridge:
        return accountant.read_ridge(self._domain, self._loss, self.plan)

    @property
    def choices(self) -> tuple[OptionWeight, ...]:
        """Weights of all half-lives, ridges and the domain's centre in the decision.

        They are computed from releases, so you may publish them. Empty if the learner has no
        options to choose from.
        """
        # With fewer than two candidates there was no choice.
        found = self._engine.choices()
        if len(found) < 2:
            return ()
        assert isinstance(self._loss, losses.SquaredLoss)
        plan = self._forgetting
        learned = [(view.half_life, ridge) for view in plan.views for ridge in plan.ridges]
        pairs: list[tuple[float | None, float | None]] = [*learned, (None, None)]
        # The engine sums squared residuals over rounds, without the weight of the loss.
        found[:, 1:] *= self._loss.weight / max(self._compared_rounds(), 1.0)
        return tuple(
            OptionWeight(*pair, *row) for pair, row in zip(pairs, found.tolist(), strict=True)
        )

    @property
    def estimated_loss(self) -> EstimatedLoss | None:
        """Estimated mean loss of the decisions played, with its noise; you may publish it.

        None without ``running_loss=True``, and before the first release. If the learner forgets, a
        round counts half after its half-life, or with "auto" after a tenth of the horizon.
        """
        if not isinstance(self._mechanism.summand, MomentsAndLoss):
            return None
        memory, deviations = self._loss_law
        rounds, push = self._released_rounds(memory)
        if push == 0:
            return None
        # From some push on, all deviations are equal; the last entry stands for them.
        deviation = float(deviations[min(push, len(deviations)) - 1])
        return EstimatedLoss(self._engine.released_loss() / rounds, deviation / rounds, rounds)

    @property
    def covariance(self) -> FloatArray | None:
        """Covariance of the noise in `last_decision`, shape (d, d), in its squared units.

        You may publish it, since it is computed from public numbers: the distribution of the noise
        in the sum, and the step. It is the covariance of the decision before the projection, and
        exact for linear losses. For curved losses, later gradients take back a part of the noise,
        which the covariance leaves out. It also leaves out how far other records, or clipping,
        would move the decision. Zero before the first release and without noise; None with
        quadratic statistics, whose last sum is not kept. O(d^2). Derivation:
        ``docs/privacy/noisy_ftrl.md``.
        """
        eta = self.plan.tuning.step_size
        if eta is None:
            return None
        pushes, one = self._engine.pushes(), np.eye(self._domain.dimension)
        if pushes == 0:
            return 0.0 * one
        return np.asarray(eta**2 * sum_release.variance(self._mechanism, pushes) * one)

    @cached_property
    def _loss_law(self) -> tuple[FloatArray, FloatArray]:
        """Weights of past losses after every push, and the standard deviations of their sum."""
        return (
            accountant.loss_memory(self._domain, self._loss, self.plan),
            accountant.loss_deviations(self._domain, self._loss, self.plan),
        )

    def _compared_rounds(self) -> float:
        """Return the number of rounds that are compared; older rounds count less."""
        return self._released_rounds(np.array(self._forgetting.memory))[0]

    def _released_rounds(self, memory: FloatArray) -> tuple[float, int]:
        """Return the number of released rounds, damped by `memory`, and the number of pushes."""
        total = self._mechanism
        lengths = batch_lengths(total.batch, total.growth, total.pushes)
        rounds, ended, push = 0.0, 0.0, 0
        while push < total.pushes:
            length = lengths[min(push, len(lengths) - 1)]
            kept = memory[min(push, len(memory) - 1)]
            ended += length
            # The current batch has not been released yet.
            if ended > self.round:
                break
            rounds, push = kept * rounds + length, push + 1
        return float(rounds), push

    def _entries(self) -> dict[str, float]:
        return super()._entries() | sum_entries(self._mechanism)

    def _build_engine(self, claim: _core.Claim) -> _core.NoisyFtrl:
        """Return a compiled learner in round 0 on the stream of `claim`."""
        tuning, domain, loss = self.plan.tuning, self._domain, self._loss
        settings: _core.Settings = {"rounds": tuning.horizon}
        if isinstance(self._mechanism.summand, SecondMoments):
            # Radius, ridges and shrinkage are public numbers, so decisions are post-processing of
            # the sums (docs/privacy/noisy_ftrl.md, "Proof").
            settings["domain_radius"] = domain.radius_from_center()
            if isinstance(self._mechanism.summand, MomentsAndLoss):
                settings["loss_kept"] = self._loss_law[0].tolist()
            if tuning.forgets:
                settings["forgetting"] = self._forgetting
            else:
                ridges, shrinkage = self._ridge.ridges.tolist(), self._ridge.shrinkage
                settings |= {"ridges": ridges, "shrinkage": shrinkage}
        else:
            settings["step_size"] = tuning.step_size
        return _core.NoisyFtrl(domain._engine, loss._glm_engine, self._mechanism, settings, claim)

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        dimension = stated_dimension(header["arguments"]["domain"])
        kind = header["plan"]["mechanism"]["summand"]["kind"]
        # The payload has the upper half of x x', and y x.
        moments = kind in ("second_moments", "moments_and_loss")
        return dimension + dimension * (dimension + 1) // 2 if moments else dimension

    @classmethod
    def _candidates(cls, problem: RecordProblem) -> Iterator[Candidate]:
        if problem.sums_matrices and type(problem.loss) is losses.SquaredLoss:
            options = {"statistics": "quadratic"}
            yield problem.candidate(cls, options, variant="/quadratic")
            if problem.drifts:
                forgets = {**options, "half_life": "auto"}
                yield problem.candidate(cls, forgets, variant="/forgetting")
        if problem.in_l2:
            yield problem.candidate(cls, {"step_size": "predicted"} if problem.loss.glm else None)


class NoisyNewton(RecordLearner):
    """Newton steps on privately summed gradients and curvatures, for logistic regression.

    After each batch of rounds the decision moves by the batch's noisy gradient, in a metric that
    grows with the part of the noisy curvature that exceeds its noise. Then it is shrunk towards the
    centre by the distance that the noise alone moves a step. Batches grow with the number of rounds
    before them. The whole sequence of decisions is (epsilon, delta)-differentially private for
    replacing one round's data, even if the stream is chosen adaptively. Use it for logistic and
    Huber losses, and for convex losses of your own with bounded slopes.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set.
    loss : LogisticLoss, HuberLoss or GlmLoss
        The loss and the public bounds of its data, enforced by clipping. A `LogisticLoss` without
        ``slope_bound`` is learned with slopes of at most 1/2; from epsilon 8 on, 3/4 is better.
    horizon : int or None
        Number of rounds, at most 1e12. None: unknown, at most 1e9 rounds, at the price of noise
        that is about a quarter larger. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it. It must
        agree with `budget` and with every other argument that you pass.
    shrinkage : float, default 1.0
        How far decisions are shrunk, in [0, 2]. 0 has up to 14 % less regret on streams with much
        to learn, but loses more than the centre if labels are noise.
    half_life : float, optional
        Rounds after which a record counts half, for streams whose truth moves. Default: the metric
        never falls, and steps become ever shorter. A thirtieth of the horizon is a good guess; see
        ``docs/drift.md``.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in the data of one round, which are replaced or emptied.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding is not part of the proof, or exact integers;
        see ``docs/privacy/lattice.md``.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    max_dimension : int, default 300
        Largest dimension, which is the number of rows of the matrices.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip records beyond the bounds and count non-finite ones as zero.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `plan` gives less than `budget` asks for.

    Notes
    -----
    Traces report logistic losses, even if the learner minimises another loss. The only proved bound
    on the regret is that of arbitrary decisions. ``docs/privacy/noisy_newton.md`` reports
    measurements and says on which streams other learners are better.

    Time O(d^2) per round and O(d^3) per batch, of which there are about sqrt(T). Memory (sqrt(T) +
    5) d (d + 3) / 2 doubles, or 12 d (d + 3) / 2 for more than 1e7 rounds. Proof of privacy:
    ``docs/privacy/noisy_newton.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.oco.NoisyNewton(
    ...     dpoco.domains.LpBall(dimension=3, p=2.0, radius=8.0),
    ...     dpoco.losses.LogisticLoss(feature_bound=1.0),
    ...     horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> learner.decide()
    array([0., 0., 0.])
    >>> learner.observe([0.5, -0.2, 0.1], 1.0)
    >>> learner.round
    1
    """

    plan: NewtonPlan
    _mechanism: GaussianSum
    _accountant: ClassVar = noisy_newton
    _tuning, _forecast = NewtonTuning, RegretForecast
    _noise: ClassVar[str] = "fresh"

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int | None,
        budget: Budget | None,
        plan: NewtonPlan | None = None,
        shrinkage: float = 1.0,
        half_life: float | None = None,
        relation: literals.Relation = "replace",
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        participation: Participation | None = None,
        max_dimension: int = 300,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            noisy_newton.calibrate, domain=domain, loss=loss, horizon=horizon, shrinkage=shrinkage,
            half_life=half_life, relation=relation, numerics=numerics,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {
            "participation": participation, "max_dimension": max_dimension,
            "on_violation": on_violation,
        })  # fmt: skip

    @classmethod
    def _problem(cls, arguments: Named) -> tuple[domains.Domain, losses.Loss]:
        domain, loss = super()._problem(arguments)
        most = positive_int("max_dimension", arguments["max_dimension"])
        if domain.dimension > most:
            raise ValueError(
                f"dimension {domain.dimension} exceeds max_dimension={most}: matrices of so many "
                "rows are summed only if that is raised"
            )
        return domain, loss

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the noise in `last_decision`, shape (d, d), in its squared units.

        You may publish it, since it is computed from the metric, which is a function of releases,
        and from the distribution of the noise in the sum of gradients. With metric A and standard
        deviation s it is s^2 A^-2, to first order, for the decision before shrinkage and
        projection. It leaves out the noise in A, and how far other records, or clipping, would move
        the decision. It also leaves out that later gradients take back a part of the noise: for
        curved losses, deviations are up to a third too large. Zero before the first release and
        without noise. O(d^3). Derivation: ``docs/privacy/noisy_newton.md``.
        """
        pushes, d = self._engine.pushes(), self._domain.dimension
        if pushes == 0:
            return np.zeros((d, d))
        # From some push on, all deviations are equal; the last entry stands for them.
        deviation = self._deviations[min(pushes, len(self._deviations)) - 1]
        scaled_inverse = deviation * np.linalg.inv(self._engine.metric().reshape(d, d))
        return np.asarray(scaled_inverse @ scaled_inverse.T)

    @cached_property
    def _deviations(self) -> FloatArray:
        return noisy_newton.deviations(self.plan.mechanism, self.plan.tuning.half_life)

    def _entries(self) -> dict[str, float]:
        return super()._entries() | sum_entries(self._mechanism)

    @property
    def _width(self) -> int:
        # A round adds a matrix, so chunks are measured by its size, not by the dimension.
        return self._mechanism.summand.size

    def _build_engine(self, claim: _core.Claim) -> _core.NoisyNewton:
        """Return a compiled learner in round 0 on the stream of `claim`."""
        tuning = self.plan.tuning
        settings: _core.Settings = {
            "rounds": tuning.horizon,
            "step_size": tuning.step_size,
            "step_share": STEP_SHARE,
            "shrinkage": tuning.shrinkage,
            "deviations": self._deviations.tolist(),
        }
        # Without a half-life the metric never decreases.
        if tuning.half_life is not None:
            kept = noisy_newton.kept_curvatures(self.plan.mechanism, tuning.half_life)
            settings["kept"] = kept.tolist()
        # A logistic loss is learned with bounded slopes, which lowers the sensitivity
        # (docs/privacy/noisy_newton.md, "The loss with bounded slopes").
        loss = learned_loss(self._loss)._glm_engine
        return _core.NoisyNewton(self._domain._engine, loss, self._mechanism, settings, claim)

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        dimension = stated_dimension(header["arguments"]["domain"])
        # The payload has the gradient, and the upper half of the curvature.
        return dimension + dimension * (dimension + 1) // 2

    @classmethod
    def _candidates(cls, problem: RecordProblem) -> Iterator[Candidate]:
        if problem.sums_matrices and type(problem.loss) in (
            losses.LogisticLoss, losses.HuberLoss, losses.GlmLoss,
        ):  # fmt: skip
            yield problem.candidate(cls)
            for half_life in advise_half_lives(problem.horizon) if problem.drifts else ():
                yield problem.candidate(cls, {"half_life": half_life}, variant="/forgetting")

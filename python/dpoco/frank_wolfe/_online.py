"""Private online Frank-Wolfe on a continual sum (DP-TOFW), and with selections (DP-POFW)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from dpoco import _core, domains, losses
from dpoco import _literals as literals
from dpoco._validation import Fields, FloatArray, float_array, whole_if_float
from dpoco.accounting import Budget, polyhedral_frank_wolfe, tree_frank_wolfe
from dpoco.accounting.frank_wolfe_regret import ErrorForecast
from dpoco.accounting.leaf_bounds import WEIGHTS, L1Geometry
from dpoco.accounting.polyhedral_frank_wolfe import PolyhedralPlan, PolyhedralTuning
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.tree_frank_wolfe import TreePlan, TreeTuning
from dpoco.domains import Domain
from dpoco.learning.calibrated import AnyPlan
from dpoco.learning.choice import UPDATES, Candidate, RecordProblem
from dpoco.learning.participation import Participation
from dpoco.learning.record_learner import RecordLearner
from dpoco.mechanisms import sum_entries
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.random import Source


def start_in(domain: Domain, start: Any) -> FloatArray:
    """Return a copy of the public first decision, by default the centre; raise for a bad one."""
    if start is None:
        return np.array(domain.center)
    # The copy protects against later changes of the caller's array.
    point = np.array(float_array("start", start, (domain.dimension,)))
    if not domain.contains(point):
        raise ValueError("start must lie in the domain")
    return point


class LeafLearner(RecordLearner):
    """Base of the learners that step towards vertices, along clipped gradients."""

    _noise: ClassVar[str] = "fresh"

    def _set_up(self, arguments: Fields, plan: AnyPlan, seeded: bool, claim: _core.Claim) -> None:
        self._start = start_in(arguments["domain"], arguments["start"])
        super()._set_up(arguments, plan, seeded, claim)

    def _saved_arguments(self) -> Fields:
        arguments = super()._saved_arguments()
        if arguments["start"] is not None:
            # The copy from construction is saved, since the caller's array may have changed.
            arguments["start"] = self._start.tolist()
        return arguments

    def _build_engine(self, claim: _core.Claim) -> _core.FrankWolfe:
        """Return a compiled learner in round 0 on the stream of `claim`."""
        return _core.FrankWolfe(
            self._arguments["domain"]._engine,
            self._loss._glm_engine,
            self._mechanism,
            self._plan.tuning,
            claim,
            np.array(self._start),
        )

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        # A box does not state its dimension; its bounds are in the header already.
        return int(header["arguments"]["domain"].get("dimension", 1))


class TreeFrankWolfe(LeafLearner):
    """Private online Frank-Wolfe on a continual sum: DP-TOFW, corrected.

    Every round publishes a decision in `domain`. The whole sequence of decisions is (epsilon,
    delta)-differentially private for replacing one round's data, even if the stream is chosen
    adaptively. Data reach the decisions only through one private running sum.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    horizon : int or None
        Number of rounds, at most 1e12. None: unknown, at most 1e9 rounds, at the price of noise
        that is 1.1 to 1.6 times larger. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it. It must
        agree with `budget` and with every other argument that you pass.
    noise : {"gaussian", "generalized_gaussian"}, optional
        Distribution of the noise; default: Gaussian.
    norm_order : float, optional
        Order r of the generalized Gaussian, in [2, q].
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        The continual sum; "auto" (default) is the buffered linear Toeplitz factorisation unless
        another is more than 1 % better.
    weights : {"unbiased", "paper"}, optional
        Weights of the gradient estimate: k or k + 1.
    step_scale : float, default 1.0
        s in the step s / (k + s).
    batch : int, default 1
        Rounds per update; an incomplete last batch is discarded.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in the data of one round, which are replaced or emptied.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding is not part of the proof, or exact integers;
        see ``docs/privacy/lattice.md``.
    start : array_like of shape (d,), optional
        Public first decision; default the domain's centre.
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
    Time O(d) per round: two inner products, one linear minimisation, one noise vector. Memory about
    12 d doubles with the default sum, plus O(d log horizon) for the trees. Proof:
    ``docs/privacy/tree_frank_wolfe.md`` (corrects Han et al., Theorem 3.1); of
    ``guarantee.regret_bound``, for independent records: ``docs/privacy/frank_wolfe_regret.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.frank_wolfe.TreeFrankWolfe(
    ...     dpoco.domains.LpBall(dimension=3, p=2.0, radius=1.0),
    ...     dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0),
    ...     horizon=1000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> learner.decide()
    array([0., 0., 0.])
    >>> learner.observe([0.5, -0.2, 0.1], 0.7)
    >>> learner.round
    1
    """

    plan: TreePlan
    _mechanism: GaussianSum
    _accountant: ClassVar = tree_frank_wolfe
    _tuning, _forecast = TreeTuning, ErrorForecast

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int | None,
        budget: Budget | None,
        plan: TreePlan | None = None,
        noise: literals.SumNoise | None = None,
        norm_order: float | None = None,
        sum_method: literals.SumMethod | None = None,
        weights: literals.Weights | None = None,
        step_scale: float = 1.0,
        batch: int = 1,
        relation: literals.Relation = "replace",
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        start: Any = None,
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            tree_frank_wolfe.calibrate, domain=domain, loss=loss, horizon=horizon, noise=noise,
            norm_order=norm_order, sum_method=sum_method, weights=weights, step_scale=step_scale,
            batch=batch, relation=relation, numerics=numerics, participation=participation,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {"start": start, "on_violation": on_violation})

    @staticmethod
    def _rename_fields(plan: TreePlan) -> Fields:
        # The argument names the offset of weights k + offset by a word.
        return {"norm_order": plan.mechanism.order, "weights": WEIGHTS[plan.tuning.offset]}

    def _entries(self) -> dict[str, float]:
        return super()._entries() | sum_entries(self._mechanism)

    @classmethod
    def _candidates(cls, problem: RecordProblem) -> Iterator[Candidate]:
        # Frank-Wolfe has no sensitivity bound for a `GlmLoss`: see `losses.check_undamped`.
        smooth = isinstance(problem.loss, losses.CustomLoss) or problem.loss.glm
        fits = smooth and not isinstance(problem.loss, losses.GlmLoss)
        if problem.in_l2 and problem.plain and fits and problem.horizon is not None:
            yield problem.candidate(cls, {"batch": max(1, problem.horizon // UPDATES)})


class PolyhedralFrankWolfe(LeafLearner):
    """Private online Frank-Wolfe on a polytope: DP-POFW, corrected and in batches.

    It is for many dimensions with bounded features: its error grows with the logarithm of the
    number of vertices. Every round publishes a decision in `domain`. The whole sequence of
    decisions is (epsilon, delta)-differentially private for replacing one round's data, even if the
    stream is chosen adaptively. Data reach the decisions only through private selections of one
    vertex after every `batch` rounds.

    Parameters
    ----------
    domain : LpBall with p = 1, Simplex, Box or VertexSet
        The decision set. Features and gradients are clipped in the maximum norm for every domain,
        including boxes.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    horizon : int
        Number of rounds. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; delta = 0 is allowed. None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it. It must
        agree with `budget` and with every other argument that you pass.
    selector : {"gumbel", "laplace"}, optional
        How a vertex is chosen. "gumbel" (default) is the exponential mechanism. "laplace" (the
        paper's) adds Laplace noise to every score, with twice the noise.
    exponent : float, optional
        alpha in [0, 0.9] of the noise scales b_1 k^-alpha; default 2/3, which spends the budget
        best, 1/2 if delta = 0.
    weights : {"unbiased", "paper"}, optional
        Weights of the gradient estimate: k or k + 1.
    batch : int or "auto"
        Rounds per update; an incomplete last batch is never used. "auto" (default) minimises the
        predicted error, at most horizon / 16.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in the data of one round, which are replaced or emptied.
    start : array_like of shape (d,), optional
        Public first decision; default the domain's centre.
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
    Time O(d) per round, and O(d) per update: a few exponentials of 2 d scores; O(N d) for a list of
    N vertices. Memory 9 d doubles. Proof: ``docs/privacy/polyhedral_frank_wolfe.md`` (corrects Han
    et al., Theorem 3.4); of ``guarantee.regret_bound``, for independent records:
    ``docs/privacy/frank_wolfe_regret.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.frank_wolfe.PolyhedralFrankWolfe(
    ...     dpoco.domains.LpBall(dimension=3, p=1.0, radius=1.0),
    ...     dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0),
    ...     horizon=20000, budget=dpoco.Budget(epsilon=2.0, delta=1e-6))
    >>> learner.decide()
    array([0., 0., 0.])
    >>> learner.observe([0.5, -0.2, 0.1], 0.7)
    >>> learner.round
    1
    """

    plan: PolyhedralPlan
    _mechanism: Selections
    _accountant: ClassVar = polyhedral_frank_wolfe
    _tuning, _forecast = PolyhedralTuning, ErrorForecast

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int,
        budget: Budget | None,
        plan: PolyhedralPlan | None = None,
        selector: literals.Selector | None = None,
        exponent: float | None = None,
        weights: literals.Weights | None = None,
        batch: int | literals.Auto | None = "auto",
        relation: literals.Relation = "replace",
        start: Any = None,
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            polyhedral_frank_wolfe.calibrate, domain=domain, loss=loss, horizon=horizon,
            selector=selector, exponent=exponent, weights=weights, batch=batch, relation=relation,
        )  # fmt: skip
        others = {"start": start, "participation": participation, "on_violation": on_violation}
        self._build(calibrate, budget, plan, source, others)

    @staticmethod
    def _rename_fields(plan: PolyhedralPlan) -> Fields:
        scores = plan.mechanism.scores
        if not isinstance(scores, VertexScores):
            raise TypeError("plan must be a plan for a PolyhedralFrankWolfe")
        law, offset = plan.mechanism.law, WEIGHTS[scores.offset]
        return {"selector": law, "weights": offset, "batch": scores.batch}

    def _set_up(self, arguments: Fields, plan: AnyPlan, seeded: bool, claim: _core.Claim) -> None:
        super()._set_up(arguments, plan, seeded, claim)
        # The engine clips records in the l_1 geometry, so losses and bounds use it too.
        self._domain = cast(domains.Domain, L1Geometry(arguments["domain"]))

    @property
    def domain(self) -> domains.Domain:
        """The decision set."""
        domain: domains.Domain = self._arguments["domain"]
        return domain

    def user_rho(self, round: int) -> float:
        """Return the zCDP parameter for a change of one round's data; it falls with the round.

        Parameters
        ----------
        round : int
            Round, counted from 0, below the horizon.
        """
        return polyhedral_frank_wolfe.user_rho(self.plan, round, self._arguments["relation"])

    @classmethod
    def _candidates(cls, problem: RecordProblem) -> Iterator[Candidate]:
        domain = problem.domain
        # Boxes are left out, because they have 2^d vertices.
        few = isinstance(domain, domains.LpBall) and domain.p == 1.0
        few = few or isinstance(domain, domains.Simplex | domains.VertexSet)
        if few and problem.plain and problem.horizon is not None:
            yield problem.candidate(cls)

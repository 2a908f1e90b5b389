"""Exponential weights on privately released sums of losses: of all rounds, or of batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any, ClassVar

from dpoco import _core
from dpoco._validation import FloatArray
from dpoco.accounting import Budget, batch_share, prefix_hedge
from dpoco.accounting.batch_share import BatchShareParameters
from dpoco.accounting.prefix_hedge import PrefixHedgeParameters
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.mechanisms import continual_sum_settings, sum_entries
from dpoco.privacy.mechanisms.batch_release import BatchRelease
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.random import Source

__all__ = ["BatchShare", "BatchShareParameters", "PrefixHedge", "PrefixHedgeParameters"]


class Weighted(ExpertLearner):
    """Base of the learners whose decisions are drawn from weights that may be published."""

    _noise: ClassVar[str] = "fresh"

    @property
    def weights(self) -> FloatArray:
        """Law of the current decision, shape (N,), read-only; entries >= 0 that add up to 1.

        Computed from released sums alone: it is covered by the guarantee and may be published.
        Playing the experts in these proportions costs the same expected loss. After the last
        round, the weights of that round.
        """
        self._check_active()
        self._check_alone()
        weights: FloatArray = self._engine.weights()
        return weights


class PrefixHedge(Weighted):
    """Hedge on privately summed losses: static regret at (epsilon, delta)-privacy.

    The decision after t rounds is drawn from softmax(-eta S_t), S_t the noisy sums of the experts'
    losses so far. The whole sequence of decisions, and of `weights`, is (epsilon, delta)-private
    for replacing the losses of one round, also when they are chosen adaptively. The right tool for
    few experts: the noise grows like the square root of their number.

    Parameters
    ----------
    experts : int
        Number of experts N, at most 2^32.
    horizon : int
        Number of rounds T, at most 1e12. Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee; None switches privacy off (baselines).
    parameters : PrefixHedgeParameters, optional
        Overrides calibration; the guarantee is computed from them. They must keep to `budget`, if
        one is given, and to every other argument that is.
    calibration : {"tight"}
        Exact Gaussian accounting.
    sum_method : {"auto", "blt", "blt_normalised", "tree", "honaker", "toeplitz"}, optional
        The continual sum; "auto" (default) has the least regret bound, "blt_normalised" unless
        another is more than 1 % better.
    learning_rate : float, optional
        eta, per unit of losses in [0, 1]; default: the least regret bound.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding the proof leaves out, or exact integers;
        see `dpoco.mechanisms.ContinualSum`.
    loss_range : (float, float), default (0, 1)
        Public range of the losses, enforced by clipping.
    on_violation : {"clip", "raise"}
        What happens to losses out of the range: clipped silently, or ``ValueError`` (for trusted
        data: the exception depends on them).
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments; ``horizon=None`` is one.
    CalibrationError
        If no noise meets the budget, as for delta = 0.
    BudgetExceeded
        If `parameters` spend more than `budget`.

    Warns
    -----
    NoiseDominatesWarning
        If the regret bound is no better than that of uniform draws.

    Notes
    -----
    Source: Agarwal and Singh, "The price of differential privacy for online learning" (2017), with
    noise from a factorised sum instead of a tree and a sensitivity without the common shift.
    Per round: one noise vector and O(N) time; O(N) memory with "blt", O(N log T) with trees.
    Proof of privacy and of `parameters.regret_bound`: ``docs/privacy/prefix_hedge.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.experts.PrefixHedge(
    ...     10, horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> 0 <= learner.decide() < 10
    True
    >>> learner.observe([0.0] + [1.0] * 9)
    >>> learner.weights.shape
    (10,)
    >>> round(learner.parameters.regret_bound)
    364
    """

    _parameters: PrefixHedgeParameters
    _mechanism: GaussianSum
    _accountant: ClassVar[ModuleType] = prefix_hedge
    _parameters_class = PrefixHedgeParameters

    def __init__(
        self,
        experts: int,
        *,
        horizon: int,
        budget: Budget | None,
        parameters: PrefixHedgeParameters | None = None,
        calibration: str = "tight",
        sum_method: str | None = None,
        learning_rate: float | None = None,
        numerics: str = DEFAULT_NUMERICS,
        loss_range: tuple[float, float] = (0.0, 1.0),
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(PrefixHedge, **locals())

    def _entries(self) -> dict[str, float]:
        return super()._entries() | sum_entries(self._mechanism)

    def _build_engine(self, claim: dict[str, Any]) -> _core.PrefixHedge:
        total = continual_sum_settings(self._mechanism, claim)
        settings = {"learning_rate": self._parameters.learning_rate, "sum": total}
        return _core.PrefixHedge(self._shared_settings(settings), None)

    @property
    def parameters(self) -> PrefixHedgeParameters:
        """Everything calibration fixed: noise scale, sum, learning rate, regret bound."""
        return self._parameters


class BatchShare(Weighted):
    """Exponential weights with sharing on privately released sums of batches of losses.

    In every round the expert is drawn afresh from the current weights. When a batch of B rounds
    ends, the sum of its losses is released once with noise, the weights are multiplied by
    exp(-eta * noisy sum), and a share sigma of each is given to the others, so that an expert who
    becomes good is found again. All decisions together are differentially private for replacing
    one round's losses, also when losses react to the decisions, over any number of rounds.

    Parameters
    ----------
    experts : int
        Number of experts N.
    horizon : int or None
        Number of rounds, at most 1e12. None: unknown; the guarantee does not need it.
        Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee; ``delta=0`` asks for pure privacy. None switches privacy off
        (baselines).
    parameters : BatchShareParameters, optional
        Overrides calibration; the guarantee is computed from them. It must keep to `budget`, if
        one is given, and to every other argument that is.
    calibration : {"tight", "paper"}
        "paper": the algorithm as printed, for comparison; it spends the budget N times, and its
        guarantee says so.
    switches : int, default 0
        The regret is measured against sequences of experts with at most that many switches.
    noise : {"auto", "knorm", "gaussian", "laplace", "coordinate_rr"}
        "knorm": density exp(-max |z| / scale), pure; "gaussian" needs delta > 0 and is better from
        some 50 experts on; "auto" takes the smaller regret bound of these two. "laplace": pure, of
        six times the variance of "knorm". "coordinate_rr": randomised response on one coordinate a
        round, private also towards whoever collects it.
    adversary : {"oblivious", "adaptive"}
        Whose regret bound is minimised and stated: losses fixed in advance, or all losses. Privacy
        never depends on it.
    learning_rate : float, optional
        eta, per unit of loss in [0, 1]; default, as for the two below: the least regret bound.
    batch : int, optional
        Rounds B between two updates; an incomplete last batch is never used.
    share_rate : float, optional
        sigma, in [0, 1 - 1/N]; 0 is right for ``switches=0`` only.
    nominal_horizon : int, optional
        Rounds to plan an endless stream for; it may go on.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of sums and noise: exact integers, for "gaussian" and "laplace", or doubles,
        whose rounding the guarantee leaves out. "auto" (default): integers where possible.
    loss_range : (float, float), default (0.0, 1.0)
        Losses are mapped from it to [0, 1]; what is outside is clipped.
    on_violation : {"clip", "raise"}
        "clip" (default): losses out of range are clipped, non-finite ones count as the lowest,
        silently. "raise" is for trusted experiments: whether it raises depends on the data.
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If the noise cannot meet the budget.
    BudgetExceeded
        If `parameters` give less than `budget` asks for.

    Notes
    -----
    Time O(N) a round, memory about 7 N doubles.
    Source: Asi, Raman and Saha, "Tracking the best expert privately", algorithm 3,
    corrected.
    Proof of privacy and of `parameters.regret_bound`: ``docs/privacy/batch_share.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.experts.BatchShare(
    ...     4, horizon=10_000, budget=dpoco.Budget(epsilon=1.0, delta=0.0), switches=2)
    >>> learner.weights
    array([0.25, 0.25, 0.25, 0.25])
    >>> 0 <= learner.decide() < 4
    True
    >>> learner.observe([0.3, 1.0, 0.0, 0.9])
    >>> learner.round
    1
    """

    _parameters: BatchShareParameters
    _accountant: ClassVar[ModuleType] = batch_share
    _parameters_class = BatchShareParameters

    def __init__(
        self,
        experts: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        parameters: BatchShareParameters | None = None,
        calibration: str = "tight",
        switches: int = 0,
        noise: str = "auto",
        adversary: str = "oblivious",
        learning_rate: float | None = None,
        batch: int | None = None,
        share_rate: float | None = None,
        nominal_horizon: int | None = None,
        numerics: str = DEFAULT_NUMERICS,
        loss_range: tuple[float, float] = (0.0, 1.0),
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(BatchShare, **locals())

    @classmethod
    def _check_restated(
        cls,
        arguments: Mapping[str, Any],
        parameters: Any,
        defaults: Mapping[str, Any],
        free: Collection[str] = (),
    ) -> None:
        # Without a budget there is no noise, whatever law was asked for.
        free = ("noise",) if parameters.noise == "none" else ()
        super()._check_restated(arguments, parameters, defaults, free)

    def _build_engine(self, claim: dict[str, Any]) -> _core.BatchShare:
        """Return a compiled learner in round 0 on the stream of `claim`."""
        p, drawn = self._parameters, self._mechanism.part(BatchRelease)
        # Without noise, or without a release, no claim rests on what is drawn.
        said = p if drawn is None else drawn
        law = p.noise if drawn is None else drawn.law
        return _core.BatchShare(
            {
                **self._shared_settings(claim),
                "experts": said.experts,
                "batch": said.batch,
                "noise": "coordinate_rr" if law == "response" else law,
                "noise_scale": p.noise_scale if drawn is None else drawn.scale,
                "grid": said.grid,
                "learning_rate": p.learning_rate,
                "share_rate": p.share_rate,
                "floor": p.floor,
            }
        )

    @property
    def parameters(self) -> BatchShareParameters:
        """Everything calibration fixed: noise, batch, rates, regret bound."""
        return self._parameters

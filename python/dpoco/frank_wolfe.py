"""Private online Frank-Wolfe in l_p geometry (Han et al., DP-TOFW)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core, domains, losses
from dpoco._learner import OnlineLearner, Progress
from dpoco._validation import choice, float_array
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting import tree_frank_wolfe as accountant
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters
from dpoco.errors import NoiseDominatesWarning
from dpoco.mechanisms import continual_sum_settings
from dpoco.random import Source
from dpoco.trace import Trace

__all__ = ["TreeFrankWolfe", "TreeFrankWolfeParameters"]

FloatArray = NDArray[np.float64]


class TreeFrankWolfe(OnlineLearner):
    """Private online Frank-Wolfe on a continual sum: DP-TOFW, corrected.

    Every round publishes a decision in `domain`; the whole sequence of decisions is
    (epsilon, delta)-differentially private for replacing one round's data, also when the stream is
    chosen adaptively. Data reach the decisions only through one private running sum.

    Parameters
    ----------
    domain : LpBall, Box or Simplex
        The decision set.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    horizon : int or None
        Number of rounds, at most 1e12. None: unknown, at most 1e9 rounds, at the price of a noise
        1.1 to 1.6 times larger. Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee; None switches privacy off (baselines).
    parameters : TreeFrankWolfeParameters, optional
        Overrides calibration; the guarantee is computed from them.
    calibration : {"tight", "corrected", "paper"}
        "tight" (default): exact Gaussian accounting, weights w_k = k. "corrected": the published
        algorithm and composition with every proof step repaired. "paper": the published noise
        scale, for comparison.
    noise : {"gaussian", "generalized_gaussian"}, optional
        Default: Gaussian, or what `calibration` prescribes.
    norm_order : float, optional
        Order r of the generalized Gaussian, in [2, q].
    sum_method : {"auto", "blt", "tree", "honaker", "toeplitz"}, optional
        The continual sum; "auto" (default) is the buffered linear Toeplitz factorisation unless
        another is more than 1 % better.
    weights : {"unbiased", "paper"}, optional
        Weights of the gradient estimate: k or k + 1.
    step_scale : float, default 1.0
        s in the step s / (k + s).
    batch : int, default 1
        Rounds per update; an incomplete last batch is discarded.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in one round's data, replaced or emptied.
    start : array_like of shape (d,), optional
        Public first decision; default the domain's centre.
    on_violation : {"clip", "raise"}
        "clip" (default): records over the bounds are clipped, non-finite ones count as zero,
        silently. "raise" is for trusted experiments: whether it raises depends on the data.
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget.

    Notes
    -----
    Time O(d) a round: two inner products, one linear minimisation, one noise vector. Memory about
    12 d doubles with the default sum, plus O(d log horizon) for the trees.
    Proof: ``docs/privacy/tree_frank_wolfe.md`` (corrects Han et al., Theorem 3.1).

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

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int | None,
        budget: Budget | None,
        parameters: TreeFrankWolfeParameters | None = None,
        calibration: str = "tight",
        noise: str | None = None,
        norm_order: float | None = None,
        sum_method: str | None = None,
        weights: str | None = None,
        step_scale: float = 1.0,
        batch: int = 1,
        relation: str = "replace",
        start: Any = None,
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        arguments = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        if not isinstance(domain, domains.Domain):
            raise TypeError(f"domain must be a dpoco domain; got {type(domain).__name__}")
        if not isinstance(loss, losses.Loss):
            raise TypeError(f"loss must be a dpoco loss; got {type(loss).__name__}")
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be a dpoco.Budget or None; got {type(budget).__name__}")
        if source is not None and not isinstance(source, Source):
            raise TypeError(f"source must be a dpoco.random.Source; got {type(source).__name__}")
        choice("on_violation", on_violation, ("clip", "raise"))
        if parameters is None:
            parameters = accountant.calibrate(
                domain,
                loss,
                horizon=horizon,
                budget=budget,
                calibration=calibration,
                noise=noise,
                norm_order=norm_order,
                sum_method=sum_method,
                weights=weights,
                step_scale=step_scale,
                batch=batch,
                relation=relation,
            )
        elif not isinstance(parameters, TreeFrankWolfeParameters):
            raise TypeError("parameters must be TreeFrankWolfeParameters")
        origin = Source() if source is None else source
        self._set_up(
            arguments, domain, loss, budget, parameters, start, on_violation, origin.is_seeded,
            origin._claim(),
        )  # fmt: skip
        if self.parameters.noise_dominates:
            warnings.warn(
                "noise dominates: at this budget and horizon no learning is expected "
                f"(predicted error {self.parameters.predicted_error:.3g})",
                NoiseDominatesWarning,
                stacklevel=2,
            )

    def _set_up(
        self,
        arguments: dict[str, Any],
        domain: domains.Domain,
        loss: losses.Loss,
        budget: Budget | None,
        parameters: TreeFrankWolfeParameters,
        start: Any,
        on_violation: str,
        seeded: bool,
        claim: dict[str, Any],
    ) -> None:
        self._arguments = arguments
        self._domain = domain
        self._loss = loss
        self._budget = budget
        self._parameters = parameters
        self._is_seeded = seeded
        self._raises = on_violation == "raise"
        self._horizon = parameters.horizon
        self._shape = (domain.dimension,)
        self._guarantee = accountant.guarantee(
            domain, loss, parameters, budget=budget, seeded=seeded
        )
        self._start = domain.center if start is None else float_array("start", start, self._shape)
        if not domain.contains(self._start):
            raise ValueError("start must lie in the domain")
        self._engine = self._build_engine(claim)

    def _build_engine(self, claim: dict[str, Any]) -> _core.TreeFrankWolfe:
        """Return a compiled learner in round 0 on the stream of `claim`."""
        parameters = self._parameters
        return _core.TreeFrankWolfe(
            self._domain._engine,
            self._loss._glm_engine,
            _clipper(self._domain, self._loss, parameters),
            {
                "rounds": parameters.horizon,
                "batch": parameters.batch,
                "step_scale": parameters.step_scale,
                "leaf_scalar_bound": parameters.leaf_scalar_bound or 0.0,
                "published_weights": parameters.weights == "paper",
                "sum": continual_sum_settings(
                    dimension=self._domain.dimension,
                    horizon=parameters.pushes,
                    method=parameters.sum_method,
                    order=parameters.norm_order,
                    scale=parameters.noise_scale,
                    claim=claim,
                ),
            },
            np.array(self._start),
        )

    # -- state ------------------------------------------------------------------------------------

    def _header(self) -> dict[str, Any]:
        arguments = dict(self._arguments)
        arguments["domain"] = self._domain.to_dict()
        arguments["loss"] = self._loss.to_dict()
        arguments["budget"] = None if self._budget is None else self._budget.to_dict()
        given = arguments["parameters"]
        arguments["parameters"] = None if given is None else given.to_dict()
        start = arguments["start"]
        arguments["start"] = None if start is None else np.asarray(start, dtype=float).tolist()
        del arguments["source"]  # its stream is in the engine's state
        return {
            "arguments": arguments,
            "parameters": self._parameters.to_dict(),
            "seeded": self._is_seeded,
        }

    @classmethod
    def _assemble(cls, header: dict[str, Any], claim: dict[str, Any]) -> TreeFrankWolfe:
        arguments = dict(header["arguments"])
        arguments["domain"] = domains.from_dict(arguments["domain"])
        arguments["loss"] = losses.from_dict(arguments["loss"])
        if arguments["budget"] is not None:
            arguments["budget"] = Budget.from_dict(arguments["budget"])
        if arguments["parameters"] is not None:
            arguments["parameters"] = TreeFrankWolfeParameters.from_dict(arguments["parameters"])
        arguments["source"] = None
        self = cls.__new__(cls)
        self._set_up(
            arguments, arguments["domain"], arguments["loss"], arguments["budget"],
            TreeFrankWolfeParameters.from_dict(header["parameters"]), arguments["start"],
            arguments["on_violation"], bool(header["seeded"]), claim,
        )  # fmt: skip
        return self

    # -- public -----------------------------------------------------------------------------------

    @property
    def domain(self) -> domains.Domain:
        """The decision set."""
        return self._domain

    @property
    def loss(self) -> losses.Loss:
        """The loss family with its public bounds."""
        return self._loss

    @property
    def parameters(self) -> TreeFrankWolfeParameters:
        """Everything calibration fixed: noise scale, sum, leaf bound, steps."""
        return self._parameters

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all decisions together, whatever part of the horizon is used."""
        return self._guarantee

    @property
    def last_decision(self) -> FloatArray:
        """Decision after the rounds so far, shape (d,); also past the horizon.

        Free of charge: it is post-processing of what the guarantee covers.
        """
        self._check_active()
        decision: FloatArray = self._engine.decision()
        return decision

    def _decision(self) -> FloatArray:
        decision: FloatArray = self._engine.decision()
        return decision

    def observe(self, record: Any, label: float | None = None) -> None:
        """End the round with its loss.

        Parameters
        ----------
        record : array_like of shape (d,), or a loss object
            Features for a generalised linear loss, the gradient for a `LinearLoss`; for a
            `CustomLoss` an object with ``gradient(theta) -> (d,)``, called at this decision and
            at the previous one.
        label : float, optional
            For generalised linear losses.

        Raises
        ------
        RoundOrderError
            If `decide` was not called in this round.
        HorizonExceeded
            Past the horizon: nothing drawn, nothing changed.
        ValueError, TypeError
            Wrong shape or dtype: nothing changed. With ``on_violation="raise"`` also for records
            over the bounds.

        Notes
        -----
        Records over the bounds are clipped and non-finite ones count as zero, silently.
        """
        self._check_turn()
        if self._loss.glm:
            features = self._vector("features", record)
            if label is None:
                raise TypeError("label is required by this loss")
            number = _label(label)
            if self._raises:
                self._refuse_violations(features[None, :], np.array([number]))
            self._engine.observe(self._turn, features, number)
        else:
            if label is not None:
                raise TypeError("this loss takes no label")
            if isinstance(self._loss, losses.LinearLoss):
                gradient = self._vector("gradient", record)
                if self._raises:
                    self._refuse_violations(gradient[None, :], None)
                self._engine.observe_gradient(self._turn, gradient)
            else:
                self._observe_custom(record)

    def _vector(self, name: str, value: Any) -> FloatArray:
        if (
            type(value) is np.ndarray
            and value.dtype == np.float64
            and value.shape == self._shape
            and value.flags.c_contiguous
        ):
            return value
        return float_array(name, value, self._shape)

    def _observe_custom(self, record: Any) -> None:
        gradient: Callable[[FloatArray], Any] | None = getattr(record, "gradient", None)
        if gradient is None:
            raise TypeError("a custom loss must have a method gradient(theta)")
        turn = self._turn
        at_decision = self._vector("gradient", gradient(self._current))
        if turn < self.parameters.batch:  # no earlier decision: its weight is zero
            at_previous = at_decision
        else:
            at_previous = self._vector("gradient", gradient(self._engine.previous_decision()))
        if self._raises:
            self._refuse_violations(np.stack([at_decision, at_previous]), None)
        self._engine.observe_gradients(turn, at_decision, at_previous)

    def _refuse_violations(self, records: FloatArray, labels: FloatArray | None) -> None:
        row = self._loss._first_violation(self._domain, records, labels)
        if row is not None:
            raise ValueError(f"record {row} is outside the declared bounds or not finite")

    def run(
        self,
        features: Any,
        labels: Any = None,
        *,
        record_decisions: bool = True,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100_000,
    ) -> Trace:
        """Play many rounds in compiled code, with the interpreter lock released.

        Parameters
        ----------
        features : array_like of shape (T, d)
            One record a round; gradients for a `LinearLoss`.
        labels : array_like of shape (T,), optional
            For generalised linear losses.
        record_decisions : bool, default True
            Keep the T x d decisions in the trace.
        progress : callable, optional
            Called as ``progress(done, total)`` between chunks of rounds.
        checkpoint : path-like, optional
            State file, rewritten atomically every `checkpoint_every` rounds and at the end.
        checkpoint_every : int, default 100000
            Rounds between checkpoints.

        Returns
        -------
        Trace
            Losses and decisions of these rounds; not private.

        Raises
        ------
        HorizonExceeded
            If fewer than T rounds are left: no round is played.
        ValueError, TypeError
            Wrong shape or dtype: no round is played.

        Notes
        -----
        The same decisions, bit for bit, as calling `decide` and `observe` T times. An interrupt
        (Ctrl-C) stops between rounds: `round` tells how many were played.
        """
        if isinstance(self._loss, losses.CustomLoss):
            raise TypeError("run() takes arrays; a CustomLoss is observed round by round")
        d = self._shape[0]
        rows = float_array("features", features, (None, d))
        rounds = rows.shape[0]
        targets = None
        if self._loss.glm:
            if labels is None:
                raise TypeError("labels are required by this loss")
            targets = float_array("labels", labels, (rounds,))
        elif labels is not None:
            raise TypeError("this loss takes no labels")
        self._check_rounds(rounds)
        if self._raises:
            self._refuse_violations(rows, targets)
        first_round = self.round
        out = np.empty(rounds)
        decisions = np.empty((rounds, d)) if record_decisions else None
        changed = np.empty(rounds, dtype=np.uint8)
        for part in self._chunks(rounds, d, progress, checkpoint, checkpoint_every):
            self._engine.run(
                rows[part],
                None if targets is None else targets[part],
                out[part],
                None if decisions is None else decisions[part],
                changed[part],
            )
        for array in (out, decisions):
            if array is not None:
                array.flags.writeable = False

        def loss_of(decision: FloatArray) -> FloatArray:
            return self._loss.batch_values(self._domain, decision, rows, targets)

        return Trace(out, np.flatnonzero(changed), first_round, decisions, loss_of)


def _label(label: Any) -> float:
    """Return the label as a float; non-finite passes (it makes a zero record)."""
    if type(label) is float:
        return label
    if isinstance(label, (bool, np.bool_, int, np.integer, np.floating)):
        return float(label)
    if isinstance(label, np.ndarray) and label.shape == () and label.dtype.kind in "fiub":
        return float(label)
    raise TypeError(f"label must be a real number; got {type(label).__name__}")


def _clipper(
    domain: domains.Domain, loss: losses.Loss, parameters: TreeFrankWolfeParameters
) -> _core.RecordClipper:
    """Bounds on what a record adds: features for GLM losses, the leaf itself for the others."""
    bound: float
    bound_l2: float | None
    if isinstance(loss, losses.GlmLoss):
        bound, bound_l2 = loss.feature_bound, loss._l2
    elif isinstance(loss, losses.LinearLoss):
        bound, bound_l2 = loss.gradient_bound, loss.gradient_bound_l2
    else:
        bound, bound_l2 = parameters.leaf_bound, parameters.leaf_bound_l2
    return _core.RecordClipper(
        domain.dimension, bound, domain.dual_exponent, np.inf if bound_l2 is None else bound_l2
    )

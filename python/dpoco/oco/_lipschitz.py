"""Lipschitz losses in one or two dimensions, convex or not."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _core, domains
from dpoco import _literals as literals
from dpoco._clipping import Flags
from dpoco._validation import Fields, FloatArray, Named, float_array, positive_float, whole_if_float
from dpoco.accounting import Budget, Guarantee, nets
from dpoco.accounting import lipschitz as accountant
from dpoco.accounting.lipschitz import NetPlan
from dpoco.accounting.noisy_ftrl_regret import RegretForecast
from dpoco.accounting.prefix_hedge import HedgeTuning
from dpoco.domains import Box, Domain, Simplex
from dpoco.learning.calibrated import AnyPlan
from dpoco.learning.learner import Admit, OnlineLearner, Progress, empty_rows
from dpoco.learning.participation import Participation, Persons
from dpoco.learning.tickets import Ticket
from dpoco.mechanisms import sum_entries
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.nets import NetDifferences
from dpoco.random import Source
from dpoco.trace import Trace

__all__ = ["LipschitzLearner"]

NetLoss = Callable[[FloatArray], ArrayLike]


class LipschitzLearner(OnlineLearner):
    """Private online learning of Lipschitz losses in one or two dimensions, convex or not.

    Decisions are points of a net over the domain, drawn by Hedge from noisy sums of the losses
    there. The sums hold differences of losses at nearby points, which are small for a Lipschitz
    loss, so the noise does not grow with the net. The whole sequence of decisions is (epsilon,
    delta)-differentially private for replacing one round's loss, even if the losses react to the
    decisions.

    Parameters
    ----------
    domain : Box, LpBall, Simplex or Polytope
        The decision set, of one or two dimensions; sides of length 0 do not count.
    lipschitz : float
        G: the loss changes by at most G times the Euclidean distance. Enforced by clipping. This
        and all following arguments are keyword-only.
    horizon : int
        Number of rounds, at most 1e12.
    budget : Budget or None
        The target guarantee; None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it. It must
        agree with `budget` and with every other argument that you pass.
    resolution : int or tuple of int, optional
        Number of net points, at least 2, along every axis or along each axis of positive length.
        Default: the number with the least regret bound, at most 2^16 points on an interval and 2^8
        per axis in the plane.
    transform : {"auto", "increments", "grid_laplacian", "parent"}
        The transform that is summed. "auto" (default): "increments" of neighbours in one dimension,
        "grid_laplacian" (white coefficients of the field of differences) in two. "parent":
        differences along a binary hierarchy of 2^k + 1 points per axis.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        The continual sum; "auto" (default) has the least regret bound.
    learning_rate : float, optional
        eta, per unit of loss; default: the one with the least regret bound.
    enforce : bool, default True
        False: sum losses as they are. The guarantee then assumes that they are Lipschitz, and is
        not certified.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip differences beyond the bound and count a non-finite loss as
        zero. "raise": raise an error instead; only for trusted experiments, since the error depends
        on the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    NotImplementedError
        For more than two dimensions.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `plan` gives less privacy than `budget` asks for.

    Warns
    -----
    NoiseDominatesWarning
        If the regret bound is no better than that of arbitrary decisions.

    Notes
    -----
    Source: Agarwal, Kale, Singh and Thakurta, "Differentially Private and Lazy Online Convex
    Optimization", Lipschitz losses in one or two dimensions, with corrected constants and better
    transforms. N net points: O(N) per round on an interval, O(N log N) in the plane, and memory of
    a dozen numbers per point. Proof of privacy and of `plan.forecast.regret_bound`,
    which includes the cost of playing on a net: ``docs/privacy/lipschitz.md``.

    Examples
    --------
    >>> import dpoco
    >>> import numpy as np
    >>> learner = dpoco.oco.LipschitzLearner(
    ...     dpoco.domains.Box([0.0], [1.0]), lipschitz=1.0, horizon=10_000,
    ...     budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> learner.decide().shape
    (1,)
    >>> learner.observe(lambda x: np.abs(np.sin(8.0 * x[:, 0])) / 8.0)
    >>> learner.round
    1
    """

    plan: NetPlan
    _domain: domains.Domain
    _mechanism: GaussianSum
    _tuning, _forecast = HedgeTuning, RegretForecast
    _noise: ClassVar[str] = "fresh"
    _decoders: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "resolution": lambda value: tuple(value) if isinstance(value, list) else value
    }

    def __init__(
        self,
        domain: domains.Domain,
        *,
        lipschitz: float,
        horizon: int,
        budget: Budget | None,
        plan: NetPlan | None = None,
        resolution: int | tuple[int, ...] | None = None,
        transform: literals.Transform = "auto",
        sum_method: literals.SumMethod | None = None,
        learning_rate: float | None = None,
        enforce: bool = True,
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            accountant.calibrate, domain=domain, lipschitz=lipschitz, horizon=horizon,
            resolution=resolution, transform=transform, sum_method=sum_method,
            learning_rate=learning_rate, enforce=enforce, participation=participation,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {"on_violation": on_violation})

    @staticmethod
    def _rename_fields(plan: NetPlan) -> Fields:
        net = plan.mechanism.summand
        if not isinstance(net, NetDifferences):
            raise TypeError("plan must be a plan for a LipschitzLearner")
        return {
            "lipschitz": net.lipschitz,
            # No decision depends on the losses of the last round, so they are not summed.
            "horizon": plan.mechanism.pushes + 1,
            "resolution": net.counts,
            "transform": net.transform,
            "enforce": net.enforced,
        }

    @staticmethod
    def _plan_horizon(plan: NetPlan) -> int:
        return plan.mechanism.pushes + 1

    def _certify(self, plan: NetPlan, seeded: bool = False) -> Guarantee:
        domain, budget = self._arguments["domain"], self._arguments["budget"]
        return accountant.guarantee(domain, plan, budget=budget, seeded=seeded)

    @classmethod
    def _check_fixed(cls, plan: AnyPlan, given: Named) -> None:
        if given["resolution"] is not None:
            shape = nets.net_shape(given["domain"])
            given = {**given, "resolution": nets.checked_counts(shape, given["resolution"])}
        super()._check_fixed(plan, given)
        if given["enforce"] and not plan.mechanism.summand.enforced:
            # The default asks for protection, so it contradicts such a plan.
            raise ValueError("enforce=True contradicts the plan, which has False")

    @classmethod
    def _problem(cls, arguments: Named) -> tuple[Any, ...]:
        nets.net_shape(arguments["domain"])
        positive_float("lipschitz", arguments["lipschitz"])
        return (arguments["domain"],)

    def _set_up(self, arguments: Fields, plan: AnyPlan, seeded: bool, claim: _core.Claim) -> None:
        self._domain = arguments["domain"]
        super()._set_up(arguments, plan, seeded, claim)
        net = self._mechanism.summand
        assert isinstance(net, NetDifferences)
        self._net, self._points = build_net(self._domain, net.counts)
        # This transform serves only flags and errors. The engine builds another one from the
        # description.
        self._checker = net_transform(net, enforced=True)

    def _entries(self) -> dict[str, float]:
        points = 1.0 + self._mechanism.summand.size
        return {"points of the net": 3.0 * points} | sum_entries(self._mechanism)

    def _build_engine(self, claim: _core.Claim) -> _core.PrefixHedge:
        # The transform bounds the differences, so the range of the losses need not be bounded here.
        # A net of one point has no differences.
        tuning: _core.Settings = {
            "rounds": self._horizon, "low": -1e150, "high": 1e150,
            "learning_rate": self.plan.tuning.learning_rate,
        }  # fmt: skip
        return _core.PrefixHedge(self._mechanism, tuning, claim)

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        # A box does not state its dimension; its bounds are in the header already.
        dimension = int(header["arguments"]["domain"].get("dimension", 1))
        counts = header["plan"]["mechanism"]["summand"]["counts"]
        return max(dimension, math.prod(int(n) for n in counts))

    @property
    def domain(self) -> domains.Domain:
        """The decision set."""
        return self._domain

    @property
    def net(self) -> FloatArray:
        """Net points of the domain's bounding box, shape (N, d), row-major, read-only."""
        return self._net

    @property
    def points(self) -> FloatArray:
        """Decisions for the net points, shape (N, d): their projections; read-only."""
        return self._points

    def on_net(self, losses: Any) -> FloatArray:
        """Return the losses as `run` reads them: values on the net, shape (T, N). Not private.

        Parameters
        ----------
        losses : array_like of shape (T, N), or sequence of callables
            As for `run`.
        """
        rows = NetLosses.of(losses, self._points)
        return rows.values(slice(0, len(rows)))

    @property
    def weights(self) -> FloatArray:
        """Distribution of the current decision over `points`, shape (N,), read-only.

        They are computed from what the private sum released: the guarantee covers them, and you may
        publish them.
        """
        self._check_active()
        self._check_alone()
        weights: FloatArray = self._engine.weights()
        return weights

    def _decision(self) -> FloatArray:
        point: FloatArray = self._points[self._engine.decision()]
        return point

    def observe(
        self,
        loss: NetLoss | Any,
        *,
        person: int | str | bytes | None = None,
        ticket: Ticket | None = None,
    ) -> None:
        """End the round with its loss.

        Parameters
        ----------
        loss : callable or array_like of shape (N,)
            A function that takes points, shape (N, d), and returns their losses, shape (N,); it is
            called with `points`. Or these losses themselves.
        person : int, str or bytes
            The person behind the loss, if the learner enforces a participation. A loss beyond the
            limit silently counts as zero.
        ticket : Ticket, optional
            Ticket of the earlier decision that the loss belongs to. The round is still played at
            the learner's current decision, whatever the ticket's.

        Raises
        ------
        RoundOrderError
            If `decide` was not called in this round, or the ticket is not outstanding.
        StateError
            For a ticket of another learner, or a forged one; nothing changes.
        HorizonExceeded
            Past the horizon; nothing is drawn and nothing changes.
        ValueError, TypeError
            For a wrong shape or dtype; nothing changes. With ``on_violation="raise"`` also for
            losses that are not finite or too steep.
        """
        if ticket is not None:
            return self._arrive(ticket, loss, person=person)
        turn, _ = self._check_turn()
        row = self._row(loss)
        if self._raises:
            self._refuse_violations(row[None, :], turn)
        if not self._admits(turn, person):
            # The engine plays the round with the same number of draws, so that no release shows the
            # refusal.
            row = np.full_like(row, np.nan)
        self._engine.observe(turn, row)

    def _row(self, loss: Any) -> FloatArray:
        values = loss(self._points) if callable(loss) else loss
        return float_array("losses", values, (len(self._points),))

    def _violating(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Return which losses are not finite or too steep, shape (T,); not private."""
        # A net of one point has no differences.
        if self._checker is None:
            return np.logical_not(np.isfinite(rows[:, 0]))
        out = np.empty(self._checker.outputs)
        return np.array([self._checker.apply(row, out) > 0 for row in rows], dtype=bool)

    def _refuse_violations(self, rows: FloatArray, first: int) -> None:
        bad = self._violating(rows)
        if bad.any():
            row = first + int(np.argmax(bad))
            raise ValueError(
                f"losses of round {row} are not finite or steeper than the declared bound"
            )

    def run(
        self,
        losses: Any,
        *,
        persons: Persons = None,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100_000,
    ) -> Trace:
        """Play many rounds in compiled code, with the interpreter lock released.

        Parameters
        ----------
        losses : array_like of shape (T, N), or iterable of callables and arrays of shape (N,)
            One loss per round, each as for `observe`.
        persons : array_like of int, str or bytes with shape (T,)
            The persons behind the losses, if the learner enforces a participation.
        progress : callable, optional
            Called as ``progress(done, total)`` between chunks of rounds.
        checkpoint : path-like, optional
            State file that is rewritten atomically every `checkpoint_every` rounds and at the end.
        checkpoint_every : int, default 100000
            Rounds between checkpoints.

        Returns
        -------
        Trace
            Losses (0 if not finite) and decisions of these rounds; not private. If losses were
            given as arrays, other decisions are compared at the nearest of `points`.

        Raises
        ------
        HorizonExceeded
            If fewer than T rounds are left; no round is played.
        ValueError, TypeError
            For a wrong shape or dtype. For an array, no round is played. For an iterable, the
            rounds before the chunk with the bad loss are played: see `round`.

        Notes
        -----
        The decisions equal those of T calls of `decide` and `observe`, bit for bit. An interrupt
        (Ctrl-C) stops between rounds; `round` is then the number of rounds played.
        """
        rows = NetLosses.of(losses, self._points)
        rounds = len(rows)
        if self._raises and rows.array is not None:
            self._refuse_violations(rows.array, self.round)
        played_losses = np.empty(rounds)
        played = np.empty(rounds, dtype=np.int64)

        def play(part: slice, admit: Admit) -> None:
            chunk = rows.values(part)
            if self._raises and rows.array is None:
                self._refuse_violations(chunk, self.round)
            admitted = admit()
            entering = chunk if admitted is None else empty_rows(chunk, admitted)
            self._engine.run(entering, played_losses[part], played[part])
            # The engine saw empty losses of people who came too often. The trace has the true
            # losses.
            played_losses[part] = chunk[np.arange(len(chunk)), played[part]]

        first_round, beyond = self._run_parts(
            rounds, len(self._points), persons, progress, checkpoint, checkpoint_every, play
        )
        # The learner counts a loss that is not finite as zero, and so does the trace.
        played_losses[~np.isfinite(played_losses)] = 0.0
        decisions = self._points[played]
        for array in (played_losses, decisions):
            array.flags.writeable = False
        switches = np.flatnonzero(played[1:] != played[:-1])

        def read_flags(part: slice) -> Flags:
            # The losses are read one by one, because all values together may not fit into memory.
            turns = range(*part.indices(rounds))
            bad = [self._violating(rows.values(slice(t, t + 1)))[0] for t in turns]
            return {"clipped": np.array(bad, dtype=bool)}

        return Trace(played_losses, switches, first_round, decisions, rows.at, read_flags, beyond)

    @property
    def nonprivate_violations(self) -> int:
        """Differences clipped and values replaced so far. **Not private**: do not publish it.

        Losses beyond the limit of a participation are also replaced.
        """
        return int(self._engine.nonprivate_violations())


# Without enforcement, this bound on differences only keeps their sum from overflowing.
_NO_LIMIT = 1e140


def build_net(domain: Domain, resolution: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return the net points of the bounding box and their projections, shape (N, d), read-only.

    Points are in row-major order of the axes of positive length; the projections are the decisions.
    """
    # This simplex is a segment. Its bounding box is a square, and would get a net of two
    # dimensions.
    if isinstance(domain, Simplex) and domain.dimension == 2:
        first = np.linspace(0.0, domain.scale, resolution[0])
        net = np.stack([first, domain.scale - first], axis=1)
    else:
        lower, upper = nets.bounding_box(domain)
        counts = iter(resolution)
        # An axis of length 0 has one point and no entry in `resolution`.
        axes = [
            np.linspace(low, high, next(counts) if low < high else 1)
            for low, high in zip(lower, upper, strict=True)
        ]
        grids = np.meshgrid(*axes, indexing="ij")
        net = np.stack([grid.ravel() for grid in grids], axis=1)
    net = np.ascontiguousarray(net)
    # These sets equal their bounding boxes, so that no projection is needed.
    inside = isinstance(domain, Box) or domain.dimension == 1
    points = net if inside else np.array([domain.project(point) for point in net])
    for array in (net, points):
        array.flags.writeable = False
    return net, points


def net_transform(net: NetDifferences, *, enforced: bool) -> _core.NetTransform | None:
    """Return the transform of a net, with bounded differences or not; None for a single point."""
    if net.size == 0:
        return None
    steps = nets.spacings(nets.NetShape(net.sides, 0.0), net.counts)
    limits = [net.lipschitz * h if enforced else _NO_LIMIT for h in steps]
    if net.transform == "parent":
        return _core.NetTransform.parent(nets.count_levels(net.counts), limits)
    if net.transform == "increments":
        return _core.NetTransform.increments(net.counts[0], limits[0])
    return _core.NetTransform.grid_laplacian(*net.counts, *limits)


@dataclass(frozen=True, eq=False)
class NetLosses:
    """The losses of a run: one array of all values on the net, or a list of single losses."""

    points: FloatArray
    array: FloatArray | None
    each: list[Any]

    @classmethod
    def of(cls, losses: Any, points: FloatArray) -> NetLosses:
        """Return `losses` in one of the two forms; a sequence without a callable is an array."""
        if callable(losses):
            raise TypeError("losses must be one loss a round; got a single callable")
        if not isinstance(losses, np.ndarray) and isinstance(losses, Iterable):
            # An iterator can be read once only.
            losses = list(losses)
            if any(callable(loss) for loss in losses):
                return cls(points, None, losses)
            if not losses:
                losses = np.empty((0, len(points)))
        return cls(points, float_array("losses", losses, (None, len(points))), [])

    def __len__(self) -> int:
        return len(self.each) if self.array is None else len(self.array)

    def values(self, part: slice) -> FloatArray:
        """Return the values of some rounds on the net, shape (rounds, N)."""
        if self.array is not None:
            return self.array[part]
        shape = (len(self.points),)
        out = np.empty((len(self.each[part]), *shape))
        for row, loss in zip(out, self.each[part], strict=True):
            # The values are copied at once, since a callable may return the same array each time.
            row[:] = float_array("losses", loss(self.points) if callable(loss) else loss, shape)
        return out

    def at(self, decision: FloatArray) -> FloatArray:
        """Return the losses of one decision, shape (T,): 0 where not finite."""
        if decision.shape != self.points.shape[1:]:
            raise ValueError(f"decision must have shape {self.points.shape[1:]}")
        nearest = int(np.argmin(np.sum((self.points - decision) ** 2, axis=1)))

        def value(loss: Any) -> float:
            if not callable(loss):
                return float(loss[nearest])
            return float(float_array("losses", loss(decision[None, :]), (1,))[0])

        if self.array is not None:
            values = self.array[:, nearest]
        else:
            values = np.array([value(loss) for loss in self.each])
        return np.where(np.isfinite(values), values, 0.0)

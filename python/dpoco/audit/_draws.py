"""Draws that are kept or made afresh: coupled points with coins, and tracked experts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray
from dpoco.audit._family import (
    Change,
    Decision,
    Family,
    Learner,
    Play,
    Record,
    Rounds,
    Stream,
    admit,
    split_parts,
)
from dpoco.audit._laws import (
    IMPOSSIBLE,
    FiniteScorer,
    Gibbs,
    Law,
    Leader,
    Scorer,
    Scores,
    ShiftedGaussian,
    Transcript,
    read_losses,
    spread,
)
from dpoco.losses import CustomLoss, LinearLoss
from dpoco.privacy.mechanisms.coupled_draws import (
    Always,
    Anchored,
    Dartboard,
    GibbsDraw,
    Maximal,
    TiltedMinimum,
    Window,
)
from dpoco.random import Source

# Index of uniform variates in the counts of `variates_drawn`; the kinds are those of
# `dpoco.random`.
_UNIFORM = 1


# ---- coins and coupled draws ---------------------------------------------------------------------


class Coupled(Family):
    """Decisions that stay-or-switch bits keep or draw afresh.

    A bit after each block decides whether the point is kept. Its probability is a product of
    factors, one per round, each a function of the point and the loss. A record may change the
    factor of its round by the declared span, and later factors by what
    ``docs/privacy/couplings.md`` allows for the coupling.
    """

    schedule = "published"

    def rounds(self, stream: Stream) -> Rounds:
        """Return the stream, or the list of loss objects of a custom loss."""
        if not isinstance(self.learner.loss, CustomLoss):
            return super().rounds(stream)
        objects, *others = split_parts(stream)
        if others:
            raise ValueError("stream must be one array of loss objects")
        if not isinstance(objects, Sequence):
            raise TypeError("stream must be a list of loss objects")
        return Rounds((list(objects),))

    def is_empty(self, record: Record) -> bool:
        """Whether a record may count as empty; for a custom loss, any object may."""
        # The object of a custom loss decides whether it is empty.
        return isinstance(self.learner.loss, CustomLoss) or super().is_empty(record)

    def publication(self, learner: Learner, decision: Decision) -> object:
        """Return the decision and the number of fresh draws, which a run also publishes."""
        # `==` compares bytes as a whole, but arrays entry by entry.
        return decision.tobytes(), int(learner.switches)

    def before(self, learner: Learner, decision: Decision, record: Record, play: Play) -> None:
        """Note the point at which the round's factor is computed."""
        play.note(point=learner._engine.nonprivate_point().tobytes())

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Note the round's factor and whether a point was drawn; return the variates due."""
        engine = learner._engine
        factor = getattr(engine, "nonprivate_log_factor", None) or engine.nonprivate_log_ratio
        moved = bool(engine.switches != play.memory.get("switches", 0))
        play.memory["switches"] = engine.switches
        play.note(factor=float(factor()), moved=moved)
        if self._is_summed:  # without noise and barrier, a leader solves for the sum
            zero = np.zeros(self.mechanism.losses.dimension)
            play.note(solved=np.array(engine.nonprivate_solve(zero)))
        play.findings += self._consumption(play, t)
        return moved

    @property
    def _is_summed(self) -> bool:
        """Whether the learner is a leader on sums of gradients, which can be compared."""
        learner = self.learner
        leads = isinstance(self.mechanism.draw, TiltedMinimum)
        return leads and isinstance(learner.loss, LinearLoss) and bool(learner.guarantee.private)

    def _consumption(self, play: Play, t: int) -> Iterator[str]:
        """Yield rounds without a draw that used more than their coin."""
        m = self.mechanism
        used = np.subtract(play.variates[t + 1], play.variates[t])
        ends = (t + 1) % m.block == 0 and t + 1 < m.rounds
        # The last block decides nothing, and at the cap no bit is drawn
        # (docs/privacy/couplings.md).
        decides = ends and sum(play.notes["moved"][:t]) < self._cap
        if play.notes["moved"][t]:
            if not decides:
                yield f"round {t}: a draw where none may be"
            return
        coin = int(decides and m.keep.forced < 1.0)
        if int(used.sum()) != int(used[_UNIFORM]) or used[_UNIFORM] > coin:
            yield f"round {t}: variates drawn without a coin or draw that would need them"

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the movements of sums and factors while history and point are equal.

        Factors must be equal before the changed round. In this round they may move by their span.
        After it they may not move at all (dartboard, anchored), or by the shift of the window.
        """
        found, keep = self.learner.guarantee, self.mechanism.keep
        notes, shift = (base.notes, other.notes), found.details.get("later_bit_shift")
        if self._is_summed:
            for t, (ours, theirs) in enumerate(zip(*(x["solved"] for x in notes), strict=True)):
                if not (self._goes_on(t, base) and self._goes_on(t, other)):
                    break  # the last draw discards the sums
                moved = float(np.linalg.norm(ours - theirs))
                yield "the sum of gradients", moved, float(found.sensitivity or 0.0)
        for t in range(len(base.notes["factor"])):
            same = base.published[: t + 1] == other.published[: t + 1]
            # Factors are functions of the point, so they are compared while history and point are
            # equal.
            if not same or notes[0]["point"][t] != notes[1]["point"][t]:
                return
            moved = abs(notes[0]["factor"][t] - notes[1]["factor"][t])
            if not np.isfinite(moved):
                moved = np.inf
            if t < at:
                yield "factors before the changed round", moved, 0.0
            elif t == at:
                if (span := self._span()) is not None:
                    yield "the changed round's log factor", moved, span
            elif isinstance(keep, Dartboard | Anchored):
                # The proof allows no shift here (c = 0 in docs/privacy/couplings.md); the bound is
                # for rounding.
                yield "later log factors", moved, 1e-9
            elif isinstance(keep, Window) and shift is not None and self._is_used(t, base):
                yield "later log factors", moved, float(shift) * (1.0 + 1e-6)

    @property
    def _cap(self) -> float:
        """Largest number of fresh draws of a run; infinite without a cap."""
        most = self.mechanism.cap
        return math.inf if most is None else float(most)

    def _goes_on(self, t: int, play: Play) -> bool:
        """Whether a draw may follow after round t."""
        more: bool = t + self.mechanism.block < self.mechanism.rounds
        return more and sum(play.notes["moved"][: t + 1]) < self._cap

    def _is_used(self, t: int, play: Play) -> bool:
        """Whether the factor of round t affects a coin."""
        return self._goes_on(t, play) and bool(self.mechanism.keep.forced < 1.0)

    def _span(self) -> float | None:
        """Return how far one loss may move its own factor; None if the factor is not clipped."""
        m = self.mechanism
        if isinstance(m.keep, Always | Maximal) or not isinstance(m.draw, GibbsDraw):
            return None  # the compared ratio is not clipped
        return float(m.keep.log_floor(m.draw))

    def facts(self) -> dict[str, bool]:
        """Return whether all draws that the cap allows were made."""
        learner = self.learner
        return {"the cap on switches": learner.switches == self.mechanism.cap}


@dataclass(frozen=True)
class _Run:
    """One run, split into blocks.

    Attributes
    ----------
    points : ndarray of float64, shape (blocks, d)
        The point of each block.
    switched : ndarray of bool, shape (blocks - 1,)
        Whether the point after each block was drawn afresh.
    anchors : ndarray of float64, shape (blocks,)
        Mean of the anchors, for the anchored coupling.
    stray : bool
        Whether a draw occurred that is not at the end of a block.
    """

    points: FloatArray
    switched: NDArray[np.bool_]
    anchors: FloatArray
    stray: bool


class Transcripts(Scorer):
    """Transcripts of coupled draws on an interval about 0.

    For linear losses without a boundary, in any dimension.
    """

    def __init__(self, family: Coupled, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        m = self.mechanism
        if len(self.streams[0]) != m.rounds:
            raise ValueError(f"stream must have all of the horizon's {m.rounds} rounds")
        if isinstance(m.keep, Anchored) and not isinstance(self.learner.loss, LinearLoss):
            raise ValueError("the anchored coupling is known here for linear losses only")
        self._blocks = -(-m.rounds // m.block)
        self._laws = [self._law(each.parts) for each in self.streams]

    def _law(self, parts: Record) -> Law:
        """Return the law of fresh draws on a stream; `ValueError` if it is not known.

        Linear losses without a boundary have Gaussian draws in any dimension. All other laws are
        computed on an interval, by quadrature or a change of variables.
        """
        learner, m = self.learner, self.mechanism
        linear, draw = isinstance(learner.loss, LinearLoss), m.draw
        weights = isinstance(draw, GibbsDraw)
        if linear and (not weights or draw.half_width == math.inf):
            rows = parts[0]
            # The law below uses the rows unchanged, but the learner would clip longer ones.
            if not np.all(np.linalg.norm(rows, axis=1) <= learner.loss.gradient_bound):
                raise ValueError("the records of a likelihood audit must be within their bounds")
            if weights:
                # exp(-beta (<S, x> + lambda ||x||^2 / 2)) is the density of N(-S / lambda, I /
                # (beta lambda)).
                sigma = 1.0 / math.sqrt(draw.inverse_temperature * draw.regularization)
                return ShiftedGaussian(rows, sigma, -1.0 / draw.regularization)
            if rows.shape[1] > 1:
                raise ValueError("the leader's law is known here in one dimension only")
            return ShiftedGaussian(rows, draw.noise, 1.0)
        # All other laws are computed on an interval about 0, in one dimension.
        losses = read_losses(learner.loss, parts)
        center, half = learner.domain.center, learner.domain.radius_from_center()
        if np.any(center != 0.0):
            raise ValueError("the domain of a likelihood audit must be an interval about 0")
        if weights:
            return Gibbs(losses, draw.inverse_temperature, draw.regularization, half)
        return Leader(losses, draw.step, draw.noise, learner.plan.tuning.barrier_weight, half)

    def run(self, learner: Learner, world: int, tape: Source) -> _Run:
        """Play all rounds, and read the points and the bits from the engine."""
        m, engine = self.mechanism, learner._engine
        points = np.empty((self._blocks, m.losses.dimension))
        switched = np.zeros(self._blocks - 1, dtype=bool)
        anchors = np.zeros(self._blocks)
        before, stray = 0, False
        for t in range(m.rounds):
            learner.decide()
            if t % m.block == 0:
                points[t // m.block] = engine.nonprivate_point()
                if isinstance(m.keep, Anchored):
                    anchors[t // m.block] = engine.nonprivate_anchor_mean()[0]
            learner.observe(*self.streams[world].record(t))
            if engine.switches != before:
                before = engine.switches
                if (t + 1) % m.block == 0 and t + 1 < m.rounds:
                    switched[t // m.block] = True
                else:
                    stray = True
        return _Run(points, switched, anchors, stray)

    def score(self, runs: list[_Run], world: int) -> Scores:
        """Return joint losses of bits and draws, and uniforms for the points and the bits.

        Uniforms have shape (runs, blocks, 2): the position of a draw in its law, and of a bit.
        """
        points = np.array([run.points for run in runs])
        switched = np.array([run.switched for run in runs])
        anchors = np.array([run.anchors for run in runs])
        if points.shape[2] == 1:
            points = points[:, :, 0]
        count = len(runs)
        # If nothing is drawn, the position is an independent uniform.
        jitter = Source.seeded(world).uniform(count * 2 * self._blocks)
        uniforms = jitter.reshape(count, self._blocks, 2).copy()
        uniforms[:, 0, 0] = self._laws[world].uniform(0, points[:, 0])
        own = self._likelihood(points, switched, anchors, world, uniforms)
        other = self._likelihood(points, switched, anchors, 1 - world, None)
        findings = ("switches where no block ends",) * any(run.stray for run in runs)
        # Runs that both laws forbid give inf - inf = NaN, which is detected below.
        with np.errstate(invalid="ignore"):
            losses = own - other
        if not np.all(np.isfinite(own)):
            findings += (IMPOSSIBLE,)
            losses = np.where(np.isfinite(losses), losses, np.inf)
        return Scores(losses, uniforms, findings)

    def _likelihood(
        self,
        points: FloatArray,
        switched: NDArray[np.bool_],
        anchors: FloatArray,
        world: int,
        uniforms: FloatArray | None,
    ) -> FloatArray:
        """Return the log-likelihood of every run's coins and draws under a stream.

        Also write the positions of draws and coins in their laws to `uniforms`, (runs, blocks, 2).

        Parameters
        ----------
        points, switched, anchors : ndarray
            Of all runs, as in `_Run`, with the runs on the first axis.
        world : int
            Stream whose law is used: 0 for the stream, 1 for the neighbour.
        uniforms : ndarray or None
            None computes the likelihood only.
        """
        m, law, runs = self.mechanism, self._laws[world], len(points)
        forced = m.keep.forced
        total = np.zeros(runs)
        anchors_kept = getattr(self.learner.plan.tuning, "anchors", 0)
        births = np.zeros((runs, anchors_kept))  # rounds of the anchors, oldest first
        born, used = np.zeros(runs), np.zeros(runs, dtype=int)  # of the current point; draws so far
        cap = math.inf if m.cap is None else m.cap
        for k in range(self._blocks - 1):
            end = (k + 1) * m.block
            log_stay = np.full(runs, math.log1p(-forced) if forced < 1.0 else 0.0)
            free = np.zeros(runs, dtype=bool)  # whether a public trigger switches without a coin
            for t in range(k * m.block, end):
                factor, free = self._factor(law, t, points[:, k], anchors[:, k], births)
                log_stay += factor
            open_, moved = used < cap, switched[:, k]
            if forced < 1.0:
                # A switch with probability 0 has log-likelihood -inf.
                with np.errstate(divide="ignore"):
                    bit = np.where(moved, np.log(-np.expm1(log_stay)), log_stay)
                total += np.where(open_ & ~free, bit, 0.0)
                # A public trigger always switches, so a run that stayed is impossible.
                total[open_ & free & ~moved] = -math.inf
            else:
                total[open_ & ~moved] = -math.inf
            # No switch may follow the last one that the cap allows.
            total[~open_ & moved] = -math.inf
            total += np.where(moved, law.log_density(end, points[:, k + 1]), 0.0)
            if uniforms is not None:
                place = law.uniform(end, points[:, k + 1])
                uniforms[:, k + 1, 0] = np.where(moved, place, uniforms[:, k + 1, 0])
                stay = np.exp(log_stay) if forced < 1.0 else np.zeros(runs)
                chances = np.stack([stay, 1.0 - stay], axis=1)
                coin = spread(chances, moved.astype(np.int64), uniforms[:, k + 1, 1])
                tossed = open_ & ~free & (forced < 1.0)
                uniforms[:, k + 1, 1] = np.where(tossed, coin, uniforms[:, k + 1, 1])
            if births.shape[1]:
                births[moved] = np.hstack([births[moved, 1:], born[moved, None]])
            born[moved] = end
            used += moved
        return total

    def _factor(
        self, law: Law, t: int, at: FloatArray, anchor: FloatArray, births: FloatArray
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the log acceptance factors of round t and whether a switch is forced.

        Parameters
        ----------
        law : Law
            Law of fresh draws on this stream.
        t : int
            Round, counted from 0.
        at, anchor : ndarray, shape (runs,)
            Points, and means of the anchors.
        births : ndarray, shape (runs, anchors)
            Rounds in which the anchors were drawn.
        """
        keep = self.mechanism.keep
        never = np.zeros(len(at), dtype=bool)
        if isinstance(keep, Always):
            return np.zeros(len(at)), never
        if isinstance(keep, Window):
            high, low = keep.high, keep.low
            return np.clip(law.log_ratio(t, at) - high, -high - low, 0.0), never
        assert isinstance(law, Gibbs)
        loss = law.losses[t]
        if isinstance(keep, Dartboard):
            ends = np.array([-law.half, law.half])
            least = float(loss.value(ends).min())  # enough for monotone losses
            if not isinstance(self.learner.loss, LinearLoss):
                # For other losses, search the minimum on a grid, with an error of the square of its
                # step.
                grid = np.linspace(-law.half, law.half, 20_001)
                least = float(loss.value(grid).min())
            excess = -law.beta * (loss.value(at) - least)
            return np.clip(excess, -law.beta * keep.span, 0.0), never
        g = self.mechanism.losses.lipschitz * math.sqrt(law.beta / law.lam)
        width = self._anchor_width(g, t + 1, births)
        excess = -law.beta * (loss.value(at) - loss.value(anchor))
        excess = excess - np.minimum(width, keep.width)
        return np.clip(excess, -2.0 * keep.width, 0.0), width > keep.width

    def _anchor_width(self, g: float, turn: int, births: FloatArray) -> FloatArray:
        """Return the shift of an anchored bit; see docs/privacy/gibbs_draws.md."""
        from scipy.optimize import brentq

        m = self.mechanism
        error = m.keep.forced / (2.0 * m.block * m.rounds)

        def excess(x: float) -> float:
            return math.log(g / x) - 0.5 * x * x - math.log(error)

        x = brentq(excess, 1e-9, 60.0, xtol=1e-14)
        z = math.sqrt(2.0 * math.log(2.0 * m.rounds**3))
        age = turn - births.mean(axis=1)
        count = self.learner.plan.tuning.anchors
        return np.asarray(x * g + z * g / math.sqrt(count) + g * g * age)


# ---- coins and fresh draws of experts ------------------------------------------------------------


class Tracker(Family):
    """Coins and fresh draws: a record changes one coin and the law of later fresh draws.

    There is one coin per batch of losses, and the probability to stay falls with the loss of the
    played expert. A fresh draw has the law of the tracked weights, which a record changes by a
    factor of at most exp(2 rate).
    """

    schedule = "published"

    def publication(self, learner: Learner, decision: Decision) -> object:
        """Return the expert and the number of fresh draws."""
        return decision, int(learner.resamples)

    def before(self, learner: Learner, decision: Decision, record: Record, play: Play) -> None:
        """Note the probability to stay, the law of a fresh draw, and the played expert's loss."""
        losses, engine = admit(learner, record[0]), learner._engine
        keep, law, _ = engine.nonprivate_kernel(losses)
        play.note(keep=float(keep), law=np.array(law), state=engine.nonprivate_state())
        play.note(lost=float(losses[decision]))

    def after(self, learner: Learner, t: int, answer: Decision, play: Play) -> int:
        """Return 1, for the coin, at the end of a batch if more rounds and draws may follow."""
        m, (_, drawn) = self.mechanism, play.published[-1]
        ends = (t + 1) % m.batch == 0
        more = learner.round < learner.horizon and learner.experts > 1
        left = m.cap is None or drawn < m.cap
        return int(ends and more and left and learner.guarantee.private)

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield the movement of coins and laws of fresh draws while history and state are equal."""
        promised: Any = self.learner.guarantee.description
        rate, batch = promised.learning_rate, promised.batch
        for t in range(len(base.notes["keep"])):
            same = base.published[: t + 1] == other.published[: t + 1]
            if not same or base.notes["state"][t] != other.notes["state"][t]:
                return
            pairs = base.notes["keep"][t], other.notes["keep"][t]
            moved = abs(float(np.diff(np.log(pairs))[0])) if min(pairs) > 0.0 else 0.0
            # Only the coin of the record's own batch may depend on the record.
            own = at // batch == t // batch and t >= at
            name = "the coin of its batch" if own else "coins of other batches"
            yield name, moved, rate if own else rate * 1e-9
            if t >= at:
                with np.errstate(divide="ignore", invalid="ignore"):
                    change = np.log(base.notes["law"][t]) - np.log(other.notes["law"][t])
                seen = change[np.isfinite(change)]
                reach = float(np.ptp(seen)) if seen.size else 0.0
                yield "the law of fresh draws, range of its logarithm", reach, 2.0 * rate

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield coins that are forced less often, and draws that are more, than promised."""
        promised: Any = self.learner.guarantee.description
        for play in (base, other):
            if not self._stays(play) <= (1.0 - promised.forced) * (1.0 + 1e-9):
                # The least probability of a switch bounds the odds of a switch.
                yield "a coin stays with a larger chance than was promised"
            if promised.cap is not None and play.published[-1][1] > promised.cap:
                yield "there are more fresh draws than were promised"

    def _stays(self, play: Play) -> float:
        """Return the largest probability to stay if nothing were lost."""
        m, most = self.mechanism, 0.0
        for t, due in enumerate(play.due):
            if due:
                lost = sum(play.notes["lost"][t + 1 - m.batch : t + 1])
                most = max(most, play.notes["keep"][t] * float(np.exp(m.learning_rate * lost)))
        return most

    def facts(self) -> dict[str, bool]:
        """Return whether all fresh draws that the cap allows were made."""
        learner = self.learner
        return {"the cap on fresh draws": learner.resamples == self.mechanism.cap}


class TrackedPaths(FiniteScorer):
    """The experts of all rounds, and which of them were drawn afresh.

    The number of switches of a path is not released, so we track its law given the releases.

    Raises
    ------
    ValueError
        If the stream does not have all rounds of a fixed horizon, or for less than two experts.
    """

    family: Tracker

    def __init__(self, family: Tracker, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        learner, m = self.learner, self.mechanism
        if learner.experts < 2 or m.horizon is None or len(self.streams[0]) != m.horizon:
            raise ValueError(
                "stream must have all of the horizon's rounds, of at least two experts"
            )
        self._losses = [admit(family.learner, each.parts[0]) for each in self.streams]
        self._levels = (
            min(learner.plan.tuning.switches, m.horizon - 1) + 1 if m.prior == "at_most" else 1
        )
        # Laws of a fresh draw in every round, by (switches so far, expert).
        self._laws = [self._fresh(each) for each in self._losses]
        # Probability of a switch after each round, by switches so far.
        self._moves = [self._move(t) for t in range(m.horizon)]

    def _ways(self, steps: int) -> FloatArray:
        """Return the number of continuations of a path, by switches so far; 1 for Markov chains."""
        if self.mechanism.prior != "at_most":
            return np.ones(1)
        others = self.learner.experts - 1
        ways = [float(math.comb(steps, k) * others**k) for k in range(self._levels)]
        return np.cumsum(ways)[::-1]

    def _fresh(self, losses: FloatArray) -> list[FloatArray]:
        """Return the law of a fresh draw in each round, by forward messages; each (levels, N).

        The weight of a path is its prior times exp(-rate * loss so far). Messages sum over all
        paths that end with an expert, and are normalised in each round so that they do not vanish.
        """
        m, n = self.mechanism, self.learner.experts
        messages = np.zeros((self._levels, n))
        # The first expert is drawn uniformly, before any loss is known.
        messages[0] = 1.0 / n
        laws = []
        for t, row in enumerate(losses):
            law = messages * self._ways(m.horizon - 1 - t)[:, None]
            laws.append(law / law.sum())
            tilted = messages * np.exp(-m.learning_rate * row)
            tilted /= tilted.sum()
            if m.prior == "at_most":
                messages = tilted.copy()
                messages[1:] += tilted[:-1].sum(axis=1, keepdims=True) - tilted[:-1]
            else:
                other = (m.share_rate or 0.0) / (n - 1)
                messages = (1.0 - (m.share_rate or 0.0) - other) * tilted + other
        return laws

    def _move(self, t: int) -> FloatArray:
        """Return the prior probability of a switch after round t, by switches so far; (levels,)."""
        m = self.mechanism
        if m.prior != "at_most":
            return np.array([m.share_rate or 0.0])
        steps = m.horizon - 1 - t
        if steps < 1:
            return np.zeros(self._levels)
        ways, before = self._ways(steps - 1), self._ways(steps)
        return (self.learner.experts - 1) * np.append(ways[1:], 0.0) / before

    def cells(self, transcript: Transcript, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the laws of (fresh or kept, expert) in each round, given the path so far.

        A kept path continues by the prior, so it may also switch. Only the flag distinguishes this
        from a fresh draw of another expert.
        """
        # Experts and flags of all rounds. The cells of kept paths come first.
        experts, drawn = zip(*transcript, strict=True)
        fresh = np.diff(drawn) > 0
        m, n, rows = self.mechanism, self.learner.experts, self._losses[world]
        cells = np.zeros((m.horizon, 2 * n))
        cells[0, :n] = 1.0 / n
        chosen = np.array(experts) + n * np.concatenate([[False], fresh])
        belief = np.zeros(self._levels)  # law of the number of switches so far
        belief[0] = 1.0
        draws, cap = 0, math.inf if m.cap is None else m.cap
        for t in range(m.horizon - 1):
            keep = 1.0
            if (t + 1) % m.batch == 0 and draws < cap:
                batch = range(t + 1 - m.batch, t + 1)
                lost = sum(rows[s, experts[s]] for s in batch)
                keep = (1.0 - m.forced) * math.exp(-m.learning_rate * lost)
            law = self._laws[world][t + 1]
            cells[t + 1, n:] = (1.0 - keep) * law.sum(axis=0)
            move = self._moves[t]
            switching = float(belief @ move)
            cells[t + 1, :n] = keep * switching / (n - 1)
            cells[t + 1, experts[t]] = keep * (1.0 - switching)
            if fresh[t]:
                belief, draws = law[:, experts[t + 1]], draws + 1
            elif experts[t + 1] == experts[t]:
                belief = belief * (1.0 - move)
            # The prior `share` has one level, so nothing needs to be tracked.
            elif self._levels > 1:
                belief = np.append(0.0, (belief * move)[:-1])
            total = belief.sum()
            # A total of 0 means that this law forbids the path, which a cell has already recorded.
            # Then any belief is fine.
            belief = belief / total if total > 0.0 else np.ones(self._levels) / self._levels
        return cells, chosen

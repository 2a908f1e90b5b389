"""The coupled learners: coins, draws, and likelihoods of whole transcripts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray
from dpoco.audit._family import (
    IMPOSSIBLE,
    Change,
    Family,
    Play,
    Scorer,
    Scores,
    spread,
)
from dpoco.audit._laws import Gibbs, Law, Leader, ShiftedGaussian, read_losses
from dpoco.audit._playing import Rounds, split_parts
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

_UNIFORM = 1


class Coupled(Family):
    """Decisions that are kept, or drawn afresh, by stay-or-switch bits."""

    schedule = "published"

    def rounds(self, stream: Any) -> Rounds:
        if not isinstance(self.learner.loss, CustomLoss):
            return super().rounds(stream)
        objects, *others = split_parts(stream)
        if others:
            raise ValueError("stream must be one array of loss objects")
        if not isinstance(objects, Sequence):
            raise TypeError("stream must be a list of loss objects")
        return Rounds((list(objects),))

    def is_empty(self, record: tuple[Any, ...]) -> bool:
        # What an empty custom loss is, its object says.
        return isinstance(self.learner.loss, CustomLoss) or super().is_empty(record)

    def publication(self, learner: Any, decision: Any) -> Any:
        return decision.tobytes(), int(learner.switches)

    def ask(self, learner: Any, decision: Any, record: tuple[Any, ...], play: Play) -> None:
        play.note(point=learner._engine.nonprivate_point().tobytes())

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        engine = learner._engine
        factor = getattr(engine, "nonprivate_log_factor", None) or engine.nonprivate_log_ratio
        moved = bool(engine.switches != play.memory.get("switches", 0))
        play.memory["switches"] = engine.switches
        play.note(factor=float(factor()), moved=moved)
        if self._is_summed:  # what a leader without noise and barrier solves is the sum
            zero = np.zeros(self.mechanism.losses.dimension)
            play.note(solved=np.array(engine.nonprivate_solve(zero)))
        play.findings += self._consumption(play, t)
        return moved

    @property
    def _is_summed(self) -> bool:
        learner = self.learner
        leads = isinstance(self.mechanism.draw, TiltedMinimum)
        return leads and isinstance(learner.loss, LinearLoss) and bool(learner.guarantee.private)

    def _consumption(self, play: Play, t: int) -> Iterator[str]:
        """Yield where a round without a draw used more than its coin."""
        m = self.mechanism
        used = np.subtract(play.variates[t + 1], play.variates[t])
        ends = (t + 1) % m.block == 0 and t + 1 < m.rounds
        decides = ends and sum(play.notes["moved"][:t]) < self._cap
        if play.notes["moved"][t]:
            if not decides:
                yield f"round {t}: a draw where none may be"
            return
        coin = int(decides and m.keep.forced < 1.0)
        if int(used.sum()) != int(used[_UNIFORM]) or used[_UNIFORM] > coin:
            yield f"round {t}: variates drawn without a coin or draw that would need them"

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        found, keep = self.learner.guarantee, self.mechanism.keep
        notes, shift = (base.notes, other.notes), found.details.get("later_bit_shift")
        if self._is_summed:
            for t, (ours, theirs) in enumerate(zip(*(x["solved"] for x in notes), strict=True)):
                if not (self._goes_on(t, base) and self._goes_on(t, other)):
                    break  # with the last draw, sums are given up
                moved = float(np.linalg.norm(ours - theirs))
                yield "the sum of gradients", moved, float(found.sensitivity)
        for t in range(len(base.notes["factor"])):
            same = base.published[: t + 1] == other.published[: t + 1]
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
                yield "later log factors", moved, 1e-9
            elif isinstance(keep, Window) and shift is not None and self._is_used(t, base):
                yield "later log factors", moved, float(shift) * (1.0 + 1e-6)

    @property
    def _cap(self) -> float:
        most = self.mechanism.cap
        return math.inf if most is None else float(most)

    def _goes_on(self, t: int, play: Play) -> bool:
        """Whether another draw may follow round t."""
        more: bool = t + self.mechanism.block < self.mechanism.rounds
        return more and sum(play.notes["moved"][: t + 1]) < self._cap

    def _is_used(self, t: int, play: Play) -> bool:
        """Whether the factor of round t decides over a coin."""
        return self._goes_on(t, play) and bool(self.mechanism.keep.forced < 1.0)

    def _span(self) -> float | None:
        m = self.mechanism
        if isinstance(m.keep, Always | Maximal) or not isinstance(m.draw, GibbsDraw):
            return None  # a ratio before it is clipped
        return float(m.keep.log_floor(m.draw))

    def facts(self) -> dict[str, bool]:
        learner = self.learner
        return {"the cap on switches": learner.switches == self.mechanism.cap}


# ---- likelihoods ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    points: FloatArray  # (blocks, d)
    switched: NDArray[np.bool_]  # (blocks - 1,)
    anchors: FloatArray  # (blocks,)
    stray: bool  # switched where no block ends


class Transcripts(Scorer):
    """Transcripts of coupled draws on an interval about 0.

    With linear losses and no boundary in any dimension.
    """

    def __init__(self, family: Coupled, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        m = self.mechanism
        if len(self.streams[0]) != m.rounds:
            raise ValueError(f"stream must have all of the horizon's {m.rounds} rounds")
        if isinstance(m.keep, Anchored) and not isinstance(self.learner.loss, LinearLoss):
            raise ValueError("the anchored coupling is known here for linear losses only")
        self._blocks = -(-m.rounds // m.block)
        self._laws = [self._law(each.parts) for each in self.streams]

    def _law(self, parts: tuple[Any, ...]) -> Law:
        learner, m = self.learner, self.mechanism
        linear, draw = isinstance(learner.loss, LinearLoss), m.draw
        weights = isinstance(draw, GibbsDraw)
        if linear and (not weights or draw.half_width == math.inf):
            rows = parts[0]
            if not np.all(np.linalg.norm(rows, axis=1) <= learner.loss.gradient_bound):
                raise ValueError("the records of a likelihood audit must be within their bounds")
            if weights:
                sigma = 1.0 / math.sqrt(draw.inverse_temperature * draw.regularization)
                return ShiftedGaussian(rows, sigma, -1.0 / draw.regularization)
            if rows.shape[1] > 1:
                raise ValueError("the leader's law is known here in one dimension only")
            return ShiftedGaussian(rows, draw.noise, 1.0)
        losses = read_losses(learner.loss, parts)
        center, half = learner.domain.center, learner.domain.radius_from_center()
        if np.any(center != 0.0):
            raise ValueError("the domain of a likelihood audit must be an interval about 0")
        if weights:
            return Gibbs(losses, draw.inverse_temperature, draw.regularization, half)
        return Leader(losses, draw.step, draw.noise, learner.plan.tuning.barrier_weight, half)

    def run(self, learner: Any, world: int, tape: Source) -> Any:
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

    def score(self, runs: list[Any], world: int) -> Scores:
        points = np.array([run.points for run in runs])
        switched = np.array([run.switched for run in runs])
        anchors = np.array([run.anchors for run in runs])
        if points.shape[2] == 1:
            points = points[:, :, 0]
        count = len(runs)
        # Where nothing is drawn, an independent uniform.
        jitter = Source.seeded(world).uniform(count * 2 * self._blocks)
        uniforms = jitter.reshape(count, self._blocks, 2).copy()
        uniforms[:, 0, 0] = self._laws[world].uniform(0, points[:, 0])
        own = self._likelihood(points, switched, anchors, world, uniforms)
        other = self._likelihood(points, switched, anchors, 1 - world, None)
        findings: tuple[str, ...] = ()
        findings += ("switches where no block ends",) if any(run.stray for run in runs) else ()
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

        And write the places of draws and coins in their laws to `uniforms`, (runs, blocks, 2).
        """
        m, law, runs = self.mechanism, self._laws[world], len(points)
        forced = m.keep.forced
        total = np.zeros(runs)
        anchors_kept = getattr(self.learner.plan.tuning, "anchors", 0)
        births = np.zeros((runs, anchors_kept))  # of the anchors, oldest first
        born, used = np.zeros(runs), np.zeros(runs, dtype=int)  # the current point's; draws so far
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
                with np.errstate(divide="ignore"):
                    bit = np.where(moved, np.log(-np.expm1(log_stay)), log_stay)
                total += np.where(open_ & ~free, bit, 0.0)
                total[open_ & free & ~moved] = -math.inf
            else:
                total[open_ & ~moved] = -math.inf
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
        """Return the log acceptance factors of round t and whether a switch is forced."""
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
            least = float(loss.value(ends).min())  # of monotone losses
            if not isinstance(self.learner.loss, LinearLoss):
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
        """Return by how much an anchored bit is lowered: see docs/privacy/couplings.md."""
        from scipy.optimize import brentq

        m = self.mechanism
        error = m.keep.forced / (2.0 * m.block * m.rounds)

        def excess(x: float) -> float:
            return math.log(g / x) - 0.5 * x * x - math.log(error)

        x = brentq(excess, 1e-9, 60.0, xtol=1e-14)
        z = math.sqrt(2.0 * math.log(2.0 * m.rounds**3))
        age = turn - births.mean(axis=1)
        count = self.learner.plan.tuning.anchors
        width: FloatArray = x * g + z * g / math.sqrt(count) + g * g * age
        return width

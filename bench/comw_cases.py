"""Rows of the table for continuous multiplicative weights, and the NumPy version they meet."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy_loops
from measurement import Row, compare, rate
from numpy.typing import NDArray
from scipy import special

import dpoco
from dpoco import _core
from dpoco.privacy.mechanisms.coupled_draws import (
    Always,
    Anchored,
    CoupledDraws,
    Dartboard,
    GibbsDraw,
    SmoothLosses,
    Window,
)

FloatArray = NDArray[np.float64]

BETA, LAM = 0.002, 500.0  # about those of 1e5 rounds at (epsilon, delta) = (1, 1e-6)
WIDTH = 0.02  # of density_ratio
KEEPS: dict[str, Always | Dartboard | Window | Anchored] = {
    "scheduled": Always(),
    "dartboard": Dartboard(0.05, 8.0),
    "density_ratio": Window(0.05, WIDTH, WIDTH),
    "anchored": Anchored(0.05, 0.05),
}
BLOCKS = {"scheduled": 16, "dartboard": 4, "density_ratio": 4, "anchored": 4}


class BoxWeights:
    """Gibbs draws of linear losses on [-1, 1]^d and their coupling, as a NumPy user writes it.

    Everything that does not need the current decision is computed for all rounds at once; the rest
    for many blocks at once, up to the next switch.
    """

    def __init__(self, coupling: str, *, seed: int = 1) -> None:
        self._coupling = coupling
        self._block, self._forced = BLOCKS[coupling], KEEPS[coupling].forced
        self._generator = np.random.default_rng(seed)
        self._scale = 1.0 / math.sqrt(BETA * LAM)

    def _draw(self, means: FloatArray) -> FloatArray:
        """Truncated normals by inversion of the log tail, with all means mirrored to below 0."""
        tail = special.log_ndtr((1.0 - np.abs(means)) / self._scale)
        far = special.log_ndtr((-1.0 - np.abs(means)) / self._scale)
        u = self._generator.random(means.shape)
        log_p = tail + np.log(u + (1.0 - u) * np.exp(far - tail))
        draws = -np.abs(means) - self._scale * special.ndtri_exp(log_p)
        points: FloatArray = np.clip(np.where(means > 0.0, -draws, draws), -1.0, 1.0)
        return points

    def _log_masses(self, means: FloatArray) -> FloatArray:
        # The mass of the mirror image is the same, and its upper end in the lower tail.
        low = (-1.0 - np.abs(means)) / self._scale
        high = (1.0 - np.abs(means)) / self._scale
        upper = special.log_ndtr(high)
        each = upper + np.log1p(-np.exp(special.log_ndtr(low) - upper))
        total: FloatArray = each.sum(axis=1)
        return total

    def run(self, gradients: FloatArray) -> FloatArray:
        """Return the decisions; their losses are computed too, as in a trace."""
        v = numpy_loops.clip_rows(gradients, 1.0)
        decisions = self._decisions(v)
        np.einsum("ij,ij->i", v, decisions)
        return decisions

    def _decisions(self, v: FloatArray) -> FloatArray:
        rounds, d = v.shape
        means = np.vstack([np.zeros(d), np.cumsum(v, axis=0)]) / -LAM
        block = self._block
        ends = np.arange(block, rounds, block)  # decisions are taken after these many rounds
        if self._coupling == "scheduled":
            points = self._draw(means[np.concatenate([[0], ends])])
            return np.repeat(points, np.diff(np.concatenate([[0], ends, [rounds]])), axis=0)
        # log factor = min(max(slope part + constant, low), 0)
        if self._coupling == "dartboard":
            constants = -BETA * np.abs(v).sum(axis=1)
            low = -BETA * 8.0
        else:
            squares = np.einsum("ij,ij->i", v, v)
            changes = -BETA * np.einsum("ij,ij->i", v, means[:-1]) + BETA / (2.0 * LAM) * squares
            constants = -changes - np.diff(self._log_masses(means)) - WIDTH
            low = -2.0 * WIDTH
        bars = np.log(self._generator.random(len(ends))) - math.log1p(-self._forced)
        decisions = np.empty((rounds, d))
        point, at, window = self._draw(means[0]), 0, 16
        while at < len(ends):
            stop = min(at + window, len(ends))
            part = slice(at * block, stop * block)
            factors = np.clip(-BETA * (v[part] @ point) + constants[part], low, 0.0)
            switching = bars[at:stop] >= factors.reshape(-1, block).sum(axis=1)
            first = int(np.argmax(switching))
            if not switching[first]:
                decisions[part] = point
                at = stop
                continue
            end = (at + first + 1) * block
            decisions[at * block : end] = point
            point = self._draw(means[end])
            at += first + 1
        decisions[at * block :] = point
        return decisions


def engine(
    domain: _core.Domain, d: int, coupling: str, rounds: int, kind: str = "linear"
) -> _core.ContinuousMultiplicativeWeights:
    bounds = SmoothLosses(d, 1.0, 0.0, 0) if kind == "linear" else SmoothLosses(d, 1.0, 0.25, 1)
    drawn = CoupledDraws(
        bounds, GibbsDraw(BETA, LAM, 1.0, 0.0), KEEPS[coupling], rounds, BLOCKS[coupling], None
    )
    tuning = {
        "anchors": 16 if coupling == "anchored" else 0, "clip_error": 1e-7, "chain": "automatic",
        "most_planes": 2000, "most_proposals": 2**64 - 1,
    }  # fmt: skip
    clipper = _core.RecordClipper(d, 1.0, 2.0, math.inf)
    losses: dict[str, Any] = {"kind": kind, "unbounded": False, "clipper": clipper}
    if kind == "glm":
        losses["glm"] = _core.GlmLoss("logistic", 1.0, 1.0, 0.0, 1.0)
    claim: _core.Claim = {"key": os.urandom(32), "stream": 0}
    return _core.ContinuousMultiplicativeWeights(domain, losses, drawn, tuning, claim)


def play(
    domain: _core.Domain, coupling: str, x: FloatArray, y: FloatArray | None = None
) -> FloatArray:
    """A whole run, first draw included, with everything a trace keeps."""
    rounds, d = x.shape
    decisions = np.empty_like(x)
    learner = engine(domain, d, coupling, rounds, "linear" if y is None else "glm")
    learner.run(x, y, np.empty(rounds), decisions, np.empty(rounds, dtype=np.uint8))
    return decisions


def domains(d: int) -> dict[str, _core.Domain]:
    return {"box": _core.Box(-np.ones(d), np.ones(d)), "ball": _core.LpBall(d, 2.0, 1.0)}


def records(rounds: int, d: int) -> FloatArray:
    """Rows of norm 0.5 to 1.5 that lean to one side, so that the laws move to the boundary."""
    generator = np.random.default_rng(d)
    rows = generator.standard_normal((rounds, d)) + 0.1
    rows *= (generator.uniform(0.5, 1.5, rounds) / np.linalg.norm(rows, axis=1))[:, None]
    return rows


def play_calibrated(
    calibrated: dpoco.oco.ContinuousMultiplicativeWeights, gradients: FloatArray
) -> None:
    # Not `clone`, which would calibrate again.
    fresh = type(calibrated)(
        calibrated.domain, calibrated.loss, horizon=calibrated.horizon, budget=None,
        plan=calibrated.plan,
    )  # fmt: skip
    fresh.run(gradients, record_decisions=False)


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    check_competitor()
    d = 10
    title = "Continuous multiplicative weights: rounds per second of CPU time"
    gradients = records(100_000 // shrink, d)
    for shape, domain in domains(d).items():
        for coupling in KEEPS:
            yield rate(
                title,
                f"linear losses, {shape}, {coupling}, d = {d}",
                partial(play, domain, coupling, gradients),
                units=len(gradients),
                repetitions=pairs,
                target=1e6 if shape == "box" else 1e5,
            )
    budget, horizon = dpoco.Budget(1.0, 1e-6), len(gradients)
    sets = {
        "box": dpoco.domains.Box(-np.ones(d), np.ones(d)),
        "ball": dpoco.domains.LpBall(d, 2.0, 1.0),
    }
    loss = dpoco.losses.LinearLoss(1.0, gradient_bound_l2=1.0)
    for shape, whole in sets.items():
        for coupling in ("auto", "density_ratio"):
            calibrated = dpoco.oco.ContinuousMultiplicativeWeights(
                whole, loss, horizon=horizon, budget=budget, coupling=coupling
            )
            yield rate(
                title,
                f"linear losses, {shape}, calibrated (epsilon = 1), {coupling}, d = {d}",
                partial(play_calibrated, calibrated, gradients),
                units=horizon,
                repetitions=pairs,
                target=1e6 if shape == "box" and coupling == "auto" else 1e5,
            )
    few = 2000 // min(shrink, 10)
    labels = (gradients[:few].sum(axis=1) > 0).astype(float)
    for coupling in ("scheduled", "dartboard", "anchored"):
        yield rate(
            title,
            f"logistic loss, ball, {coupling}, d = {d}",
            partial(play, domains(d)["ball"], coupling, gradients[:few], labels),
            units=few,
            repetitions=pairs,
            target=None,
        )
    for size in (1, 10, 100):
        gradients = records(20_000 // shrink, size)
        for coupling in ("scheduled", "dartboard", "density_ratio"):
            yield compare(
                "Continuous multiplicative weights on a box against NumPy (ns per round)",
                f"{coupling}, d = {size}",
                partial(play, domains(size)["box"], coupling, gradients),
                partial(BoxWeights(coupling).run, gradients),
                against="NumPy and SciPy, vectorised",
                units=len(gradients),
                pairs=pairs,
                instruction_set=dpoco.random.instruction_set(),
                # Without any decision to wait for NumPy does all rounds at once.
                target=None if (coupling, size) == ("scheduled", 1) else 1.0,
            )


def check_competitor() -> None:
    """Raise if the NumPy version has another law than ours: means of two decisions, switches."""
    rounds, runs = 400, 150
    gradients = records(rounds, 3)
    domain = domains(3)["box"]
    for coupling in ("scheduled", "dartboard", "density_ratio"):
        theirs = BoxWeights(coupling)
        found = []
        for version in (partial(play, domain, coupling), theirs.run):
            runs_of = [version(gradients) for _ in range(runs)]
            found.append(
                np.array([[*x[200], *x[-1], np.any(np.diff(x, axis=0), axis=1).sum()]
                          for x in runs_of])
            )  # fmt: skip
        error = np.sqrt((found[0].var(axis=0) + found[1].var(axis=0)) / runs) + 1e-12
        gap = np.abs(found[0].mean(axis=0) - found[1].mean(axis=0)) / error
        if gap.max() > 6.0:
            raise AssertionError(f"the NumPy version of {coupling} has another law")

"""How much noise is in what is released, round by round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting.generalized_gaussian import coordinate_variance
from dpoco.plotting._drawing import (
    Line,
    axes_for,
    draw,
    finish,
    labelled_decades,
    logarithmic_rounds,
    plain,
    short,
    shown_rounds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_noise"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_COLUMNS = 60


def plot_noise(
    sources: Mapping[str, Any],
    *,
    rounds: int | None = None,
    per_round: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the standard deviation of the noise in each round's release. Public: no data enter.

    Parameters
    ----------
    sources : mapping from label to learner, mechanism or callable
        `dpoco.mechanisms.ContinualSum`, a learner that releases from a continual sum
        (`NoisyFTRL`, `TreeFrankWolfe`, `PrefixHedge`, `LinUCB`, `LipschitzLearner`), or
        `CoupledRegularizedLeader`; or a function from rounds, shape (n,), to standard deviations,
        shape (n,).
    rounds : int, optional
        Rounds shown; default, and at most, the shortest horizon of the sources.
    per_round : bool, default False
        Divide by the number of the round: the noise in the mean instead of that in the sum.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        Logarithmic in both; the legend tells the largest noise, of means the last. Of one
        coordinate of the sum, in the units of what is summed: compare sources that sum the same.
        Lines are the root mean square of neighbouring rounds; where these differ much, as for
        "tree", a band shows their range.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError, TypeError
        If there are no sources, one of them is none of these or has no noise, or `rounds` is
        missing and needed, or beyond a horizon.

    Notes
    -----
    With batches, the noise of the rounds before the first update is 0 and not shown. Of more than
    2000 rounds a sample is shown.
    """
    if not sources:
        raise ValueError("there must be at least one source of noise")
    horizons = [n for n in (_horizon(source) for source in sources.values()) if n is not None]
    if rounds is None and not horizons:
        raise ValueError("rounds must be given: no source has a horizon")
    length = min(horizons) if rounds is None else positive_int("rounds", rounds)
    if horizons and length > min(horizons):
        raise ValueError(f"rounds must be at most {min(horizons)}, the shortest horizon")
    shown = shown_rounds(length)
    starts = np.unique(np.searchsorted(shown, np.geomspace(1, length, _COLUMNS)))
    stops = np.append(starts[1:], len(shown))
    centres = np.sqrt(shown[starts] * shown[stops - 1].astype(np.float64))
    axes = axes_for(ax)
    for index, (name, source) in enumerate(sources.items()):
        values = deviations(source, shown) / (shown if per_round else 1.0)
        if not values[-1] > 0.0:
            raise ValueError("a source adds no noise up to the last round")
        told = short(float(values[-1])) if per_round else f"at most {short(float(values.max()))}"
        values = np.where(values > 0.0, values, np.nan)
        groups = [values[a:b] for a, b in zip(starts, stops, strict=True)]
        middle = np.array([np.sqrt(np.mean(group**2)) for group in groups])
        low, high = (np.array([edge(group) for group in groups]) for edge in (np.min, np.max))
        line = Line(name, middle, *((low, high) if np.any(high > 1.2 * low) else (None, None)))
        draw(axes, index, line, centres, np.ones(len(centres)), np.zeros(len(centres)))
        axes.get_lines()[-1].set_label(f"{plain(name)}: {told}")
    logarithmic_rounds(axes, length)
    axes.set_xlim(1.0, max(2.0, float(length)))  # here the first rounds do say something
    axes.set_yscale("log")
    labelled_decades(axes.yaxis)
    what = "mean" if per_round else "sum"
    axes.set_ylabel(f"standard deviation of the noise in the {what}")
    finish(axes)
    return axes


def deviations(source: Any, rounds: IntArray) -> FloatArray:
    """Return the standard deviation of a coordinate's noise at the end of rounds, shape (n,)."""
    p = getattr(source, "parameters", source)
    method = getattr(p, "method", getattr(p, "sum_method", None))
    if isinstance(method, str) and hasattr(p, "noise_scale"):
        batch = getattr(p, "batch", 1)
        horizon = getattr(p, "pushes", p.horizon // batch)
        at = np.minimum(rounds // batch, horizon)  # some leave out the last round
        row = np.zeros(len(rounds))
        row[at > 0] = continual_sum.row_norm(method, at[at > 0], horizon)
        order = getattr(p, "norm_order", 2.0)
        draw_variance = 1.0 if order == 2.0 else coordinate_variance(order, _dimension(source, p))
        if p.noise_scale == 0.0:
            return np.zeros(len(rounds))
        grid = continual_sum.release_grid(p.noise_scale)
        values: FloatArray = np.sqrt((p.noise_scale * row) ** 2 * draw_variance + grid**2 / 12.0)
        return np.where(at > 0, values, 0.0)
    if hasattr(p, "noise_growth"):
        grown = np.sqrt(np.maximum(rounds - 1, 0)) if p.noise_growth else np.ones(len(rounds))
        return np.asarray(p.noise_scale * grown, np.float64)
    if callable(source):
        values = np.asarray(source(rounds), np.float64)
        if values.shape != rounds.shape:
            raise ValueError(f"a source must return shape {rounds.shape}; got {values.shape}")
        return values
    raise TypeError(f"{type(source).__name__} releases no sum whose noise is known round by round")


def _horizon(source: Any) -> int | None:
    horizon = getattr(getattr(source, "parameters", source), "horizon", None)
    return None if horizon is None or not math.isfinite(horizon) else int(horizon)


def _dimension(source: Any, parameters: Any) -> int:
    if hasattr(parameters, "dimension"):
        return int(parameters.dimension)
    return int(source.domain.dimension)

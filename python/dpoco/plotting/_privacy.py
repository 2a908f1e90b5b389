"""Privacy curves: delta as a function of epsilon, as guarantees state it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpoco._validation import positive_float
from dpoco.accounting import Guarantee
from dpoco.plotting._drawing import axes_for, finish, look, plain, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["columns", "floor_of", "plot_privacy"]

Points = list[tuple[float, float]]

_SMALLEST, _PURE = 1e-20, 1e-5
_POINTS = 120
_REACH = 1.5  # the largest stated epsilon fills two thirds of the figure


def plot_privacy(
    guarantees: Guarantee | Mapping[str, Guarantee],
    *,
    largest_epsilon: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw delta as a function of epsilon: everything that guarantees state, at once.

    Parameters
    ----------
    guarantees : Guarantee, or mapping from label to Guarantee
        For example ``learner.guarantee``. Where Gaussian or zero-concentrated privacy or a profile
        is known, the curve is that of the release; a bare pair (epsilon, delta) is a step.
    largest_epsilon : float, optional
        Where the figure ends; default one and a half times the largest stated epsilon.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        Logarithmic in delta. A disc is the pair a guarantee states; a hollow diamond the pair that
        its calibration claims by its own argument. Points at delta = 0 lie on the lower edge.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError, TypeError
        If there are no guarantees, or for anything else.

    Notes
    -----
    Curves protect the same only for the same change, view and unit; where these differ between the
    guarantees, the legend tells them.
    """
    named = {"": guarantees} if isinstance(guarantees, Guarantee) else dict(guarantees)
    if not named:
        raise ValueError("there must be at least one guarantee")
    for one in named.values():
        if not isinstance(one, Guarantee):
            raise TypeError(f"guarantees must be of Guarantee; got {type(one).__name__}")
    if largest_epsilon is None:
        reach = _REACH * max([one.epsilon for one in named.values() if one.private], default=1.0)
        reach = max(reach, 1e-3)
    else:
        reach = positive_float("largest_epsilon", largest_epsilon)
    stated = [one.delta for one in named.values() if one.private and one.delta > 0.0]
    lowest = floor_of(0.1 * delta for delta in [*stated, _PURE])
    below = 1e-3 * lowest  # off the figure: where delta is 0
    parts = {(one.change, one.view, one.unit) for one in named.values() if one.private}
    axes = axes_for(ax)
    for index, (name, one) in enumerate(named.items()):
        colour, style = look(index)
        axes.plot(
            *columns((e, max(d, below)) for e, d in _curve(one, reach)),
            color=colour, linestyle=style, linewidth=1.8, zorder=3,
            label=_label(plain(name), one, told=len(parts) > 1),
        )  # fmt: skip
        if one.private and one.epsilon <= reach:
            axes.plot(
                one.epsilon, max(one.delta, lowest), marker="o", markersize=6, color=colour,
                clip_on=False, zorder=5,
            )  # fmt: skip
        if one.claimed is not None and one.claimed[0] <= reach:
            axes.plot(
                one.claimed[0], min(1.0, max(one.claimed[1], lowest)), marker="D", markersize=6,
                color=colour, markerfacecolor="white", clip_on=False, linestyle="none", zorder=6,
                label=f"{plain(name) or 'the calibration'} claims: epsilon = "
                f"{short(one.claimed[0])}, delta = {one.claimed[1]:.3g}",
            )  # fmt: skip
    axes.set_xlim(0.0, reach)
    axes.set_yscale("log")
    axes.set_ylim(lowest, 1.3)
    axes.set_xlabel("epsilon")
    axes.set_ylabel("delta(epsilon)")
    finish(axes)
    return axes


def _curve(one: Guarantee, reach: float) -> Points:
    """Return points of delta(epsilon), with both sides of the step at the stated epsilon."""
    grid = np.linspace(0.0, reach, _POINTS)
    if one.private and one.epsilon <= reach:
        grid = np.union1d(grid, [one.epsilon * (1.0 - 1e-9), one.epsilon])
    return [(float(epsilon), one.delta_at(float(epsilon))) for epsilon in grid]


def _label(name: str, one: Guarantee, *, told: bool) -> str:
    if not one.private:
        return f"{name}: no privacy" if name else "no privacy"
    text = f"epsilon = {short(one.epsilon)}, delta = {one.delta:.3g}"
    if told:
        text += f", {one.change} {one.unit}, seen by {one.view}"
    if not one.certified:
        text += ", not certified"
    return f"{name}: {text}" if name else text


def floor_of(deltas: Iterable[float]) -> float:
    """Return the power of ten below what is to be shown, within reason."""
    shown = [delta for delta in deltas if delta >= _SMALLEST]
    return float(10.0 ** math.floor(math.log10(min([*shown, 1e-2])) - 1e-9))


def columns(points: Iterable[tuple[float, float]]) -> tuple[Any, Any]:
    """Return first and second coordinates."""
    table = list(points)
    return [point[0] for point in table], [point[1] for point in table]

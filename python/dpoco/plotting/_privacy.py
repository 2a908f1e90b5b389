"""Figures of guarantees, of audits, and of noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from dpoco._validation import FloatArray, IntArray, positive_float, positive_int
from dpoco.accounting import Guarantee, sum_release
from dpoco.accounting.plan import Plan
from dpoco.evaluation.reports import sample_rounds
from dpoco.plotting import _drawing as drawing
from dpoco.privacy.mechanisms.coupled_draws import TiltedMinimum
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpoco.audit import AuditReport


Points = list[tuple[float, float]]

_SMALLEST, _PURE = 1e-20, 1e-5
_POINTS = 120
_REACH = 1.5  # the largest stated epsilon is at two thirds of the width


def plot_privacy(
    guarantees: Guarantee | Mapping[str, Guarantee],
    *,
    largest_epsilon: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw delta as a function of epsilon, from everything that guarantees state.

    Parameters
    ----------
    guarantees : Guarantee, or mapping from label to Guarantee
        For example ``learner.guarantee``. If Gaussian or zero-concentrated privacy or a profile is
        known, the curve is that of the release; a pair (epsilon, delta) without these is a step.
    largest_epsilon : float, optional
        Right end of the figure; default: one and a half times the largest stated epsilon.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        The delta axis is logarithmic. A disc is the pair stated by a guarantee; a hollow diamond is
        the pair that its calibration claims by its own argument. Points at delta = 0 are on the
        lower edge.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError, TypeError
        If there are no guarantees, or for anything else.

    Notes
    -----
    Equal curves only mean equal protection for the same change, view and unit. If these differ
    between the guarantees, the legend shows them.
    """
    named = {"": guarantees} if isinstance(guarantees, Guarantee) else dict(guarantees)
    if not named:
        raise ValueError("there must be at least one guarantee")
    for one in named.values():
        if not isinstance(one, Guarantee):
            raise TypeError(f"guarantees must be of Guarantee; got {type(one).__name__}")
    if largest_epsilon is None:
        reach = _REACH * max([one.epsilon for one in named.values() if one.private], default=1.0)
        # If all epsilons are 0, the axis would have no length.
        reach = max(reach, 1e-3)
    else:
        reach = positive_float("largest_epsilon", largest_epsilon)
    stated = [one.delta for one in named.values() if one.private and one.delta > 0.0]
    # The discs of stated deltas are a decade above the edge.
    lowest = lower_edge(0.1 * delta for delta in [*stated, _PURE])
    below = 1e-3 * lowest  # outside of the figure, for delta = 0
    parts = {(one.change, one.view, one.unit) for one in named.values() if one.private}
    axes = drawing.axes_for(ax)
    for index, (name, one) in enumerate(named.items()):
        colour, style = drawing.look(index)
        axes.plot(
            *_columns((e, max(d, below)) for e, d in _curve(one, reach)),
            color=colour, linestyle=style, linewidth=1.8, zorder=3,
            label=_label(drawing.plain(name), one, told=len(parts) > 1),
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
                label=f"{drawing.plain(name) or 'the calibration'} claims: epsilon = "
                f"{drawing.short(one.claimed[0])}, delta = {one.claimed[1]:.3g}",
            )  # fmt: skip
    return _finish_curves(axes, reach, lowest)


def _finish_curves(
    axes: Axes, reach: float, lowest: float, title: str = "", columns: int = 2
) -> Axes:
    """Finish axes of delta against epsilon, up to `reach` and down to `lowest`."""
    axes.set_xlim(0.0, reach)
    axes.set_yscale("log")
    axes.set_ylim(lowest, 1.3)
    axes.set_xlabel("epsilon")
    return drawing.finish(axes, "delta(epsilon)", title, columns)


def _curve(one: Guarantee, reach: float) -> Points:
    """Return points of delta(epsilon), with both sides of the step at the stated epsilon."""
    # Every point uses the exact accountant, so there are only as many as a smooth curve needs.
    grid = np.linspace(0.0, reach, _POINTS)
    if one.private and one.epsilon <= reach:
        # A pair without a curve is a step, which a grid could miss or draw as a slope.
        grid = np.union1d(grid, [one.epsilon * (1.0 - 1e-9), one.epsilon])
    return [(float(epsilon), one.delta_at(float(epsilon))) for epsilon in grid]


def _label(name: str, one: Guarantee, *, told: bool) -> str:
    """Return the legend text of a guarantee; with its unit if `told`."""
    if not one.private:
        return f"{name}: no privacy" if name else "no privacy"
    text = f"epsilon = {drawing.short(one.epsilon)}, delta = {one.delta:.3g}"
    if told:
        text += f", {one.change} {one.unit}, seen by {one.view}"
    if not one.certified:
        text += ", not certified"
    return f"{name}: {text}" if name else text


def lower_edge(deltas: Iterable[float]) -> float:
    """Return the power of ten below the displayed deltas, within limits.

    It is at most 0.01, so that a figure of pure guarantees also has an axis. Deltas below 1e-20 are
    not shown.
    """
    shown = [delta for delta in deltas if delta >= _SMALLEST]
    # A delta that is a power of ten should be above the edge and not on it.
    return float(10.0 ** math.floor(math.log10(min([*shown, 1e-2])) - 1e-9))


def _columns(points: Iterable[tuple[float, float]]) -> FloatArray:
    """Return first and second coordinates."""
    return np.reshape(list(points), (-1, 2)).T


# For each attack: name of its line, index of colour and style, marker.
_LOOKS = {
    "likelihood": ("likelihood audit, at least", 1, 1, "o"),
    "black box": ("black-box audit, at least", 2, 2, "s"),
}


def plot_audit(report: AuditReport, *, ax: Axes | None = None) -> Axes:
    """Draw delta as a function of epsilon: the claimed curve, and the bounds from the attacks.

    Every point of an attack's curve is a lower bound with the report's confidence. A point above
    the claimed curve refutes the claim. These attacks show nothing about the gap below the claimed
    curve.

    Parameters
    ----------
    report : AuditReport
        From `dpoco.audit.audit_learner`.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    Axes
        The delta axis is logarithmic, so points at delta = 0 are not shown.

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "dpoco[plot]"``.
    """
    axes = drawing.axes_for(ax)
    claim = report.claim
    shown = [point for point in report.claimed_curve if point[1] > 0.0]
    measured = {
        attack.name: [point for point in attack.points if point[1] > 0.0]
        for attack in report.attacks
        if attack.name in _LOOKS
    }
    proved = [point for points in measured.values() for point in points]
    lowest = lower_edge([claim.delta, *(delta for _, delta in proved)])
    reach = max([1.25 * claim.epsilon, 1e-3, *(epsilon for epsilon, _ in proved)])
    words = "published claim" if claim.published else "claim"
    label = f"{words}: epsilon = {drawing.short(claim.epsilon)}, delta = {claim.delta:.3g}"
    steps = [*shown]
    if steps and len(steps) < len(report.claimed_curve):  # falls to 0 at the claimed epsilon
        steps = [point for point in steps if point[0] < claim.epsilon]
        steps.append((claim.epsilon, lowest))
    axes.plot(
        *_columns(steps), color=drawing.COLOURS[0], linestyle=drawing.STYLES[0], linewidth=2.0,
        label=label, zorder=3,
    )  # fmt: skip
    if claim.published:
        own = claim.guarantee
        line = [(reach * i / 100, own.delta_at(reach * i / 100)) for i in range(101)]
        axes.plot(
            *_columns([point for point in line if point[1] > 0.0]), color=drawing.COLOURS[3],
            linestyle=drawing.STYLES[3], linewidth=1.4, zorder=2,
            label=f"stated here for this noise: epsilon = {drawing.short(own.epsilon)}",
        )  # fmt: skip
    for name, points in measured.items():
        text, colour, style, marker = _LOOKS[name]
        if points:
            axes.plot(
                *_columns(sorted(points)), color=drawing.COLOURS[colour],
                linestyle=drawing.STYLES[style], linewidth=1.4, marker=marker, markersize=4.0,
                label=text, zorder=4,
            )  # fmt: skip
    found = "no violation found" if report.powerful else "no power"
    title = f"{report.learner}: {'the claim is refuted' if report.violated else found}"
    return _finish_curves(axes, reach * 1.03, lowest, title, columns=1)


_COLUMNS = 60


def plot_noise(
    sources: Mapping[str, object],
    *,
    rounds: int | None = None,
    per_round: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the standard deviation of the noise in each round's release. Public: it uses no data.

    Parameters
    ----------
    sources : mapping from label to learner, mechanism or callable
        A continual sum, or a learner that releases from one or tilts its losses once; or a function
        from rounds, shape (n,), to standard deviations, shape (n,). Others are refused.
    rounds : int, optional
        Number of rounds to show; default and maximum: the shortest horizon of the sources.
    per_round : bool, default False
        Divide by the number of the round, which gives the noise in the mean instead of the sum.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        Both axes are logarithmic. The legend shows the largest noise, or for means the last one.
        The noise is that of one coordinate of the sum, in its units, so compare sources that sum
        the same quantity. Lines are the root mean square of neighbouring rounds. If these differ
        much, as for "tree", a band shows their range.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError, TypeError
        If there are no sources, if one of them is of another kind or has no noise, or if `rounds`
        is needed but missing, or exceeds a horizon.

    Notes
    -----
    With batches, the noise before the first update is 0 and not shown. If there are more than 400
    rounds, a sample is shown.
    """
    if not sources:
        raise ValueError("there must be at least one source of noise")
    horizons = [n for n in (_horizon(source) for source in sources.values()) if n is not None]
    if rounds is None and not horizons:
        raise ValueError("rounds must be given: no source has a horizon")
    length = min(horizons) if rounds is None else positive_int("rounds", rounds)
    if horizons and length > min(horizons):
        raise ValueError(f"rounds must be at most {min(horizons)}, the shortest horizon")
    shown = sample_rounds(length)
    starts = np.unique(np.searchsorted(shown, np.geomspace(1, length, _COLUMNS)))
    stops = np.append(starts[1:], len(shown))
    # Geometric means, for a logarithmic axis.
    centres = np.sqrt(shown[starts] * shown[stops - 1].astype(np.float64))
    axes = drawing.axes_for(ax)
    for index, (name, source) in enumerate(sources.items()):
        values = deviations(source, shown) / (shown if per_round else 1.0)
        if not values[-1] > 0.0:
            raise ValueError("a source adds no noise up to the last round")
        told = (
            drawing.short(float(values[-1]))
            if per_round
            else f"at most {drawing.short(float(values.max()))}"
        )
        # A logarithmic axis cannot show 0.
        values = np.where(values > 0.0, values, np.nan)
        groups = [values[a:b] for a, b in zip(starts, stops, strict=True)]
        middle = np.array([np.sqrt(np.mean(group**2)) for group in groups])
        low, high = (np.array([edge(group) for group in groups]) for edge in (np.min, np.max))
        line = drawing.Line(
            name, middle, *((low, high) if np.any(high > 1.2 * low) else (None, None))
        )
        drawing.draw(axes, index, line, centres, told)
    drawing.logarithmic_rounds(axes, length)
    axes.set_xlim(1.0, max(2.0, float(length)))  # the first rounds are informative here
    axes.set_yscale("log")
    drawing.labelled_decades(axes.yaxis)
    what = "mean" if per_round else "sum"
    return drawing.finish(axes, f"standard deviation of the noise in the {what}")


def deviations(source: object, rounds: IntArray) -> FloatArray:
    """Return the standard deviation of a coordinate's noise at the end of rounds, shape (n,).

    Parameters
    ----------
    source : object
        See `plot_noise`.
    rounds : ndarray of int, shape (n,)
        Counted from 1.

    Raises
    ------
    ValueError, TypeError
        If a function's result has another shape, and for objects without noise per round.
    """
    p = getattr(source, "plan", source)
    total = p.mechanism if isinstance(p, Plan) else None
    if isinstance(total, GaussianSum) and total.growth is None:
        at = np.minimum(rounds // total.batch, total.pushes)  # some do not use the last round
        found = np.zeros(len(rounds))
        if total.scale > 0.0:
            found[at > 0] = np.sqrt(sum_release.variance(total, at[at > 0]))
        return found
    draw = getattr(total, "draw", None)
    if isinstance(draw, TiltedMinimum):
        grown = draw.step == math.inf
        return draw.noise * (np.sqrt(np.maximum(rounds - 1, 0)) if grown else np.ones(len(rounds)))
    if callable(source):
        values = np.asarray(source(rounds), np.float64)
        if values.shape != rounds.shape:
            raise ValueError(f"a source must return shape {rounds.shape}; got {values.shape}")
        return values
    raise TypeError(f"{type(source).__name__} releases no sum whose noise is known round by round")


def _horizon(source: object) -> int | None:
    """Return the number of rounds of a source; None if it has none, such as a function."""
    horizon = getattr(source, "horizon", None)
    return None if horizon is None or not math.isfinite(horizon) else int(horizon)

"""The figure of an audit: what is claimed, and what was measured at least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpoco.plotting._drawing import COLOURS, STYLES, axes_for, finish, legend_below, short
from dpoco.plotting._privacy import columns, floor_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpoco.audit import AuditReport

__all__ = ["plot_audit"]

# Attack: what its line is called, index of colour and style, marker.
_LOOKS = {
    "likelihood": ("likelihood audit, at least", 1, 1, "o"),
    "black box": ("black-box audit, at least", 2, 2, "s"),
}


def plot_audit(report: AuditReport, *, ax: Any = None) -> Axes:
    """Draw delta as a function of epsilon: the claimed curve, and what the attacks prove.

    Every point of an attack's curve is a lower bound with the report's confidence. One above the
    claimed curve refutes the claim; the distance below it is what these attacks leave open.

    Parameters
    ----------
    report : AuditReport
        From `dpoco.audit.audit_learner`.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    Axes
        Logarithmic in delta: points at delta = 0 are not shown.

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "dpoco[plot]"``.
    """
    axes = axes_for(ax)
    claim = report.claim
    shown = [point for point in report.claimed_curve if point[1] > 0.0]
    measured = {
        attack.name: [point for point in attack.points if point[1] > 0.0]
        for attack in report.attacks
        if attack.name in _LOOKS
    }
    proved = [point for points in measured.values() for point in points]
    lowest = floor_of([claim.delta, *(delta for _, delta in proved)])
    reach = max([1.25 * claim.epsilon, 1e-3, *(epsilon for epsilon, _ in proved)])
    words = "published claim" if claim.published else "claim"
    label = f"{words}: epsilon = {short(claim.epsilon)}, delta = {claim.delta:.3g}"
    steps = [*shown]
    if steps and len(steps) < len(report.claimed_curve):  # falls to 0 at the claimed epsilon
        steps = [point for point in steps if point[0] < claim.epsilon]
        steps.append((claim.epsilon, lowest))
    axes.plot(
        *columns(steps), color=COLOURS[0], linestyle=STYLES[0], linewidth=2.0, label=label,
        zorder=3,
    )  # fmt: skip
    if claim.published:
        own = claim.guarantee
        line = [(reach * i / 100, own.delta_at(reach * i / 100)) for i in range(101)]
        axes.plot(
            *columns([point for point in line if point[1] > 0.0]), color=COLOURS[3],
            linestyle=STYLES[3], linewidth=1.4, zorder=2,
            label=f"stated here for this noise: epsilon = {short(own.epsilon)}",
        )  # fmt: skip
    for name, points in measured.items():
        text, colour, style, marker = _LOOKS[name]
        if points:
            axes.plot(
                *columns(sorted(points)), color=COLOURS[colour], linestyle=STYLES[style],
                linewidth=1.4, marker=marker, markersize=4.0, label=text, zorder=4,
            )  # fmt: skip
    axes.set_xlim(0.0, reach * 1.03)
    axes.set_yscale("log")
    axes.set_ylim(lowest, 1.3)
    axes.set_xlabel("epsilon")
    axes.set_ylabel("delta(epsilon)")
    axes.set_title(f"{report.learner}: {_title(report)}", loc="left", fontsize="medium")
    finish(axes)
    legend_below(axes, columns=1)
    return axes


def _title(report: AuditReport) -> str:
    if report.violated:
        return "the claim is refuted"
    return "no violation found" if report.powerful else "no power"

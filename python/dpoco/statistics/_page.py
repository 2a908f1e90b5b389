"""A page that shows releases: one self-contained HTML file, without scripts.

Charts are drawings in the file itself, with the table of their numbers behind each, so that the
page can be read without a network and by a screen reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from dpoco.accounting import Guarantee

__all__ = ["draw_page"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640.0, 220.0, 64.0, 28.0
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem;
  color: #1a1a1a; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; padding: 0; list-style: none; }
.figures li { border: 1px solid #ccc; border-radius: .4rem; padding: .6rem 1rem; }
.figures b { display: block; font-size: 2rem; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: #444; }
.band { fill: #9ecae1; opacity: .5; } .line { fill: none; stroke: #08519c; stroke-width: 1.5; }
.axis { stroke: #999; stroke-width: 1; }
.scroll { overflow-x: auto; max-height: 20rem; overflow-y: auto; }
table { border-collapse: collapse; } th, td { padding: .2rem .6rem; text-align: right; }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #111; }
  svg text { fill: #bbb; } .line { stroke: #9ecae1; } .band { fill: #08519c; } }
"""


class _Point(NamedTuple):
    when: str
    value: float | None
    low: float
    high: float


def draw_page(
    releases: Iterable[Mapping[str, Any]],
    guarantee: Guarantee | None,
    title: str = "Statistics",
) -> str:
    """Return a page with a chart for each number of some releases.

    Parameters
    ----------
    releases : iterable of mappings
        What `Release.to_dict` returned, in order.
    guarantee : Guarantee or None
        What all of them have.
    title : str
        Heading of the page.

    Returns
    -------
    str
        HTML that loads nothing.
    """
    series: dict[tuple[str, str, str, str], list[_Point]] = {}
    last: Mapping[str, Any] = {}
    for release in releases:
        last = release
        when = str(release["begin"] or release["interval"])
        for cell in release["cells"]:
            key = (cell["statistic"], cell["view"], cell["group"], cell["label"])
            point = _Point(when, cell["value"], cell["low"], cell["high"])
            series.setdefault(key, []).append(point)
    level = float(last.get("level", 0.95))
    body = [f"<h1>{escape(title)}</h1>", _latest(last)]
    if guarantee is not None:
        body.append(_promise(guarantee, level))
    body += [_chart(_name(*key), points, level) for key, points in series.items()]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def _name(statistic: str, view: str, group: str, label: str) -> str:
    parts = [statistic, label, f"in {group}" if group else "", f"({view})"]
    return " ".join(part for part in parts if part)


def _latest(release: Mapping[str, Any]) -> str:
    """Return the numbers of the last release in large figures."""
    if not release:
        return "<p>No interval has ended yet.</p>"
    items = []
    for cell in release["cells"]:
        name = _name(cell["statistic"], cell["view"], cell["group"], cell["label"])
        value = "unknown" if cell["value"] is None else f"{cell['value']:,.4g}"
        items.append(
            f"<li>{escape(name)}<b>{value}</b>{cell['low']:,.4g} to {cell['high']:,.4g}</li>"
        )
    when = escape(str(release["begin"] or f"interval {release['interval']}"))
    return f'<h2>Latest: {when}</h2><ul class="figures">{"".join(items)}</ul>'


def _promise(guarantee: Guarantee, level: float) -> str:
    """Return what is protected, and what the bands are."""
    said = escape(str(guarantee))
    return (
        f"<p>These numbers are differentially private (epsilon = {guarantee.epsilon:.3g}, delta = "
        f"{guarantee.delta:.3g}, {escape(guarantee.unit)}). Bands cover the number without noise "
        f"with probability {level:.0%}; they do not say how well these records stand for others."
        f"</p><details><summary>The whole guarantee</summary><pre>{said}</pre></details>"
    )


def _chart(name: str, points: Sequence[_Point], level: float) -> str:
    """Return a chart with a band, and the table of its numbers."""
    title = escape(name)
    known = [p for p in points if p.value is not None]
    drawing = "<p>The noise hides all values so far.</p>"
    if known:
        drawing = _drawing(name, points)
    rows = "".join(
        f"<tr><th scope='row'>{escape(p.when)}</th><td>{_format_value(p.value)}</td>"
        f"<td>{p.low:,.4g}</td><td>{p.high:,.4g}</td></tr>"
        for p in points
    )
    return (
        f"<section><h2>{title}</h2>{drawing}<details><summary>Table of {title}</summary>"
        "<div class='scroll' tabindex='0'><table><thead><tr><th scope='col'>begin</th>"
        f"<th scope='col'>value</th><th scope='col'>low, {level:.0%}</th>"
        f"<th scope='col'>high</th></tr></thead><tbody>{rows}</tbody></table></div></details>"
        "</section>"
    )


def _format_value(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.4g}"


def _drawing(name: str, points: Sequence[_Point]) -> str:
    known = [(i, p) for i, p in enumerate(points) if p.value is not None]
    low = min(p.low for _, p in known)
    high = max(p.high for _, p in known)
    if not high > low:
        low, high = low - 0.5, high + 0.5

    def place(i: int, y: float) -> str:
        x = _LEFT + (_WIDTH - _LEFT - 8.0) * (i + 0.5) / len(points)
        inner = _HEIGHT - _BOTTOM - 12.0
        return f"{x:.1f},{12.0 + inner * (high - y) / (high - low):.1f}"

    parts = []
    for part in _runs(known):
        ends = [place(i, p.high) for i, p in part] + [place(i, p.low) for i, p in part[::-1]]
        line = " ".join(place(i, p.value) for i, p in part if p.value is not None)
        parts.append(f'<polygon class="band" points="{" ".join(ends)}"/>')
        parts.append(f'<polyline class="line" points="{line}"/>')
    base = _HEIGHT - _BOTTOM
    texts = "".join(
        f'<text x="{_LEFT - 6:.0f}" y="{y:.0f}" text-anchor="end">{value:,.4g}</text>'
        for y, value in ((16.0, high), (base, low))
    )
    ends_text = (
        f'<text x="{_LEFT:.0f}" y="{_HEIGHT - 8:.0f}">{escape(points[0].when)}</text>'
        f'<text x="{_WIDTH - 8:.0f}" y="{_HEIGHT - 8:.0f}" text-anchor="end">'
        f"{escape(points[-1].when)}</text>"
    )
    latest = known[-1][1]
    said = escape(
        f"{name}: {len(points)} intervals, between {low:,.4g} and {high:,.4g}; latest value "
        f"{_format_value(latest.value)}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{said}">'
        f'<line class="axis" x1="{_LEFT:.0f}" y1="{base:.0f}" x2="{_WIDTH:.0f}" y2="{base:.0f}"/>'
        f"{''.join(parts)}{texts}{ends_text}</svg>"
    )


def _runs(known: Sequence[tuple[int, _Point]]) -> list[list[tuple[int, _Point]]]:
    """Return points in runs without gaps: a line does not cross unknown values."""
    runs: list[list[tuple[int, _Point]]] = []
    for i, point in known:
        if runs and runs[-1][-1][0] == i - 1:
            runs[-1].append((i, point))
        else:
            runs.append([(i, point)])
    return runs

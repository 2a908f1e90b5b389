"""A page that shows releases: a self-contained HTML file without scripts.

Charts are drawings in the file itself, each followed by the table of its numbers, so that the page
can be read without a network and by a screen reader.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from dpoco._validation import Fields
from dpoco.accounting import Guarantee

__all__ = ["draw_page"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 400.0, 190.0, 52.0, 24.0, 10.0
_STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --rule: #d0d7de; --line: #0b5394; --band: #bcd6ec; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem;
  color: var(--ink); background: #fff; }
h1 { font-size: 1.6rem; margin: .5rem 0; } h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; }
h3, figcaption { font-size: 1rem; font-weight: 600; margin: 0 0 .25rem; }
.soft, small, th[scope=row] { color: var(--soft); font-weight: 400; }
.cards, .charts { display: grid; gap: 1rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 16rem), 1fr)); }
.charts { grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); }
.cards section { border: 1px solid var(--rule); border-radius: .5rem; padding: .75rem 1rem; }
.cards ul { list-style: none; margin: 0; padding: 0; }
.cards li { display: grid; grid-template-columns: 1fr auto; column-gap: .75rem;
  align-items: baseline; border-top: 1px solid var(--rule); padding: .25rem 0; }
.cards li:first-child { border-top: 0; }
.cards b { font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.cards small { grid-column: 1 / -1; text-align: right; margin-top: -.25rem; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
.band { fill: var(--band); } .line { fill: none; stroke: var(--line); stroke-width: 1.6; }
.alone { stroke: var(--band); stroke-width: 3; } .dot { fill: var(--line); }
.axis { stroke: var(--rule); stroke-width: 1; }
.scroll { overflow: auto; max-height: 20rem; } pre { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .6rem; text-align: right; } summary { cursor: pointer; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9da7b1; --rule: #3d444d; --line: #79b8ff; --band: #1f3a57; }
  body { background: #0d1117; } }
"""

Series = tuple[str, str, str, str]


class _Point(NamedTuple):
    """A number of one release.

    Attributes
    ----------
    when : str
        Beginning of the interval, or its number.
    value : float or None
        None if the noise hides it.
    low, high : float
        Ends of its band, in the unit of the statistic.
    """

    when: str
    value: float | None
    low: float
    high: float


def draw_page(
    releases: Iterable[Fields], guarantee: Guarantee | None, title: str = "Statistics"
) -> str:
    """Return a page with a chart for each number of some releases.

    Parameters
    ----------
    releases : iterable of mappings
        Results of `Release.to_dict`, in order.
    guarantee : Guarantee or None
        The guarantee of all releases together.
    title : str
        Heading of the page.

    Returns
    -------
    str
        HTML that loads nothing.

    Notes
    -----
    Everything on the page is post-processing of releases, so publishing it costs no privacy. Names
    are escaped, so groups and labels of a stream cannot become markup. O(number of cells) in time
    and size. The colours follow the reader's dark or light scheme.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.statistics import Count, Monitor
    >>> budget = dpoco.Budget(1.0, 1e-6)
    >>> monitor = Monitor({"visits": Count()}, every=None, releases=3, budget=budget)
    >>> releases = [monitor.release().to_dict() for _ in range(3)]
    >>> page = dpoco.plotting.draw_page(releases, monitor.guarantee, "Visits")
    >>> page.startswith("<!DOCTYPE html>"), page.count("<svg")
    (True, 1)
    """
    series: dict[Series, list[_Point]] = {}
    last: Fields = {}
    for release in releases:
        last = release
        for cell in release["cells"]:
            key = (cell["statistic"], cell["view"], cell["group"], cell["label"])
            point = _Point(_when(release), cell["value"], cell["low"], cell["high"])
            series.setdefault(key, []).append(point)
    # All bands of a page have the same level, because one sentence explains them.
    level = float(last.get("level", 0.95))
    body = [f"<h1>{escape(title)}</h1>", _latest(last, series)]
    if guarantee is not None:
        body.append(_promise(guarantee, level))
    for statistic in dict.fromkeys(key[0] for key in series):
        own = [_chart(key, series[key], level) for key in series if key[0] == statistic]
        charts = "".join(own)
        body.append(f'<h2>{escape(statistic)}</h2><div class="charts">{charts}</div>')
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        "<body><main><article>\n" + "\n".join(body) + "\n</article></main></body></html>\n"
    )


def _when(release: Fields) -> str:
    """Return when an interval began, to the minute, or its number."""
    begin = release["begin"]
    return f"interval {release['interval']}" if begin is None else str(begin)[:16].replace("T", " ")


def _name(key: Series) -> str:
    """Return group, label and view in words, as far as they exist."""
    _, view, group, label = key
    return ", ".join(part for part in (group, label, view) if part)


def _latest(release: Fields, series: Mapping[Series, Sequence[_Point]]) -> str:
    """Return the numbers of the last release in large digits, with a card for each statistic."""
    if not release:
        return "<p>No interval has ended yet.</p>"
    cards = []
    names = list(dict.fromkeys(key[0] for key in series))
    pairs = dict.fromkeys(key[:2] for key in series)
    # Statistics in the order of the releases, with the views of each statistic together.
    for statistic, view in sorted(pairs, key=lambda pair: names.index(pair[0])):
        items = "".join(
            f"<li><span>{escape(', '.join(filter(None, key[2:])) or view)}</span>"
            f"<b>{_format(points[-1])}</b><small>{_format_band(points[-1])}</small></li>"
            for key, points in series.items()
            if key[:2] == (statistic, view)
        )
        heading = f'{escape(statistic)} <span class="soft">{escape(view)}</span>'
        cards.append(f"<section><h3>{heading}</h3><ul>{items}</ul></section>")
    return (
        f'<p class="soft">Latest interval: {escape(_when(release))}</p>'
        f'<div class="cards">{"".join(cards)}</div>'
    )


def _promise(guarantee: Guarantee, level: float) -> str:
    """Return the text about what is protected and what the bands are."""
    said = escape(str(guarantee))
    return (
        f"<p>These numbers are differentially private (epsilon = {guarantee.epsilon:.6g}, delta = "
        f"{guarantee.delta:.6g}, {escape(guarantee.unit)}). Bands cover the number without noise "
        f"with probability {_share(level)}; they do not say how well these records stand for "
        f"others.</p><details><summary>The whole guarantee</summary><pre>{said}</pre></details>"
    )


def _chart(key: Series, points: Sequence[_Point], level: float) -> str:
    """Return a chart with a band, and the table of its numbers."""
    name = escape(_name(key))
    known = [p for p in points if p.value is not None]
    drawing = "<p>The noise hides all values so far.</p>"
    if known:
        drawing = _drawing(f"{key[0]}, {_name(key)}", points)
    # The table also contains the unknown values, which the chart leaves out.
    rows = "".join(
        f"<tr><th scope='row'>{escape(p.when)}</th><td>{_format(p)}</td>"
        f"<td>{_round(p.low, p)}</td><td>{_round(p.high, p)}</td></tr>"
        for p in points
    )
    return (
        # The table can get the focus (`tabindex`), so that it can be scrolled with a keyboard.
        f"<figure><figcaption>{name}</figcaption>{drawing}"
        f"<details><summary>Table of {escape(key[0])}, {name}</summary>"
        "<div class='scroll' tabindex='0'><table><thead><tr><th scope='col'>begin</th>"
        f"<th scope='col'>value</th><th scope='col'>low, {_share(level)}</th>"
        f"<th scope='col'>high</th></tr></thead><tbody>{rows}</tbody></table></div></details>"
        "</figure>"
    )


def _share(level: float) -> str:
    """Return a probability in percent with all its digits: 99.9 % is not 100 %."""
    return f"{100.0 * level:.10g}%"


def _round(number: float, point: _Point) -> str:
    """Return a number with the digits that the noise of a point allows.

    It has two digits of half the band's width, because more digits would be noise.
    """
    width = 0.5 * (point.high - point.low)
    digits = max(0, 1 - math.floor(math.log10(width))) if width > 0.0 else 3
    text = f"{number:,.{min(digits, 9)}f}"
    # A number that is rounded to 0 has no sign.
    return text[1:] if text.strip("-0.,") == "" and text.startswith("-") else text


def _format(point: _Point) -> str:
    """Return a value as text."""
    return "unknown" if point.value is None else _round(point.value, point)


def _format_band(point: _Point) -> str:
    """Return the ends of a band as text, with the digits of its value."""
    return f"{_round(point.low, point)} to {_round(point.high, point)}"


def _ticks(low: float, high: float) -> list[float]:
    """Return two to five round numbers between two ends.

    They are multiples of 1, 2 or 5 times a power of ten.
    """
    raw = (high - low) / 3.0
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1.0, 2.0, 5.0, 10.0) if m * unit >= raw)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _drawing(name: str, points: Sequence[_Point]) -> str:
    """Return a chart as SVG, with a description of its content for a screen reader.

    Parameters
    ----------
    name : str
        Name of the series.
    points : sequence of _Point
        Points in order; at least one has a value.
    """
    known = [(i, p) for i, p in enumerate(points) if p.value is not None]
    low = min(p.low for _, p in known)
    high = max(p.high for _, p in known)
    # A band without height would cause a division by zero.
    if not high > low:
        low, high = low - 0.5, high + 0.5
    inner = _HEIGHT - _BOTTOM - _TOP

    def height(y: float) -> float:
        """Return the distance of a value from the upper edge."""
        return _TOP + inner * (high - y) / (high - low)

    def place(i: int, y: float) -> str:
        """Return the coordinates of a value of interval i."""
        x = _LEFT + (_WIDTH - _LEFT - 4.0) * (i + 0.5) / len(points)
        return f"{x:.1f},{height(y):.1f}"

    parts = [
        f'<line class="axis" x1="{_LEFT:.0f}" y1="{height(y):.1f}" x2="{_WIDTH:.0f}" '
        f'y2="{height(y):.1f}"/><text x="{_LEFT - 6:.0f}" y="{height(y) + 4:.1f}" '
        f'text-anchor="end">{y:,.6g}</text>'
        for y in _ticks(low, high)
    ]
    for part in _runs(known):
        # Along the upper ends, and back along the lower ones.
        ends = [place(i, p.high) for i, p in part] + [place(i, p.low) for i, p in part[::-1]]
        line = " ".join(place(i, p.value) for i, p in part if p.value is not None)
        parts.append(f'<polygon class="band" points="{" ".join(ends)}"/>')
        parts.append(f'<polyline class="line" points="{line}"/>')
        if len(part) == 1:  # a line through one point would be invisible
            x, y = line.split(",")
            top, foot = (each.split(",")[1] for each in ends)
            parts.append(f'<path class="alone" d="M{x},{top}V{foot}"/>')
            parts.append(f'<circle class="dot" cx="{x}" cy="{y}" r="2"/>')
    ends_text = (
        f'<text x="{_LEFT:.0f}" y="{_HEIGHT - 6:.0f}">{escape(points[0].when)}</text>'
        f'<text x="{_WIDTH - 4:.0f}" y="{_HEIGHT - 6:.0f}" text-anchor="end">'
        f"{escape(points[-1].when)}</text>"
    )
    latest = known[-1][1]
    said = escape(
        f"{name}: {len(points)} intervals, between {low:,.4g} and {high:,.4g}; latest value "
        f"{_format(latest)}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{said}">'
        f"{''.join(parts)}{ends_text}</svg>"
    )


def _runs(known: Sequence[tuple[int, _Point]]) -> list[list[tuple[int, _Point]]]:
    """Return points in runs without gaps, because a line must not cross unknown values."""
    runs: list[list[tuple[int, _Point]]] = []
    for i, point in known:
        if runs and runs[-1][-1][0] == i - 1:
            runs[-1].append((i, point))
        else:
            runs.append([(i, point)])
    return runs

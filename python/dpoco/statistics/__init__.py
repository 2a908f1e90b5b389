"""Running statistics of streams: counts, means, histograms and quantiles, private at all times.

A `Monitor` publishes statistics of a stream interval by interval, with one guarantee for all
releases. Start with the guide, ``docs/guide/statistics.md``. ``docs/privacy/statistics.md`` has the
proof.
"""

from __future__ import annotations

from dpoco.statistics._layout import Layout as Layout  # for audits
from dpoco.statistics._monitor import Monitor
from dpoco.statistics._partition import Partition, Tally
from dpoco.statistics._plan import HalfLife, Last, MonitorPlan, Row, View, parse_view
from dpoco.statistics._release import Cell, Release
from dpoco.statistics._statistics import Block as Block
from dpoco.statistics._statistics import (
    Categories,
    Count,
    Estimates,
    Histogram,
    Mean,
    Quantiles,
    Share,
    Statistic,
    Sum,
)

__all__ = ["Categories", "Cell", "Count", "Estimates", "HalfLife", "Histogram", "Last", "Mean",
           "Monitor", "MonitorPlan", "Partition", "Quantiles", "Release", "Row", "Share",
           "Statistic", "Sum", "Tally", "View", "parse_view"]  # fmt: skip

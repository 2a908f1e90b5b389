"""Private ranges of columns whose ranges are unknown, found from the first records of a stream.

A `RangeFinder` gets the first records and nothing else sees them; the learner gets all later ones,
scaled by what was found. The estimators of `dpoco.adapters` do this by themselves with
``ranges="private"``. Proof: ``docs/privacy/ranges.md``.
"""

from __future__ import annotations

from dpoco.ranges._finder import FoundRanges, RangeFinder

__all__ = ["FoundRanges", "RangeFinder"]

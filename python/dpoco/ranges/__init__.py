"""Private ranges of columns with unknown ranges, found from the first records of a stream.

A `RangeFinder` gets the first records, which nothing else uses. The learner gets all later ones,
scaled with the ranges found. The estimators of `dpoco.adapters` do this automatically with
``ranges="private"``. Proof: ``docs/privacy/ranges.md``.
"""

from __future__ import annotations

from dpoco.ranges._finder import FoundRanges, RangeFinder

__all__ = ["FoundRanges", "RangeFinder"]

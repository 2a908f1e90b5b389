"""Many rounds of a learner at once: opened together, and answered together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dpoco._validation import positive_int
from dpoco.errors import HorizonExceeded
from dpoco.local._knowledge import LearnerKnowledge
from dpoco.local._many import FAMILIES, OpenBlock, RoundReports, RoundSpecs
from dpoco.local._posterior import Posterior
from dpoco.local._reports import Report

__all__ = ["ManyRounds"]


class ManyRounds(LearnerKnowledge):
    """Base of the distribution learner: rounds whose questions are public coins alone."""

    def round_specs(self, count: int) -> RoundSpecs:
        """Open the next `count` rounds at once, and return their public specifications.

        The same rounds as from `round_spec`, and much faster: reports come back together, by
        `update_many`, or one by one.

        Parameters
        ----------
        count : int
            At most `open_rounds`.

        Raises
        ------
        HorizonExceeded
            If fewer rounds are left: none is opened.
        ValueError
            Unless questions depend on public coins alone: ``learner="posterior"``,
            ``channel="bit"``, query bisection, scheffe or mean_test, not `interactive`, and one
            array of hypotheses. If the rounds would not stay open together.
        """
        number = positive_int("count", count)
        settings = self._settings
        if (
            not isinstance(self._rule, Posterior)
            or (settings.channel, self._hypotheses.kind) != ("bit", "array")
            or settings.query not in FAMILIES
        ):
            raise ValueError(
                "round_specs needs learner 'posterior', channel 'bit', one array of hypotheses "
                f"and a query of {FAMILIES}"
            )
        with self._lock:
            if number > self._rounds.limit:
                raise ValueError(f"open_rounds={self._rounds.limit} keeps fewer rounds open")
            first = self._rounds.last + 1
            horizon = settings.horizon
            if horizon is not None and first + number - 1 > horizon:
                raise HorizonExceeded(
                    f"{number} rounds asked for, {horizon - first + 1} left of the horizon"
                )
            specs = RoundSpecs(settings, first, number)
            self._rounds.open_block(OpenBlock(specs, np.zeros(number, dtype=np.bool_)))
        return specs

    def update_many(self, specs: RoundSpecs, reports: RoundReports | Iterable[Report]) -> None:
        """Learn from reports to different rounds of `round_specs`, in the order given.

        Parameters
        ----------
        specs : RoundSpecs
            As `round_specs` returned them.
        reports : RoundReports or iterable of Report
            Any number to each round.

        Raises
        ------
        RoundOrderError, ValueError
            As `update`. Nothing changes, whatever else came along.
        """
        with self._lock:
            block = self._rounds.same_block(specs)
            if not isinstance(reports, RoundReports):
                given = list(reports)
                if not given:
                    return
                reports = RoundReports.from_reports(given)
            self._take(block, reports)

    def _take(self, block: OpenBlock, reports: RoundReports) -> None:
        assert isinstance(self._rule, Posterior)
        places = block.admit(reports, self._rounds.oldest)
        self._rule.apply_many(block.specs, places, self._hypotheses.matrix(), reports.values)
        block.record(reports.nonces, places)
        self._reports += len(reports)
        self._simulated = self._simulated or reports.simulated

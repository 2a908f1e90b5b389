"""Choosing one of K published distributions from reports that come in any order, once a user."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._divergences import total_variations
from dpoco._validation import positive_int, real_float
from dpoco.local import _diagnosis as diagnosis
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._intake import OpenRound, as_batch
from dpoco.local._options import fresh_seed, resolved
from dpoco.local._planning import array_of, selection_options
from dpoco.local._pool import ClientPool
from dpoco.local._posterior import Posterior
from dpoco.local._prediction import Prediction
from dpoco.local._reports import Report, ReportBatch
from dpoco.local._selector_state import SelectorLife
from dpoco.local._specs import RoundSpec

__all__ = ["LocalHypothesisSelector"]

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]


class LocalHypothesisSelector(SelectorLife):
    """Selects one of K known distributions over M labels from private reports on labels.

    Nothing is interactive: question number n is a function of the constructor's arguments, so that
    user n's device can work it out for itself (with a selector of its own), and reports may come in
    any order, late, or never. Each user should answer a question of her own.

    Parameters
    ----------
    hypotheses : Hypotheses or array of shape (K, M)
        The known distributions; without contexts.
    epsilon : float
        Privacy of one whole report, in (0, 30].
    channel : {"auto", "bit", "subset"}
        What a report is; ``auto`` picks by mutual information, from public data.
    query : {"auto", "bisection", "scheffe", "mean_test", "hadamard", "loss"}
        Family of the questions behind bits; ``auto`` is bisection.
    bits : int or "auto", default 1
        Bits a report, each with epsilon / bits.
    subset_size : int, optional
        Size of subsets; 1 is randomized response. By default the most informative.
    public_seed : int, optional
        Seed of the public coins; by default from the operating system. Devices need it.
    max_message_bits : int, default 4096
        Longest subset that ``auto`` may choose, d log2 M.

    Notes
    -----
    Everything is post-processing of reports. All guarantees but that of privacy assume that the
    truth is one of the hypotheses. A report costs O(K M) for the means of its question. Methods may
    be called from several threads. Nonces of 64 bits tell reports apart: among a million, two
    honest ones are taken for duplicates with probability 3e-8.
    """

    def __init__(
        self,
        hypotheses: Hypotheses | Any,
        *,
        epsilon: float,
        channel: str = "auto",
        query: str = "auto",
        bits: int | str = 1,
        subset_size: int | None = None,
        public_seed: int | None = None,
        max_message_bits: int = 4096,
    ) -> None:
        arguments: dict[str, Any] = {
            "epsilon": epsilon,
            "channel": channel,
            "query": query,
            "bits": bits,
            "subset_size": subset_size,
            "max_message_bits": max_message_bits,
        }
        seed = fresh_seed() if public_seed is None else public_seed
        self._hypotheses = array_of(hypotheses)
        self._arguments = {**arguments, "public_seed": public_seed}
        self._settings = resolved(
            "posterior", self._hypotheses, selection_options(**arguments), seed
        )
        self._rule = Posterior(self._settings)
        self._nonces: list[NDArray[np.uint64]] = []  # sorted parts, as of an open round
        self._answered: dict[int, int] = {}
        self._reports = 0
        self._weight_sum = np.zeros(self._hypotheses.count)
        self._simulated = False
        self._last: RoundSpec | None = None
        self._lock = threading.RLock()

    # -- questions and reports --------------------------------------------------------------------

    @property
    def hypotheses(self) -> Hypotheses:
        """The hypothesis class."""
        return self._hypotheses

    @property
    def public_seed(self) -> int:
        """Seed of the public coins."""
        return self._settings.public_seed

    @property
    def reports(self) -> int:
        """Number of reports taken so far."""
        return self._reports

    def round_spec(self, number: int) -> RoundSpec:
        """Return question `number` >= 1: the same for everybody with the same arguments."""
        index = positive_int("number", number, maximum=2**63 - 1)
        with self._lock:
            last = self._last
            if last is None or last.round != index:
                last = self._last = self._rule.specify(index, self._hypotheses.matrix())
            return last

    def update(self, reports: Report | ReportBatch | Iterable[Report]) -> None:
        """Learn from reports to any questions.

        Raises
        ------
        ValueError
            For reports that are malformed, answer no question of this selector (foreign) or have
            been taken before (duplicated). Nothing changes, whatever else came along.
        """
        with self._lock:
            checked: list[tuple[RoundSpec, ReportBatch]] = []
            nonces = list(self._nonces)  # arrays are replaced, never changed
            for batch in _batches(reports):
                opened = OpenRound(self.round_spec(batch.round), None, None, nonces)
                opened.record(opened.admit(batch))
                checked.append((opened.spec, batch))
            for spec, batch in checked:
                self._apply(spec, batch)
            self._nonces = nonces

    def _apply(self, spec: RoundSpec, batch: ReportBatch) -> None:
        matrix = self._hypotheses.matrix()
        for values in np.ascontiguousarray(batch.values):
            self._weight_sum += self._rule.weights
            self._rule.apply(spec, matrix, values[None, :])
        self._answered[spec.round] = self._answered.get(spec.round, 0) + len(batch)
        self._reports += len(batch)
        self._simulated = self._simulated or batch.simulated

    def collect(self, pool: ClientPool, labels: Any, users: Any = None) -> None:
        """Ask the users of a pool, each a question that nobody has answered, and learn.

        Parameters
        ----------
        pool : ClientPool
            The devices, for the same hypotheses.
        labels : sequence or integer array of shape (n,)
            One label a user; None and whatever is no label is "no event".
        users : integer array of shape (n,), optional
            Who reports; by default all users, in order.

        Raises
        ------
        BudgetExceeded, ValueError, TypeError
            As `ClientPool.respond`; reports of earlier users have been taken.
        """
        members = np.arange(pool.users) if users is None else np.asarray(users)
        if len(labels) != members.size:
            raise ValueError(f"there must be one label for each of {members.size} users")
        with self._lock:
            number = max(self._answered, default=0)
            for user, label in zip(members, labels, strict=True):
                number += 1
                batch = pool.respond(self.round_spec(number), None, [label], [user])
                self.update(batch)

    # -- answers ----------------------------------------------------------------------------------

    @property
    def map_index(self) -> int:
        """The most likely hypothesis; the first of several."""
        return int(np.argmax(self.posterior()))

    def posterior(self) -> FloatArray:
        """Return the posterior under a uniform prior, shape (K,)."""
        with self._lock:
            return self._rule.posterior()

    def prediction(self) -> Prediction:
        """Return the mean of the mixtures before each report, O(K): see `expected_tv_bound`.

        Before the first report, the uniform mixture.
        """
        with self._lock:
            count = self._hypotheses.count
            mean = self._weight_sum / self._reports if self._reports else np.full(count, 1 / count)
        return Prediction(mean, 0.0, matrix=self._hypotheses.matrix())

    def confidence_set(self, beta: float) -> IndexArray:
        """Return the hypotheses whose posterior is at least ``beta / K``, ascending.

        The sets at all times together contain the truth with probability at least ``1 - beta``,
        if it is a hypothesis: one may stop whenever one likes what one sees.
        """
        level = real_float("beta", beta)
        if not 0.0 < level < 1.0:
            raise ValueError(f"beta must be in (0, 1); got {level!r}")
        return np.flatnonzero(self.posterior() >= level / self._hypotheses.count)

    def decided(self, alpha: float, beta: float) -> bool:
        """Return whether all of ``confidence_set(beta)`` are within `alpha` of each other.

        A stopping rule: with probability at least ``1 - beta``, whenever it says True, every member
        (`map_index` is one) is within total variation `alpha` of the truth. O(K^2 M).
        """
        near = real_float("alpha", alpha)
        members = self._hypotheses.matrix()[self.confidence_set(beta)]
        return bool(total_variations(members).max() <= near)

    def expected_tv_bound(self, users: int | None = None) -> float:
        """Return a bound on the expected total variation distance of `prediction` from the truth.

        Parameters
        ----------
        users : int, optional
            Number of reports; by default those so far.

        Returns
        -------
        float
            ``min(1, s sqrt(log K / (2 users)))``, s = C sqrt(M) for bits with ``query="hadamard"``
            and 1/c for ``channel="subset", subset_size=1``; 1 for other questions, which have no
            such bound.
        """
        number = self._reports if users is None else positive_int("users", users)
        count = self._hypotheses.count
        if count == 1 or self._hypotheses.labels == 1:
            return 0.0
        strength = self._rule.variation_strength()
        return min(1.0, strength * math.sqrt(math.log(count) / (2.0 * number))) if number else 1.0

    # -- diagnosis --------------------------------------------------------------------------------

    def information(self) -> FloatArray:
        """Return what the answered questions tell about pairs of hypotheses, shape (K, K), nats.

        Entry (i, j) is the sum over reports of ``-log`` of the Bhattacharyya coefficient of the
        laws under i and j: j is as likely as a true i with probability at most ``exp(-entry)``.
        O(K^2 + K M) a question answered; K <= 512. Where subsets are too many to list, a lower
        bound. It depends on questions, and on no answer.
        """
        with self._lock:
            answered = sorted(self._answered.items())
        asked = ((self.round_spec(number), times) for number, times in answered)
        return diagnosis.information(asked, self._hypotheses.matrix())

    def error_bound(self, alpha: float = 0.0) -> float:
        """Return a bound on the probability that `map_index` is not within `alpha` of the truth.

        ``max_i sum_{j: TV(i, j) > alpha} exp(-information_ij)``, at most 1: for this many reports
        to these questions, fixed beforehand, not for a number chosen by looking.
        """
        return diagnosis.error_bound(self.information(), self._hypotheses.matrix(), alpha)

    def undecidable(self, alpha: float = 0.0, beta: float = 0.05) -> IndexArray:
        """Return the pairs that the answered questions may confuse, shape (n, 2), worst first.

        Pairs i < j further than `alpha` apart with ``exp(-information_ij) > beta / (K - 1)``; with
        none left, `error_bound` is at most `beta`. Pairs that stay however many answer cannot be
        told apart by this family of questions: choose another.
        """
        return diagnosis.undecidable(self.information(), self._hypotheses.matrix(), alpha, beta)


def _batches(reports: Any) -> list[ReportBatch]:
    """Return reports as batches of neighbours that answer one question, in order."""
    if isinstance(reports, (Report, ReportBatch)):
        reports = [reports]
    elif isinstance(reports, (str, bytes)) or not isinstance(reports, Iterable):
        raise TypeError(f"reports must be reports; got {type(reports).__name__}")
    found = [as_batch(report) for report in reports]
    return [batch for batch in found if batch is not None]

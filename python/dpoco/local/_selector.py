"""Choosing one of K published distributions from reports that come in any order, once a user."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _literals as literals
from dpoco._divergences import total_variations
from dpoco._validation import FloatArray, float_array, positive_int, real_float, real_in
from dpoco.errors import StateError
from dpoco.local._client import ClientPool
from dpoco.local._hypotheses import Hypotheses, Prediction
from dpoco.local._messages import Report, ReportBatch, RoundSpec, batches
from dpoco.local._posterior import Posterior
from dpoco.local._queries import all_questions
from dpoco.local._server import Arrays, Nonces, Server
from dpoco.local._settings import LARGEST_INFORMATION, settings_of

IndexArray = NDArray[np.intp]

_DRAWS = 2000
# Its posterior is that of Bayes; the mixing is that of loss queries alone.
_FIXED = {
    "horizon": None, "learner": "posterior", "learning_rate": 1.0, "interactive": False,
    "protect": "label", "mixing": 0.01, "range": None, "open_rounds": 1,
    "track_information": False,
}  # fmt: skip


class LocalHypothesisSelector(Server):
    """Selects one of K known distributions over M labels from private reports on labels.

    Nothing is interactive. Question number n is a function of the constructor's arguments, so user
    n's device can compute it (with its own selector), and reports may come in any order, late, or
    never. Each user should answer another question.

    Parameters
    ----------
    hypotheses : Hypotheses or array of shape (K, M)
        The known distributions; without contexts.
    epsilon : float
        Privacy of one whole report, in (0, 30].
    channel, query, bits, subset_size, max_message_bits
        As for `DistributionLearner` with learner "posterior".
    public_seed : int, optional
        Seed of the public coins; by default from the operating system. Devices need it.

    Notes
    -----
    Everything is post-processing of reports. All guarantees but that of privacy assume that the
    truth is one of the hypotheses. A report costs O(K M) for the means of its question. Methods may
    be called from several threads. Nonces of 64 bits tell reports apart: among a million, two
    honest ones are taken for duplicates with probability 3e-8.
    """

    _kind = "LocalHypothesisSelector"
    _rule: Posterior

    def __init__(
        self,
        hypotheses: Hypotheses | Any,
        *,
        epsilon: float,
        channel: literals.Channel = "auto",
        query: literals.Query = "auto",
        bits: int | literals.Auto = 1,
        subset_size: int | None = None,
        max_message_bits: int = 4096,
        public_seed: int | None = None,
    ) -> None:
        arguments = dict(
            epsilon=epsilon, channel=channel, query=query, bits=bits, subset_size=subset_size,
            max_message_bits=max_message_bits, public_seed=public_seed,
        )  # fmt: skip
        known = hypotheses if isinstance(hypotheses, Hypotheses) else Hypotheses(hypotheses)
        if known.kind != "array":
            raise ValueError(
                "hypotheses must be an array of shape (K, M): no contexts, no callables"
            )
        settings = settings_of(known, {**_FIXED, **arguments})
        self._begin(known, settings, arguments, Posterior(settings))
        self._nonces = Nonces()
        self._answered: dict[int, int] = {}  # question -> number of reports
        self._weight_sum = np.zeros(known.count)
        self._last: RoundSpec | None = None

    def round_spec(self, number: int) -> RoundSpec:
        """Return question `number` >= 1: equal for everybody with the same arguments."""
        index = positive_int("number", number, maximum=2**63 - 1)
        with self._lock:
            last = self._last
            if last is None or last.round != index:
                last = self._last = self._rule.specify(index, self.hypotheses.matrix())
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
            nonces, taken = self._nonces.copy(), []
            for batch in batches(reports):
                spec = self.round_spec(batch.round)
                spec.check_reports(batch)
                nonces.add(batch.nonces)
                taken.append((spec, batch))
            matrix = self.hypotheses.matrix()
            for spec, batch in taken:
                for values in batch.values:
                    self._weight_sum += self._rule.weights
                    self._rule.apply(spec, matrix, values[None, :])
                self._answered[spec.round] = self._answered.get(spec.round, 0) + len(batch)
                self.reports += len(batch)
                self._simulated = self._simulated or batch.simulated
            self._nonces = nonces

    def collect(self, pool: ClientPool, labels: Any, users: Any = None) -> None:
        """Ask the users of a pool one unanswered question each, and learn.

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

    @property
    def map_index(self) -> int:
        """The most likely hypothesis; the first one if there is a tie."""
        return int(np.argmax(self.posterior()))

    def prediction(self) -> Prediction:
        """Return the mean of the mixtures before each report, O(K): see `expected_tv_bound`.

        Before the first report, the uniform mixture.
        """
        with self._lock:
            count = self.hypotheses.count
            mean = self._weight_sum / self.reports if self.reports else np.full(count, 1 / count)
        return Prediction(mean, 0.0, matrix=self.hypotheses.matrix())

    def decided(self, alpha: float, beta: float) -> bool:
        """Return whether all members of ``confidence_set(beta)`` are within `alpha` of each other.

        A stopping rule: with probability at least ``1 - beta``, whenever it says True, every member
        (`map_index` is one) is within total variation `alpha` of the truth. O(K^2 M).
        """
        near = real_float("alpha", alpha)
        members = self.hypotheses.matrix()[self.confidence_set(beta)]
        return bool(total_variations(members).max() <= near)

    def expected_tv_bound(self, users: int | None = None) -> float:
        """Return a bound on the expected total variation distance of `prediction` from the truth.

        For a number of reports, by default those so far: ``min(1, s sqrt(log K / (2 users)))``,
        s = C sqrt(M) for bits with ``query="hadamard"`` and 1/c for subsets of one label; 1 for
        other questions, which have no such bound.
        """
        number = self.reports if users is None else positive_int("users", users)
        count = self.hypotheses.count
        if count == 1 or self.hypotheses.labels == 1:
            return 0.0
        strength = self._rule.variation_strength()
        return min(1.0, strength * math.sqrt(math.log(count) / (2.0 * number))) if number else 1.0

    def information(self) -> FloatArray:
        """Return the information of the answers about pairs of hypotheses, shape (K, K), nats.

        Entry (i, j) is the sum over reports of ``-log`` of the Bhattacharyya coefficient of the
        laws under i and j: j is as likely as a true i with probability at most ``exp(-entry)``.
        O(K^2 + K M) a question answered; K <= 512. Where subsets are too many to list, a lower
        bound. It depends on questions, and on no answer.
        """
        if self.hypotheses.count > LARGEST_INFORMATION:
            raise ValueError(f"information() takes at most {LARGEST_INFORMATION} hypotheses")
        with self._lock:
            matrix = self.hypotheses.matrix()
            total = np.zeros((len(matrix), len(matrix)))
            for number, times in sorted(self._answered.items()):
                for told in self._rule.information_parts(self.round_spec(number), matrix):
                    total += times * told
        return total

    def error_bound(self, alpha: float = 0.0) -> float:
        """Return a bound on the probability that `map_index` is not within `alpha` of the truth.

        ``max_i sum_{j: TV(i, j) > alpha} exp(-information_ij)``, at most 1: for this many reports
        to these questions, fixed beforehand, not for a number chosen by looking.
        """
        apart = total_variations(self.hypotheses.matrix()) > real_float("alpha", alpha)
        confused = np.where(apart, np.exp(-self.information()), 0.0)
        return min(1.0, float(confused.sum(axis=1).max()))

    def undecidable(self, alpha: float = 0.0, beta: float = 0.05) -> IndexArray:
        """Return the pairs that the answered questions may confuse, shape (n, 2), worst first.

        Pairs i < j further than `alpha` apart with ``exp(-information_ij) > beta / (K - 1)``; with
        none left, `error_bound` is at most `beta`. Pairs that stay however many answer cannot be
        told apart by this family of questions: choose another.
        """
        near, level = real_float("alpha", alpha), real_in("beta", beta, "(0, 1)")
        known = self.information()
        apart = np.triu(total_variations(self.hypotheses.matrix()) > near, 1)
        short = known < math.log(max(known.shape[0] - 1, 1) / level)
        first, second = np.nonzero(apart & short)
        order = np.argsort(known[first, second], kind="stable")
        return np.stack([first[order], second[order]], axis=1)

    def _state_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        answered = np.array(sorted(self._answered.items()), dtype=np.int64).reshape(-1, 2)
        return {}, {
            "hypotheses": self.hypotheses.matrix(),
            "weight_sum": self._weight_sum,
            "answered": answered,
            "nonces": self._nonces.all(),
        }

    def _continue(self, body: dict[str, Any], arrays: Arrays) -> None:
        answered = np.asarray(arrays["answered"], dtype=np.int64)
        total = np.array(arrays["weight_sum"], dtype=np.float64)
        nonces = np.unique(np.asarray(arrays["nonces"], dtype=np.uint64))
        count = int(answered[:, 1].sum())
        if (
            (answered.size and answered.min() < 1)
            or nonces.size != count
            or total.shape != (self.hypotheses.count,)
            or not np.isclose(total.sum(), count)
        ):
            raise StateError("state is corrupt: impossible counts")
        self._answered = {number: times for number, times in answered.tolist()}
        self.reports, self._weight_sum = count, total
        if count:
            self._nonces.add(nonces)


def required_users(
    hypotheses: Hypotheses | Any,
    *,
    epsilon: float,
    alpha: float = 0.0,
    beta: float = 0.05,
    channel: literals.Channel = "auto",
    query: literals.Query = "auto",
    bits: int | literals.Auto = 1,
    subset_size: int | None = None,
    max_message_bits: int = 4096,
    seed: int = 0,
) -> float:
    """Return how many reports suffice to select a hypothesis within `alpha` of the true one.

    Parameters
    ----------
    hypotheses : Hypotheses or array of shape (K, M)
        Without contexts; K at most 512.
    epsilon : float
        Of one report, in (0, 30].
    alpha : float, default 0
        Total variation distance that does no harm, in [0, 1).
    beta : float, default 0.05
        Probability of failure, in (0, 1).
    channel, query, bits, subset_size, max_message_bits
        As for `LocalHypothesisSelector`; every report answers its own question.
    seed : int, default 0
        Names the public coins where questions are too many to list.

    Returns
    -------
    int or inf
        The smallest n with ``max_i sum_{j: TV(i, j) > alpha} BC_ij^n <= beta``, ``BC_ij`` the
        Bhattacharyya coefficient of a report's laws under hypotheses i and j, averaged over
        questions: the most likely hypothesis after n reports then is within `alpha` of the truth
        with probability at least ``1 - beta``, if the truth is one of them. 0 if all are within
        `alpha`; inf if no question of the channel tells two of the others apart.

    Notes
    -----
    Exact where there are at most 5000 questions; 2000 public draws otherwise. Where subsets are too
    many to list, they count as little as one label drawn from them: n is then an upper bound.
    O(K^2) a question, besides O(K M) for its means. `docs/privacy/local_learning.md`, B5.
    """
    near, failure = real_in("alpha", alpha, "[0, 1)"), real_in("beta", beta, "(0, 1)")
    selector = LocalHypothesisSelector(
        hypotheses, epsilon=epsilon, channel=channel, query=query, bits=bits,
        subset_size=subset_size, max_message_bits=max_message_bits, public_seed=seed,
    )  # fmt: skip
    known = selector.hypotheses
    if known.count > LARGEST_INFORMATION:
        raise ValueError(f"required_users takes at most {LARGEST_INFORMATION} hypotheses")
    matrix = known.matrix()
    apart = total_variations(matrix) > near
    if not apart.any():
        return 0
    gaps = mean_affinity_gap(selector)
    if (gaps[apart] <= 0.0).any():
        return math.inf
    # BC_ij as 1 - gap: what is left of tiny gaps stays exact.
    logs = np.where(apart, np.log1p(-np.minimum(gaps, 1.0 - 1e-16)), -np.inf)

    def failing(n: int) -> bool:
        with np.errstate(under="ignore", invalid="ignore"):
            return bool(np.exp(n * logs).sum(axis=1).max() > failure)

    most = 1
    while failing(most):
        most *= 2
    return bisect_left(range(most), True, lo=most // 2 + 1, key=lambda n: not failing(n))


def mean_affinity_gap(selector: LocalHypothesisSelector) -> FloatArray:
    """Return one minus the mean Bhattacharyya coefficient of a report, shape (K, K).

    Means are over the questions of the selector's channel. Relatively exact for gaps near 0; gaps
    that rounding alone may explain are 0.
    """
    matrix, settings, rule = selector.hypotheses.matrix(), selector.settings, selector._rule
    count, labels = matrix.shape
    total, asked = np.zeros((count, count)), 0
    if labels == 1 or count == 1:
        return total
    numbers: Iterable[int] = range(1, 2 if settings.channel == "subset" else _DRAWS + 1)
    specs = (rule.specify(number, matrix) for number in numbers)
    every = None if settings.bits > 1 else all_questions(settings.query, count, labels)
    if every is not None and settings.channel != "subset":
        specs = (rule.specify(1, matrix, (question,)) for question in every)
    for spec in specs:
        total -= np.expm1(-np.sum(rule.information_parts(spec, matrix), axis=0))
        asked += 1
    return total / asked


@dataclass(frozen=True, eq=False)
class MedianSelection:
    """The row that was chosen among independent answers.

    Attributes
    ----------
    index : int
        Which row.
    distribution : array of shape (M,)
        The row itself.
    radius : float
        Its median total variation distance to all rows, itself included.
    failure : float
        ``exp(-R / 18)``: probability, at most, with which the row is further than 3 alpha from the
        truth, where each row is within alpha with probability at least 2/3.
    """

    index: int
    distribution: FloatArray
    radius: float
    failure: float


def median_select(distributions: Any) -> MedianSelection:
    """Choose among the answers of disjoint groups of users; failures become exponentially rare.

    Parameters
    ----------
    distributions : array of shape (R, M)
        One distribution a group, e.g. ``selector.prediction().all()`` of each.

    Returns
    -------
    MedianSelection
        The row whose median total variation distance to all rows (the ceil(R/2)-th smallest, its
        own 0 included) is smallest; the first of several.

    Notes
    -----
    O(R^2 M). If each row is within alpha of the truth with probability at least 2/3, independently,
    the chosen one is within 3 alpha with probability at least ``1 - exp(-R / 18)``: more than half
    of the rows are good but with that probability (Hoeffding); these are within 2 alpha of one
    another, so the chosen median is at most 2 alpha; and one of the ceil(R/2) rows within it is
    good. A group whose expected distance is at most r has alpha = 3 r, by Markov's inequality.
    """
    rows = float_array("distributions", distributions, (None, None))
    if rows.size == 0:
        raise ValueError("distributions must have at least one row and one label")
    if not ((rows >= 0.0).all() and (np.abs(rows.sum(axis=1) - 1.0) <= 1e-6).all()):
        raise ValueError("rows must be distributions: not negative, of sum 1")
    distances = np.sort(total_variations(rows), axis=1)
    medians = distances[:, (rows.shape[0] + 1) // 2 - 1]
    index = int(np.argmin(medians))
    chosen = rows[index].copy()
    return MedianSelection(index, chosen, float(medians[index]), math.exp(-rows.shape[0] / 18.0))

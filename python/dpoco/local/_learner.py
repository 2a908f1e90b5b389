"""The server: publishes questions and predictions, learns from private reports."""

from __future__ import annotations

import base64
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpoco import _literals as literals
from dpoco._validation import FloatArray, instance, positive_int
from dpoco.errors import HorizonExceeded, NoiseDominatesWarning, RoundOrderError, StateError
from dpoco.local._bounds import trivial_bound
from dpoco.local._hedge import Hedge
from dpoco.local._hypotheses import Hypotheses, Prediction
from dpoco.local._messages import Report, ReportBatch, RoundSpec, batches
from dpoco.local._posterior import Posterior
from dpoco.local._server import Arrays, Nonces, Server
from dpoco.local._settings import settings_of


class DistributionLearner(Server):
    """Learns from private reports which of K conditional distributions the labels follow.

    By default **the server knows the context of every round**: a report protects the label and
    nothing else. ``protect="label_and_context"`` protects both.

    Parameters
    ----------
    hypotheses : Hypotheses
        The K known distributions over M labels.
    epsilon : float
        Privacy of one whole report, in (0, 30].
    horizon : int, optional
        Rounds T; None for an endless stream.
    learner : {"posterior", "hedge"}
        ``posterior``: tempered Bayes on the messages, best if one hypothesis is right. ``hedge``: a
        guarantee for arbitrary labels, and private contexts.
    learning_rate : float or "worst_case", optional
        For the posterior: power of the likelihood, in (0, 1]; default 0.75. For hedge: a fixed
        rate, or "worst_case" for the rate of the bound; default AdaHedge.
    channel : {"auto", "bit", "subset", "coordinate"}
        Kind of report. ``auto``: the posterior picks one bit or a subset of labels by mutual
        information, from public data; hedge asks for one coordinate. Otherwise "bit" or "subset"
        for the posterior, "coordinate" (one bit about one loss) or "subset" for hedge.
    query : {"auto", "bisection", "scheffe", "mean_test", "hadamard", "loss"}
        Family of the questions behind bits. ``auto`` is bisection, or with `interactive` a question
        that splits the current weights.
    bits : int or "auto", default 1
        Number of bits per report, each with epsilon / bits.
    interactive : bool, default False
        Whether current weights may shape the next question, which devices must then be told. Hedge
        then prefers questions about what it is uncertain about.
    protect : {"label", "label_and_context"}
        What one report protects; the latter needs ``learner="hedge"``.
    mixing : float, optional
        Share of the uniform mixture in predictions; by default the learner's own.
    range : {"exact", "worst_case"}, optional
        Range of loss queries; by default exact for arrays under scope ``label``.
    subset_size : int, optional
        Size of subsets; 1 is randomized response. By default the most informative.
    public_seed : int, optional
        Seed of the public coins in [0, 2^64); by default from the operating system. Public.
    open_rounds : int, default 1
        Number of latest rounds that accept reports; with callables, each keeps its (K, M) array.
    track_information : bool, default False
        Keep the K x K matrix behind `information`; K <= 512, posterior only.
    max_message_bits : int, default 4096
        Longest subset that ``auto`` may choose, d log2 M.

    Attributes
    ----------
    round : int
        Number of rounds opened so far.

    Notes
    -----
    Everything here is post-processing of reports that are already private: the server adds no
    noise, and its copies share none. The state is a function of specifications and reports, bit for
    bit, on every machine. Methods may be called from several threads, one at a time each.
    """

    _kind = "DistributionLearner"

    def __init__(
        self,
        hypotheses: Hypotheses,
        *,
        epsilon: float,
        horizon: int | None = None,
        learner: literals.LocalLearner = "posterior",
        learning_rate: float | Literal["worst_case"] | None = None,
        channel: literals.Channel = "auto",
        query: literals.Query = "auto",
        bits: int | literals.Auto = 1,
        interactive: bool = False,
        protect: literals.Protect = "label",
        mixing: float | None = None,
        range: literals.Range | None = None,
        subset_size: int | None = None,
        public_seed: int | None = None,
        open_rounds: int = 1,
        track_information: bool = False,
        max_message_bits: int = 4096,
    ) -> None:
        arguments = dict(
            epsilon=epsilon, horizon=horizon, learner=learner, learning_rate=learning_rate,
            channel=channel, query=query, bits=bits, interactive=interactive, protect=protect,
            mixing=mixing, range=range, subset_size=subset_size, public_seed=public_seed,
            open_rounds=open_rounds, track_information=track_information,
            max_message_bits=max_message_bits,
        )  # fmt: skip
        settings = settings_of(
            instance("hypotheses", hypotheses, Hypotheses, "Hypotheses"), arguments
        )
        rule = Posterior(settings) if learner == "posterior" else Hedge(settings)
        self._begin(hypotheses, settings, arguments, rule)
        self.round = 0
        self._open: dict[int, OpenRound] = {}

    @property
    def weights(self) -> FloatArray:
        """Current weights of the hypotheses, shape (K,), read-only."""
        with self._lock:
            weights = self._rule.weights
        weights.flags.writeable = False
        return weights

    def round_spec(self, x: Any = None) -> RoundSpec:
        """Open the next round and return its public specification.

        Parameters
        ----------
        x : object, optional
            The round's context; None for an array of hypotheses, and under private contexts.

        Returns
        -------
        RoundSpec
            Specification to send to the devices. The oldest open round closes if there are too
            many.

        Raises
        ------
        HorizonExceeded
            After `horizon` rounds.
        ValueError, TypeError
            For a context that the hypotheses do not know; no round is opened.
        """
        with self._lock:
            self._check_left(1)
            number = self.round + 1
            if self.settings.protect == "label":
                matrix = self.hypotheses.matrix(x)
            elif x is None:
                matrix = None
            else:
                raise ValueError("contexts are private: round_spec() takes none")
            spec = self._rule.specify(number, matrix)
            context = int(x) if self.hypotheses.kind == "table" and matrix is not None else None
            self._open[number] = OpenRound(spec, matrix, context)
            self._open.pop(number - self.settings.open_rounds, None)
            self.round = number
        return spec

    def _check_left(self, count: int) -> None:
        """Raise if fewer than `count` rounds are left."""
        horizon = self.settings.horizon
        if horizon is not None and self.round + count > horizon:
            raise HorizonExceeded(
                f"rounds asked for: {count}, left: {horizon - self.round} of {horizon}"
            )

    def predict(self, x: Any = None) -> Prediction:
        """Return the prediction for context `x` from the current weights.

        It is that of the round opened last until a report to it comes, then that of the next one:
        the share of the uniform mixture may depend on the round.

        Raises
        ------
        ValueError
            With private contexts, since devices then predict, with `DevicePredictor`.
        """
        if self.settings.protect != "label":
            raise ValueError("contexts are private: use DevicePredictor on the device")
        with self._lock:
            matrix = self.hypotheses.matrix(x)
            return Prediction(self._rule.weights, self._rule.mixing(self._turn()), matrix=matrix)

    @property
    def mixing(self) -> float:
        """Current share of the uniform mixture in the prediction; broadcast with the weights."""
        with self._lock:
            return self._rule.mixing(self._turn())

    def _turn(self) -> int:
        latest = self._open.get(self.round)
        turn = self.round + (latest is None or len(latest.nonces) > 0)
        horizon = self.settings.horizon
        return turn if horizon is None else min(turn, horizon)

    def update(self, spec: RoundSpec, reports: Report | ReportBatch | Iterable[Report]) -> None:
        """Learn from reports to one specification.

        Parameters
        ----------
        spec : RoundSpec
            Of an open round.
        reports : Report, ReportBatch or iterable of Report
            Any number, none is fine; `hedge` processes them in this order.

        Raises
        ------
        RoundOrderError
            If the round is closed (late reports) or was never opened. Nothing changes.
        ValueError
            For reports that are malformed, answer another specification (foreign) or have been
            taken before (duplicated). Nothing changes, not even by the other reports of the call.
        """
        with self._lock:
            opened = self._find_open(spec)
            taken, nonces = batches(reports), opened.nonces.copy()
            for batch in taken:
                opened.spec.check_reports(batch)
                nonces.add(batch.nonces)
            for batch in taken:
                self._rule.apply(opened.spec, opened.matrix, batch.values)
                self.reports += len(batch)
                self._simulated = self._simulated or batch.simulated
            opened.nonces = nonces

    def _find_open(self, spec: RoundSpec) -> OpenRound:
        """Return the open round of a specification, or raise."""
        instance("spec", spec, RoundSpec, "a RoundSpec")
        if spec.round > self.round:
            raise RoundOrderError(f"round {spec.round} has not been opened")
        if spec.round not in self._open:
            raise RoundOrderError(f"late: round {spec.round} is closed")
        opened = self._open[spec.round]
        if opened.spec.digest != spec.digest:
            raise ValueError(f"foreign specification: not that of round {spec.round}")
        return opened

    def information(self) -> FloatArray:
        """Return the matrix of accumulated information between hypotheses, shape (K, K), nats.

        Entry (i, j) is the sum over reports of ``-log`` of the Bhattacharyya coefficient of the
        two message laws: where questions do not depend on reports, hypothesis j overtakes a true
        i with probability at most ``exp(-entry)``. Small entries show pairs that the questions
        cannot tell apart. For subsets that are too many to list, a lower bound. Only with
        ``track_information=True``.
        """
        with self._lock:
            return self._bayes().information()

    def risk_certificate(self) -> float:
        """Return hedge's bound on the KL-risk so far: in expectation, not with high probability."""
        if not isinstance(self._rule, Hedge):
            raise ValueError("only learner 'hedge' has a risk certificate")
        with self._lock:
            return self._rule.risk_certificate()

    def risk_bound(self, rounds: int | None = None) -> float:
        """Return an upper bound on the expected KL-risk, in nats, with one report per round.

        Parameters
        ----------
        rounds : int, optional
            T; by default the horizon.

        Returns
        -------
        float
            The smaller of T log(K / mixing), which any prediction with that mixing has, and the
            learner's own bound. The posterior's bounds assume that one hypothesis is right; hedge's
            hold for any labels, as regret against the best hypothesis.

        Warns
        -----
        NoiseDominatesWarning
            If it exceeds T log K, the risk of ignoring all reports.
        """
        number = self.settings.horizon if rounds is None else positive_int("rounds", rounds)
        if number is None:
            raise ValueError("rounds must be given: the learner has no horizon")
        count = self.hypotheses.count
        bound = min(trivial_bound(count, self._rule.mixing, number), self._rule.risk_bound(number))
        ignored = number * math.log(count)
        if bound > ignored:
            warnings.warn(
                f"the bound of {bound:.4g} nats exceeds the {ignored:.4g} of ignoring all reports",
                NoiseDominatesWarning,
                stacklevel=2,
            )
        return bound

    def _state_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        known, rounds, arrays = self.hypotheses, [], dict[str, NDArray[Any]]()
        for index, opened in enumerate(self._open.values()):
            spec = base64.b64encode(opened.spec.to_bytes()).decode()
            rounds.append({"spec": spec, "context": opened.context})
            arrays[f"nonces.{index}"] = opened.nonces.all()
            if known.kind == "callable" and opened.matrix is not None:
                arrays[f"matrix.{index}"] = opened.matrix  # the context itself may be anything
        if known.array is not None:
            arrays["hypotheses"] = known.array
        body = {
            "hypotheses": known.to_dict(),
            "round": self.round,
            "reports": self.reports,
            "rounds": rounds,
        }
        return body, arrays

    @classmethod
    def _present(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a state's arguments under their present names: earlier states have more."""
        given = dict(arguments)
        if given.pop("delta", None) or given.pop("noise", None):
            raise StateError("the state is of a channel with additive noise: no longer supported")
        if "learning_rate" in given:
            return given
        power, rate = given.pop("temperature"), given.pop("eta")
        given["learning_rate"] = power if given["learner"] == "posterior" else rate
        if given["learner"] == "hedge" and given["channel"] == "bit":
            given["channel"] = "auto"
        if given["learner"] == "hedge" or given["query"] == "adaptive":
            given["query"] = "auto"
        for name in ("sampling", "sensitivity"):
            del given[name]
        return given

    def _continue(self, body: dict[str, Any], arrays: Arrays) -> None:
        last, reports = body["round"], body["reports"]
        horizon = self.settings.horizon
        if (
            any(type(count) is not int or count < 0 for count in (last, reports))
            or last > (2**63 - 1 if horizon is None else horizon)
            or (isinstance(self._rule, Posterior) and self._rule.reports != reports)
        ):
            raise StateError("state is corrupt: impossible counts")
        self._open = self._reopen(body, arrays)
        if sum(len(opened.nonces) for opened in self._open.values()) > reports:
            raise StateError("state is corrupt: impossible counts")
        self.round, self.reports = last, reports

    def _reopen(self, body: Mapping[str, Any], arrays: Arrays) -> dict[int, OpenRound]:
        """Return the open rounds of a state by number, or raise for impossible ones."""
        hypotheses, settings = self.hypotheses, self.settings
        if body.get("blocks"):
            raise StateError("the state has rounds that were opened together: no longer supported")
        found: list[OpenRound] = []
        for index, record in enumerate(body["rounds"]):
            spec = RoundSpec.from_bytes(base64.b64decode(record["spec"], validate=True))
            context, matrix = record["context"], None
            if settings.protect == "label":
                if hypotheses.kind == "callable":
                    given = arrays[f"matrix.{index}"]
                    matrix = Hypotheses(given, hypotheses.count, hypotheses.labels).matrix()
                else:
                    matrix = hypotheses.matrix(context)
            asked = (spec.hypotheses, spec.labels, spec.fingerprint, spec.epsilon)
            own = (settings.hypotheses, settings.labels, settings.fingerprint, settings.epsilon)
            if asked != own or not self._rule.accepts(spec, matrix):
                raise StateError("state is corrupt: a round is not of this learner")
            nonces = arrays[f"nonces.{index}"]
            if nonces.dtype != np.uint64 or nonces.ndim != 1:
                raise StateError("state is corrupt: impossible nonces")
            found.append(OpenRound(spec, matrix, context))
            if nonces.size:
                found[-1].nonces.add(nonces)
        numbers = [opened.spec.round for opened in found]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            raise StateError("state is corrupt: a round comes twice")
        last = body["round"]
        if numbers and not (last - settings.open_rounds < numbers[0] and numbers[-1] <= last):
            raise StateError("state is corrupt: impossible counts")
        return {opened.spec.round: opened for opened in found}


@dataclass
class OpenRound:
    """A round that takes reports, with the hypotheses in its context and, of a table, that."""

    spec: RoundSpec
    matrix: NDArray[np.float64] | None
    context: int | None
    nonces: Nonces = field(default_factory=Nonces)

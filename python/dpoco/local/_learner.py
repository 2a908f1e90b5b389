"""The server: publishes questions and predictions, learns from private reports."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.errors import HorizonExceeded
from dpoco.local._hedge import Hedge
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._intake import OpenRound, OpenRounds, as_batch
from dpoco.local._many import RoundReports
from dpoco.local._many_rounds import ManyRounds
from dpoco.local._options import fresh_seed, resolved
from dpoco.local._posterior import Posterior
from dpoco.local._prediction import Prediction
from dpoco.local._reports import Report, ReportBatch
from dpoco.local._rules import Rule, Settings
from dpoco.local._specs import RoundSpec

__all__ = ["DistributionLearner"]

FloatArray = NDArray[np.float64]


class DistributionLearner(ManyRounds):
    """Learns which of K conditional distributions labels come from, from private reports.

    Under the default scope **the context of every round is known to the server**: a report
    protects the label, and nothing else. ``protect="label_and_context"`` protects both.

    Parameters
    ----------
    hypotheses : Hypotheses
        The K known distributions over M labels.
    epsilon : float
        Privacy of one whole report, in (0, 30].
    horizon : int, optional
        Rounds T; None for an endless stream.
    learner : {"posterior", "hedge", "paper_exp3", "paper_wma"}
        ``posterior``: tempered Bayes on the messages, best where one hypothesis is right;
        ``hedge``: a guarantee for arbitrary labels, and private contexts; the others are the
        published algorithms (corrected), for comparison.
    temperature : float, default 0.75
        Of the posterior, in (0, 1].
    channel : {"auto", "bit", "subset", "coordinate", "vector"}
        What a report is. ``auto``: the posterior picks one bit or a subset of labels by mutual
        information, from public data; hedge asks for one coordinate.
    query : {"auto", "bisection", "scheffe", "mean_test", "hadamard", "loss", "adaptive"}
        Family of the questions behind bits; ``auto`` is bisection, adaptive if `interactive`.
    bits : int or "auto", default 1
        Bits a report, each with epsilon / bits.
    interactive : bool, default False
        Whether current weights may shape the next question: devices must then be told it.
    protect : {"label", "label_and_context"}
        What one report protects; the latter needs ``learner="hedge"``.
    mixing : float, optional
        Share of the uniform mixture in predictions; by default the learner's own.
    eta : float or "worst_case", optional
        Fixed rate of hedge; by default AdaHedge. For the paper's learners: see there.
    range : {"exact", "worst_case"}, optional
        Range of loss queries; by default exact for arrays under scope ``label``.
    sampling : {"uniform", "adaptive"}
        How hedge draws the coordinate; adaptive needs `interactive`.
    subset_size : int, optional
        Size of subsets; 1 is randomized response. By default the most informative.
    sensitivity : {"round", "worst_case", "exact", "printed"}
        Of the paper's learners.
    noise : str, optional
        Noise of the vector channel.
    delta : float, optional
        For the vector channels only.
    public_seed : int, optional
        Seed of the public coins in [0, 2^64); by default from the operating system. Public.
    open_rounds : int, default 1
        How many of the latest rounds take reports; of a callable's, each keeps its (K, M) array.
    track_information : bool, default False
        Keep the K x K matrix behind `information`; K <= 512, posterior only.
    max_message_bits : int, default 4096
        Longest subset that ``auto`` may choose, d log2 M.

    Notes
    -----
    Everything here is post-processing of reports that are private already: the server adds no
    noise, and its copies share none. The state is a function of specifications and reports, bit
    for bit, on every machine. Methods may be called from several threads, one at a time each.
    """

    def __init__(
        self,
        hypotheses: Hypotheses,
        *,
        epsilon: float,
        horizon: int | None = None,
        learner: str = "posterior",
        temperature: float = 0.75,
        channel: str = "auto",
        query: str = "auto",
        bits: int | str = 1,
        interactive: bool = False,
        protect: str = "label",
        mixing: float | None = None,
        eta: float | str | None = None,
        range: str | None = None,
        sampling: str = "uniform",
        subset_size: int | None = None,
        sensitivity: str = "round",
        noise: str | None = None,
        delta: float | None = None,
        public_seed: int | None = None,
        open_rounds: int = 1,
        track_information: bool = False,
        max_message_bits: int = 4096,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name != "self"}
        arguments.pop("__class__", None)
        if not isinstance(hypotheses, Hypotheses):
            raise TypeError(f"hypotheses must be Hypotheses; got {type(hypotheses).__name__}")
        seed = fresh_seed() if public_seed is None else public_seed
        self._build(arguments, seed)

    def _build(self, arguments: dict[str, Any], seed: int) -> None:
        hypotheses = arguments["hypotheses"]
        options = {name: value for name, value in arguments.items() if name != "hypotheses"}
        settings = resolved(arguments["learner"], hypotheses, options, seed)
        self._arguments = arguments
        self._hypotheses: Hypotheses = hypotheses
        self._settings = settings
        self._rule: Rule = _rule_of(arguments["learner"], settings, hypotheses)
        self._rounds = OpenRounds(settings.options["open_rounds"])
        self._reports = 0
        self._simulated = False
        self._lock = threading.RLock()

    # -- rounds -----------------------------------------------------------------------------------

    @property
    def hypotheses(self) -> Hypotheses:
        """The hypothesis class."""
        return self._hypotheses

    @property
    def settings(self) -> Settings:
        """The resolved public settings, the public seed among them."""
        return self._settings

    @property
    def public_seed(self) -> int:
        """Seed of the public coins."""
        return self._settings.public_seed

    @property
    def round(self) -> int:
        """Number of rounds opened so far."""
        return self._rounds.last

    @property
    def reports(self) -> int:
        """Number of reports taken so far."""
        return self._reports

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
            To be sent to the devices. The oldest open round closes if there are too many.

        Raises
        ------
        HorizonExceeded
            After `horizon` rounds.
        ValueError, TypeError
            For a context the hypotheses do not know: no round is opened.
        """
        with self._lock:
            number = self._rounds.last + 1
            horizon = self._settings.horizon
            if horizon is not None and number > horizon:
                raise HorizonExceeded(f"the horizon of {horizon} rounds is used up")
            matrix = self._matrix(x)
            spec = self._rule.specify(number, matrix)
            context = int(x) if self._hypotheses.kind == "table" and matrix is not None else None
            self._rounds.open(OpenRound(spec, matrix, context))
        return spec

    def _matrix(self, x: Any) -> FloatArray | None:
        if self._settings.protect == "label":
            return self._hypotheses.matrix(x)
        if x is not None:
            raise ValueError("contexts are private: round_spec() takes none")
        return None

    def predict(self, x: Any = None) -> Prediction:
        """Return the prediction for context `x` from the current weights.

        It is that of the round opened last until a report to it comes, then that of the next one:
        the share of the uniform mixture may depend on the round.

        Raises
        ------
        ValueError
            Under private contexts: devices predict, with `DevicePredictor`.
        """
        if self._settings.protect != "label":
            raise ValueError("contexts are private: use DevicePredictor on the device")
        with self._lock:
            return self._rule.predict(self._turn(), self._hypotheses.matrix(x))

    @property
    def mixing(self) -> float:
        """Share of the uniform mixture in the present prediction; broadcast with the weights."""
        with self._lock:
            return self._rule.mixing(self._turn())

    def _turn(self) -> int:
        turn = self._rounds.last + self._rounds.latest_answered()
        horizon = self._settings.horizon
        return turn if horizon is None else min(turn, horizon)

    def update(self, spec: RoundSpec, reports: Report | ReportBatch | Iterable[Report]) -> None:
        """Learn from reports to one specification.

        Parameters
        ----------
        spec : RoundSpec
            That of an open round.
        reports : Report, ReportBatch or iterable of Report
            None at all is fine; `hedge` and the paper's learners process them in this order.

        Raises
        ------
        RoundOrderError
            If the round is closed (late reports) or was never opened. Nothing changes.
        ValueError
            For reports that are malformed, answer another specification (foreign) or have been
            taken before (duplicated). Nothing changes.
        """
        with self._lock:
            block = self._rounds.block_of(spec.round) if isinstance(spec, RoundSpec) else None
            opened = self._rounds.of(spec) if block is None else None
            batch = as_batch(reports)
            if block is not None:
                if block.digest(spec.round) != spec.digest:
                    raise ValueError(f"foreign specification: not that of round {spec.round}")
                if batch is not None and batch.round != spec.round:
                    raise ValueError("foreign report: it answers another specification")
                if batch is not None:
                    self._take(block, RoundReports.from_batch(batch))
                return
            if batch is None:
                return
            assert opened is not None
            nonces = opened.admit(batch)
            self._rule.apply(opened.spec, opened.matrix, np.ascontiguousarray(batch.values))
            opened.record(nonces)
            self._reports += len(batch)
            self._simulated = self._simulated or batch.simulated


def _rule_of(learner: str, settings: Settings, hypotheses: Hypotheses) -> Rule:
    if learner == "posterior":
        return Posterior(settings)
    if learner == "hedge":
        if settings.channel == "vector" or settings.options["noise"] is not None:
            from dpoco.local._vector_rule import VectorHedge

            return VectorHedge(settings)
        return Hedge(settings)
    from dpoco.local import _paper

    return _paper.rule_of(learner, settings, hypotheses)

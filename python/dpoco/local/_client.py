"""The device of one user: answers rounds within a budget, and trusts the server with nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import choice, float_array, positive_float, positive_int, real_float
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.local_reports import client_guarantee
from dpoco.errors import CalibrationError
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._ledger import Ledger, NotCopied
from dpoco.local._prediction import Prediction, label_indices
from dpoco.local._randomizers import BitRandomizer, SubsetRandomizer
from dpoco.local._reports import Report
from dpoco.local._specs import RoundSpec
from dpoco.random import Source

__all__ = [
    "DevicePredictor",
    "Devices",
    "LocalClient",
    "draws",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Weights in double precision sum to 1 up to far less; those sent as float32 do up to this.
_TOLERANCE = 1e-6

# Built once for the few settings a device ever sees.
bit_randomizer = lru_cache(maxsize=64)(BitRandomizer)
subset_randomizer = lru_cache(maxsize=64)(SubsetRandomizer)


class Devices(NotCopied):
    """What one device and a pool of them share: hypotheses, limits of a user, noise."""

    def __init__(
        self,
        hypotheses: Hypotheses,
        epsilon_max: float,
        max_reports: int,
        protect: str,
        delta_max: float,
        simulation_seed: int | None,
    ) -> None:
        self._hypotheses = _checked_hypotheses(hypotheses)
        self._protect = choice("protect", protect, ("label", "label_and_context"))
        self._epsilon_max = positive_float("epsilon_max", epsilon_max)
        self._delta_max = real_float("delta_max", delta_max)
        if not 0.0 <= self._delta_max < 1.0:
            raise ValueError(f"delta_max must be in [0, 1); got {self._delta_max!r}")
        self._max_reports = positive_int("max_reports", max_reports)
        # Sources of noise and of nonces: unrelated, and never those of public coins.
        if simulation_seed is None:
            self._source, self._nonces = Source(), Source()
        else:
            self._source = Source.seeded(simulation_seed)
            self._nonces = self._source.spawn()
        self._lock = threading.Lock()

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about all reports of one user together, spent or not."""
        return client_guarantee(
            epsilon=self._epsilon_max,
            delta=self._delta_max,
            reports=self._max_reports,
            protect=self._protect,
            simulated=self._source.is_seeded,
        )

    def _checked(self, spec: Any) -> RoundSpec:
        """Return the specification if these devices may answer it; ``ValueError`` otherwise.

        Bytes are read. Nothing is taken on trust: a tampered object is checked again.
        """
        if isinstance(spec, (bytes, bytearray, memoryview)):
            spec = RoundSpec.from_bytes(bytes(spec))
        if type(spec) is not RoundSpec:
            raise TypeError(f"spec must be a RoundSpec; got {type(spec).__name__}")
        spec.validate()
        hypotheses = self._hypotheses
        if (spec.hypotheses, spec.labels) != (hypotheses.count, hypotheses.labels):
            raise ValueError("the round is about another class of hypotheses")
        # Where both sides have one: functions cannot be compared.
        known = any(spec.fingerprint) and hypotheses.array is not None
        if known and spec.fingerprint != hypotheses.fingerprint:
            raise ValueError("the round is about other hypotheses than the device's")
        if self._protect == "label_and_context" and spec.channel != "coordinate":
            raise ValueError("only channel 'coordinate' protects contexts")
        return spec


class LocalClient(Devices):
    """One user's device.

    Parameters
    ----------
    hypotheses : Hypotheses
        The class the server learns over; the device's own copy, not one that came with the round.
        Rounds about other arrays are refused; what functions compute cannot be compared.
    epsilon_max : float
        Budget of all reports together.
    max_reports : int, default 1
        How many reports the device sends at most.
    protect : {"label", "label_and_context"}, default "label"
        With "label", **the context is known to the server**: the report protects the label only.
        With "label_and_context" it protects both; the device answers channel "coordinate" only.
    ledger : path-like, optional
        File that holds what was spent: it survives crashes and restarts, and one client at a time
        may hold it. By default the budget is that of this object.
    delta_max : float, default 0
        Budget of delta: above 0 only if the channels with Gaussian-like noise are to be answered.
    simulation_seed : int, optional
        Reproducible noise, for simulations: the reports say so and the guarantee is void.

    Raises
    ------
    StateError
        If the ledger is corrupt, missing though it existed, older than its lock says, known under
        two names, or held by another client.

    Notes
    -----
    Privacy does not depend on the server: specifications are checked, their numbers are used only
    inside clamped functions, and the ledger is charged, on disk, before noise is drawn. The label
    decides over nothing but the law of the report: not its size, not whether it is sent.
    """

    _copies = "a client cannot be copied or pickled: copies would spend one budget twice"

    def __init__(
        self,
        hypotheses: Hypotheses,
        epsilon_max: float,
        max_reports: int = 1,
        protect: str = "label",
        ledger: str | os.PathLike[str] | None = None,
        *,
        delta_max: float = 0.0,
        simulation_seed: int | None = None,
    ) -> None:
        super().__init__(hypotheses, epsilon_max, max_reports, protect, delta_max, simulation_seed)
        self._ledger = Ledger(ledger)

    def respond(self, spec: RoundSpec | bytes, x: Any = None, y: Any = None) -> Report:
        """Return the private report on label `y`, and charge the ledger for it.

        Parameters
        ----------
        spec : RoundSpec or bytes
            The round to answer, as the server published it.
        x : object, optional
            The context; None for hypotheses without.
        y : object
            The label; None, or anything that is no label in [0, M), is "no event", which is
            protected as well.

        Returns
        -------
        Report
            Of a size that depends on `spec` only.

        Raises
        ------
        ValueError, TypeError
            For a specification this device must not answer, or a public context that the
            hypotheses do not know. Nothing was drawn or spent.
        BudgetExceeded
            If it would exceed the budget. Nothing was drawn or spent.
        StateError
            If the ledger's lock was removed or replaced meanwhile. Nothing was drawn or spent.
        OSError
            If the ledger cannot be written. No report is made; the budget counts as spent.
        """
        with self._lock:
            self._ledger.check_process()
            spec = self._checked(spec)
            private = self._protect == "label_and_context" and x is not None
            draw = draws(spec, self._hypotheses, [x] if private else x, [y], self._protect)
            self._ledger.charge(
                spec.epsilon,
                spec.delta,
                epsilon_max=self._epsilon_max,
                delta_max=self._delta_max,
                max_reports=self._max_reports,
            )
            values = tuple(draw(self._source)[0].tolist())
            nonce = self._nonces.words(1).tobytes()
        return Report(spec.round, spec.digest, nonce, spec.channel, values, self._source.is_seeded)

    @property
    def spent(self) -> float:
        """Epsilon of all reports so far, together."""
        return float(self._ledger.epsilon)

    @property
    def remaining(self) -> float:
        """Epsilon that is left; 0 when all reports were sent."""
        if self.reports_left == 0:
            return 0.0
        return max(0.0, self._epsilon_max - self.spent)

    @property
    def reports_left(self) -> int:
        """How many reports the device may still send."""
        return max(0, self._max_reports - self._ledger.reports)

    def close(self) -> None:
        """Release the ledger file; the client answers nothing afterwards if it has one."""
        self._ledger.close()

    def __enter__(self) -> LocalClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        simulated = ", simulated" if self._source.is_seeded else ""
        return (
            f"<LocalClient: epsilon {self.spent:g} of {self._epsilon_max:g} spent, "
            f"{self.reports_left} reports left, protects {self._protect}{simulated}>"
        )


class DevicePredictor:
    """Forms predictions from broadcast weights and a context that never leaves the device.

    Parameters
    ----------
    hypotheses : Hypotheses
        The device's own copy of the class.
    """

    def __init__(self, hypotheses: Hypotheses) -> None:
        self._hypotheses = _checked_hypotheses(hypotheses)

    def predict(self, weights: Any, x: Any = None, mixing: float = 0.0) -> Prediction:
        """Return the prediction for the device's own context.

        Parameters
        ----------
        weights : array of shape (K,)
            As the server published them: nonnegative, summing to 1.
        x : object, optional
            The private context.
        mixing : float, default 0
            Share of the uniform mixture, in [0, 1], as published with the weights.

        Returns
        -------
        Prediction
            ``(1 - mixing) sum_j w_j f_j(x) + mixing mean_j f_j(x)``.
        """
        values = float_array("weights", weights, (self._hypotheses.count,))
        total = float(values.sum())
        if not (
            np.isfinite(values).all() and values.min() >= 0.0 and abs(total - 1.0) < _TOLERANCE
        ):
            raise ValueError("weights must be nonnegative and sum to 1")
        share = real_float("mixing", mixing)
        if self._hypotheses.kind == "likelihood":
            column = partial(self._hypotheses.column, x)
            return Prediction(values / total, share, column=column)
        return Prediction(values / total, share, matrix=self._hypotheses.matrix(x))

    def __repr__(self) -> str:
        return f"DevicePredictor({self._hypotheses!r})"


def _checked_hypotheses(value: Any) -> Hypotheses:
    if not isinstance(value, Hypotheses):
        raise TypeError(f"hypotheses must be dpoco.local.Hypotheses; got {type(value).__name__}")
    return value


def draws(
    spec: RoundSpec, hypotheses: Hypotheses, x: Any, labels: Any, protect: str
) -> Callable[[Source], IntArray]:
    """Return what draws the reports on some labels, shape (n, width), once they are paid for.

    `x` is the context that all share; with ``protect="label_and_context"`` one context a label, or
    None for none. All that can fail fails here, for public reasons: no randomness is drawn and
    nothing spent.
    """
    if spec.channel == "vector":
        from dpoco.local._vector import vector_randomizer  # accounting, which few devices need

        try:
            vectors = vector_randomizer(spec, hypotheses.matrix(x))
        except (ArithmeticError, CalibrationError):
            raise ValueError("no noise fits the numbers of the round") from None
        shape = (len(labels), spec.width)
        return lambda source: np.array(
            [vectors.respond(y, source) for y in labels], dtype=np.int64
        ).reshape(shape)
    if spec.channel == "subset":
        assert spec.labels is not None
        if hypotheses.kind != "array":
            hypotheses.matrix(x)  # an unknown context is refused, as on other channels
        subsets = subset_randomizer(spec.labels, spec.subset_size, spec.epsilon)
        own = label_indices(labels, spec.labels)
        return lambda source: subsets.respond_many(own, source)
    randomizer = bit_randomizer(spec.epsilon, len(spec.queries))
    tables = _values(spec, hypotheses, x, labels, protect)

    def draw(source: Source) -> IntArray:
        bits = [
            randomizer.respond_many(randomizer.thresholds(phi), places, source)
            for phi, places in tables
        ]
        return np.stack(bits, axis=1)

    return draw


def _values(
    spec: RoundSpec, hypotheses: Hypotheses, x: Any, labels: Any, protect: str
) -> list[tuple[FloatArray, IntArray]]:
    """Return, for each query, a list of values and which of them each label has."""
    count = len(labels)
    if spec.labels is None:
        indices = np.array([-1 if y is None else 0 for y in labels], dtype=np.int64)
    else:
        indices = label_indices(labels, spec.labels)
    each_own = protect == "label_and_context" and x is not None
    private = each_own or (protect == "label_and_context" and hypotheses.kind != "array")
    if private or spec.labels is None:
        rows = np.zeros((hypotheses.count, count))
        for i, (own, y) in enumerate(zip(x if each_own else [x] * count, labels, strict=True)):
            rows[:, i] = _private_likelihoods(hypotheses, own, y)
    elif count < spec.labels:  # fewer labels than a table would have
        rows = np.ascontiguousarray(hypotheses.columns(x, labels).T)
    else:
        matrix = hypotheses.matrix(x)
        # The last entry is the value of no label.
        places = np.where(indices < 0, spec.labels, indices)
        return [(np.append(query.values(matrix), 0.0), places) for query in spec.queries]
    each = np.arange(count)
    if spec.labels == 1 or count == 0:
        return [(np.zeros(count), each) for _ in spec.queries]
    return [
        (np.where(indices < 0, 0.0, query.values_at(rows, indices)), each) for query in spec.queries
    ]


def _private_likelihoods(hypotheses: Hypotheses, x: Any, y: Any) -> FloatArray:
    """Return the K likelihoods of a label; zeros where the user's function fails on private data.

    A device that fell silent whenever its data are unusual would tell just that.
    """
    try:
        return hypotheses.column(x, y)
    except Exception:
        return np.zeros(hypotheses.count)

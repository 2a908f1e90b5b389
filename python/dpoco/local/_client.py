"""The device of one user: answers rounds within a budget, and trusts the server with nothing."""

from __future__ import annotations

import os
import threading
from typing import Any, NoReturn

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.local_reports import client_guarantee
from dpoco.local._answers import PROTECTIONS, checked_spec, prepared
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._ledger import Ledger
from dpoco.local._specs import Report, RoundSpec
from dpoco.random import Source

__all__ = ["LocalClient"]


class LocalClient:
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
        self._hypotheses = checked_hypotheses(hypotheses)
        self._epsilon_max = positive_float("epsilon_max", epsilon_max)
        self._max_reports = positive_int("max_reports", max_reports)
        self._protect = choice("protect", protect, PROTECTIONS)
        self._delta_max = checked_delta(delta_max)
        self._source, self._nonces = sources(simulation_seed)
        self._lock = threading.Lock()
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
            spec = checked_spec(spec, self._hypotheses, self._protect)
            answer = prepared(spec, self._hypotheses, x, y, self._protect)
            self._ledger.charge(
                spec.epsilon,
                spec.delta,
                epsilon_max=self._epsilon_max,
                delta_max=self._delta_max,
                max_reports=self._max_reports,
            )
            values = answer(self._source)
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

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about all reports of this device together, spent or not."""
        return client_guarantee(
            epsilon=self._epsilon_max,
            delta=self._delta_max,
            reports=self._max_reports,
            protect=self._protect,
            simulated=self._source.is_seeded,
        )

    def close(self) -> None:
        """Release the ledger file; the client answers nothing afterwards if it has one."""
        self._ledger.close()

    def __enter__(self) -> LocalClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be copied or pickled: copies would spend one budget twice")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce__()

    def __repr__(self) -> str:
        simulated = ", simulated" if self._source.is_seeded else ""
        return (
            f"<LocalClient: epsilon {self.spent:g} of {self._epsilon_max:g} spent, "
            f"{self.reports_left} reports left, protects {self._protect}{simulated}>"
        )


def checked_hypotheses(value: Any) -> Hypotheses:
    """Return `value` if it is a class of hypotheses, or raise."""
    if not isinstance(value, Hypotheses):
        raise TypeError(f"hypotheses must be dpoco.local.Hypotheses; got {type(value).__name__}")
    return value


def checked_delta(value: Any) -> float:
    """Return `value` as a float in [0, 1), or raise."""
    delta = real_float("delta_max", value)
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta_max must be in [0, 1); got {delta!r}")
    return delta


def sources(simulation_seed: int | None) -> tuple[Source, Source]:
    """Return the sources of noise and of nonces: unrelated, and never those of public coins."""
    if simulation_seed is None:
        return Source(), Source()
    seeded = Source.seeded(simulation_seed)
    return seeded, seeded.spawn()

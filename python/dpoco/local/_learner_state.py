"""State files and guarantees of the distribution learner.

Layout: the frame of ``dpoco._state``; the header holds public arguments and open rounds, the
payload arrays in NumPy's own format.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpoco._state import pack, unpack, write_atomically
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.local_reports import local_guarantee
from dpoco.errors import StateError
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._intake import OpenRound
from dpoco.local._rules import Rule, Settings
from dpoco.local._specs import RoundSpec

if TYPE_CHECKING:
    from dpoco.local._life import LearnerLife

Learner = TypeVar("Learner", bound="LearnerLife")

__all__ = ["from_bytes", "guarantee_of", "load", "save", "to_bytes", "unpickled"]

_CHANNELS = {
    "bit": "bits of randomized response about public questions",
    "subset": "a random subset of labels around the own one",
    "auto": "one bit about a public question, or a random subset of labels around the own one",
    "coordinate": "one bit about one loss",
    "vector": "all losses with additive noise",
    "paper_exp3": "one loss with Laplace noise",
    "paper_wma": "all losses with Laplace noise",
}


def guarantee_of(
    rule: Rule,
    settings: Settings,
    reports_per_user: int,
    delta: float | None,
    simulated: bool,
) -> Guarantee:
    """Return the guarantee of a learner's reports.

    A rule whose printed constants give another epsilon than the nominal one says so in
    ``report_epsilon``; ``report_delta`` and ``paper_epsilon`` likewise.
    """
    return local_guarantee(
        epsilon=float(getattr(rule, "report_epsilon", settings.epsilon)),
        delta=float(getattr(rule, "report_delta", settings.delta)),
        mechanism=getattr(rule, "report_mechanism", _CHANNELS[settings.channel]),
        reports_per_user=reports_per_user,
        stated_delta=delta,
        protect=settings.protect,
        horizon=settings.horizon,
        simulated=simulated,
        paper_epsilon=getattr(rule, "paper_epsilon", None),
    )


def to_bytes(learner: LearnerLife) -> bytes:
    """Return the framed state."""
    from dpoco import __version__

    arguments = {name: v for name, v in learner._arguments.items() if name != "hypotheses"}
    arrays: dict[str, NDArray[Any]] = {
        f"rule.{name}": array for name, array in learner._rule.state().items()
    }
    hypotheses = learner._hypotheses
    if hypotheses.array is not None:
        arrays["hypotheses"] = hypotheses.array
    rounds = []
    for index, opened in enumerate(learner._rounds):
        spec = base64.b64encode(opened.spec.to_bytes()).decode()
        rounds.append({"spec": spec, "context": opened.context})
        parts = opened.nonces or [np.empty(0, dtype=np.uint64)]
        arrays[f"nonces.{index}"] = np.concatenate(parts)
        if hypotheses.kind == "callable" and opened.matrix is not None:
            arrays[f"matrix.{index}"] = opened.matrix  # the context itself may be anything
    header = {
        "kind": learner._kind,
        "library": __version__,
        "object": {
            "arguments": arguments,
            "public_seed": learner._settings.public_seed,
            "hypotheses": hypotheses.to_dict(),
            "round": learner._rounds.last,
            "reports": learner._reports,
            "simulated": learner._simulated,
            "rounds": rounds,
        },
    }
    payload = io.BytesIO()
    np.savez(payload, allow_pickle=False, **arrays)
    return pack(header, payload.getvalue())


def save(learner: LearnerLife, path: str | os.PathLike[str]) -> None:
    """Write the state atomically."""
    write_atomically(path, to_bytes(learner))


def load(
    cls: type[Learner],
    path: str | os.PathLike[str],
    hypotheses: Hypotheses | None,
) -> Learner:
    """Continue from a file."""
    return from_bytes(cls, Path(path).read_bytes(), hypotheses)


def unpickled(data: bytes, hypotheses: Hypotheses) -> Any:
    """Rebuild a pickled learner: active at once, since it holds no noise."""
    from dpoco.local._learner import DistributionLearner

    return from_bytes(DistributionLearner, data, hypotheses)


def from_bytes(cls: type[Learner], data: bytes, hypotheses: Hypotheses | None) -> Learner:
    """Rebuild a learner from its framed state, or raise `StateError`."""
    header, payload = unpack(bytes(data))
    if header.get("kind") != cls._kind:
        raise StateError(f"state is not of a {cls._kind}")
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return _rebuilt(cls, header["object"], arrays, hypotheses)
    except StateError:
        raise
    except Exception as error:
        # The text may quote the file; its kind is enough.
        raise StateError(
            f"state is corrupt: its description is refused ({type(error).__name__})"
        ) from None


def _rebuilt(
    cls: type[Learner],
    body: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    hypotheses: Hypotheses | None,
) -> Learner:
    known = _hypotheses(body["hypotheses"], arrays, hypotheses)
    learner = cls.__new__(cls)
    learner._build({"hypotheses": known, **body["arguments"]}, int(body["public_seed"]))
    prefix = "rule."
    learner._rule.restore(
        {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
    )
    for index, record in enumerate(body["rounds"]):
        spec = RoundSpec.from_bytes(base64.b64decode(record["spec"], validate=True))
        _check_spec(spec, learner._settings, learner._rule)
        context = record["context"]
        matrix = arrays.get(f"matrix.{index}")
        if matrix is not None:
            matrix = Hypotheses(matrix, known.count, known.labels).matrix()
        elif learner._settings.protect == "label":
            matrix = known.matrix(context)
        nonces = np.sort(np.asarray(arrays[f"nonces.{index}"], dtype=np.uint64))
        learner._rounds.open(OpenRound(spec, matrix, context, [nonces] if nonces.size else []))
    if learner._rounds.last > body["round"] or body["reports"] < 0:
        raise StateError("state is corrupt: impossible counts")
    learner._rounds.last = int(body["round"])
    learner._reports = int(body["reports"])
    learner._simulated = bool(body["simulated"])
    return learner


def _check_spec(spec: RoundSpec, settings: Settings, rule: Rule) -> None:
    """Refuse a round that is not this learner's: its channel decides how reports are read."""
    # A single label leaves no subsets; one loss may be sent with additive noise.
    allowed = {
        "auto": ("bit", "subset"),
        "subset": ("subset", "bit", "coordinate"),
        "coordinate": ("coordinate", "vector"),
    }.get(settings.channel, (settings.channel,))
    if (
        spec.channel not in allowed
        or spec.hypotheses != settings.hypotheses
        or spec.labels != settings.labels
        or spec.epsilon != getattr(rule, "report_epsilon", settings.epsilon)
    ):
        raise StateError("state is corrupt: a round is not of this learner")


def _hypotheses(
    record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], given: Hypotheses | None
) -> Hypotheses:
    fingerprint = bytes.fromhex(record["fingerprint"])
    if given is None:
        if "hypotheses" not in arrays:
            raise StateError(
                "the state's hypotheses are a callable: use DistributionLearner.load(path, "
                "hypotheses)"
            )
        given = Hypotheses(arrays["hypotheses"])
    if given.fingerprint != fingerprint:
        raise StateError("the state was written with other hypotheses")
    return given

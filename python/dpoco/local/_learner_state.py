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
from dpoco.local._archive import read_arrays
from dpoco.local._hedge import Hedge
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._intake import OpenRound
from dpoco.local._many import FAMILIES, OpenBlock, RoundSpecs
from dpoco.local._posterior import Posterior
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
    blocks = []
    for index, block in enumerate(learner._rounds.blocks):
        blocks.append([block.specs.first, len(block.specs)])
        arrays[f"block_nonces.{index}"], arrays[f"block_places.{index}"] = block.all_nonces()
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
            "blocks": blocks,
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
        return _rebuilt(cls, header["object"], read_arrays(payload), hypotheses)
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
    learner._build({**body["arguments"], "hypotheses": known}, int(body["public_seed"]))
    counts = [body[name] for name in ("round", "reports")]
    horizon = learner._settings.horizon
    if (
        any(type(count) is not int or count < 0 for count in counts)
        or counts[0] > (2**63 - 1 if horizon is None else horizon)
        or type(body["simulated"]) is not bool
    ):
        raise StateError("state is corrupt: impossible counts")
    prefix = "rule."
    learner._rule.restore(
        {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
    )
    taken, found = 0, learner._rounds
    for index, record in enumerate(body["rounds"]):
        spec = RoundSpec.from_bytes(base64.b64decode(record["spec"], validate=True))
        context = record["context"]
        matrix = None
        if known.kind == "callable":
            matrix = Hypotheses(arrays[f"matrix.{index}"], known.count, known.labels).matrix()
        elif learner._settings.protect == "label":
            matrix = known.matrix(context)
        _check_spec(spec, learner._settings, learner._rule, matrix)
        if spec.round <= found.last:
            raise StateError("state is corrupt: a round comes twice")
        nonces = np.sort(_words(arrays[f"nonces.{index}"]))
        if (nonces[1:] == nonces[:-1]).any():
            raise StateError("state is corrupt: a nonce comes twice")
        found.open(OpenRound(spec, matrix, context, [nonces] if nonces.size else []))
        taken += nonces.size
    latest = found.last
    for index, (first, count) in enumerate(body["blocks"]):
        block = _block(learner, first, count, arrays, index)
        if any(opened.spec.round in block for opened in found) or any(
            first <= other.last and other.specs.first <= block.last for other in found.blocks
        ):
            raise StateError("state is corrupt: a round comes twice")
        found.blocks.append(block)
        latest = max(latest, block.last)
        taken += block.all_nonces()[0].size
    found.last = counts[0]
    ends = [opened.spec.round for opened in found] + [block.last for block in found.blocks]
    if latest > counts[0] or taken > counts[1] or min(ends, default=counts[0]) < found.oldest:
        raise StateError("state is corrupt: impossible counts")
    learner._reports, learner._simulated = counts[1], body["simulated"]
    if isinstance(learner._rule, Posterior) and learner._rule.reports != counts[1]:
        raise StateError("state is corrupt: impossible counts")
    return learner


def _words(array: NDArray[Any]) -> NDArray[np.uint64]:
    if array.dtype != np.uint64 or array.ndim != 1:
        raise StateError("state is corrupt: impossible nonces")
    return array


def _block(
    learner: LearnerLife, first: Any, count: Any, arrays: Mapping[str, NDArray[Any]], index: int
) -> OpenBlock:
    """Return rounds that were opened together, with the nonces of their reports."""
    settings = learner._settings
    if (
        type(first) is not int
        or type(count) is not int
        or not 1 <= count <= learner._rounds.limit
        or not 1 <= first < 2**63 - count
        or not isinstance(learner._rule, Posterior)
        or settings.channel != "bit"
        or settings.query not in FAMILIES
    ):
        raise StateError("state is corrupt: impossible rounds")
    block = OpenBlock(RoundSpecs(settings, first, count), np.zeros(count, dtype=np.bool_))
    nonces, places = _words(arrays[f"block_nonces.{index}"]), arrays[f"block_places.{index}"]
    if places.dtype != np.int64 or places.shape != nonces.shape:
        raise StateError("state is corrupt: impossible nonces")
    if nonces.size:
        if not 0 <= int(places.min()) <= int(places.max()) < count:
            raise StateError("state is corrupt: impossible nonces")
        block.record(nonces, places)
        if block.repeated():
            raise StateError("state is corrupt: a nonce comes twice")
    return block


def _check_spec(
    spec: RoundSpec, settings: Settings, rule: Rule, matrix: NDArray[np.float64] | None
) -> None:
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
        or spec.fingerprint != settings.fingerprint
        or spec.epsilon != getattr(rule, "report_epsilon", settings.epsilon)
        or (isinstance(rule, Hedge) and not rule.accepts(spec, matrix))
        or (isinstance(rule, Posterior) and not rule.accepts(spec))
    ):
        raise StateError("state is corrupt: a round is not of this learner")
    # Where weights do not shape questions, the round can be asked for again.
    if settings.interactive or isinstance(rule, Hedge):
        return
    if rule.specify(spec.round, matrix).digest != spec.digest:
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

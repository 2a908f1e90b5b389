"""Mutated state files: each is refused with `StateError`, or gives an object that behaves."""

from __future__ import annotations

import functools
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.mutations import changed_bytes, changed_json, odd_array, require
from tests.fuzz.subjects import ONLINE, SERVERS, snapshots

import dpoco
from dpoco.learning import state as _state

__all__ = ["check_state", "subjects"]


def subjects() -> dict[str, Callable[[random.Random], None]]:
    """Return a function for each saved class and kind of it."""
    return {name: functools.partial(_one, name) for name in (*ONLINE, *SERVERS)}


def _one(name: str, rng: random.Random) -> None:
    states = snapshots(name)
    check_state(name, _changed(rng, rng.choice(states), rng.choice(states)))


def check_state(name: str, data: bytes) -> None:
    """Load a state as `dpoco.load` does, and use what comes out."""
    try:
        header, _ = _state.unpack(data)
        loaded = _state.find_class(header.get("kind"))._from_bytes(data)
    except dpoco.StateError as error:
        # What is said of a refused header is the kind of error that it met.
        bounded = "MemoryError" not in str(error)
        require(bounded, "a state made the reader allocate without bound")
        return
    text = _bytes_of(loaded)
    assert _bytes_of(type(loaded)._from_bytes(text)) == text, "saved, loaded, saved: differs"
    repr(loaded)
    assert loaded.guarantee is not None
    if name in ONLINE:
        _use_online(name, loaded)
    else:
        _use_server(loaded)
    _bytes_of(loaded)


def _bytes_of(loaded: Any) -> bytes:
    return loaded._to_bytes() if hasattr(loaded, "_to_bytes") else loaded.__reduce__()[1][0]


def _use_online(name: str, loaded: Any) -> None:
    online = ONLINE[name]
    try:
        for _ in range(3):
            if hasattr(loaded, "decide"):
                context = () if not hasattr(loaded, "arms") else (online.stream[0][0],)
                _finite(loaded.decide(*context))
            played = online.play(loaded, 0, 1)
            _finite(getattr(played, "losses", getattr(played, "rewards", played)))
    except dpoco.HorizonExceeded:
        pass
    except ValueError as error:  # a changed header may name another dimension
        require("must have shape" in str(error), str(error))
    except dpoco.RoundOrderError:
        assert hasattr(loaded, "decide")


def _use_server(loaded: Any) -> None:
    weights = loaded.weights if hasattr(loaded, "weights") else loaded.posterior()
    _finite(weights)
    assert abs(float(np.sum(weights)) - 1.0) < 1e-6, "weights do not add up to 1"
    try:
        if loaded._kind == "DistributionLearner":
            spec = loaded.round_spec()
            if spec.channel in ("bit", "coordinate"):
                values = (1,) * spec.width
                report = dpoco.local.Report(spec.round, spec.digest, b"fuzzing!", "bit", values)
                loaded.update(spec, _renamed(report, spec.channel))
        _finite(loaded.weights if hasattr(loaded, "weights") else loaded.posterior())
    except dpoco.HorizonExceeded:
        pass


def _renamed(report: Any, channel: str) -> Any:
    import dataclasses

    return dataclasses.replace(report, channel=channel)


def _finite(value: Any) -> None:
    assert np.isfinite(np.asarray(value, dtype=float)).all(), "not finite"


def _changed(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return a mutated state, most often with a checksum that fits."""
    kind = rng.randrange(10)
    if kind == 0:
        return changed_bytes(rng, data, other)
    header, payload = _state.unpack(data)
    if kind == 1:
        return _framed(rng, changed_bytes(rng, json.dumps(header).encode(), other), payload)
    if kind in (2, 3, 4):
        for _ in range(rng.choice((1, 1, 2))):
            header = {**header, "object": changed_json(rng, header["object"])}
        if rng.random() < 0.05:
            header = changed_json(rng, header)
    elif payload[:2] == b"PK" and kind < 9:
        payload = _changed_arrays(rng, payload)
    else:
        payload = changed_bytes(rng, payload, _state.unpack(other)[1])
    return _framed(rng, json.dumps(header).encode(), payload)


def _framed(rng: random.Random, text: bytes, payload: bytes) -> bytes:
    if rng.random() < 0.02:
        text = rng.choice([b"[" * 100_000, b'{"object":' * 100_000, b"1" * 10_000, b"\xff", b""])
    version, sizes = 1, (len(text), len(payload))
    if rng.random() < 0.02:
        version = rng.choice((0, 2, 2**32 - 1))
        sizes = rng.choice([sizes, (0, 0), (2**32 - 1, 2**64 - 1), (len(text) + len(payload), 0)])
    body = _state._FRAME.pack(_state.FRAME_SIGNATURE, version, *sizes) + text + payload
    return body + _state.hashlib.sha256(body).digest()


def _changed_arrays(rng: random.Random, payload: bytes) -> bytes:
    """Return an archive with one array changed, dropped, added, or lying about its size."""
    with np.load(io.BytesIO(payload)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    name = rng.choice(list(arrays))
    kind = rng.randrange(6)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name + "x"] = arrays[name]
    elif kind == 2:
        arrays[name] = arrays[rng.choice(list(arrays))]
    elif kind == 3:
        changed = arrays[name].tobytes()
        raw = changed_bytes(rng, changed)
        whole = len(raw) // arrays[name].itemsize
        array = np.frombuffer(raw[: whole * arrays[name].itemsize], dtype=arrays[name].dtype)
        same = array.size == arrays[name].size
        arrays[name] = array.reshape(arrays[name].shape) if same else array
    elif kind == 4:
        array = np.asarray(odd_array(rng, arrays[name]))
        if array.dtype.kind != "O" and array.nbytes < 2**20:
            arrays[name] = array
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue() if kind < 5 else _lying(rng, out.getvalue(), name)


def _lying(rng: random.Random, payload: bytes, name: str) -> bytes:
    out = io.BytesIO()
    way = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(io.BytesIO(payload)) as old, zipfile.ZipFile(out, "w", way) as new:
        for entry in old.namelist():
            content = old.read(entry)
            if entry == f"{name}.npy":
                size = rng.choice((2**31, 2**40, 2**62))
                head = io.BytesIO()
                np.lib.format.write_array_header_1_0(
                    head, {"descr": "<f8", "fortran_order": False, "shape": (size,)}
                )
                # Compressed, a few bytes that unpack to many.
                content = head.getvalue() + bytes(2**22 if way == zipfile.ZIP_DEFLATED else 64)
            new.writestr(entry, content)
    return out.getvalue()

"""States with changed contents and correct checksums: none of them may be accepted."""

from __future__ import annotations

import copy
import struct

import pytest

import dpoco
from dpoco.learning import state as _state


class Forged:
    """The state of a learner, which is accepted, and changes to it, which are not."""

    def __init__(self, learner):
        self._kind = type(learner)
        self.header, self.payload = _state.unpack(learner._to_bytes())
        same = self._kind._from_bytes(_state.pack(self.header, self.payload))
        assert same.round == learner.round

    def refused(self, header=None, payload=None):
        header = self.header if header is None else header
        payload = self.payload if payload is None else payload
        with pytest.raises(dpoco.StateError):
            self._kind._from_bytes(_state.pack(header, payload))

    def with_setting(self, key, value):
        """Return the header with another value at a path such as object.arguments.horizon."""
        target = header = copy.deepcopy(self.header)
        *path, last = key.split(".")
        for part in path:
            target = target[part]
        target[last] = value
        return header

    def settings_refused(self, lies):
        for key, value in lies:
            self.refused(self.with_setting(key, value))

    def words_refused(self, *words):
        """Refuse each (place, number) alone; places below 0 count from the end."""
        for at, value in words:
            payload = bytearray(self.payload)
            form = "<d" if isinstance(value, float) else "<Q"
            struct.pack_into(form, payload, at % len(payload), value)
            self.refused(payload=bytes(payload))

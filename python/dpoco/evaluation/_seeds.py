"""Seeds of experiments: a tree of names, in which no child depends on its siblings."""

from __future__ import annotations

import hashlib
import secrets

import numpy as np

from dpoco.random import Source

__all__ = ["SeedTree"]


class SeedTree:
    """A root seed and a path of names; every node has a seed of its own.

    Parameters
    ----------
    seed : int, optional
        At least 0. None takes the root from the operating system; `seed` tells it.
    *path : str or int
        Names from the root to this node.

    Raises
    ------
    ValueError, TypeError
        For a negative seed, or names that are neither str nor int.

    Notes
    -----
    The seed of a node is SHA-256 of the root and the names, so it depends on nothing else: runs may
    be added, left out, reordered or spread over machines, and each stays the same to the bit.
    Seeded noise voids guarantees; this is for experiments.

    Examples
    --------
    >>> from dpoco.evaluation import SeedTree
    >>> SeedTree(1).child("noise", 3) == SeedTree(1).child("noise").child(3)
    True
    """

    def __init__(self, seed: int | None = None, *path: str | int) -> None:
        if seed is None:
            seed = secrets.randbits(128)
        if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"seed must be an int; got {type(seed).__name__}")
        if seed < 0:
            raise ValueError(f"seed must be at least 0; got {seed}")
        for name in path:
            if isinstance(name, bool) or not isinstance(name, (str, int, np.integer)):
                raise TypeError(f"names must be str or int; got {type(name).__name__}")
        self._seed = int(seed)
        self._path = tuple(name if isinstance(name, str) else int(name) for name in path)

    @property
    def seed(self) -> int:
        """The root's seed: what reproduces the whole tree."""
        return self._seed

    @property
    def path(self) -> tuple[str | int, ...]:
        """Names from the root to this node."""
        return self._path

    def child(self, *names: str | int) -> SeedTree:
        """Return the node below this one with these names."""
        return SeedTree(self._seed, *self._path, *names)

    def _digest(self, use: bytes) -> bytes:
        # Lengths first, so that ("a", "b") and ("ab",) differ; the kind, so that 1 and "1" do.
        hashed = hashlib.sha256(b"dpoco seed tree" + use)
        for name in (self._seed, *self._path):
            text = str(name).encode()
            kind = b"s" if isinstance(name, str) else b"i"
            hashed.update(kind + len(text).to_bytes(8, "little") + text)
        return hashed.digest()

    def source(self) -> Source:
        """Return a new seeded source of noise: equal nodes give equal noise."""
        return Source.seeded(int.from_bytes(self._digest(b"noise"), "little"))

    def generator(self) -> np.random.Generator:
        """Return a new NumPy generator for simulated data; independent of `source`."""
        return np.random.default_rng(int.from_bytes(self._digest(b"world"), "little"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SeedTree):
            return NotImplemented
        return (self._seed, self._path) == (other._seed, other._path)

    def __hash__(self) -> int:
        return hash((self._seed, self._path))

    def __repr__(self) -> str:
        return f"SeedTree({', '.join(repr(name) for name in (self._seed, *self._path))})"

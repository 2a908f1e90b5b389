"""Noisy gradients for any training loop: DP-FTRL as a function of NumPy arrays.

A step adds up the clipped gradients of a batch. It releases this sum plus noise that later steps
partly cancel, so that sums of many steps, which optimisers follow, have little noise.
Nothing is sampled: the order of the examples is arbitrary and public.

Claim: all noisy gradients, and every model that any optimiser makes of them, are private for one
example, or for all steps of one person. Proof: ``docs/privacy/deep_learning.md``. Guide:
``docs/deep_learning.md``. Sources: Kairouz et al. (DP-FTRL, 2021); Choquette-Choo et al. (several
epochs, 2023); Dvijotham et al. (buffers, 2024).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import secrets
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _core
from dpoco._encryption import EncryptionKey, given_key, refuse_readable
from dpoco._files import lock, read_state, synchronise, write_atomically
from dpoco._literals import Relation
from dpoco._validation import (
    FloatArray,
    choice,
    float_array,
    instance,
    positive_float,
    positive_int,
)
from dpoco.accounting import Budget, Guarantee, continual_sum
from dpoco.accounting.continual_sum import choose, search_rates
from dpoco.accounting.forgetting import INDEPENDENT, damp, view_noise
from dpoco.accounting.gaussian import charged_gaussian_mu
from dpoco.accounting.release import noisy_on_lattice
from dpoco.accounting.statement import stated_delta
from dpoco.errors import HorizonExceeded, StateError
from dpoco.learning.participation import Participation
from dpoco.learning.state import pack, unpack
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.bounds import ClippedVector, ClippedVectors
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES, Neighbours
from dpoco.privacy.records import to_record
from dpoco.random import Source, checked_source

__all__ = ["NoisyGradients"]

_SLOT = struct.Struct("<Q16s")
_SLOTS = 2  # written in turn: a torn write leaves the other


class Reservation:
    """A locked file with the number of rounds that are reserved.

    Parameters
    ----------
    path : path-like
        The file; a new training makes it, and refuses one that exists.
    secret : bytes
        32 bytes that a checkpoint holds, under which counts are authenticated.
    ahead : int
        Rounds that are reserved and not played, at most: as many are skipped after a crash. With 1
        every round waits for the disk.
    new : bool
        Whether the training is new.

    Raises
    ------
    StateError
        If the file is in use, exists and should not, or is not of this training.
    """

    _handle = -1
    _coming: Future[int] | None = None
    _writer: ThreadPoolExecutor | None = None

    def __init__(self, path: str | os.PathLike[str], secret: bytes, ahead: int, new: bool) -> None:
        # Only the checkpoint holds the key of the counts, so that a file of another training, or an
        # edited one, has no valid count.
        self._secret, self._ahead, self._slot = secret, ahead, 0
        # A child program that inherits the descriptor would hold the lock as long as it runs.
        flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | (os.O_CREAT | os.O_EXCL if new else 0)
        try:
            self._handle = os.open(path, flags, 0o600)
        except FileExistsError:
            raise StateError(
                f"{Path(path).name} reserves rounds of another training: load its checkpoint, or "
                "name another file for a new training, which costs its own budget"
            ) from None
        except FileNotFoundError:
            raise StateError(
                f"{Path(path).name} is missing: only this file tells which noise was released"
            ) from None
        try:
            self._lock(path)
            if new:
                self.rounds = self._write(0)
                # The name of a new file survives a crash only once its folder is written.
                synchronise(Path(path).absolute().parent)
            else:
                self.rounds = self._read(path)
        except BaseException:
            self.close()
            raise

    def _lock(self, path: str | os.PathLike[str]) -> None:
        """Keep other processes out: two that reserve the same rounds would repeat their noise."""
        if os.name == "posix" and not lock(self._handle):
            raise StateError(f"another process continues the training of {Path(path).name}")

    def _digest(self, rounds: int) -> bytes:
        """Return the mark by which a count is known to be of this training, and whole."""
        return hashlib.blake2b(
            rounds.to_bytes(8, "little"), key=self._secret, digest_size=16
        ).digest()

    def _read(self, path: str | os.PathLike[str]) -> int:
        """Return the rounds that are reserved; `StateError` if the file does not tell."""
        data = os.pread(self._handle, _SLOTS * _SLOT.size, 0)
        slots = (data[i * _SLOT.size : (i + 1) * _SLOT.size] for i in range(_SLOTS))
        stated: Iterator[tuple[int, int, bytes]] = (
            (i, *_SLOT.unpack(slot)) for i, slot in enumerate(slots) if len(slot) == _SLOT.size
        )
        known = [(n, i) for i, n, mark in stated if hmac.compare_digest(mark, self._digest(n))]
        if not known:
            raise StateError(f"{Path(path).name} is not the reservation file of this training")
        # The smaller count is the one of the write before. The next write goes into its slot: a
        # torn one in place of the larger count would leave a count of rounds that are released.
        rounds, slot = max(known)
        self._slot = (slot + 1) % _SLOTS
        return rounds

    def _write(self, rounds: int) -> int:
        """Reserve rounds up to this one, and return it once it is on the disk."""
        entry = _SLOT.pack(rounds, self._digest(rounds))
        os.pwrite(self._handle, entry, self._slot * _SLOT.size)
        # Nothing may be released before the count is on the disk.
        os.fsync(self._handle)
        self._slot = (self._slot + 1) % _SLOTS
        return rounds

    def reserve(self, round_: int) -> None:
        """Return once `round_` is reserved on the disk, and let a thread reserve the next ones."""
        if self._coming is not None and (self._coming.done() or round_ > self.rounds):
            # Cleared first: the result raises if the disk is full, and the next call then writes.
            coming, self._coming = self._coming, None
            self.rounds = coming.result()
        half = self._ahead // 2
        if round_ > self.rounds:
            self.rounds = self._write(round_ - 1 + max(half, 1))
        # The next rounds are reserved by a thread, while these are played.
        if half > 0 and self._coming is None and self.rounds + half < round_ + self._ahead:
            if self._writer is None:
                self._writer = ThreadPoolExecutor(1, "dpoco-reservations")
            self._coming = self._writer.submit(self._write, self.rounds + half)

    def close(self) -> None:
        """Give the file free for another process."""
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        """Close the file. A write holds the last reference: its own thread may end up here."""
        if self._writer is not None:
            self._writer.shutdown(wait=False)
            self._writer = None
        self.close()


Correlated = Buffered | Banded

_LONGEST = 2**20  # steps whose variances are computed one by one
_KEPT = 2**25  # numbers of past noise that a band may keep: 256 MB
_TILTS = (0.15, 0.2, 0.25)


def choose_factorisation(
    steps: int, near: Neighbours, half_life: float, dimension: int = 1
) -> Correlated:
    """Return the factorisation with the least noise in a view of the gradients of all steps.

    Parameters
    ----------
    steps : int
        n, the steps of the whole training.
    near : Neighbours
        How often one person comes.
    half_life : float
        Steps after which the view gives a gradient half the weight; infinite for their sum. The
        iterates of SGD are such a sum, with momentum and without.
    dimension : int
        d; bands keep so many numbers for each step, and are not chosen if that is too much memory.
    """
    known: list[Correlated] = [
        each for each in _candidates(steps, near, half_life) if each.fits(steps)
    ]
    # The variance of a view that forgets is known only for draws of one scale; bands have several.
    if half_life == math.inf:
        known += _bands(steps, near, dimension)
    return choose(known, lambda each: (view_error(each, steps, near, half_life),))[0]


def view_error(factor: Correlated, steps: int, near: Neighbours, half_life: float) -> float:
    """Return the root mean square noise of a view at unit sensitivity and mu = 1, exactly.

    The mean is over all steps, or the first 2^20.
    """
    if isinstance(factor, Normalised | Banded):
        if half_life < math.inf:
            raise ValueError("views that forget have a variance for draws of one scale only")
        return continual_sum.mean_error(factor, steps, near)
    kept = np.full(min(steps, _LONGEST), 2.0 ** (-1.0 / half_life))
    deviations = view_noise(factor, kept)[0]
    return factor.column(steps, near) * math.sqrt(float(np.mean(deviations**2)))


def _candidates(steps: int, near: Neighbours, half_life: float) -> Iterator[Buffered]:
    """Yield sums with buffers. All are equally private, and differ in the view's noise."""
    yield INDEPENDENT
    best = continual_sum.choose_buffers(steps, near)
    methods = {best, continual_sum.plan_method("blt", steps, near)}
    if near.rounds > 1:
        methods.add(search_rates(steps, near.rounds, near.separation, mean=True))
    for method in methods:
        found = continual_sum.factorisation(method, steps)
        if isinstance(found, Buffered) and (half_life == math.inf or type(found) is Buffered):
            yield found
        if type(found) is Buffered:
            lives = [half_life * f for f in (0.5, 1.0, 2.0, 4.0)]
            if half_life == math.inf:
                lives = [near.separation * 2.0**i for i in range(-2, 6)] if near.rounds > 1 else []
            for life in lives:
                yield damp(found, 2.0 ** (-1.0 / life))


def _bands(steps: int, near: Neighbours, dimension: int) -> Iterator[Banded]:
    """Yield bands, in each of which most columns are longer the earlier they are."""
    for band in continual_sum.bands(steps, near)[:1]:
        if band.band * dimension <= _KEPT:
            yield from (replace(band, tilt=tilt) for tilt in _TILTS)


# Up to here the rounding of a sum moves it by 2^-11 of the clipping norm (Lemma 2).
_LARGEST_BATCH = 2**20
_SECRET = 32  # bytes of the key of a file of reservations


class NoisyGradients:
    """The noise of a private training: from sums of clipped gradients to noisy ones.

    Parameters
    ----------
    dimension : int
        d, the number of parameters that are trained.
    clip : float
        Bound on the l2 norm of an example's gradient, which the caller enforces; in
        [1e-100, 1e100]. Public: never take it from the data. This and all following arguments are
        keyword-only.
    batch_size : int
        Largest number of examples in a step, up to 2^20.
    steps : int
        Steps of one epoch.
    epochs : int, default 1
        How often one person comes: in at most so many steps, any two of them at least `steps`
        apart, as in a fixed order of the batches.
    budget : Budget or None
        Guarantee of the whole training; None adds no noise and gives no guarantee.
    participation : Participation, optional
        Another rule for the steps of one person, instead of `epochs`; with ``enforced=False``.
    workload : "prefix" or float, default "prefix"
        How the optimiser uses the gradients: "prefix" for their sum, as in SGD with momentum or
        without it; a half-life in steps if old gradients fade. The choice affects accuracy only.
    relation : {"zero_out", "replace"}
        Neighbouring data differ in one person, who does not take part, or has other examples.
    source : Source, optional
        Source of randomness; None: the operating system.

    Attributes
    ----------
    mechanism : GaussianSum
        What is released, as the guarantee describes it.
    guarantee : Guarantee
        Of all noisy gradients together.

    Notes
    -----
    Memory: 10 d doubles; those of a person with several steps may be correlated by a band of b of
    them, with (b + 6) d doubles, if b d is at most 2^25. Time of a step: one Gaussian draw of d
    variates and O(d), or O(b d). Threads take turns.

    Examples
    --------
    >>> import numpy as np, dpoco
    >>> from dpoco.adapters.gradients import NoisyGradients
    >>> noisy = NoisyGradients(3, clip=1.0, batch_size=64, steps=100,
    ...                        budget=dpoco.Budget(epsilon=8.0, delta=1e-6))
    >>> noisy.release(np.zeros(3)).shape
    (3,)
    """

    mechanism: GaussianSum
    guarantee: Guarantee

    def __init__(
        self,
        dimension: int,
        *,
        clip: float,
        batch_size: int,
        steps: int,
        epochs: int = 1,
        budget: Budget | None,
        participation: Participation | None = None,
        workload: str | float = "prefix",
        relation: Relation = "zero_out",
        source: Source | None = None,
    ) -> None:
        positive_int("dimension", dimension, maximum=2**40)
        positive_int("batch_size", batch_size, maximum=_LARGEST_BATCH)
        n = positive_int("steps", steps) * positive_int("epochs", epochs)
        choice("relation", relation, CHANGES)
        if budget is not None:
            instance("budget", budget, Budget, "a dpoco.Budget or None")
        if isinstance(workload, str) and workload != "prefix":
            raise ValueError(f"workload must be 'prefix' or a half-life in steps; got {workload!r}")
        life = math.inf if workload == "prefix" else positive_float("workload", workload)
        # A fixed order of the batches brings an example in every `steps`-th step and in no other.
        if participation is None and epochs > 1:
            participation = Participation(epochs, steps, enforced=False)
        near = Neighbours(relation)
        if participation is not None:
            people = "a dpoco.Participation or None"
            if instance("participation", participation, Participation, people).enforced:
                raise ValueError(
                    "gradients have no persons: participation must have enforced=False"
                )
            participation.check(n)
            most = participation.largest(n)
            near = Neighbours(relation, rounds=most, separation=participation.separation)
        summand = ClippedVectors(dimension, positive_float("clip", clip), batch_size)
        self._half_life = life
        self._people = near
        self.mechanism = _plan_sum(summand, n, near, budget, life)
        origin = Source() if source is None else checked_source(source)
        self.guarantee = _guarantee(self.mechanism, relation, participation, budget, origin)
        # Computed from the description, and not by the search: an error there costs no privacy.
        if budget is not None:
            self.guarantee.require(budget)
        self._seeded = origin.is_seeded
        # The engine sees no single gradients. It bounds sums, above everything that is pushed.
        longest = ClippedVector(dimension, 2.0, _longest_push(self.mechanism), math.inf)
        held = replace(self.mechanism, summand=longest)
        self._engine = _core.ContinualSum(held, origin._claim())
        self._published = np.zeros(dimension)
        self._secret = secrets.token_bytes(_SECRET)
        self._reservation: Reservation | None = None
        self._restored = self._closed = False
        # Two releases at once would reserve one round and draw two.
        self._turn = threading.Lock()
        self._key: EncryptionKey | None = None

    @property
    def round(self) -> int:
        """Steps released so far, and skipped after crashes."""
        return int(self._engine.round)

    @property
    def horizon(self) -> int:
        """Steps of the whole training."""
        return self.mechanism.pushes

    def covers(self, rounds: int, separation: int) -> bool:
        """Return whether the guarantee is of an example in so many steps, so far apart.

        Parameters
        ----------
        rounds : int
            Steps that have the example, at least 1.
        separation : int
            Steps from one of them to the next, at least 1.
        """
        people = self._people
        return rounds <= people.rounds and (rounds == 1 or separation >= people.separation)

    @property
    def noise_in_view(self) -> float:
        """Root mean square, over all steps, of the noise in the view of the workload, exactly."""
        total, near = self.mechanism, self._people
        if total.scale == 0.0:
            return 0.0
        column = total.factorisation.column(total.pushes, near)
        noise = view_error(_factor(total), total.pushes, near, self._half_life)
        return total.scale * noise / column

    def release(self, gradient_sum: ArrayLike) -> FloatArray:
        """Return the sum of a batch's clipped gradients, with noise.

        Parameters
        ----------
        gradient_sum : array_like of float, shape (d,)
            Sum, not mean, of at most `batch_size` gradients of norm at most `clip`, one of a
            person. It counts as zero if an entry is not finite: empty such an example before, or
            it erases its batch.

        Returns
        -------
        ndarray of float64, shape (d,)

        Raises
        ------
        HorizonExceeded
            Behind the last step; nothing is drawn and nothing changes.
        StateError
            After `close`.
        """
        total = float_array("gradient_sum", gradient_sum, (self.mechanism.summand.size,))
        # First of all: a thread of the parent process may have held the lock of a forked child.
        self._engine.check_process()
        with self._turn:
            self._require(1)
            # Before the noise is drawn: a crash in between skips a round and releases nothing
            # twice.
            if self._reservation is not None:
                self._reservation.reserve(self.round + 1)
            return self._push(total)

    def _push(self, total: FloatArray) -> FloatArray:
        """Return the noisy sum of a step: the difference of two noisy running sums."""
        if self.mechanism.scale == 0.0:  # differences of sums in doubles would lose digits
            self._engine.push(np.zeros_like(total))
            return np.where(np.isfinite(total).all(), total, 0.0)
        published = self._engine.push(total)
        # Both are multiples of one power of two, below 2^53 of them: the difference is exact.
        noisy: FloatArray = np.subtract(published, self._published, out=self._published)
        self._published = published
        return noisy

    def _require(self, rounds: int) -> None:
        """Raise `HorizonExceeded` if fewer steps are left, and `StateError` after `close`."""
        if self._closed:
            raise StateError("closed: another process may continue this training")
        if self.round + rounds > self.horizon:
            raise HorizonExceeded(f"all {self.horizon} steps of the training are used up")

    def reserve(self, path: str | os.PathLike[str], ahead: int = 16) -> None:
        """Write to a file, before each release, that its noise may have been used.

        Parameters
        ----------
        path : path-like
            A file that no other training has; of a restored object the one that the training had
            before. It stays locked until this object is closed.
        ahead : int, default 16
            Steps that are reserved and not released, at most: so many are skipped after a crash.
            They are reserved meanwhile; with 1 every step waits for the disk.

        Notes
        -----
        In a restored object this call skips all reserved steps: their noise is never released
        again. Proof: ``docs/privacy/deep_learning.md``, Theorem 2.

        Raises
        ------
        StateError
            If the file is in use, of another training, or missing.
        """
        most = positive_int("ahead", ahead)
        with self._turn:
            if self._reservation is not None:
                raise StateError("this training already has a reservation file")
            if self._closed:
                raise StateError("closed: another process may continue this training")
            # A checkpoint of round 0 does not tell whether rounds were released after it was
            # written.
            new = self.round == 0 and not self._restored
            kept = Reservation(path, self._secret, most, new)
            self._skip(min(kept.rounds, self.horizon) - self.round)
            self._reservation = kept

    def _skip(self, rounds: int) -> None:
        """Draw the noise of steps and release none of it.

        What was added before a crash and is not in the state any more shifts the lattice that sums
        are rounded to. A uniform shift hides this one.
        """
        if rounds <= 0:
            return
        d, grid = self.mechanism.summand.size, self.mechanism.grid
        # Released sums are multiples of this many grids.
        coarse = continual_sum.release_grid(self.mechanism.scale) / grid if grid else 1.0
        # `coarse` is a power of two, so that the remainder is uniform.
        shift = np.frombuffer(os.urandom(4 * d), dtype=np.uint32) % np.uint32(coarse)
        for _ in range(rounds - 1):
            self._push(np.zeros(d))
        self._push(shift.astype(np.float64) * grid)

    def close(self) -> None:
        """Give up the file of reservations, which another process may then continue.

        This object releases nothing any more; without such a file nothing changes.
        """
        with self._turn:
            if self._reservation is not None:
                self._reservation.close()
                self._reservation, self._closed = None, True

    # -- states -----------------------------------------------------------------------------------

    def _header(self) -> dict[str, object]:
        """Return what a state must agree with: the sum, and whether its noise is secret."""
        return {"kind": type(self).__name__, "mechanism": to_record(self.mechanism),
                "seeded": self._seeded}  # fmt: skip

    def to_bytes(self) -> bytes:
        """Return the state: noise key and raw sums of gradients."""
        with self._turn:
            parts = (self._secret, self._published.tobytes(), self._engine.state())
        return pack(self._header(), b"".join(parts))

    def restore(self, data: bytes) -> None:
        """Continue from what `to_bytes` returned, bit for bit, in an object that has not started.

        Raises
        ------
        StateError
            If the state is damaged, or of a training with other numbers.
        """
        with self._turn:
            if self.round > 0:
                raise StateError("only a training that has not started can be restored")
            header, payload = unpack(data)
            # The engine would take a state of any sum of this size, but the guarantee holds for
            # this one only. JSON makes lists of tuples, as in the header that was read.
            if json.loads(json.dumps(self._header())) != header:
                raise StateError("the state belongs to a training with other parameters")
            released = _SECRET + self._published.nbytes
            self._engine.restore(payload[released:])
            self._secret, self._restored = payload[:_SECRET], True
            self._published = np.frombuffer(payload[_SECRET:released]).copy()

    def save(self, path: str | os.PathLike[str], *, key: EncryptionKey | None = None) -> None:
        """Write the state to a file, encrypted under a key if there is one.

        Guard it as the data: it holds the noise key and sums of gradients. Continue it once.
        """
        # A forked child has the same noise: its state must not be continued as well.
        self._engine.check_process()
        self._key = given_key("key", key, self._key)
        write_atomically(path, self.to_bytes(), self._key)

    def load(self, path: str | os.PathLike[str], *, key: EncryptionKey | None = None) -> None:
        """Continue from a file of `save`; see `restore`."""
        # As `dpoco.load`: a plain state is as secret as the data.
        if key is None:
            refuse_readable(Path(path), Path(path).stat())
        self.restore(read_state(path, key))
        self._key = key

    def __reduce__(self) -> NoReturn:
        raise TypeError("noisy gradients cannot be copied or pickled: copies would share noise")

    def __repr__(self) -> str:
        """Return how far the training is, and its guarantee."""
        return f"<NoisyGradients, step {self.round} of {self.horizon}>\n  {self.guarantee!r}"


def _factor(total: GaussianSum) -> Correlated:
    """Return the factorisation of a sum of `choose_factorisation`."""
    assert isinstance(total.factorisation, Buffered | Banded)
    return total.factorisation


def _plan_sum(
    summand: ClippedVectors, steps: int, near: Neighbours, budget: Budget | None, half_life: float
) -> GaussianSum:
    """Return the sum with the least noise that meets the budget, in integers."""
    factor = choose_factorisation(steps, near, half_life, summand.dimension)
    plain = GaussianSum(summand, factor, pushes=steps)
    if budget is None:
        return plain
    # The tails of noise that is cut off are paid for by a part of delta.
    budget.require_delta()
    mu = charged_gaussian_mu(budget, plain.tails(exact=True))
    found = noisy_on_lattice(plain, near, mu, summand.count * summand.bound)
    return replace(found, limit=max(found.limit, math.ceil(_longest_push(found) / found.grid) + 1))


def _longest_push(total: GaussianSum) -> float:
    """Return the norm of the longest push: the sum of a batch, or the shift after a crash."""
    summand = total.summand
    assert isinstance(summand, ClippedVectors)
    batch = summand.count * summand.bound * (1.0 + 2.0**-21)  # more than its rounding
    # An engine that shortened the shift would leave it not uniform, and a part of the lost data in
    # what sums round to (docs/privacy/deep_learning.md, Theorem 2).
    return max(batch, math.sqrt(summand.dimension) * continual_sum.release_grid(total.scale))


def _guarantee(
    total: GaussianSum,
    relation: str,
    participation: Participation | None,
    budget: Budget | None,
    source: Source,
) -> Guarantee:
    """Return what all noisy gradients promise; the caller adds what it enforces itself."""
    summand = total.summand
    assert isinstance(summand, ClippedVectors)
    found = Guarantee.about(
        total,
        Neighbours(relation),
        released=f"all noisy gradients of a model with {summand.dimension} parameters",
        horizon=total.pushes,
        delta=stated_delta(budget, total.pushes),
        reference="adaptive Gaussian composition; docs/privacy/deep_learning.md",
        seeded=source.is_seeded,
        conditions=(
            "The compiled engine rounds sums of gradients to integers, bounds them and adds the "
            "noise; the caller that computes the gradients clips them.",
        ),
    )
    return found if participation is None else participation.of(found)

"""The generator against published vectors and an independent implementation; streams; forks."""

from __future__ import annotations

import copy
import os
import pickle
import struct
from functools import partial

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from tests.probes import probes
from tests.samples import bound, distance

import dpoco
from dpoco import _core, noise
from dpoco.random import Source, instruction_set, select_instruction_set

INSTRUCTION_SETS = ("baseline", "avx2", "avx512")


@pytest.fixture(params=INSTRUCTION_SETS)
def instructions(request):
    try:
        select_instruction_set(request.param)
    except ValueError:
        pytest.skip("not on this machine")
    yield request.param
    select_instruction_set("auto")


def engine_at(key: bytes, nonce: int, superblock: int) -> _core.Source:
    """A compiled source whose next word is the first of a superblock under any nonce."""
    stream, kind = divmod(nonce, 16)
    assert kind == 0
    engine = _core.Source(bytes(32), 0)
    engine.restore(key + struct.pack("<7Q", stream, superblock * 128, 0, 0, 0, 0, 0))
    return engine


def blocks(words: np.ndarray) -> np.ndarray:
    """Undo the interleaving: (superblocks, 16 blocks, 16 words of 32 bits)."""
    return words.view("<u4").reshape(-1, 16, 16).swapaxes(1, 2)


def test_matches_the_rfc_8439_block(instructions):
    key = bytes(range(32))
    # Counter 1, nonce 00 00 00 09 00 00 00 4a 00 00 00 00: the RFC's first nonce word is the
    # high half of the original 64-bit counter.
    counter = 1 | 0x09000000 << 32
    superblock, block = divmod(counter, 16)
    words = engine_at(key, 0x4A000000, superblock).words(128)
    expected = bytes.fromhex(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert blocks(words)[0, block].tobytes() == expected


@pytest.mark.parametrize("superblock", [0, 1, (1 << 28) - 1])
def test_matches_an_independent_implementation(instructions, superblock):
    rng = np.random.default_rng(superblock)
    key = rng.bytes(32)
    nonce = int.from_bytes(rng.bytes(8), "little") & ~15
    ours = blocks(engine_at(key, nonce, superblock).words(128))
    start = struct.pack("<QQ", superblock * 16, nonce)
    theirs = Cipher(ChaCha20(key, start), mode=None).encryptor().update(bytes(1024))
    assert ours.tobytes() == theirs


def test_instruction_set_selection():
    assert instruction_set() in INSTRUCTION_SETS
    with pytest.raises(ValueError, match="not available"):
        select_instruction_set("quantum")


def test_seeded_sources_reproduce_and_say_so():
    a, b, c = Source.seeded(7), Source.seeded(7), Source.seeded(8)
    assert np.array_equal(a.words(1000), b.words(1000))
    assert not np.array_equal(b.words(1000), c.words(1000))
    assert a.is_seeded
    assert "voids" in repr(a)
    assert not Source().is_seeded


def test_entropy_sources_differ():
    assert not np.array_equal(Source().words(8), Source().words(8))


def test_spawned_sources_are_distinct_and_reproducible():
    def family():
        root = Source.seeded(3)
        children = [root.spawn() for _ in range(20)]
        return [root, *children, *(child.spawn() for child in children)]

    words = [tuple(source.words(4).tolist()) for source in family()]
    assert len(set(words)) == 41
    assert [tuple(source.words(4).tolist()) for source in family()] == words
    assert all(source.is_seeded for source in family())
    entropy = Source()
    assert not entropy.spawn().is_seeded
    assert not np.array_equal(entropy.spawn().words(4), entropy.spawn().words(4))


def test_learners_given_one_source_share_no_stream():
    source = Source.seeded(0)
    claims = [source._claim() for _ in range(10)]
    assert len({(c["key"], c["stream"]) for c in claims}) == 10
    assert all(c["stream"] > 0 for c in claims)  # stream 0 is the source's own


def test_draws_are_the_same_however_they_are_split():
    whole, split = Source.seeded(5), Source.seeded(5)
    want = dpoco.noise.gaussian(whole, 1000)
    parts = [dpoco.noise.gaussian(split, n) for n in (1, 2, 125, 300, 572)]
    assert np.array_equal(want, np.concatenate(parts))
    # Other kinds of draws in between move nothing.
    mixed = Source.seeded(5)
    first = dpoco.noise.gaussian(mixed, 500)
    dpoco.noise.laplace(mixed, 33)
    mixed.words(5)
    assert np.array_equal(want, np.concatenate([first, dpoco.noise.gaussian(mixed, 500)]))


def test_a_source_is_not_copied():
    source = Source()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="share noise"):
            attempt(source)


@pytest.mark.parametrize("seed", [1.0, "1", None, True])
def test_seed_type(seed):
    with pytest.raises(TypeError, match="seed"):
        Source.seeded(seed)


@pytest.mark.parametrize("seed", [-1, 2**256])
def test_seed_range(seed):
    with pytest.raises(ValueError, match="seed"):
        Source.seeded(seed)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "3"])
def test_bad_sizes(size):
    with pytest.raises((TypeError, ValueError), match="size"):
        Source.seeded(0).uniform(size)


def test_uniforms_have_the_stated_law():
    values = Source.seeded(11).uniform(400_000)
    assert values.min() > 0
    assert values.max() <= 1
    assert distance(values, lambda u: u) < bound(values.size)


def test_words_are_uniform_in_every_byte():
    from scipy.stats import chi2

    data = Source.seeded(12).words(200_000).view(np.uint8).reshape(-1, 8)
    for column in range(8):
        counts = np.bincount(data[:, column], minlength=256)
        expected = data.shape[0] / 256
        statistic = float(((counts - expected) ** 2 / expected).sum())
        assert statistic < chi2.isf(1e-8, 255)
        assert statistic > chi2.ppf(1e-8, 255)  # too even is wrong, too


def in_child(work) -> bytes:
    """Run `work` in a forked child and return the bytes it gives."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child
        try:
            result = work()
        except BaseException as error:
            result = type(error).__name__.encode()
        os.write(write, result)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_share_noise():
    source = Source()
    source.words(3)
    child = in_child(lambda: source.words(4).tobytes())
    assert len(child) == 32
    assert child != source.words(4).tobytes()
    second = in_child(lambda: source.words(4).tobytes())
    assert second != child
    noise.gaussian(source)
    single = in_child(lambda: noise.gaussian(source).hex().encode())
    assert single != noise.gaussian(source).hex().encode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("numerics", ["float", "lattice"])
def test_a_sum_is_not_continued_in_a_child(numerics):
    """Not even with variates that were drawn before."""
    sums = dpoco.mechanisms.ContinualSum(
        3, horizon=1000, budget=dpoco.Budget(1.0, 1e-6), numerics=numerics, bound=1.0
    )
    sums.push(np.zeros(3))
    for rows in (1, 5):
        assert in_child(lambda n=rows: sums.run(np.zeros((n, 3))).tobytes()) == b"StateError"
    assert in_child(lambda: sums.push(np.zeros(3)).tobytes()) == b"StateError"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_compiled_generator_refuses_to_draw_in_a_child():
    engine = _core.Source(bytes(32), 1)
    engine.words(1)  # the buffer holds variates that the child must not use either
    assert in_child(lambda: engine.words(1).tobytes()) == b"StateError"
    calls = [partial(engine.words, size) for size in (1, 300)]
    for size in (1, 128):  # one variate, and a whole refill, which needs no buffer
        out = np.empty(size)
        calls += [partial(engine.fill, kind, out) for kind in range(1, 6)]
        calls.append(partial(probes.fill_rounded_gaussian, engine, 2.0**20, out))
    for _ in range(2):  # without and with variates in the buffers
        assert all(in_child(lambda c=c: c() or b"drawn") == b"StateError" for c in calls)
        for kind in range(1, 6):
            engine.fill(kind, np.empty(1))
    seeded = Source.seeded(4)
    expected = Source.seeded(4).words(2).tobytes()
    assert in_child(lambda: seeded.words(2).tobytes()) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_during_a_long_fill_does_not_leave_the_child_waiting():
    import threading

    source = Source()
    out = np.empty(30_000_000)
    filler = threading.Thread(target=lambda: dpoco.noise.gaussian(source, out=out))
    filler.start()
    while not source._lock.locked() and filler.is_alive():
        pass
    answer = in_child(lambda: source.words(1).tobytes())
    filler.join()
    assert len(answer) == 8


@pytest.mark.parametrize("seeded", [True, False])
def test_a_moved_source_goes_on_exactly(seeded):
    source = Source.seeded(2) if seeded else Source()
    dpoco.noise.gaussian(source, 777)
    source.words(3)
    source.spawn()
    state = source.to_bytes()
    moved = Source.from_bytes(state)
    assert moved.is_seeded == seeded
    for law in ("gaussian", "laplace", "exponential", "gumbel"):
        draw = getattr(dpoco.noise, law)
        assert np.array_equal(draw(moved, 300), draw(source, 300))
    assert np.array_equal(moved.words(9), source.words(9))
    assert moved._claim() == source._claim()
    for broken in (b"", state[:-1], state + b"\0", b"x" + state[1:], state[:8] + b"\7" + state[9:]):
        with pytest.raises(dpoco.StateError):
            Source.from_bytes(broken)

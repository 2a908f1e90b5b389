"""Noisy gradients as a function of arrays: laws, workloads, states, and rounds used once."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import dpoco
from dpoco.accounting import continual_sum
from dpoco.adapters.gradients import NoisyGradients, choose_factorisation, view_error
from dpoco.errors import CalibrationError, HorizonExceeded, StateError
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.factorisations import Buffered
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

BUDGET = dpoco.Budget(8.0, 1e-6)
ONCE, OFTEN = Neighbours("zero_out"), Neighbours("zero_out", rounds=5, separation=8)


def noisy(dimension=3, budget=BUDGET, **options):
    options = {"clip": 1.0, "batch_size": 16, "steps": 8, **options}
    return NoisyGradients(dimension, budget=budget, **options)


def test_without_noise_sums_come_back():
    own = noisy(budget=None)
    total = np.array([1.5, -2.0, 1e-9])
    assert own.release(total).tolist() == total.tolist()
    assert own.release(total).tolist() == total.tolist()


def test_noise_is_that_of_the_plan_in_every_step_and_in_sums_of_steps():
    """20,000 coordinates, five deviations of a deviation; a scale 5 % away would fail."""
    own = noisy(20_000, source=Source.seeded(1))
    total = np.full(20_000, 0.01)
    released = np.array([own.release(total) for _ in range(8)]) - 0.01
    sums = np.cumsum(released, axis=0)
    factor = own.mechanism.factorisation
    rows = continual_sum.row_norm(factor, np.arange(1, 9), 8)
    slack = 5.0 / math.sqrt(2 * 20_000)
    for t in range(8):
        assert np.std(sums[t]) == pytest.approx(own.mechanism.scale * rows[t], rel=slack)
        assert np.std(sums[t]) != pytest.approx(1.05 * own.mechanism.scale * rows[t], rel=slack)
    found = math.sqrt(np.mean(sums**2))
    assert found == pytest.approx(own.noise_in_view, rel=slack)


def test_sums_of_a_batch_pass_whole_and_what_is_not_finite_counts_as_zero():
    """The bound is one gradient's: the sum of 16 is not cut to it."""
    one, other = noisy(source=Source.seeded(1)), noisy(source=Source.seeded(1))
    many = np.array([16.0, 0.0, 0.0])
    np.testing.assert_allclose(one.release(many) - other.release(0 * many), many, atol=1e-2)
    nothing = np.array([math.nan, 1.0, 1.0])
    assert one.release(nothing).tolist() == other.release(0 * many).tolist()


def test_arguments_that_no_proof_is_about():
    with pytest.raises(ValueError, match="batch_size"):
        noisy(batch_size=2**20 + 1)
    with pytest.raises(ValueError, match="workload"):
        noisy(workload=0.0)
    with pytest.raises(CalibrationError, match="delta"):
        noisy(budget=dpoco.Budget(1.0, 0.0))
    own = noisy()
    with pytest.raises(ValueError, match="gradient_sum"):
        own.release(np.zeros(4))
    for _ in range(8):
        own.release(np.zeros(3))
    with pytest.raises(HorizonExceeded):
        own.release(np.zeros(3))
    assert own.round == 8


# -- workloads ------------------------------------------------------------------------------------


def dense_view_noise(factor, steps, near, kept):
    """The same by matrices: of the view's weights times the inverse of C."""
    powers = np.power.outer(1.0 - np.array(factor.decay), np.arange(steps - 1))
    first = np.concatenate([[1.0], np.array(factor.weights) @ powers])
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    c = np.where(lag >= 0, first[np.maximum(lag, 0)], 0.0)
    view = np.where(lag >= 0, kept ** np.maximum(lag, 0), 0.0)
    rows = view @ np.linalg.inv(c)
    return factor.column(steps, near) * math.sqrt(np.sum(rows**2) / steps)


@pytest.mark.parametrize("life", [3.0, 40.0, math.inf])
def test_noise_in_a_view_is_that_of_matrices(life):
    factor = Buffered((0.02, 0.4), (0.1, 0.3))
    kept = 1.0 if life == math.inf else 2.0 ** (-1.0 / life)
    for near in (ONCE, OFTEN):
        expected = dense_view_noise(factor, 40, near, kept)
        assert view_error(factor, 40, near, life) == pytest.approx(expected, rel=1e-9)


def test_sums_of_all_steps_are_near_the_bound_of_any_factorisation():
    factor = choose_factorisation(1000, ONCE, math.inf)
    ratio = view_error(factor, 1000, ONCE, math.inf) / continual_sum.lower_bound(1000)
    assert 1.0 < ratio <= 1.04


@pytest.mark.parametrize(("dimension", "most"), [(1000, 1.14), (10**6, 1.22)])
def test_noise_for_people_who_come_back_is_near_the_bound(dimension, most):
    """In ten steps, a tenth of all apart: by a band, and by buffers where it needs much memory."""
    field = Path(__file__).parents[2] / "bench" / "field" / "field.json"
    least = json.loads(field.read_text())["ours"]["sums"]["1000 10"]["least"]
    near = Neighbours("zero_out", rounds=10, separation=100)
    factor = choose_factorisation(1000, near, math.inf, dimension)
    assert isinstance(factor, Banded) == (dimension == 1000)
    assert 1.0 < view_error(factor, 1000, near, math.inf) / least <= most


def test_noise_of_bands_is_that_of_the_plan_and_goes_on_from_a_state():
    """20,000 coordinates, five deviations of a deviation."""
    own = noisy(20_000, steps=5, epochs=4, source=Source.seeded(1))
    factor = own.mechanism.factorisation
    assert isinstance(factor, Banded)
    total, again = np.zeros(20_000), noisy(20_000, steps=5, epochs=4, source=Source.seeded(1))
    released = []
    for step in range(20):
        if step == 7:
            again.restore(own.to_bytes())
        released.append(own.release(total))
        if step >= 7:
            assert again.release(total).tolist() == released[-1].tolist()
    sums = np.cumsum(released, axis=0)
    rows = continual_sum.row_norm(factor, np.arange(1, 21), 20)
    slack = 5.0 / math.sqrt(2 * 20_000)
    for t in range(20):
        assert np.std(sums[t]) == pytest.approx(own.mechanism.scale * rows[t], rel=slack)
    assert math.sqrt(np.mean(sums**2)) == pytest.approx(own.noise_in_view, rel=slack)


def test_a_workload_decides_over_noise_and_not_over_privacy():
    """Forgetting needs less noise than sums do; a person who returns, less than the searched sum.

    The search for the rates takes two seconds.
    """
    short, long = noisy(steps=200, workload=5.0), noisy(steps=200)
    assert short.guarantee.mu == pytest.approx(long.guarantee.mu, rel=1e-6)
    other = view_error(continual_sum.factorisation("blt", 200), 200, ONCE, 5.0) / view_error(
        short.mechanism.factorisation, 200, ONCE, 5.0
    )
    assert other > 1.1
    near = Neighbours("zero_out", rounds=10, separation=30)
    usual = continual_sum.factorisation(continual_sum.choose_buffers(300, near), 300)
    chosen = choose_factorisation(300, near, math.inf)
    better = view_error(usual, 300, near, math.inf) / view_error(chosen, 300, near, math.inf)
    assert better >= 1.02


# -- states, and rounds that are used once --------------------------------------------------------


def test_a_state_continues_bit_for_bit(tmp_path):
    own, path = noisy(), tmp_path / "noise"
    own.release(np.ones(3))
    own.save(path)
    again = noisy()
    again.load(path)
    for _ in range(7):
        assert own.release(np.ones(3)).tolist() == again.release(np.ones(3)).tolist()
    with pytest.raises(StateError, match="not started"):
        again.load(path)
    with pytest.raises(StateError, match="other parameters"):
        noisy(clip=2.0).load(path)


CRASH = """
import os, signal, sys, numpy as np, dpoco
from dpoco.adapters.gradients import NoisyGradients
own = NoisyGradients(3, clip=1.0, batch_size=16, steps=40, budget=dpoco.Budget(8.0, 1e-6))
own.reserve("rounds", ahead=4)
for t in range(11):
    if t == 2:
        own.save("noise")
    print(*own.release(np.zeros(3)).tolist(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
def test_noise_that_was_released_is_never_drawn_again_after_a_kill(tmp_path):
    """It starts a process that kills itself, which imports the library: two seconds."""
    killed = subprocess.run(
        [sys.executable, "-c", CRASH], cwd=tmp_path, stdout=subprocess.PIPE, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    seen = [tuple(map(float, line.split())) for line in killed.stdout.splitlines()]
    assert len(seen) == 11
    own = noisy(steps=40)
    own.load(tmp_path / "noise")
    assert own.round == 2
    again = noisy(steps=40)
    again.load(tmp_path / "noise")
    assert tuple(again.release(np.zeros(3))) == seen[2]  # what must not happen to data
    own.reserve(tmp_path / "rounds")
    assert 12 <= own.round <= 14  # 11 were released, and at most four more reserved
    rest = [tuple(own.release(np.zeros(3))) for _ in range(40 - own.round)]
    assert not {*rest} & {*seen}
    own.close()
    third = noisy(steps=40)
    third.load(tmp_path / "noise")
    third.reserve(tmp_path / "rounds")
    assert third.round == 40


def test_no_step_is_released_that_is_not_reserved_however_slow_the_disk_is(tmp_path, monkeypatch):
    """The disk is slower than a step, or faster, or full."""
    slow = os.fsync

    def reserved():
        data = (tmp_path / "rounds").read_bytes()
        return max(int.from_bytes(data[i : i + 8], "little") for i in (0, 24) if len(data) > i)

    for name, wait in (("one", 0.0), ("two", 0.01)):
        monkeypatch.setattr(os, "fsync", lambda file, wait=wait: (time.sleep(wait), slow(file)))
        own = noisy(steps=30)
        own.reserve(tmp_path / "rounds", ahead=5)
        for step in range(1, 31):
            own.release(np.zeros(3))
            assert own._reservation.rounds >= step
            assert step <= reserved() <= step - 1 + 5
        own.close()
        (tmp_path / "rounds").rename(tmp_path / name)

    def full(file):
        raise OSError("no space left")

    own = noisy(steps=30)
    own.reserve(tmp_path / "rounds", ahead=4)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        own.release(np.zeros(3))
    assert own.round == 0


def test_files_of_reservations_have_one_training_and_one_process(tmp_path):
    own, file = noisy(), tmp_path / "rounds"
    own.reserve(file, ahead=1)
    own.release(np.zeros(3))
    own.save(tmp_path / "noise")
    with pytest.raises(StateError, match="already has a reservation file"):
        own.reserve(tmp_path / "other")
    with pytest.raises(StateError, match="another training"):
        noisy().reserve(file)
    second = noisy()
    second.load(tmp_path / "noise")
    if os.name == "posix":
        with pytest.raises(StateError, match="another process"):
            second.reserve(file)
    own.close()
    with pytest.raises(StateError, match="missing"):
        second.reserve(tmp_path / "other")
    foreign = noisy()
    foreign.release(np.zeros(3))
    with pytest.raises(StateError, match="not the reservation file"):
        foreign.reserve(file)
    second.reserve(file)
    assert second.round == 1


def test_a_torn_write_leaves_the_count_before_and_other_damage_is_refused(tmp_path):
    own, file = noisy(), tmp_path / "rounds"
    own.reserve(file, ahead=1)
    for _ in range(3):
        own.release(np.zeros(3))
    own.save(tmp_path / "noise")
    own.release(np.zeros(3))  # the fourth: in the first slot
    own.close()
    data = bytearray(file.read_bytes())
    data[9] ^= 1
    file.write_bytes(bytes(data))
    again = noisy()
    again.load(tmp_path / "noise")
    again.reserve(file)
    assert again.round == 3
    again.close()
    file.write_bytes(bytes(48))
    third = noisy()
    third.load(tmp_path / "noise")
    with pytest.raises(StateError, match="not the reservation file"):
        third.reserve(file)


def test_the_first_write_of_a_continued_training_spares_the_largest_count(tmp_path):
    file = tmp_path / "rounds"
    own = noisy()
    own.reserve(file, ahead=1)
    own.release(np.zeros(3))
    own.save(tmp_path / "noise")
    for released in range(2, 6):
        own.release(np.zeros(3))
        own.close()
        before = file.read_bytes()
        own = noisy()
        own.load(tmp_path / "noise")
        own.reserve(file, ahead=1)
        assert own.round == released
        own._reservation.reserve(released + 1)
        after = file.read_bytes().ljust(48)
        own.close()
        # A write that is torn leaves the other slot, whose rounds have been released.
        changed = [i for i in (0, 24) if after[i : i + 24] != before.ljust(48)[i : i + 24]]
        assert len(changed) == 1
        torn = bytearray(after)
        torn[changed[0] + 9] ^= 1
        file.write_bytes(bytes(torn))
        own = noisy()
        own.load(tmp_path / "noise")
        own.reserve(file, ahead=1)
        assert own.round == released


def test_a_checkpoint_of_round_0_continues_with_its_file_and_with_no_other(tmp_path):
    own, file = noisy(), tmp_path / "rounds"
    own.reserve(file, ahead=4)
    own.save(tmp_path / "noise")
    seen = [tuple(own.release(np.zeros(3))) for _ in range(3)]
    own.close()
    again = noisy()
    again.load(tmp_path / "noise")
    with pytest.raises(StateError, match="missing"):
        again.reserve(tmp_path / "other")  # where round 1 would have the same noise
    again.reserve(file)
    assert 3 <= again.round <= 6
    rest = [tuple(again.release(np.zeros(3))) for _ in range(again.horizon - again.round)]
    assert not {*rest} & {*seen}


def test_nothing_is_released_once_another_process_may_continue(tmp_path):
    own = noisy()
    own.close()  # without a file it means nothing
    own.release(np.zeros(3))
    own = noisy()
    own.reserve(tmp_path / "rounds")
    own.release(np.zeros(3))
    own.close()
    with pytest.raises(StateError, match="another process"):
        own.release(np.zeros(3))
    with pytest.raises(StateError, match="another process"):
        own.reserve(tmp_path / "other")
    assert own.round == 1


@pytest.mark.parametrize("epsilon", [None, 0.001])  # 0.001: the shift is longer than a batch's sum
def test_skipped_rounds_shift_the_lattice_by_a_fresh_amount(epsilon):
    """What a crash has lost of the data shifts it, and must not be seen in what sums round to."""
    options = {} if epsilon is None else {"budget": dpoco.Budget(epsilon, 1e-6), "batch_size": 1}
    first = noisy(1000, source=Source.seeded(1), **options)
    first.release(np.zeros(1000))
    state, skipped = first.to_bytes(), []
    for _ in range(2):
        own = noisy(1000, source=Source.seeded(1), **options)
        own.restore(state)
        own._skip(2)
        assert own.round == 3
        skipped.append(own)
    one, other = ([own.release(np.zeros(1000)) for _ in range(5)] for own in skipped)
    coarse = 2.0 ** (math.frexp(first.mechanism.scale)[1] - 13)
    apart = np.abs(np.subtract(one, other)) / coarse
    assert apart.max() == 1.0  # noise is the same, and rounds to neighbours
    assert 0.2 < np.mean(apart) < 0.5  # 1/3: both shifts are uniform


def test_no_release_comes_between_the_check_of_a_restore_and_its_end(monkeypatch):
    saved, own, seen = noisy(), noisy(), []
    saved.release(np.zeros(3))
    state, header = saved.to_bytes(), own._header
    other = threading.Thread(target=own.release, args=(np.zeros(3),))

    def watched():
        other.start()
        other.join(0.05)  # it waits for its turn
        seen.append(own.round)
        return header()

    monkeypatch.setattr(own, "_header", watched)
    own.restore(state)
    other.join()
    assert seen == [0]
    assert own.round == 2


def test_threads_take_turns(tmp_path):
    """No two releases share a reserved round, and together they are the sum that was published."""
    own = noisy(steps=40)
    own.reserve(tmp_path / "rounds")
    reserve, asked, found = own._reservation.reserve, [], []

    def slow(step):
        asked.append(step)
        time.sleep(0.001)  # another thread runs
        reserve(step)

    own._reservation.reserve = slow

    def work():
        found.extend(own.release(np.zeros(3)) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert asked == list(range(1, 41))
    assert np.array_equal(sum(found), own._published)

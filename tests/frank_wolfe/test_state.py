"""State files: exact resume at any round, and nothing else is ever accepted."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import textwrap
import time
from fractions import Fraction

import numpy as np
import pytest
from tests.forged import Forged
from tests.published import built

import dpoco
from dpoco.domains import Box, LpBall, Simplex
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning"),
]

T, D = 40, 4
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(T, D)), RNG.normal(size=T)

CONFIGURATIONS = [
    {"domain": LpBall(D, 1.5, 2.0), "loss": SquaredLoss(1.0, 1.0)},
    {"domain": LpBall(D, 2.0), "loss": LogisticLoss(1.0), "sum_method": "tree"},
    {"domain": Simplex(D), "loss": HuberLoss(1.0, 1.0), "sum_method": "tree"},
    {"domain": Box([-1.0] * D, [1.0] * D), "loss": LinearLoss(1.0), "sum_method": "toeplitz"},
    {"domain": LpBall(D, 1.2), "loss": SquaredLoss(1.0, 1.0), "noise": "generalized_gaussian",
     "norm_order": 3.0,     "batch": 3},
    {"domain": LpBall(D, 1.5), "loss": SquaredLoss(1.0, 1.0), "calibration": "paper"},
    {"domain": LpBall(D, 1.5), "loss": SquaredLoss(1.0, 1.0), "budget": None, "start": [0.1] * D},
]  # fmt: skip


def make(configuration, seed=1):
    options = {"horizon": T, "budget": dpoco.Budget(1.0, 1e-4), **configuration}
    problem = options.pop("domain"), options.pop("loss")
    return built(TreeFrankWolfe, *problem, source=Source.seeded(seed), **options)


def play(learner, start, stop):
    if isinstance(learner.loss, LinearLoss):
        return learner.run(X[start:stop]).decisions
    return learner.run(X[start:stop], Y[start:stop]).decisions


def test_files_are_private_and_replaced_atomically(tmp_path):
    path = tmp_path / "state.dpoco"
    learner = make(CONFIGURATIONS[0])
    learner.save(path)
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_bytes()
    play(learner, 0, 1)
    learner.save(path)
    assert path.read_bytes() != first
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match="missing"):
        learner.save(tmp_path / "missing" / "state")
    with pytest.raises(FileNotFoundError):
        dpoco.load(tmp_path / "nothing")


def forged(index=0, rounds=7):
    learner = make(CONFIGURATIONS[index])
    play(learner, 0, rounds)
    return Forged(learner)


def refused(data, tmp_path):
    path = tmp_path / "state"
    path.write_bytes(data)
    with pytest.raises(dpoco.StateError):
        dpoco.load(path)


def framed(header, payload, *, version=1, magic=b"dpocost\n"):
    """A file with a right checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    frame = struct.pack("<8sIIQ", magic, version, len(text), len(payload)) + text + payload
    return frame + hashlib.sha256(frame).digest()


def test_a_killed_process_resumes_to_the_same_releases(tmp_path):
    """SIGKILL in the middle of `run` with checkpoints; the rest is replayed exactly."""
    rounds = 4_000_000
    checkpoint = tmp_path / "checkpoint.dpoco"
    script = textwrap.dedent(
        f"""
        import warnings
        import numpy as np, dpoco
        warnings.simplefilter("ignore")
        learner = dpoco.frank_wolfe.TreeFrankWolfe(
            dpoco.domains.LpBall(4, 2.0), dpoco.losses.SquaredLoss(1.0, 1.0),
            horizon={rounds}, budget=dpoco.Budget(1.0, 1e-4),
            source=dpoco.random.Source.seeded(9))
        rng = np.random.default_rng(3)
        X = np.tile(rng.normal(size=(1000, 4)), ({rounds} // 1000, 1))
        y = np.tile(rng.normal(size=1000), {rounds} // 1000)
        print("ready", flush=True)
        learner.run(X, y, record_decisions=False, checkpoint={str(checkpoint)!r},
                    checkpoint_every=50_000)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert b"ready\n" in iter(child.stdout.readline, b"")
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    resumed = dpoco.load(checkpoint)
    done = resumed.round
    assert 0 < done <= rounds
    assert done % 50_000 == 0
    whole = TreeFrankWolfe(
        LpBall(4, 2.0), SquaredLoss(1.0, 1.0), horizon=rounds, budget=dpoco.Budget(1.0, 1e-4),
        source=Source.seeded(9),
    )  # fmt: skip
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(1000, 4)), rng.normal(size=1000)
    for _ in range(done // 1000):
        whole.run(X, y, record_decisions=False)
    assert whole._engine.state() == resumed._engine.state()
    if done < rounds:
        assert np.array_equal(whole.run(X, y).decisions, resumed.run(X, y).decisions)


def test_arguments_of_any_number_type_and_changed_arrays_can_be_saved():
    start = np.full(D, 0.1)
    learner = TreeFrankWolfe(
        LpBall(D), SquaredLoss(1.0, 1.0), horizon=T, budget=dpoco.Budget(1.0, 1e-4), start=start,
        step_scale=Fraction(3, 2),
    )  # fmt: skip
    start[:] = 7.0  # the caller's array is the caller's
    loaded = TreeFrankWolfe._from_bytes(learner._to_bytes())
    assert np.array_equal(loaded.decide(), np.full(D, 0.1))
    assert loaded.plan.tuning.step_scale == 1.5


def test_headers_cannot_make_the_loader_allocate_what_the_file_does_not_hold(tmp_path):
    huge = {"type": "LpBall", "dimension": 10**9, "p": 1.5, "radius": 2.0}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    forged().settings_refused([("object.arguments.domain", huge)])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB, of 8e6
    refused(framed(b"[" * 100_000 + b"]" * 100_000, b""), tmp_path)


def schema(features):
    names = tuple(f"x{i}" for i in range(features))
    return dpoco.datasets.Schema(
        features=names, ranges=((-1.0, 1.0),) * features, intercept=False, task="regression",
        label="y", label_range=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    "domain", [dpoco.domains.Box([-1.0, -1.0], [1.0, 1.0]), dpoco.domains.LpBall(2, 1.0)]
)
def test_a_model_shortens_records_as_its_learner_does(domain):
    learner = dpoco.frank_wolfe.PolyhedralFrankWolfe(
        domain, dpoco.losses.SquaredLoss(1.0, 1.0), horizon=2000,
        budget=dpoco.Budget(1e3, 1e-6),
    )  # fmt: skip
    learner.run(np.full((2000, 2), 0.5), np.full(2000, 0.5))
    # Within the bound of the largest entry, but not of the sum.
    record = np.array([0.9, 0.9])
    found = dpoco.Model.of_schema(learner, schema(2)).predict([record])
    assert found == pytest.approx(np.clip(record @ learner.last_decision, -1.0, 1.0))


def test_a_model_is_of_a_loss_of_labels():
    learner = dpoco.oco.NoisyFTRL(
        dpoco.domains.LpBall(2), dpoco.losses.LinearLoss(1.0), horizon=100,
        budget=dpoco.Budget(1.0, 1e-6),
    )  # fmt: skip
    learner.run(np.zeros((5, 2)))
    with pytest.raises(ValueError, match="loss of labels"):
        dpoco.Model.of_schema(learner, schema(2))

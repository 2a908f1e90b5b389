"""A pool on Ray: killed actors lose nothing and double nothing."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import dpoco
from dpoco import Budget
from dpoco.journal import Journal
from dpoco.scale import KeyedPool, RayPool

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

BUDGET = Budget(1.0, 1e-6)
BATCHES, SIZE = 6, 60
RNG = np.random.default_rng(3)
LOSSES = RNG.uniform(size=(BATCHES, SIZE, 4))
KEYS = [RNG.integers(0, 20, SIZE).tolist() for _ in range(BATCHES)]


def hedge(horizon=10_000):
    return dpoco.experts.PrefixHedge(4, horizon=horizon, budget=BUDGET)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def kill(pool, shard, how):
    actor = pool._shards.handles[shard]
    if how == "actor":
        ray.kill(actor, no_restart=False)
    else:
        os.kill(ray.get(actor.process_id.remote()), signal.SIGKILL)


def test_killed_actors_lose_and_double_nothing(tmp_path):
    # The initial states, to be played once without a cluster and once with kills.
    with RayPool(hedge(), shards=2, journal_directory=tmp_path / "a") as pool:
        for key in range(20):
            pool.decide(key)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    expected = [np.full(SIZE, -1, dtype=np.int64) for _ in range(BATCHES)]
    for shard in sorted((tmp_path / "b").glob("shard-*")):
        with Journal(shard / "releases.db") as journal:
            alone = KeyedPool(None, journal=journal)
            for keys, losses, out in zip(KEYS, LOSSES, expected, strict=True):
                mine = [i for i, key in enumerate(keys) if key in alone]
                out[mine] = alone.process([keys[i] for i in mine], losses[mine])
    assert all((out >= 0).all() for out in expected)

    with RayPool(hedge(), shards=2, journal_directory=tmp_path / "a") as pool:
        assert (len(pool), pool.last_batch) == (20, -1)
        for number, how in enumerate(("none", "actor", "none", "process", "none", "none")):
            if how != "none":
                kill(pool, number // 2, how)
            released = pool.process(KEYS[number], LOSSES[number])
            assert (released == expected[number]).all()
            assert not released.flags.writeable
        again = pool.process(KEYS[4], LOSSES[4], batch=4)
        assert (again == expected[4]).all()
        assert sum(pool.round(key) for key in pool) == BATCHES * SIZE

        # Killed while a batch is under way: the answer is lost, whatever was played.
        actor = pool._shards.handles[0]
        unique = sorted({key for key in KEYS[0] if pool._routing.shard(key) == 0})
        lost = actor.process.remote(9, unique, (np.zeros((len(unique), 4)),))
        kill(pool, 0, "actor")
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get([lost, actor.process_id.remote()])
        pool.process(unique, np.zeros((len(unique), 4)), batch=9)
        assert sum(pool.round(key) for key in pool) == BATCHES * SIZE + len(unique)


def test_refusals_play_nothing_anywhere(tmp_path):
    with RayPool(hedge(2000), shards=2, journal_directory=tmp_path, max_keys=21) as pool:
        keys = list(range(20))
        pool.process(keys, np.zeros((20, 4)))
        with pytest.raises(dpoco.HorizonExceeded):
            pool.process(keys + [3] * 2000, np.zeros((2020, 4)))
        with pytest.raises(dpoco.BudgetExceeded):
            pool.process([*keys, 20, 21], np.zeros((22, 4)))
        with pytest.raises(ValueError, match="losses"):
            pool.process(keys, np.zeros((20, 5)))
        assert [pool.round(key) for key in (3, 19, 21)] == [1, 1, 0]
        changed = np.zeros((20, 4))
        changed[5, 1] = 1e-300
        with pytest.raises(dpoco.ReplayMismatch):
            pool.process(keys, changed, batch=0)
        assert pool.process([], np.zeros((0, 4))).shape == (0,)
        assert pool.guarantee == KeyedPool(hedge(2000), max_keys=21).guarantee
        assert pool.decide("new") in range(4)
        assert ("new" in pool, len(pool), pool.round("new")) == (True, 21, 0)
    with pytest.raises(dpoco.StateError, match="2 shards"):
        RayPool(hedge(2000), shards=3, journal_directory=tmp_path, max_keys=21)
    with pytest.raises(dpoco.StateError, match="other learners"):
        RayPool(hedge(999), shards=2, journal_directory=tmp_path, max_keys=21)


def test_the_program_of_the_guide(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
    (program,) = re.findall(r"<!-- not run: .*?-->\n```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(program, "docs/scale.md", "exec"), names)
    assert names["chosen"].shape == (1000,)

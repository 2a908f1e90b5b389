"""Without Ray, a clear error; and where keys go."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import dpoco
from dpoco import Budget
from dpoco.scale import RayPool
from dpoco.scale._ray_pool import Routing


def test_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    hedge = dpoco.experts.PrefixHedge(4, horizon=1000, budget=Budget(1.0, 1e-6))
    with pytest.raises(ImportError, match=r"dpoco\[ray\]"):
        RayPool(hedge, shards=2, journal_directory=tmp_path / "none")
    assert not (tmp_path / "none").exists()


class Local:
    """What the pool asks of Ray, in this process: actors that are objects, answered at once."""

    class exceptions:  # noqa: N801
        RayActorError = RayTaskError = KeyboardInterrupt

    @staticmethod
    def get(answer):
        return answer

    @staticmethod
    def kill(actor, no_restart):
        assert no_restart

    @staticmethod
    def remote(**options):
        def actor(kind):
            def made(*arguments):
                inner = kind(*arguments)
                names = [name for name in dir(kind) if not name.startswith("_")]
                asked = {n: SimpleNamespace(remote=getattr(inner, n)) for n in names}
                return SimpleNamespace(**asked)

            return SimpleNamespace(remote=made)

        return actor


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_shards_enforce_a_participation_and_refuse_before_any_plays(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Local)
    rule, budget = dpoco.Participation(2, max_persons=2), Budget(1.0, 1e-6)
    hedge = dpoco.experts.PrefixHedge(4, horizon=9, budget=budget, participation=rule)
    people = ["x", "x", "y", "x", "y", "x", "y", "y"] * 3
    losses = np.random.default_rng(1).uniform(size=(24, 4))
    with RayPool(hedge, shards=2, journal_directory=tmp_path, max_keys=12) as pool:
        names = four_of_each(pool)
        keys = names * 3
        released = pool.process(keys, losses, person=people)
        again = pool.process(keys, losses, batch=0, person=people)
        assert (released == again).all()
        more = [*keys[:16], *names[:1] * 4, *names[-1:] * 4]  # only these two get too many people
        for offered, batch, who, error in (
            (more, None, None, TypeError),
            (more, None, people[:-1], ValueError),
            (more, None, [1] * 24, TypeError),
            (more, None, ["p", "q"] * 12, dpoco.RoundOrderError),
            (keys, 0, people[1:] + people[:1], dpoco.ReplayMismatch),
        ):
            with pytest.raises(error):
                pool.process(offered, losses, batch=batch, person=who)
            assert [pool.round(key) for key in names] == [3] * 8
        states = [shard._open_pool()[key]._learner for shard, key in shards_of(pool, keys)]
        for learner in states:
            words = np.frombuffer(learner._limiter.state()[17:], "<u8")
            assert (words[2], words[5] >> 40) == (1, 2)


def four_of_each(pool):
    """Return eight keys: where a key goes is a secret of the pool, so the keys are looked for."""
    keys = sorted((f"user {i}" for i in range(200)), key=pool._routing.shard)
    return [*keys[:4], *keys[-4:]]


def shards_of(pool, keys):
    """Return the shard object of each key."""
    inner = [handle.process.remote.__self__ for handle in pool._shards.handles]
    return [(inner[pool._routing.shard(key)], key) for key in dict.fromkeys(keys)]


def test_keys_stay_where_they_are(tmp_path):
    keys = [*range(2000), *(f"user {i}" for i in range(2000))]
    first = [Routing(tmp_path / "a", 4).shard(key) for key in keys]
    assert [Routing(tmp_path / "a", 4).shard(key) for key in keys] == first
    other = [Routing(tmp_path / "b", 4).shard(key) for key in keys]
    # Independent and uniform: 1000 on each shard, a quarter where they were; 6 standard deviations.
    assert np.abs(np.bincount(first, minlength=4) - 1000).max() < 6 * np.sqrt(750)
    assert abs(np.sum(np.array(first) == other) - 1000) < 6 * np.sqrt(750)
    with pytest.raises(dpoco.StateError, match="4 shards"):
        Routing(tmp_path / "a", 5)
    (tmp_path / "a" / "shards.json").write_text("{}")
    with pytest.raises(dpoco.StateError, match="corrupt"):
        Routing(tmp_path / "a", 4)

"""The examples run as their first lines say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dpoco

ROOT = Path(__file__).parents[2]


def test_regret_of_the_euclidean_learners(tmp_path):
    try:
        dpoco.datasets.load("shuttle")
    except ImportError:
        pytest.skip("this version of river does not bundle the shuttle stream")
    figure = tmp_path / "regret.png"
    command = [
        sys.executable, str(ROOT / "examples" / "oco_regret.py"), "--rounds", "1001",
        "--repeats", "2", "--epsilon", "4", "--figure", str(figure),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert figure.stat().st_size > 10_000
    rows = {}
    for block in result.stdout.split("\n\n"):
        for line in block.splitlines():
            parts = line.rsplit(maxsplit=3)
            if len(parts) == 4 and parts[3].isdigit():
                rows[block.strip().split(",")[0], parts[0].strip()] = [float(x) for x in parts[1:]]
    assert len(rows) == 9
    for (problem, name), (regret, bound, _) in rows.items():
        assert regret <= bound, name
        if name.endswith("published"):
            ours = rows[problem, name.removesuffix(", published")]
            assert ours[1] < 0.1 * bound  # what is proven
            assert ours[0] < regret + 0.05  # what is measured: here both hardly learn


def test_tracking_of_experts(tmp_path):
    figure = tmp_path / "tracking.png"
    command = [
        sys.executable, str(ROOT / "examples" / "expert_tracking.py"), "--rounds", "60000",
        "--repeats", "3", "--output", str(figure),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert figure.stat().st_size > 10_000
    polls, world, _ = result.stdout.strip().split("\n\n")
    rows = {}
    for name, block in (("pollsters", polls), ("world", world)):
        for line in block.splitlines()[2:]:
            *label, regret, bound, _ = line.split()
            rows[name, " ".join(label)] = float(regret), float(bound.replace("-", "inf"))
    assert len(rows) == 2 * (2 + 9)
    for (_, name), (regret, bound) in rows.items():
        if not name.startswith("shift detector"):  # holds with high probability, not on average
            assert regret <= bound, name
    # A thousand rounds are too few for epsilon = 1: a good guess beats every private learner.
    polled = {name: regret for (stream, name), (regret, _) in rows.items() if stream == "pollsters"}
    tracked = {name: regret for (stream, name), (regret, _) in rows.items() if stream == "world"}
    for name in ("tracker", "batch share", "shift detector"):
        assert polled[f"{name} epsilon = 1"] > polled["best single expert"]
        # Enough rounds, and they beat it by far, the more the larger the budget.
        assert tracked[f"{name} epsilon = 1"] < 0.5 * tracked["best single expert"]
        assert tracked[f"{name} no privacy"] < tracked[f"{name} epsilon = 1"]

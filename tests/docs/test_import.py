"""Importing the package is cheap: it loads nothing, and its rooms load NumPy and the core."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dpoco

PROGRAM = """
import sys
import numpy  # with whatever it loads itself
before = {name.partition(".")[0] for name in sys.modules}
import dpoco
loaded = {name.partition(".")[0] for name in sys.modules} - before
print(sorted(name for name in loaded - {"dpoco"} if name not in sys.stdlib_module_names))
dpoco.frank_wolfe, dpoco.mechanisms, dpoco.domains, dpoco.losses, dpoco.noise, dpoco.random
dpoco.bandits, dpoco.experts, dpoco.environments, dpoco.oco, dpoco.samplers
dpoco.datasets, dpoco.evaluation, dpoco.audit, dpoco.plotting
heavy = {"scipy", "pandas", "matplotlib", "dp_accounting", "typer", "rich", "river", "pyarrow"}
print(sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""


def test_import_loads_numpy_only():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["[]", "[]"], result.stdout


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("TreeFrankWolfe", "frank_wolfe.TreeFrankWolfe"),
        ("noisy_ftrl", "oco.NoisyFTRL"),
        ("SquaredLoss", "losses.SquaredLoss"),
        ("LpBal", "domains.LpBall"),
        ("bandit", "bandits"),
    ],
)
def test_a_name_that_is_elsewhere_is_found(name, meant):
    with pytest.raises(AttributeError, match=f"did you mean 'dpoco.{meant}'"):
        getattr(dpoco, name)
    with pytest.raises(AttributeError, match=r"no attribute 'zebra'$"):
        _ = dpoco.zebra

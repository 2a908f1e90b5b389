"""Try an installed wheel with only its declared dependencies; see build_wheels.py.

Usage: python -I wheel_smoke.py SOURCE_TREE. Prints the guarantee of a learner and what it tried.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import metadata, resources
from pathlib import Path


def main(source_tree: str) -> int:
    import numpy as np

    import dpoco

    home = Path(dpoco.__file__).resolve().parent
    tree = Path(source_tree).resolve()
    if tree in home.parents or "site-packages" not in home.parts:
        raise SystemExit(f"imported from {home}, not from the installed wheel")
    if dpoco.__version__ != metadata.version("dpoco"):
        raise SystemExit("the core and the metadata disagree on the version")
    if not (resources.files("dpoco") / "py.typed").is_file():
        raise SystemExit("py.typed is not installed")
    if not (resources.files("dpoco") / "docs" / "privacy" / "gaussian.md").is_file():
        raise SystemExit("the pages of the proofs are not installed")
    if not (resources.files("dpoco") / "_independent.py").is_file():
        raise SystemExit("the independent checker is not installed")
    absent = {
        "typer", "rich", "matplotlib", "river", "pandas", "pyarrow", "dp_accounting", "sklearn",
        "joblib", "ray", "pytest", "flint",
    }  # fmt: skip
    for name in sorted(absent):
        try:
            __import__(name)
        except ImportError:
            continue
        raise SystemExit(f"{name} is installed: this environment is not bare")

    learner = dpoco.frank_wolfe.TreeFrankWolfe(
        dpoco.domains.LpBall(dimension=3, p=2.0, radius=1.0),
        dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0),
        horizon=1000,
        budget=dpoco.Budget(epsilon=1.0, delta=1e-6),
    )
    print(learner.guarantee)
    generator = np.random.default_rng(5)
    features = generator.standard_normal((600, 3))
    trace = learner.run(features[:500], features[:500, 0])
    if len(trace) != 500 or learner.decide().shape != (3,):
        raise SystemExit("500 rounds were not played")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "learner.dpoco"
        learner.save(path)
        twin = dpoco.load(path)
    rest = [one.run(features[500:], features[500:, 0]).decisions for one in (learner, twin)]
    if not np.array_equal(*rest):
        raise SystemExit("a loaded learner does not continue bit for bit")
    for name in dpoco.__all__:
        getattr(dpoco, name)  # every room opens without an extra
    answer = subprocess.run(
        [sys.executable, "-I", "-m", "dpoco", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 2 or "dpoco[cli]" not in answer.stderr or "Trace" in answer.stderr:
        raise SystemExit(f"the command without its extra said: {answer.stderr or answer.stdout}")
    print("ok: import, guarantee, 500 rounds, save and load, every room, command without extra")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

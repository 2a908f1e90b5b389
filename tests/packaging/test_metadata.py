"""What pyproject.toml promises: one version, complete extras, a typed package, wheel settings."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import dpoco
from dpoco import _core

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "dpoco"
tomllib = pytest.importorskip("tomllib")  # Python 3.11


@pytest.fixture(scope="module")
def settings():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


# Import name -> project, where they differ.
# joblib comes with scikit-learn.
PROJECTS = {"sklearn": "scikit-learn", "joblib": "scikit-learn", "dp_accounting": "dp-accounting"}


def names(requirements, extras):
    """Projects of a list of requirements, the package's own extras unfolded."""
    found = set()
    for requirement in requirements:
        own = re.fullmatch(r"dpoco\[([\w,-]+)\]", requirement)
        if own:
            for extra in own.group(1).split(","):
                found |= names(extras[extra], extras)
        else:
            found.add(re.match(r"[\w-]+", requirement).group())
    return found


def imported():
    """Foreign packages that the library imports anywhere: {name: files}."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module]
            for module in modules:
                top = module.partition(".")[0]
                if top not in sys.stdlib_module_names and top != "dpoco":
                    found.setdefault(PROJECTS.get(top, top), set()).add(path.name)
    return found


def test_the_version_is_written_once(settings):
    version = settings["project"]["version"]
    assert dpoco.__version__ == version
    pattern = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "cpp").rglob("*.?pp"), ROOT / "CMakeLists.txt"]
    lines = [
        f"{path.name}: {line}"
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if pattern.search(line) and "version" in line.lower()
    ]
    assert not lines


def test_every_import_is_declared(settings):
    project = settings["project"]
    extras = project["optional-dependencies"]
    declared = names(project["dependencies"], extras)
    for requirements in extras.values():
        declared |= names(requirements, extras)
    assert not {name: files for name, files in imported().items() if name not in declared}


def test_extras_name_each_other_rightly(settings):
    extras = settings["project"]["optional-dependencies"]
    for name, requirements in extras.items():
        assert names(requirements, extras), name
    assert names(extras["all"], extras) >= names(["dpoco[cli,plot,data,files]"], extras)
    assert names(extras["test"], extras) >= names(extras["all"], extras)


def test_what_is_imported_late_is_in_the_extra_that_its_error_names(settings):
    extras = settings["project"]["optional-dependencies"]
    calls = re.compile(r'import_package\(\s*"(\w+)[\w.]*", [^)]*?"(\w+)"\s*\)')
    found = {
        (PROJECTS.get(package, package), extra)
        for path in PACKAGE.rglob("*.py")
        for package, extra in calls.findall(path.read_text(encoding="utf-8"))
    }
    assert {"pandas", "pyarrow", "dp-accounting", "ray"} <= {name for name, _ in found}
    for package, extra in found:
        assert package in names(extras[extra], extras)


def test_every_extra_that_a_message_names_exists(settings):
    extras = settings["project"]["optional-dependencies"]
    named = {
        extra
        for path in [*PACKAGE.rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
        for group in re.findall(r"dpoco\[([\w,-]+)\]", path.read_text(encoding="utf-8"))
        for extra in group.split(",")
    }
    assert named
    assert named <= extras.keys()


def test_the_package_is_typed(settings):
    assert (PACKAGE / "py.typed").is_file()
    assert (PACKAGE / "_core.pyi").is_file()
    assert "Typing :: Typed" in settings["project"]["classifiers"]
    ast.parse((PACKAGE / "_core.pyi").read_text(encoding="utf-8"))


def test_the_extension_has_nothing_that_only_tests_call():
    """Variates, digits and laws without noise must not be published: see tests/probes.py."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    used = set(re.findall(r"""[."']([A-Za-z_]\w*)""", code))
    kinds = {name: kind for name, kind in vars(_core).items() if isinstance(kind, type)}
    found = {name for name in vars(_core) if not name.startswith("__")}
    found |= {name for kind in kinds.values() for name in vars(kind) if name[0] != "_"}
    assert {"Source", "fill", "decision"} <= found
    bases = {base.__name__ for kind in kinds.values() for base in kind.__bases__}
    assert found - used - bases == set()


def test_rooms_are_packages():
    for path in PACKAGE.rglob("*.py"):
        assert (path.parent / "__init__.py").is_file(), path


def test_licences_are_shipped(settings):
    for name in settings["project"]["license-files"]:
        assert (ROOT / name).is_file()


def test_the_settings_of_a_release(settings):
    build = settings["tool"]["scikit-build"]
    assert build["wheel"]["reproducible"] is True
    assert build["wheel"]["packages"] == ["python/dpoco"]
    wheels = settings["tool"]["cibuildwheel"]
    oldest = int(re.search(r"3\.(\d+)", settings["project"]["requires-python"]).group(1))
    assert wheels["build"].split()[0] == f"cp3{oldest}-*"
    scripts = re.findall(r"\{project\}/(\S+)", wheels["test-command"])
    assert scripts
    for script in scripts:
        assert (ROOT / script).is_file()


def test_the_command_and_both_modules_are_one(settings):
    module, _, function = settings["project"]["scripts"]["dpoco"].partition(":")
    assert (module, function) == ("dpoco.cli", "main")
    program = (PACKAGE / "__main__.py").read_text(encoding="utf-8")
    assert "from dpoco.cli import main" in program

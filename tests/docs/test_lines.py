"""The script that counts lines, and the numbers of it that may only become smaller."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import lines  # noqa: E402

# Unit, promises and conditions of a guarantee are computed, and not believed: some 280 lines.
# What constructors share counts here; planning and its errors do not.
BEHIND = {"oco.NoisyFTRL": 4_501, "oco.CoupledRegularizedLeader": 6_271}


def planted(tmp_path, monkeypatch, **sources: str) -> None:
    """Let the script read a package of these modules."""
    for name, text in {"__init__": "", **sources}.items():
        path = tmp_path.joinpath("dpoco", *name.split("__")).with_suffix(".py")
        if name == "__init__":
            path = tmp_path / "dpoco" / "__init__.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(lines, "PYTHON", tmp_path)
    monkeypatch.setattr(lines, "ROOT", tmp_path)
    monkeypatch.setattr(lines, "modules", cache(lines.modules.__wrapped__))


def test_no_room_takes_private_names_of_another():
    """Over a second: the first test that reads every module."""
    assert list(lines.private_imports()) == []


def test_constructors_name_what_they_pass_on():
    """A reader follows an argument from the constructor to the engine; adapters keep theirs."""
    found = {
        name
        for name, module in lines.modules().items()
        if module.room != "adapters"
        for node in module.nodes
        if isinstance(node, ast.Name) and node.id == "locals"
    }
    assert found == set()


def test_evaluation_knows_nothing_of_local_learning():
    rooms = {
        source.split(".")[1]
        for module in lines.modules().values()
        if module.room == "evaluation"
        for source, _, _ in module.imports
        if source.startswith("dpoco.")
    }
    assert "losses" in rooms
    assert "local" not in rooms


@pytest.mark.parametrize("path", BEHIND)
def test_what_must_be_believed_becomes_less(path):
    """Over a second: all that a constructor may call is followed through the package."""
    files = lines.find_trusted(path)
    assert sum(files.values()) <= BEHIND[path]
    # What draws and what certifies is there; plans, tables and other learners are not.
    assert {"cpp/src/random/source.cpp", "cpp/src/noise/samplers.cpp"} <= files.keys()
    learner = "python/dpoco/learning/learner.py"
    assert {"python/dpoco/accounting/guarantee.py", learner} <= files.keys()
    assert not any("/cli/" in name or "dpoco/frank_wolfe/_" in name for name in files)
    # What takes records in, although the header that declares it has another name.
    if path == "oco.CoupledRegularizedLeader":
        assert files["cpp/src/losses/glm_sum.cpp"] > 100
    # Other kinds of loss are not asked.
    assert "python/dpoco/privacy/losses/flagged_draws.py" not in files


# Headers that rules and placements include, directly or not: no records, losses, sums of batches,
# noise or mechanisms among them.
RULES_KNOW = {
    "core/archive", "core/eigen_solvers", "core/errors", "core/packed", "core/types",
    "domains/barrier", "domains/body", "domains/domain", "mechanisms/released",
    "oco/decision_rule", "oco/forgetting_leader", "oco/quadratic_leader", "simd/kernels",
}  # fmt: skip


def test_rules_are_given_nothing_of_the_data_but_releases():
    """Their lines do not count: no guarantee rests on what follows from releases alone."""
    include = lines.CPP / "include" / "dpoco"
    homes = {
        name: path
        for path in include.rglob("*.hpp")
        for name in lines.find_rules()
        if f"class {name} final" in path.read_text()
    }
    assert homes.keys() == {"ProjectedStep", "RidgeRule", "NewtonRule", "Placement"}
    for path in homes.values():
        left = [path, lines.CPP / "src" / "oco" / f"{path.stem}.cpp"]
        seen = set()
        while left:
            each = left.pop()
            seen.add(each)
            left += lines.find_includes(each) - seen
        known = {f"{each.parent.name}/{each.stem}" for each in seen}
        assert known <= RULES_KNOW | {f"oco/{path.stem}"}
    rule = (include / "oco" / "decision_rule.hpp").read_text()
    assert "virtual void advance(const mechanisms::Released& released, std::span<double>" in rule


def test_only_a_mechanism_makes_a_release():
    text = (lines.CPP / "include" / "dpoco" / "mechanisms" / "released.hpp").read_text()
    public, private = text.split(" private:")
    assert "Released(" not in public
    assert re.findall(r"friend class ([\w:]+);", private) == ["ContinualSum", "oco::CoupledLearner"]


def test_code_lines_leave_out_what_only_people_read(tmp_path, monkeypatch):
    text = '"""Words."""\n\n# more\nX = (\n    1,\n\n    2,\n)\n\n\n'
    text += 'def f():\n    """Say."""\n    return X\n'
    planted(tmp_path, monkeypatch, room___a=text)
    (module,) = (each for each in lines.modules().values() if each.room == "room")
    assert sorted(module.code) == [4, 5, 7, 8, 11, 13]
    assert lines.sizes()["room"] == (6, 1)


def test_planted_imports_are_seen(tmp_path, monkeypatch):
    planted(
        tmp_path,
        monkeypatch,
        one___inside="X = 1\n",
        two___user="from dpoco.one._inside import X\n\n\ndef f():\n    from dpoco.one import _y\n",
        _hall="Y = 1\n",
        three__public="from dpoco._hall import Y\nfrom dpoco.two import _user\n",
    )
    assert lines.private_imports() == [
        ("dpoco.three.public", "dpoco.two._user"),
        ("dpoco.two._user", "dpoco.one._inside.X"),
        ("dpoco.two._user", "dpoco.one._y"),
    ]
    assert ("dpoco.one._inside", "dpoco.two._user") in lines.single_importers()


def test_calls_are_followed_from_the_constructor_and_plans_are_not(tmp_path, monkeypatch):
    learner = (
        "from dpoco.kernel import proof\nfrom dpoco.kernel.proof import Plan\n\n\n"
        "class Base:\n    def begin(self):\n        self.own()\n\n"
        "    def unused(self):\n        return proof.idle()\n\n\n"
        "class Learner(Base):\n    _accountant = proof\n    plan: Plan\n\n"
        "    def __init__(self):\n        self.begin()\n        self._accountant.calibrate()\n\n"
        "    def own(self):\n        self.plan.asked()\n"
        "        return self._accountant.guarantee()\n"
    )
    proof = (
        "TOP = 2\n\n\ndef guarantee():\n    return TOP\n\n\n"
        "def calibrate():\n    return 1\n\n\ndef idle():\n    return 0\n\n\n"
        "class Plan:\n    def asked(self):\n        return 1\n\n"
        "    def spare(self):\n        return 0\n"
    )
    planted(tmp_path, monkeypatch, room__learner=learner, kernel__proof=proof)
    names = {name for _, name in lines.Closure("room.learner.Learner").reached}
    assert {"Learner.__init__", "Base.begin", "Learner.own", "guarantee", "TOP"} <= names
    assert "Plan.asked" in names
    assert not names & {"calibrate", "idle", "Base.unused", "Plan", "Plan.spare"}


ENGINE = """#pragma once
#include "room/noise.hpp"

namespace room {

// An engine.
class Engine final : public Base {
 public:
  explicit Engine(int size) : size_(size) {}
  double step(double x) { return added(x) + size_; }
  double spare() const {
    return unused("}");
  }
  void write(Archive& archive) const;

 private:
  int size_;
};

}  // namespace room
"""
NOISE = """#include "room/noise.hpp"

namespace room {
namespace {

template <class T>
T twice(T x) {
  return x + x;
}
constexpr double kWidth[] = {
    1.0, 2.0};

}  // namespace

double added(double x) { return twice(x); }
double unused(const char* text) { return kWidth[0]; }

}  // namespace room
"""
BINDING = """#include "room/engine.hpp"

void register_engine(py::module_& m) {
  py::class_<Engine, Base>(m, "Engine")
      .def(py::init<int>(), "size"_a)
      .def("step", [](Engine& self, double x) {
        self.step(x);
        return x;
      })
      .def("spare", &Engine::spare);
}
"""


def test_definitions_of_compiled_code_are_followed_by_name(tmp_path, monkeypatch):
    for name, text in {
        "include/dpoco/room/engine.hpp": ENGINE,
        "include/dpoco/room/noise.hpp": "double added(double x);\ndouble unused(const char*);\n",
        "src/room/noise.cpp": NOISE,
        "bindings/room.cpp": BINDING,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace('"room/', '"dpoco/room/'))
    monkeypatch.setattr(lines, "CPP", tmp_path)
    monkeypatch.setattr(lines, "ROOT", tmp_path)
    found = {(u.owner, u.name): len(u.lines) for u in lines.units(tmp_path / "src/room/noise.cpp")}
    assert found == {("", "twice"): 4, ("", "kWidth"): 2, ("", "added"): 1, ("", "unused"): 1}
    engine = lines.units(tmp_path / "include/dpoco/room/engine.hpp")
    assert {(u.owner, u.name): len(u.lines) for u in engine} == {
        ("Engine", "Engine"): 1, ("Engine", "step"): 1, ("Engine", "spare"): 3,
        ("Engine", "write"): 1, ("", "Engine"): 3,
    }  # fmt: skip
    assert lines.count_compiled({"Engine"}, {"step"}) == {
        "bindings/room.cpp": 6,
        "include/dpoco/room/engine.hpp": 5,
        "include/dpoco/room/noise.hpp": 1,
        "src/room/noise.cpp": 5,
    }
    more = lines.count_compiled({"Engine"}, {"step", "spare"})
    assert sum(more.values()) == 6 + 1 + 5 + 3 + 2 + 5 + 3


def test_annotations_and_comparisons_build_nothing():
    text = "def f(x: Wrong) -> Wrong:\n    if isinstance(x, Wrong):\n        return Right(x)"
    tree = ast.parse(text).body[0]
    names = {node.id for node in lines._find_evaluated(tree) if isinstance(node, ast.Name)}
    assert "Right" in names
    assert "Wrong" not in names


def test_the_command_prints_rooms_and_files(capsys):
    """Over a second: it counts the lines of all files."""
    lines.main(["oco.NoisyFTRL"])
    assert "behind oco.NoisyFTRL" in capsys.readouterr().out
    lines.main([])
    out = capsys.readouterr().out
    assert "(hall)" in out
    assert "modules that one other imports" in out

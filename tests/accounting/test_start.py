"""A first decision without the parts of SciPy that it does not need, and with the same numbers."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy import special
from scipy.optimize import brentq

from dpoco.accounting import gaussian as roots
from dpoco.privacy import special as own

FIRST = """
import sys
import dpoco
leader = dpoco.oco.NoisyFTRL(
    dpoco.domains.LpBall(3, 2.0), dpoco.losses.LinearLoss(1.0), horizon=100,
    budget=dpoco.Budget(1.0, 1e-6), source=dpoco.random.Source.seeded(1),
)
leader.decide()
leader.observe([0.1, 0.2, 0.3])
parts = ("scipy.special", "scipy.optimize", "scipy.linalg")
heavy = [name for name in parts if name in sys.modules]
print(leader.guarantee.epsilon.hex(), leader.decide().tobytes().hex(), heavy)
from scipy import special, stats
assert special.erfcx is sys.modules["scipy.special._ufuncs"].erfcx
assert stats.norm.cdf(0.0) == 0.5
"""


def first(setup=""):
    """Return the printed words of a program's first decision."""
    command = [sys.executable, "-c", setup + FIRST]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return found.stdout.split(maxsplit=2)


def test_a_first_decision_imports_little_and_has_the_same_numbers():
    """Three programs start. With SciPy imported before, as a whole, nothing differs."""
    *light, heavy = first()
    assert heavy.strip() == "[]"
    *whole, imported = first("import scipy.special, scipy.optimize\n")
    assert light == whole
    assert "scipy.optimize" in imported


@pytest.fixture
def fresh():
    own.special_functions.cache_clear()
    roots._compiled_roots.cache_clear()
    yield
    own.special_functions.cache_clear()
    roots._compiled_roots.cache_clear()


def test_values_are_those_of_scipy():
    x = np.linspace(-30.0, 30.0, 1001)
    for name in ("ndtr", "erfcx", "log_ndtr", "gammaln"):
        assert np.array_equal(getattr(own.special_functions(), name)(x), getattr(special, name)(x))
    p = np.linspace(1e-6, 1.0 - 1e-6, 1001)
    assert np.array_equal(own.special_functions().ndtri(p), special.ndtri(p))


@pytest.mark.parametrize("rtol", [1e-15, 1e-9])
def test_roots_are_those_of_scipy(rtol):
    for shift in np.linspace(0.1, 3.0, 30):

        def function(x, shift=shift):
            return np.expm1(x) - shift

        options = {"xtol": 1e-12, "rtol": rtol, "maxiter": 200}
        assert roots.find_root(function, 0.0, 3.0, **options) == brentq(
            function, 0.0, 3.0, **options
        )
    with pytest.raises(ValueError, match="different signs"):
        roots.find_root(lambda x: 1.0, 0.0, 1.0, xtol=1e-9)
    with pytest.raises(RuntimeError):
        roots.find_root(function, 0.0, 3.0, xtol=1e-12, maxiter=2)


def test_scipy_is_imported_as_a_whole_where_its_parts_are_elsewhere(fresh, monkeypatch):
    """Another layout, a module that gives other values, and imports in other threads."""
    monkeypatch.setattr(roots, "EXTENSION_SUFFIXES", [".none"])
    assert roots._compiled_roots() is None
    assert roots.find_root(lambda x: x - 0.25, 0.0, 1.0, xtol=1e-12) == pytest.approx(0.25)
    monkeypatch.setattr(own.importlib.util, "find_spec", lambda name: None)
    assert own._load_alone() is None
    assert own.special_functions() is special
    own.special_functions.cache_clear()
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "scipy.special")
    monkeypatch.setattr(own.importlib, "import_module", lambda name: special)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert own.special_functions() is special


def test_a_module_with_other_values_is_not_taken(fresh, monkeypatch):
    class Wrong:
        ndtr = staticmethod(lambda x: 0.25)

    monkeypatch.delitem(sys.modules, "scipy.special")
    monkeypatch.setattr(own.importlib, "import_module", lambda name: Wrong)
    assert own._load_alone() is None
    assert "scipy.special" not in sys.modules

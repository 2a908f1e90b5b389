"""A mutated module's code, put into the module that is already imported everywhere."""

from __future__ import annotations

import ast
import functools
import gc
import sys
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from tests.mutation.operators import mutated

__all__ = ["transferred"]


def transferred(name: str, index: int | None) -> None:
    """Change the imported module `name` in place into its mutant number `index`, or into itself."""
    module = sys.modules[name]
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source) if index is None else mutated(source, index)
    fresh = ModuleType(name)
    fresh.__dict__.update(__file__=module.__file__, __package__=module.__package__)
    sys.modules[name] = fresh  # dataclasses look their module up
    try:
        exec(compile(tree, module.__file__, "exec", dont_inherit=True), vars(fresh))
    finally:
        sys.modules[name] = module
    for key, new in vars(fresh).items():
        old = vars(module).get(key)
        if key.startswith("__") or old is None or _put(old, new, name):
            continue
        if not isinstance(old, ModuleType) and _plain(new) and repr(old) != repr(new):
            for other in [each for each in sys.modules.values() if each is not None]:
                if vars(other).get(key) is old:  # and what took the name from here
                    setattr(other, key, new)
    # What is new as a whole (methods marked `direct`) finds what everybody else has.
    vars(fresh).update({key: vars(module)[key] for key in vars(fresh) if key in vars(module)})
    for each in caches():
        each.cache_clear()


@functools.cache
def caches() -> list[functools._lru_cache_wrapper[object]]:
    """Return all caches there are; before a fork, for the search touches every object."""
    # By type: asking objects of other libraries for their `__class__` may warn.
    return [each for each in gc.get_objects() if type(each) is functools._lru_cache_wrapper]


def _closed(value: object) -> int:
    code = getattr(value, "__code__", None)
    return len(code.co_freevars) if isinstance(code, CodeType) else 0


def _belong(value: object, owner: type) -> None:
    """Let `super()` in a method mean the class that the method is put into."""
    if _closed(value):
        cells = zip(value.__code__.co_freevars, value.__closure__, strict=True)  # type: ignore[attr-defined]
        for name, cell in cells:
            if name == "__class__":
                cell.cell_contents = owner


def _plain(value: object) -> bool:
    return not isinstance(value, FunctionType | type)


def _put(old: object, new: object, name: str) -> bool:
    """Put the code of `new` into `old`; False if they hold none."""
    for wrapper in ("__wrapped__", "fget", "func", "__func__"):
        inner = getattr(old, wrapper, None)
        if isinstance(inner, FunctionType) and not isinstance(old, FunctionType):
            return _put(inner, getattr(new, wrapper), name)
    if isinstance(old, FunctionType):
        assert isinstance(new, FunctionType)
        inner = getattr(old, "__wrapped__", None)
        if isinstance(inner, FunctionType):
            _put(inner, new.__wrapped__, name)  # type: ignore[attr-defined]
        if old.__module__ == name and len(old.__code__.co_freevars) == len(
            new.__code__.co_freevars
        ):
            old.__code__ = new.__code__
            old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
        return True
    if isinstance(old, type):
        if old.__module__ == name and isinstance(new, type):
            for key, field in getattr(new, "__dataclass_fields__", {}).items():
                own = old.__dataclass_fields__[key]  # type: ignore[attr-defined]
                own.metadata, own.default = field.metadata, field.default
            for key, value in vars(new).items():
                _belong(value, old)
                own = vars(old).get(key)
                # Code alone does not fit what closes over the class, or what only looks like code.
                if _closed(own) != _closed(value) or (
                    isinstance(own, FunctionType) and type(own) is not FunctionType
                ):
                    setattr(old, key, value)
                    continue
                if _put(own, value, name) or key.startswith("__") or "object at" in repr(own):
                    continue
                if _plain(value) and repr(own) != repr(value):
                    setattr(old, key, value)
        return True
    return False

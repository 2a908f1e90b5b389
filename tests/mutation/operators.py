"""Small changes of a module's syntax tree, each of which some test should notice.

A mutant is one change at one place: a number doubled or moved by one, an operator exchanged, a term
dropped, a comparison moved by its boundary or turned round, a condition negated, a minimum for a
maximum, a function for a near relative. Text that only people read (docstrings, messages of errors,
annotations, ``__all__``) is left alone, and so is what only programs with errors would meet.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Mutant", "mutants", "mutated"]

_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
_BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITE = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_RELATIVES = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "fmin": "fmax",
    "exp": "expm1", "expm1": "exp", "log": "log1p", "log1p": "log", "floor": "ceil",
    "ceil": "floor", "any": "all", "all": "any", "sinh": "cosh", "cosh": "sinh",
}  # fmt: skip
# Of zip: for errors of the program. Of fields: what is printed and compared, and what no class that
# is there can change any more.
_UNSEEN = ("strict", "repr", "compare", "init")


@dataclass(frozen=True)
class Mutant:
    """One change: where it is and what it does.

    `symbol` is the innermost function or class around it, the constant of a module that it is in,
    or a function with the parameter whose default it is in: ``Class.method(parameter)``. `lines`
    are those of the simple statement, or of the head of the compound one, that it is in.
    """

    symbol: str
    index: int
    line: int
    column: int
    before: str
    after: str
    lines: range

    def __str__(self) -> str:
        """Return "a + b -> a - b"."""
        return f"{self.before} -> {self.after}"


def mutants(source: str) -> list[Mutant]:
    """Return all mutants of a module's source, in the order of its text."""
    found, tree = [], ast.parse(source)
    heads, symbols = _heads(tree), dict(_symbols(tree, ""))
    for index, (node, build) in enumerate(_sites(tree)):
        before, after = ast.unparse(node), ast.unparse(ast.fix_missing_locations(build()))
        symbol, lines = symbols.get(node, ""), heads[node.lineno]
        found.append(Mutant(symbol, index, node.lineno, node.col_offset, before, after, lines))
    return found


def _symbols(node: ast.AST, around: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield all that is below a node, with its symbol."""
    for child in ast.iter_child_nodes(node):
        own = around
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            own = f"{around}.{child.name}" if around else child.name
        elif isinstance(child, ast.Assign | ast.AnnAssign) and not around:
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            own = ast.unparse(target)
        elif isinstance(child, ast.arguments):
            ends = zip([*child.posonlyargs, *child.args][::-1], child.defaults[::-1], strict=False)
            for argument, default in [
                *ends,
                *zip(child.kwonlyargs, child.kw_defaults, strict=True),
            ]:
                if default is not None:
                    yield default, f"{around}({argument.arg})"
                    yield from _symbols(default, f"{around}({argument.arg})")
            continue
        yield child, own
        yield from _symbols(child, own)


def _heads(tree: ast.Module) -> dict[int, range]:
    """Return, by line, the lines of the innermost statement less those of its body."""
    heads = {}
    for node in ast.walk(tree):  # from the outside in
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            head = range(node.lineno, max(end, node.lineno) + 1)
            heads.update(dict.fromkeys(head, head))
    return heads


def mutated(source: str, index: int) -> ast.Module:
    """Return the tree of the module with mutant number `index` put in."""
    tree = ast.parse(source)
    for at, (node, build) in enumerate(_sites(tree)):
        if at == index:
            replacement = ast.copy_location(build(), node)
            return ast.fix_missing_locations(_Replace(node, replacement).visit(tree))
    raise IndexError(f"there is no mutant {index}")


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _sites(tree: ast.Module) -> Iterator[tuple[ast.expr, Callable[[], ast.expr]]]:
    """Yield (node, maker of its replacement) in a fixed order."""
    for node in _readable(tree):
        if isinstance(node, ast.Constant):
            yield from ((node, _constantly(value)) for value in _other_constants(node.value))
        elif isinstance(node, ast.BinOp):
            yield from _other_operations(node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            for table in (_BOUNDARY, _OPPOSITE):
                if type(node.ops[0]) in table:
                    yield node, _comparison(node, table[type(node.ops[0])]())
        elif isinstance(node, ast.Compare):
            for place, operator in enumerate(node.ops):
                if type(operator) in _BOUNDARY:
                    yield node, _comparison(node, _BOUNDARY[type(operator)](), place)
        elif isinstance(node, ast.BoolOp):
            yield node, _joined(node)
            for kept in range(len(node.values)):
                yield node, _without(node, kept)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
            yield node, _same(node.operand)
        elif isinstance(node, ast.IfExp):
            yield node, _same(node.body)
            yield node, _same(node.orelse)
        elif isinstance(node, ast.Call):
            relative = _relative(node)
            if relative is not None:
                yield node, relative


def _readable(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk what is computed, in the order of the text."""
    for child in ast.iter_child_nodes(tree):
        yield from _walk(child)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef) and "overload" in map(ast.unparse, node.decorator_list):
        return  # for type checkers
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    ):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        if isinstance(node, ast.keyword) and node.arg in _UNSEEN:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _other_constants(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1] if value > 1 else [value + 1]
    if isinstance(value, float):
        return [2.0 * value, 0.5 * value] if value else [1.0]
    return []


def _other_operations(node: ast.BinOp) -> Iterator[tuple[ast.expr, Callable[[], ast.expr]]]:
    for kind, other in _ARITHMETIC.items():
        if isinstance(node.op, kind):
            yield node, _operation(node, other)
            yield node, _same(node.left)
            yield node, _same(node.right)


def _constantly(value: object) -> Callable[[], ast.expr]:
    return lambda: ast.Constant(value)


def _operation(node: ast.BinOp, kind: type[ast.operator]) -> Callable[[], ast.expr]:
    return lambda: ast.BinOp(node.left, kind(), node.right)


def _comparison(node: ast.Compare, operator: ast.cmpop, place: int = 0) -> Callable[[], ast.expr]:
    ops = [operator if at == place else old for at, old in enumerate(node.ops)]
    return lambda: ast.Compare(node.left, ops, node.comparators)


def _joined(node: ast.BoolOp) -> Callable[[], ast.expr]:
    operator = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return lambda: ast.BoolOp(operator, node.values)


def _without(node: ast.BoolOp, place: int) -> Callable[[], ast.expr]:
    rest = [value for at, value in enumerate(node.values) if at != place]
    return lambda: rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _same(node: ast.expr) -> Callable[[], ast.expr]:
    return lambda: node


def _relative(node: ast.Call) -> Callable[[], ast.expr] | None:
    function = node.func
    if isinstance(function, ast.Name) and function.id in _RELATIVES:
        other: ast.expr = ast.Name(_RELATIVES[function.id], ast.Load())
    elif isinstance(function, ast.Attribute) and function.attr in _RELATIVES:
        other = ast.Attribute(function.value, _RELATIVES[function.attr], ast.Load())
    else:
        return None
    return lambda: ast.Call(other, node.args, node.keywords)

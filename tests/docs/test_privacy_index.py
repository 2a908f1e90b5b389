"""The index of proofs is complete, and what pages, docstrings and comments refer to exists."""

from __future__ import annotations

import importlib
import inspect
import itertools
import re
from functools import cache
from pathlib import Path

from tests.docs.pages import DOCUMENTS

from dpoco.accounting.explanation import REVIEWS

ROOT = Path(__file__).parents[2]
PRIVACY = ROOT / "docs" / "privacy"
SOURCES = sorted(
    path for pattern in ("python/**/*.py", "python/**/*.pyi", "cpp/**/*.?pp", "cpp/**/*.inl")
    for path in ROOT.glob(pattern)
)  # fmt: skip
ROOMS = ("docs", "tests", "bench", "check", "cpp", "python", "examples", "proofs")


def named(path):
    return str(path.relative_to(ROOT))


@cache
def text_without_code(path):
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(path):
    """Return the anchors of a page's headings, as hosts of repositories make them."""
    found: list[str] = []
    for heading in re.findall(r"^#+ +(.+?) *$", text_without_code(path), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        copies = sum(re.fullmatch(rf"{re.escape(slug)}(-\d+)?", old) is not None for old in found)
        found.append(f"{slug}-{copies}" if copies else slug)
    return found


def broken_links(path):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text_without_code(path)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        if not page.exists() or (anchor and anchor not in anchors(page)):
            broken.append(target)
    return broken


def expanded(name):
    """Return the names that braces in a path stand for."""
    parts = re.split(r"\{([^}]*)\}", name)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(pieces) for pieces in itertools.product(*choices)]


def missing_files(text):
    """Return the paths in backticks, braces and stars expanded, that lead nowhere."""
    missing = []
    for token in re.findall(r"`([^`\s]+)`", text):
        if token.split("/")[0] not in ROOMS or "/" not in token or re.search(r"[<>()=]", token):
            continue
        name, _, function = token.partition("::")
        for each in expanded(name):
            if not list(ROOT.glob(each.rstrip("/"))):
                missing.append(each)
            elif function and f"\ndef {function}(" not in (ROOT / each).read_text():
                missing.append(token)
    return missing


def bad_references(text):
    """Return the mentions of documents that are no files, or no sections of them."""
    bad = []
    flat = re.sub(r"\s*\n[ \t]*(?://[/!]?|\*|#)?[ \t]*", " ", text)
    for match in re.finditer(r"docs/[\w./*-]*", flat):
        name = match.group().rstrip(".")
        page = ROOT / name
        if not page.exists():
            bad.append(name)
            continue
        section = re.match(r'[`]*, section "([^"]+)"', flat[match.start() + len(name) :])
        if section:
            headings = re.findall(r"^#+ +(.+?) *$", text_without_code(page), re.MULTILINE)
            if not any(section.group(1).lower() in heading.lower() for heading in headings):
                bad.append(f"{name}: {section.group(1)}")
    return bad


def index_rows():
    rows = re.findall(
        r"^\| \[[^\]]+\]\((\w+)\.md\) \| (.+) \| (.+) \| (.+) \| (.+) \|$",
        (PRIVACY / "README.md").read_text(),
        re.MULTILINE,
    )
    assert rows
    return rows


def test_every_page_is_listed_once():
    pages = [row[0] for row in index_rows()]
    assert sorted(pages) == sorted(p.stem for p in PRIVACY.glob("*.md") if p.stem != "README")


def test_pages_their_index_and_explanations_name_the_same_reviewers():
    """ "none", or a name, a date and the commit that was read."""
    stated = {
        page.stem: re.findall(r"^Review: (.+?)\.$", page.read_text(), re.MULTILINE)
        for page in PRIVACY.glob("*.md")
        if page.stem != "README"
    }
    assert stated == {page: [review] for page, _, _, _, review in index_rows()}
    for page, (review,) in stated.items():
        assert REVIEWS.get(f"docs/privacy/{page}.md", "none") == review
        assert re.fullmatch(r"none|[^,]+, \d{4}-\d\d-\d\d, [0-9a-f]{7,40}", review), page
    assert len(REVIEWS) == sum(review != "none" for (review,) in stated.values())


def test_every_page_has_a_statement_code_and_tests_that_exist():
    for page, statement, code, tests, _ in index_rows():
        assert statement.strip(), page
        for column, rooms in (
            (code, ("check/", "cpp/", "python/", "tests/")),
            (tests, ("tests/",)),
        ):
            names = re.findall(r"`([^`]+)`", column)
            assert names, page
            for name in names:
                assert name.startswith(rooms), (page, name)
                assert (ROOT / name).exists(), (page, name)


def test_links_lead_to_pages_and_headings():
    for path in DOCUMENTS:
        assert broken_links(path) == [], named(path)


def test_files_and_tests_that_pages_name_exist():
    for path in DOCUMENTS:
        missing = missing_files(text_without_code(path))
        assert [name for name in missing if not (path.parent / name).exists()] == [], named(path)


def test_tests_that_proofs_name_by_file_only_exist():
    known = {path.name for path in ROOT.glob("tests/**/*.*")}
    for path in PRIVACY.glob("*.md"):
        for name in re.findall(r"`(test_\w+\.[a-z]+)`", path.read_text()):
            assert name in known, f"{path.name}: {name}"


def test_documents_that_code_refers_to_exist():
    count = 0
    for path in SOURCES:
        text = path.read_text()
        assert bad_references(text) == [], named(path)
        count += "docs/privacy/" in text
    assert count > 50


def test_the_checks_see_what_is_wrong(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One thing, and `two`\n## A [link](x.md)\n## A link\n"
        "[a](#one-thing-and-two) [b](#a-link) [c](#a-link-1) [d](#three) [e](page.md#a-link)\n"
        "[f](page.md#four) [g](nowhere.md)\n```python\nx = [1](2)\n```\n"
    )
    assert broken_links(page) == ["x.md", "#three", "page.md#four", "nowhere.md"]
    here = "tests/docs/test_privacy_index.py"
    assert missing_files(f"`{here}` `{here}::test_every_page_is_listed_once` `a/b`") == []
    wrong = ["cpp/src/no.cpp", f"{here}::test_no", "tests/docs/test_no*.py"]
    assert missing_files(" ".join(f"`{name}`" for name in wrong)) == wrong
    assert missing_files("`tests/docs/test_{import,no}.py`") == ["tests/docs/test_no.py"]
    fine = '``docs/privacy/noise.md``, section\n    "The generator".'
    assert bad_references(fine) == []
    assert bad_references(fine.replace("generator", "devil")) == [
        "docs/privacy/noise.md: The devil"
    ]
    assert bad_references("// Proof: docs/privacy/\n// nothing.md") == []  # names no page
    assert bad_references("see docs/privacy/nothing.md.") == ["docs/privacy/nothing.md"]


MODULES = (
    "dpoco", "dpoco.accounting", "dpoco.accounting.attack_power",
    "dpoco.accounting.gaussian", "dpoco.audit", "dpoco.bandits", "dpoco.domains",
    "dpoco.accounting.linucb", "dpoco.experts", "dpoco.frank_wolfe", "dpoco.local", "dpoco.losses",
    "dpoco.mechanisms", "dpoco.privacy.mechanisms.coupled_draws",
    "dpoco.oco", "dpoco.privacy.mechanisms.bounds", "dpoco.privacy.mechanisms.gaussian_sum",
    "dpoco.accounting.tree_frank_wolfe", "dpoco.accounting.noisy_ftrl_regret",
    "dpoco.privacy.mechanisms.selections", "dpoco.privacy.mechanisms.tracker_draws",
    "dpoco.accounting.batch_share", "dpoco.accounting.oblivious_tracker",
    "dpoco.accounting.prefix_hedge", "dpoco.accounting.shift_detector",
    "dpoco.accounting.coupled_regularized_leader", "dpoco.privacy.mechanisms.coupled_draws",
)  # fmt: skip


def exists(name):
    """Return whether a public name has that attribute, field or argument."""
    owner, _, attribute = name.partition(".")
    for module in map(importlib.import_module, MODULES):
        if hasattr(module, owner):
            it = getattr(module, owner)
            fields = getattr(it, "__dataclass_fields__", {})
            return not attribute or (
                hasattr(it, attribute)
                or attribute in fields
                or attribute in inspect.signature(it).parameters
            )
    return False


def test_symbols_name_what_the_library_has():
    rows = [
        line.strip("|").split(" | ")
        for line in (PRIVACY / "symbols.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| symbol")
    ]
    assert len(rows) > 60
    for row in rows:
        assert len(row) == 4, row
        for name in re.findall(r"`([^`]+)`", row[3]):
            assert exists(name), name
    symbols = [row[0].strip() for row in rows]
    assert len(set(symbols)) == len(symbols)
    assert not exists("Guarantee.nothing")
    assert not exists("NoSuchName")

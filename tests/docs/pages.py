"""Pages and their snippets: run them, and write what they print and draw back into the pages.

``python -m tests.docs.pages docs/tutorials/*.md`` runs the snippets of the pages named, in order,
and replaces the block ``text`` below each by what it printed; figures that a page shows and its
snippets save are copied to where the page has them.

A snippet starts with three backticks and ``python``. One that is not to be run has a comment
``<!-- not run: REASON -->`` in the line above.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# All pages of the site, and of the repository.
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    ROOT / "bench" / "README.md",
    *sorted(ROOT.glob("tests/**/README.md")),
]

_SNIPPET = re.compile(
    r"(?:^<!-- not run:(?P<reason>.*?)-->\n)?^```python\n(?P<code>.*?)^```$"
    r"(?P<block>\n\n```text\n(?P<shown>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"^ *(?:```|~~~)[ {]*([\w-]+[^\n]*)$", re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """Code of a page from a line on, what is shown as its output, and why it is not run, if so."""

    code: str
    line: int
    shown: str | None
    reason: str | None


def snippets(text: str) -> list[Snippet]:
    """Return the snippets of a page in order."""
    return [
        Snippet(
            match["code"], text.count("\n", 0, match.start("code")), match["shown"], match["reason"]
        )
        for match in _SNIPPET.finditer(text)
    ]


def disguised(text: str) -> list[str]:
    """Return the heads of blocks of Python that `snippets` would not find."""
    return [
        head
        for head in _FENCE.findall(text)
        if re.search(r"\bpy(thon|con)?3?\b", head) and head != "python"
    ]


def run(text: str, name: str) -> list[str | None]:
    """Run the snippets of a page as one program, and return what each printed; None: not run."""
    namespace: dict[str, object] = {}
    printed: list[str | None] = []
    for snippet in snippets(text):
        if snippet.reason is not None:
            printed.append(None)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = "\n" * snippet.line + snippet.code  # tracebacks show lines of the page
            exec(compile(code, name, "exec"), namespace)
        printed.append(out.getvalue())
    return printed


def with_outputs(text: str, printed: list[str | None]) -> str:
    """Return the page with a block ``text`` below every snippet that printed something."""
    outputs = iter(printed)

    def filled(match: re.Match[str]) -> str:
        output = next(outputs)
        head = match.group()[: len(match.group()) - len(match["block"] or "")]
        return f"{head}\n\n```text\n{output}```" if output else head

    return _SNIPPET.sub(filled, text)


def rewrite(page: Path) -> None:
    """Run a page, and write its outputs and figures."""
    text = page.read_text(encoding="utf-8")
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            printed = run(text, str(page))
        finally:
            os.chdir(here)
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
            drawn = Path(directory) / Path(target).name
            if drawn.exists():
                shutil.copy(drawn, page.parent / target)
    page.write_text(with_outputs(text, printed), encoding="utf-8")


def main() -> None:
    import matplotlib

    parser = argparse.ArgumentParser(description="Write what snippets print into their pages.")
    parser.add_argument("pages", nargs="+", type=Path)
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # the same figure is the same file
    matplotlib.rcParams["svg.hashsalt"] = "dpoco"
    for page in parser.parse_args().pages:
        rewrite(page.resolve())
        print(f"wrote {page}")


if __name__ == "__main__":
    main()

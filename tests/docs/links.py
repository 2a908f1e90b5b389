"""Checks a built site: every link, image and anchor leads somewhere inside it.

A page that is named in code font, as ``docs/audit.md``, is a link.

``python -m tests.docs.links build/site``. Addresses of other hosts are counted, not fetched; a page
that loads a script, a style or a picture from one is an error.
"""

from __future__ import annotations

import argparse
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page points to, what it loads, its anchors, and code that is no link."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.code: set[str] = set()
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag in ("a", "code", "pre"):
            self._open.append(tag)
            self._text = ""
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.add(values["href"])
        elif "src" in values:
            self.loads.add(values["src"])

    def handle_data(self, data: str) -> None:
        if self._open:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            if self._open == ["code"]:
                self.code.add(self._text)
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag) :]


def errors(site: Path) -> list[str]:
    """Return what is wrong with a built site."""
    pages = {path.resolve(): Page(path) for path in sorted(site.glob("**/*.html"))}
    found = [] if pages else [f"no pages in {site}"]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for text in sorted(page.code):
            named = re.fullmatch(r"docs/(\S+)\.md(#\S+)?", text)
            if named and (site / f"{named[1]}.html").is_file():
                found.append(f"{name}: {text} is no link")
        for target in sorted(page.links | page.loads):
            url = urlsplit(target)
            if url.scheme == "data":
                continue
            if url.scheme or url.netloc:
                if target in page.loads:
                    found.append(f"{name} loads {target}")
                continue
            goal = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not goal.is_file():
                found.append(f"{name}: {target}")
            elif (
                url.fragment and goal in pages and unquote(url.fragment) not in pages[goal].anchors
            ):
                found.append(f"{name}: {target}, no such anchor")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the links of a built site.")
    parser.add_argument("site", type=Path)
    found = errors(parser.parse_args().site)
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()

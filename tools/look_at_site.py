"""Looks at every page of the built site in a real browser, on a desktop and on a phone.

``python tools/look_at_site.py build/site`` serves the site to a headless Chromium and prints what
is wrong: an element wider than the page, a script error, a file from elsewhere, an image that is
missing or has no text. It exits with 1 if anything is wrong, and with 77 without a browser.
"""

from __future__ import annotations

import http.server
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

WIDTHS = (1280, 390)  # pixels: a desktop and a phone
NAMES = ("chromium", "chromium-browser", "google-chrome")
SKIPPED = 77
_SECONDS = 600.0  # for all pages, on a busy machine

# Errors are collected before any script of the page runs.
_COLLECT = (
    "<script>window.faults = [];"
    "addEventListener('error', e => faults.push(String(e.message || e.target.src)), true);"
    "addEventListener('unhandledrejection', e => faults.push(String(e.reason)));</script>"
)
_HARNESS = """<!doctype html><meta charset="utf-8"><title>look</title><body><script>
const hides = new Set(["auto", "scroll", "hidden", "clip"]);
function scrolls(element) {  // inside a part of the page that scrolls by itself
  for (let e = element; e && e.tagName !== "BODY"; e = e.parentElement) {
    const style = e.ownerDocument.defaultView.getComputedStyle(e);
    if (hides.has(style.overflowX) || style.position === "fixed") return true;
  }
  return false;
}
function look(frame, width) {
  const page = frame.contentWindow, text = frame.contentDocument, found = [...page.faults];
  if (text.scrollingElement.scrollWidth > width) found.push("the page scrolls sideways");
  for (const e of text.querySelectorAll("article *")) {
    const box = e.getBoundingClientRect();
    if (box.width && box.right > width + 1 && !scrolls(e))
      found.push(`<${e.localName}> ends at ${Math.round(box.right)}: ` +
                 e.textContent.trim().slice(0, 60));
  }
  for (const e of text.querySelectorAll("article img:not([src*='_static/'])")) {
    if (!e.naturalWidth) found.push(`no image: ${e.src}`);
    if ((e.alt || "").trim().split(/\\s+/).length < 4)
      found.push(`image without a text of four words: ${e.src}`);
  }
  for (const e of page.performance.getEntriesByType("resource"))
    if (!e.name.startsWith(location.origin) && !e.name.startsWith("data:"))
      found.push(`from elsewhere: ${e.name}`);
  return found.slice(0, 5);
}
async function main() {
  const [pages, widths] = await (await fetch("/__pages__")).json(), faults = {};
  let looked = 0;
  for (const width of widths) {
    const frame = document.createElement("iframe");
    frame.style = `width: ${width}px; height: 900px; border: 0`;
    document.body.append(frame);
    for (const page of pages) {
      const loaded = new Promise(done => { frame.onload = done; });
      frame.src = "/" + page;
      await loaded;
      // Images below the fold are lazy: ask for them before they are counted.
      const images = [...frame.contentDocument.images];
      for (const image of images) image.loading = "eager";
      await Promise.allSettled(images.map(image => image.decode()));
      const found = look(frame, width);
      if (found.length) faults[`${page} at ${width}`] = found;
      looked += 1;
    }
    frame.remove();
  }
  await fetch("/__report__", {method: "POST", body: JSON.stringify({looked, faults})});
}
main().catch(e => fetch("/__report__", {method: "POST", body: JSON.stringify(
  {looked: 0, faults: {browser: [String(e)]}})}));
</script>"""


class _Server(http.server.SimpleHTTPRequestHandler):
    """Serve the pages with a collector of errors, the harness, and take its report."""

    reports: queue.Queue[dict[str, object]]
    pages: list[str]

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if self.path == "/__look__":
            self.answer(_HARNESS, "text/html")
        elif self.path == "/__pages__":
            self.answer(json.dumps([self.pages, WIDTHS]), "application/json")
        elif path.suffix == ".html" and path.is_file():
            text = path.read_text(encoding="utf-8")
            self.answer(text.replace("<head>", "<head>" + _COLLECT, 1), "text/html")
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer("", "text/plain")

    def answer(self, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Keep quiet: a line a file would hide the report."""


def browser() -> str | None:
    """Return the path of a Chromium on this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def look_at(site: Path, program: str) -> dict[str, list[str]]:
    """Return the faults of all pages under `site`, by page and width; empty if there are none."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    if not pages:
        return {str(site): ["no page"]}
    reports: queue.Queue[dict[str, object]] = queue.Queue()
    handler = type("_Handler", (_Server,), {"reports": reports, "pages": pages})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with server, tempfile.TemporaryDirectory() as profile:
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        command += ["--disable-dev-shm-usage", "--disable-background-networking"]
        command += ["--window-size=1400,1000", f"--user-data-dir={profile}"]
        address = f"http://127.0.0.1:{server.server_port}/__look__"
        null = subprocess.DEVNULL
        with subprocess.Popen([*command, address], stdout=null, stderr=null) as process:
            try:
                report = reports.get(timeout=_SECONDS)
            except queue.Empty:
                report = {"looked": 0, "faults": {}}
            process.terminate()
        server.shutdown()
    faults: dict[str, list[str]] = dict(report["faults"])  # type: ignore[call-overload]
    if report["looked"] != len(pages) * len(WIDTHS):
        faults["browser"] = [f"looked at {report['looked']} of {len(pages) * len(WIDTHS)} pages"]
    return faults


def main() -> int:
    """Print the faults of a site; return 1 if there are any, 77 without a browser."""
    program = browser()
    if program is None:
        print(f"SKIPPED: no browser on this machine (looked for {', '.join(NAMES)})")
        return SKIPPED
    faults = look_at(Path(sys.argv[1]).resolve(), program)
    for page, found in faults.items():
        print(f"{page}:", *found, sep="\n  ")
    print(f"{len(faults)} pages with faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""What is wrong with the pages of a site; usage: site_check.py SITE

A tag or an attribute that HTML does not have (an average <x y> or <u v> outside of code, which
browsers leave out), a link to a file or a heading that is not there, and a dollar or a fence ```
outside of code and formulas, which are a formula and code that are shown as they were typed; a
heading or a list that stands within a paragraph, because no blank line parts them. With node and
KaTeX, a formula that KaTeX does not take.
"""
from __future__ import annotations

import glob
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

TAGS = set("""a abbr article aside audio b blockquote body br button circle clippath code col
 colgroup dd defs del details dialog div dl dt em figcaption figure footer form g h1 h2 h3 h4 h5
 h6 head header hr html i iframe img input ins kbd label li lineargradient link main mark math
 meta nav noscript ol option p path picture polygon pre progress rect s samp script section
 select small source span stop strong style sub summary sup svg table tbody td template text
 textarea tfoot th thead time title tr tt u ul use var video""".split())
ALONE = set("""async autofocus checked controls crossorigin defer disabled hidden loop muted open
 readonly required reversed selected""".split())     # attributes without a value
KATEX = "/usr/share/javascript/katex/katex.js"
MARKS = (     # what of Markdown is left in a text, which Python-Markdown joins with the line above
    (r"\$", "a dollar that starts no formula"), ("```", "a fence of no code"),
    (r"(^|\s)#{2,6} ", "a heading within a paragraph"),
    (r"\n([-*]|1\.) ", "a list that no blank line parts from its paragraph"))
RENDER = """
const katex = require(process.argv[1]);
for (const [page, text, display] of JSON.parse(require("fs").readFileSync(0, "utf8"))) {
    try { katex.renderToString(text, {displayMode: display, strict: "error"}); }
    catch (error) { console.log(page + ": " + error.message); }
}"""


class Page(html.parser.HTMLParser):
    """One page: `wrong`, its sentences; `links`; `names`, what links to it can mean; `formulas`."""

    def __init__(self, path: str):
        super().__init__(convert_charrefs=True)
        self.path, self.wrong, self.links, self.names = path, [], [], set()
        self.formulas: list[tuple[str, str, bool]] = []
        self.inside: list[str] = []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        if tag not in TAGS:
            self.wrong.append(f"line {self.getpos()[0]}: <{tag}> is no tag of HTML")
        for name in (name for name, value in attrs if value is None and name not in ALONE
                     and not name.startswith("data-")):
            self.wrong.append(f"line {self.getpos()[0]}: <{tag} {name}> is no tag of HTML")
        self.names |= {known.get("id"), known.get("name")}
        for key in ("href", "src"):
            if known.get(key):
                self.links.append(known[key])
        if tag in ("code", "pre", "script", "style", "title", "textarea") or \
                "arithmatex" in (known.get("class") or ""):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data):
        if self.inside and self.inside[-1] in ("span", "div"):
            self.formulas.append((self.path, data.strip()[2:-2], self.inside[-1] == "div"))
        for mark, what in MARKS:
            found = None if self.inside else re.search(mark, data)
            if found:
                near = " ".join(data[max(found.start() - 20, 0):].split())[:60]
                self.wrong.append(f"line {self.getpos()[0]}: {what}: {near}")


def links(pages: dict[str, Page]):
    """What is wrong with the links of pages."""
    for path, page in pages.items():
        for link in page.links:
            where = urllib.parse.urlsplit(link)
            if where.scheme or where.netloc or link.startswith("data:"):
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(path),
                                                   urllib.parse.unquote(where.path))) \
                if where.path else path
            if not os.path.exists(target):
                yield f"{path}: {link} is not there"
            elif where.fragment and target in pages and \
                    urllib.parse.unquote(where.fragment) not in pages[target].names:
                yield f"{path}: {link} names no heading"


def formulas(pages: dict[str, Page]):
    """What KaTeX does not take; nothing where it cannot be asked."""
    node = shutil.which("node")
    every = [formula for page in pages.values() for formula in page.formulas]
    if node and os.path.exists(KATEX):
        ran = subprocess.run([node, "-e", RENDER, KATEX], input=json.dumps(every), text=True,
                             capture_output=True, check=True)
        yield from ran.stdout.splitlines()


def main() -> int:
    """The command."""
    pages = {path: Page(path) for path in glob.glob(os.path.join(sys.argv[1], "**", "*.html"),
                                                    recursive=True)}
    wrong = [f"{path}: {what}" for path, page in pages.items() for what in page.wrong]
    wrong += [*links(pages), *formulas(pages)]
    print("\n".join(sorted(wrong)), end="\n" if wrong else "", file=sys.stderr)
    if not pages:
        print(f"{sys.argv[1]}: no pages", file=sys.stderr)
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main())

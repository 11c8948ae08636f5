"""dmft.docs: the pages of docs/, and what each key of an ini means, without leaving Python."""
from __future__ import annotations

import difflib
import html
import os
import re

from dmft import program
from dmft.errors import InputError, SystemFailure

FIRST = ("first_hour", "tutorial", "python", "output", "programs", "data", "method", "words")


def _folders():
    """Where docs/, data/, examples/ and studies/ may lie: inside of this package, where a wheel has
    them; the checkout around it or around the programs; what make install has put beside the
    programs."""
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, "share")
    yield os.path.join(here, "..", "..")
    try:
        home = os.path.dirname(program.find("dmft-solve"))
    except SystemFailure:
        return
    for beside in ((), ("..",), ("..", ".."), ("..", "share", "doc", "dmft-solve")):
        yield os.path.join(home, *beside)


def folder_with(*parts: str) -> str:
    """The first folder that has this file: of the checkout, of an installation or of a wheel."""
    folder = next((one for one in _folders() if os.path.exists(os.path.join(one, *parts))), None)
    if folder is None:
        raise SystemFailure(f"the files of {parts[0]}/ are not here: they are in the checkout, in "
                            "what make install installs, and in the wheel of make wheel")
    return os.path.abspath(folder)


def _pages() -> dict[str, str]:
    """{name: path} of all pages; those of docs/theory are theory/regime2, and also regime2."""
    folder, found = os.path.join(folder_with("docs", "output.md"), "docs"), {}
    for part in ("", "theory"):
        there = os.path.join(folder, part)
        for name in sorted(os.listdir(there)) if os.path.isdir(there) else ():
            if name.endswith(".md"):
                found[os.path.join(part, name[:-3])] = os.path.abspath(os.path.join(there, name))
    return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _title(text: str) -> str:
    return next((line.lstrip("# ") for line in text.split("\n") if line.startswith("# ")), "")


class Page(str):
    """The Markdown text of a page, which print() and a notebook show; `path` is its file, or
    None."""
    path: str | None = None

    def _repr_markdown_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return str(self)


def _page(text: str, path: str | None = None) -> Page:
    page = Page(text)
    page.path = path
    return page


def _list_of(pages: dict[str, str]) -> Page:
    names = [*FIRST, *(name for name in pages if name not in FIRST)]
    rows = [f"| `{name}` | {_title(_read(pages[name]))} |" for name in names if name in pages]
    return _page("\n".join(["| `dmft.docs(...)` | |", "| --- | --- |", *rows, "",
                            'Keys: `dmft.docs("training.eta0")`, or all of a section, '
                            '`dmft.docs("training")`. Any other word is looked for in all pages.']))


def _keys() -> dict[str, str]:
    """{section.key: its lines of --defaults}."""
    found, section, lines = {}, "", []
    for line in program.call("dmft-solve", ["--defaults"], False).splitlines():
        key = re.match(r"(?:# )?(\w+) =", line)
        if line.startswith("["):
            section, lines = line.strip("[] "), []
        elif key and section:
            found[f"{section}.{key[1]}"] = "\n".join([*lines, line])
            lines = []
        elif line.startswith("#"):
            lines.append(line[2:])
        else:
            lines = []
    return found


def _search(word: str, pages: dict[str, str]) -> Page:
    """The lines of all pages that have a word."""
    rows, names = [], []
    for name, path in pages.items():
        lines = [line.strip() for line in _read(path).split("\n") if word.lower() in line.lower()]
        names += [name] if lines else []
        rows += [f"- `{name}`: {line[:160]}" for line in lines[:3]]
    if not rows:
        near = difflib.get_close_matches(word, pages, 1, 0.6)
        end = f"did you mean {near[0]}?" if near else "dmft.docs() lists the pages"
        raise InputError(f"docs: no page, key or line has {word!r}; {end}")
    return _page(f"`{html.escape(word)}` is on the pages {', '.join(names)}:\n\n" + "\n".join(rows))


def docs(what: str | None = None) -> Page:
    """The documents: of nothing a list of the pages; of a page its text; of a section.key, or of a
    section, what the keys mean; of any other word the lines that have it.

    >>> dmft.docs("output")                                             # doctest: +SKIP
    >>> print(dmft.docs("solver.halves"))                               # doctest: +SKIP
    """
    if not isinstance(what, (str, type(None))):
        raise InputError(f"docs: a page, a key or a word, not {type(what).__name__}")
    pages, what = _pages(), (what or "").strip()
    if not what:
        return _list_of(pages)
    for name in (what, os.path.join("theory", what)):
        if name in pages:
            return _page(_read(pages[name]), pages[name])
    keys = _keys()
    chosen = {key: text for key, text in keys.items()
              if key == what or key.startswith(what + ".")}
    if chosen:
        return _page("\n\n".join(f"**{key}**\n\n```ini\n{text}\n```"
                                 for key, text in chosen.items()))
    return _search(what, pages)

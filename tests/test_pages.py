"""Pages as they are rendered: <x y> outside of code is taken for a tag of HTML and vanishes. Line
breaks and pictures are tags on purpose."""
import glob
import itertools
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = re.compile(r"^```.*?^```|(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL | re.MULTILINE)
TAG = re.compile(r"<(?!br>|img )[A-Za-z/(][^<>{}]*>")


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True,
                            check=False).stdout.split()
    return listed or [os.path.relpath(os.path.join(folder, name), ROOT)
                      for folder, _, names in itertools.chain(
                          os.walk(os.path.join(ROOT, "docs")), [(ROOT, [], ["README.md"])])
                      for name in names if name.endswith(".md")]


def tags(text: str) -> list[str]:
    """What looks like a tag outside of code, which is fenced, between backquotes, or indented
    behind an empty line.

    >>> tags("`<x y>` and <x y>\\n\\n    <u v>\\n")
    ['<x y>']
    """
    kept, code, before = [], False, ""
    for line in text.split("\n"):
        code = line.startswith("    ") and (code or not before.strip())
        kept += [] if code else [line]
        before = line
    return [found.group() for found in TAG.finditer(CODE.sub("", "\n".join(kept)))]


def test_tags_are_found():
    assert tags("an average <x y>, `<u v>`<br>\n```\n<w w>\n```\n\n    <a b>\n\nand <x>") == \
        ["<x y>", "<x>"]


@pytest.mark.parametrize("page", pages())
def test_averages_do_not_vanish(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        assert tags(file.read()) == []


def test_every_series_stands_on_its_page():
    """Those that their instruments write in one word, in docs/output.md; test_f is not stored."""
    found = set()
    for path in glob.glob(os.path.join(ROOT, "solver", "measure", "*.c")):
        with open(path, encoding="utf-8") as file:
            found |= set(re.findall(r'(?:\.name = |\.name, )"(\w+)"', file.read()))
    with open(os.path.join(ROOT, "docs", "output.md"), encoding="utf-8") as file:
        said = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", file.read()))))
    assert {"loss", "gate_top", "rank"} <= found
    missing = found - said - {"test_f"}
    assert not missing, missing


FIRST_READ = ["README.md"] + [f"docs/{name}.md" for name in (
    "data", "first_hour", "folders", "gallery", "programs", "python", "pytorch", "testing",
    "tutorial", "words")]
MOST_WORDS = 40


def long_sentences(text: str) -> list[str]:
    """Sentences of more than MOST_WORDS words outside of code, formulas, tables and headings; a
    semicolon and a colon end one, too."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]*\$", "X", CODE.sub("X", text), flags=re.DOTALL)
    parts = re.split(r"\n\s*\n|\n(?=[-*#|]|\d+\. )", re.sub(r"\]\([^)]*\)", "]", text))
    return [sentence for part in parts if not part.startswith(("|", "    ", "#"))
            for sentence in re.split(r"(?<=[.!?:;])\s+", part)
            if len(re.findall(r"[A-Za-z][A-Za-z'-]*", sentence)) > MOST_WORDS]


def test_long_sentences_are_found():
    assert long_sentences("One two. " + "word " * 40 + "word.") == ["word " * 40 + "word."]
    assert not long_sentences("word " * 40 + ". `a b`\n\n| " + "word " * 50 + "|\n")


@pytest.mark.parametrize("page", FIRST_READ)
def test_sentences_are_short(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        assert long_sentences(file.read()) == []

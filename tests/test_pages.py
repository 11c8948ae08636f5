"""Pages as they are rendered: <x y> outside of code is taken for a tag of HTML and vanishes (line
breaks and pictures are tags on purpose). Links lead somewhere, sentences are short, words are spelt
right."""
import glob
import itertools
import os
import re
import shutil
import subprocess

import pytest
from texts import text_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = re.compile(r"^```.*?^```|(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL | re.MULTILINE)
TAG = re.compile(r"<(?!br>|img )[A-Za-z/(][^<>{}]*>")


MADE = ("docs/gallery.md",)


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
    assert tags(text_of(page)) == []


@pytest.mark.parametrize("page", pages())
def test_no_merge_left_its_marks(page):
    """Both sides of a conflict in a page, between <<<<<<< and >>>>>>>."""
    assert not re.search(r"^(<{7}|>{7}) ", text_of(page), re.MULTILINE)


def test_every_series_stands_on_its_page():
    """Those that their instruments write in one word, in docs/output.md; test_f is not stored."""
    found = set()
    named = r'(?:\.name = |series_add\([^;]*?err, |SERIES_ADD\([^"]*?)"(\w+)"'
    for path in glob.glob(os.path.join(ROOT, "solver", "measure", "*.c")):
        found |= set(re.findall(named, text_of(path)))
    with open(os.path.join(ROOT, "docs", "output.md"), encoding="utf-8") as file:
        said = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", file.read()))))
    assert {"loss", "gate_top", "rank"} <= found
    missing = found - said - {"test_f"}
    assert not missing, missing


MOST_WORDS = 40


def long_sentences(text: str) -> list[str]:
    """Sentences of more than MOST_WORDS words outside of code, formulas, tables and headings; a
    semicolon and a colon end one, too."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]*\$", "X", CODE.sub("X", text), flags=re.DOTALL)
    parts = re.split(r"\n\s*\n|\n(?=[-*#|]|\d+\. )", re.sub(r"\]\([^)]*\)", "]", text))
    return [sentence for part in parts if not part.startswith(("|", "    ", "#"))
            for sentence in re.split(r"(?<=[.!?:;])[*)]*\s+", part)
            if len(re.findall(r"[A-Za-z][A-Za-z'-]*", sentence)) > MOST_WORDS]


def test_long_sentences_are_found():
    assert long_sentences("One two. " + "word " * 40 + "word.") == ["word " * 40 + "word."]
    assert not long_sentences("word " * 40 + ". `a b`\n\n| " + "word " * 50 + "|\n")


@pytest.mark.parametrize("page", pages())
def test_sentences_are_short(page):
    assert long_sentences(text_of(page)) == []


def unexplained(defaults: str) -> list[str]:
    """Of what --defaults prints: what is said of a key and is no sentence, or too long a one."""
    said = [re.findall(r"^# (?! )(.*)", block.partition("# Allowed:")[0], re.MULTILINE)
            for block in defaults.split("\n\n") if "# Allowed:" in block]
    texts = [" ".join(lines) for lines in said]
    return [text for text in texts if not re.match(r"[A-Z].*\.$", text) or long_sentences(text)]


def test_every_page_is_in_the_navigation():
    """A page of docs/ that it leaves out is found by a search alone."""
    with open(os.path.join(ROOT, "install", "mkdocs.yml"), encoding="utf-8") as file:
        named = set(re.findall(r": (\S+\.md)$", file.read(), re.MULTILINE))
    there = {os.path.basename(page) for page in glob.glob(os.path.join(ROOT, "docs", "*.md"))}
    assert not there - named


@pytest.mark.parametrize("page", pages())
def test_pages_are_not_too_long(page):
    """Who looks for a section reads its neighbours. Pages that are made of data are lists."""
    lines = text_of(page).count("\n")
    assert lines <= 600 or page in MADE, f"{page} has {lines} lines: split it by subject"


def test_keys_are_explained_in_sentences():
    assert unexplained("# of the chain\n# Allowed: a number.\nsharpness = 1\n\n"
                       "# Seed of it.\n# Allowed: a number.\nseed = 1\n") == ["of the chain"]
    assert unexplained(text_of("data", "ref", "keys.ini")) == []


INVERSION = re.compile(r"\bthe (?:\w+er|more|less) the (?:\w+er|more|less)\b")


@pytest.mark.parametrize("page", pages())
def test_comparisons_have_subjects(page):
    """None is like "learn the later the wider", which is read twice."""
    assert INVERSION.search("networks learn the later the wider")
    assert not INVERSION.search(re.sub(r"\s+", " ", text_of(page)))


def anchors(text: str) -> set[str]:
    """Where links to a page may lead: its headings, as GitHub and the site call them.

    >>> sorted(anchors("# A `b_c`, d!\\n```\\n# no\\n```\\n## A b\\n"))
    ['a-b', 'a-b_c-d']
    """
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def broken(page: str, text: str) -> list[str]:
    """Links of a page that lead nowhere within the checkout."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", text)):
        path, _, anchor = link.partition("#")
        there = os.path.normpath(os.path.join(ROOT, os.path.dirname(page), path)) if path else \
            os.path.join(ROOT, page)
        if "://" in link:
            continue
        if not os.path.exists(there):
            found.append(link)
        elif anchor and there.endswith(".md"):
            found += [link] if anchor not in anchors(text_of(there)) else []
    return found


def test_broken_links_are_found():
    assert broken("docs/data.md", "[a](words.md), [b](word.md), [c](words.md#in-the-code), "
                  "[d](words.md#nowhere), [e](https://x.y), `[f](g)`") == \
        ["word.md", "words.md#nowhere"]


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page):
    assert broken(page, text_of(page)) == []


def test_spelling():
    """Of documents, inis and examples, by Debian's codespell; tests misspell on purpose."""
    if not shutil.which("codespell"):
        pytest.skip("codespell is not here")
    listed = subprocess.run(["git", "ls-files", "*.md", "*.1", "*.ini", "*.lua", "*.toml",
                             ":!tests"], cwd=ROOT, capture_output=True, text=True, check=False)
    done = subprocess.run(["codespell", "-L", "nd,Nd", *listed.stdout.split()], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")

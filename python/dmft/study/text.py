"""How an ini writes its lines: what solver/settings/param.h says, for the section [sweep]."""
from __future__ import annotations

import re

BLANKS = " \t\r\n"
CLIP = 64  # bytes of a user's word in a message


def clip(text: str) -> str:
    """A long word, cut for a message; it ends at what is no text."""
    end = 0
    for at, letter in enumerate(text):
        if find_bad(letter) or len(text[:at + 1].encode()) > CLIP:
            break
        end = at + 1
    return text[:end] + ("..." if end < len(text) else "")


def find_bad(text: str) -> bool:
    """Whether a control character other than a tab, or what is no UTF-8, stands in it."""
    return re.search("[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]", text) is not None


def ends(text: str) -> bool:
    """Whether nothing follows but blanks and a comment, which begins behind a blank."""
    return re.fullmatch(r"[ \t\r\n]*|[ \t\r\n]+[#;].*", text, re.S) is not None


def value_of(text: str) -> str | None:
    """What stands behind the "=", without blanks around it and without a comment; None: a quote has
    no end.

    >>> value_of(' 1 # one'), value_of('"a # ""b"" "  ; c'), value_of('"a')
    ('1', 'a # "b" ', None)
    """
    text = text.lstrip(BLANKS)
    if text.startswith('"'):
        found = re.match(r'"((?:[^"]|"")*)"(?!")', text, re.S)
        good = found and ends(text[found.end():])
        return found[1].replace('""', '"') if good else None
    return re.sub(r"(^|(?<=[ \t\r\n]))[#;].*", "", text, flags=re.S).strip(BLANKS)


def line_of(value: str) -> str:
    """A value as an ini has it, with quotes if it needs them.

    >>> line_of("a # b"), line_of("a#b"), line_of('"')
    ('"a # b"', 'a#b', '\"\"\"\"')
    """
    quotes = value and (re.search(r"(^|[ \t\r\n])[#;]", value) or value[0] == '"' or
                        value[0] in BLANKS or value[-1] in BLANKS)
    return '"' + value.replace('"', '""') + '"' if quotes else value


def same_key(one: str, other: str) -> bool:
    """Whether two texts are the same up to a "=" or their ends, wherever they have blanks."""
    return key_in(one) == key_in(other)


def key_in(text: str) -> str:
    """The key of "section . key = value".

    >>> key_in("a . x, b.y = 1")
    'a.x,b.y'
    """
    return re.sub("[ \t]", "", text.partition("=")[0])


def number_of(text: str) -> float | None:
    """The number that a whole text is, as C reads it; None: it is none, or not finite."""
    if not re.fullmatch(r"\s*[+-]?(0[xX].*|[\d.].*)", text) or "_" in text or text[-1:].isspace():
        return None
    try:
        value = float(text)
    except ValueError:
        try:
            value = float.fromhex(text)
        except (ValueError, OverflowError):
            return None
        if "x" not in text.lower():
            return None
    return value if abs(value) < float("inf") else None

"""The rows of docs/coverage.md: reading and writing docs/coverage/rows.toml, and the pages that are
made from it.

docs/coverage.md has one short line for each row (claim, verdict, one of its numbers) in tables that
stand between two marks; the text around them is written by hand. Each section has a page of its own
in docs/coverage/, with the commands of its rows and everything that was seen."""

import re
import shlex
import textwrap
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"
ROWS = ROOT / "docs" / "coverage" / "rows.toml"
BEGINS, ENDS = "<!-- tests/coverage_rows.py begins -->", "<!-- tests/coverage_rows.py ends -->"
SECTIONS = {"systems": "Systems and architectures",
            "parameterizations": "Parameterizations and their switches",
            "equations": "Equation sets",
            "kernels": "Kernels and single-site processes as named outputs",
            "algorithms": "Algorithm variants",
            "figures_first": "Figures of How to Scale up to Q.8",
            "figures": "Figures of How to Scale from Q.9 on",
            "figures_others": "Figures of the other papers",
            "claims": "Headline claims of How to Scale: can a user test them?",
            "claims_others": "Headline claims of the other papers: can a user test them?"}
VERDICTS = ("shown", "contradicted", "cannot tell", "not there")
WIDTH = 110  # columns of a line of rows.toml
CELL = 90  # letters of a number in the table

NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:\(\d+\))?(?:e[-+]?\d+)?|nan|inf|\?"
ENTRY = rf"(?:{NUMBER})(?: \[(?:{NUMBER}), (?:{NUMBER})\])?"
SEEN = re.compile(r"`(?:(\w+)\()?(?:(\w+\.h5):)?(/[\w./,-]+)(?:\[([^\]]*)\])?\)?`"
                  rf"(?: = ({ENTRY}(?: {ENTRY})*))?")


@dataclass
class Row:
    """One claim of a source (a letter of the page's table), and what the commands show of it."""
    number: int
    section: str
    source: str
    claim: str
    verdict: str
    commands: tuple
    seen: str

    def exit_code(self):
        said = re.search(r"exit (\d+)", self.seen)
        return int(said[1]) if said else 0


def read_rows():
    """All rows, in the order of the file; texts are one line each."""
    there = tomllib.loads(ROWS.read_text(encoding="utf-8"))["row"]
    return [Row(**{key: " ".join(value.split()) if isinstance(value, str) else
                   tuple(value) if key == "commands" else value for key, value in row.items()})
            for row in there]


def swept(names, values):
    """All values of each key of a line of [sweep]: of "a, b = 1 2 | 3 4" a has "1 3"."""
    keys = [name.strip() for name in names.split(",")]
    cells = [cell.split() for cell in values.split("|")]
    if len(keys) == 1:
        return {keys[0]: values.replace("|", " ")}
    return {key: " ".join(cell[place] for cell in cells) for place, key in enumerate(keys)}


def of_ini(path):
    """Keys and values of an ini and of those that it includes."""
    values, section = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, value = (part.strip() for part in line.partition("="))
        if name == "include":
            values |= of_ini(path.parent / value)
        elif line.startswith("["):
            section = line.strip()[1:-1]
        elif value and not line.startswith("#"):
            values |= swept(name, value) if section == "sweep" else {f"{section}.{name}": value}
    return values


def settings(command):
    """What a command sets, {"training.eta0": "0.3", ...}: the keys of its ini and its own. What the
    program takes by default is not in it."""
    words = shlex.split(command)
    values = of_ini(ROOT / next(word for word in words if word.endswith(".ini")))
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--sweep."):
            values |= swept(name.removeprefix("sweep."), value)
        elif word.startswith("--") and "." in name:
            values[name] = value
    return values


def text_field(name, value):
    """One text of TOML, on as many lines as it takes; read_rows puts them together again."""
    if "'''" in value:
        raise ValueError(f"{name} has three quotes in turn: {value}")
    line = f"{name} = '{value}'"
    if len(line) <= WIDTH and "'" not in value:
        return line
    lines = textwrap.wrap(value, WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"{name} = '''\n" + "\n".join(lines) + "'''"


def write_rows(rows):
    """The file again, with its head as it is."""
    text = ROWS.read_text(encoding="utf-8")
    parts = [text[:text.index("[[row]]")]]
    for row in rows:
        commands = "".join(f"    '''{one}''',\n" for one in row.commands)
        parts.append("\n".join(["[[row]]", f"number = {row.number}", f"section = '{row.section}'",
                                text_field("source", row.source), text_field("claim", row.claim),
                                f"verdict = '{row.verdict}'",
                                f"commands = [\n{commands}]" if commands else "commands = []",
                                text_field("seen", row.seen)]) + "\n\n")
    ROWS.write_text("".join(parts).rstrip() + "\n", encoding="utf-8")


def number_of(row):
    """The first value that the row says of a dataset, or nothing."""
    for match in SEEN.finditer(row.seen):
        if match[5]:
            name = match[0].partition(" = ")[0]
            values = re.findall(ENTRY, match[5])
            while len(values) > 1 and len(f"{name} = {' '.join(values)} ...") > CELL:
                values.pop()
            more = " ..." if len(values) < len(re.findall(ENTRY, match[5])) else ""
            return f"{name} = {' '.join(values)}{more}"
    return ""


def table_of(rows, section):
    """The table of a section in docs/coverage.md."""
    lines = [f"## {SECTIONS[section]}", "",
             "| # | source | claim | verdict | one of its numbers |", "|---|---|---|---|---|"]
    for row in rows:
        if row.section == section:
            cells = [f"[{row.number}](coverage/{section}.md#row-{row.number})", row.source,
                     row.claim, row.verdict, number_of(row)]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page_of(rows, section):
    """docs/coverage/SECTION.md: the commands of its rows and what they show."""
    parts = [f"# {SECTIONS[section]}\n\nThese are the rows of a section of "
             "[the page of the papers](../coverage.md), which explains letters, verdicts and "
             "numbers. The page is made from [rows.toml](rows.toml).\n"]
    for row in rows:
        if row.section == section:
            seen = re.sub(r"\]\((?!https?:)", "](../", row.seen)
            commands = "\n".join(row.commands)
            block = f"```sh\n{commands}\n```\n\n" if commands else ""
            parts.append(f"## Row {row.number}\n\n**{row.claim}** ({row.source}): "
                         f"{row.verdict}.\n\n{block}{seen}\n")
    return "\n".join(parts)


def pages(rows):
    """All pages as they follow from the rows: {path: text}."""
    text = PAGE.read_text(encoding="utf-8")
    counts = Counter(row.verdict for row in rows)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    before, after = text[:text.index(BEGINS)], text[text.index(ENDS):]
    tables = "\n".join(table_of(rows, section) for section in SECTIONS)
    made = {PAGE: f"{before}{BEGINS}\n\nOf {len(rows)} rows: {said}.\n\n{tables}\n{after}"}
    for section in SECTIONS:
        made[PAGE.parent / "coverage" / f"{section}.md"] = page_of(rows, section)
    return made


def write_pages(rows):
    for path, text in pages(rows).items():
        path.write_text(text, encoding="utf-8")

"""docs/coverage.md is a whole table: rows, verdicts and their counts, commands, reasons. What its
commands show is checked by make coverage-check (tests/coverage_table.py)."""

import re
from collections import Counter

import pytest

import coverage_table as table

ROWS = 201


@pytest.fixture(scope="module")
def page():
    return table.PAGE.read_text()


def test_rows_are_whole(page):
    rows = table.rows(page)
    assert [row.number for row in rows] == list(range(1, ROWS + 1))
    for row in rows:
        assert row.verdict in table.VERDICTS, row.number
        assert row.seed and row.what and row.seen, row.number
        assert row.commands or row.verdict == "no", f"row {row.number} has no command"
        assert "?" not in row.seen and "TODO" not in row.seen, row.number
        if row.verdict != "yes":
            assert len(re.sub(table.SEEN, "", row.seen)) > 40, f"row {row.number} gives no reason"


def test_counts_are_those_of_the_head(page):
    counted = Counter(row.verdict for row in table.rows(page))
    said = re.search(r"(\d+) yes, (\d+) partly, (\d+) no", page)
    assert [counted[verdict] for verdict in table.VERDICTS] == [int(n) for n in said.groups()]
    assert counted["yes"] >= 185


def test_commands_name_what_is_there(page):
    for row in table.rows(page):
        for command in row.commands:
            program, *words = command.split()
            assert program in ("./dmft-solve", "./dmft-compare", "./dmft-sweep"), command
            inis = [word for word in words if word.endswith(".ini")]
            assert len(inis) == 1 and (table.ROOT / inis[0]).is_file(), command


def test_inis_serve_a_row(page):
    used = set(re.findall(r"docs/coverage/(\w+\.ini)", page))
    folder = table.ROOT / "docs" / "coverage"
    for ini in folder.glob("*.ini"):
        used |= set(re.findall(r"^include = (\S+)", ini.read_text(), re.M))
    assert {ini.name for ini in folder.glob("*.ini")} == used


def test_studies_that_are_named_exist(page):
    pictures = table.ROOT / "studies" / "gallery.toml"
    if not pictures.exists():
        pytest.skip("no gallery here")
    there = set(re.findall(r"^\[(\w+)\]", pictures.read_text(), re.M))
    assert set(re.findall(r"study `([a-z]\w+)`", page)) <= there


def test_numbers_are_compared_to_their_last_digit():
    assert table.unit("1.25e-3") == pytest.approx(1e-5) and table.unit(".40") == pytest.approx(.01)
    for value, text in ((0.25, ".25"), (-0.0512345, "-.0512"), (1e-9, "1.00e-9"), (12.34, "12.3"),
                        (0, "0"), (float("nan"), "nan"), (-1.5, "-1.5"), (0.0001234, "1.23e-4")):
        assert table.short(value) == text
    match = table.SEEN.search("`rms(a.h5:/limit/psi[8, :])` = .1 -2e-3")
    assert match.groups() == ("rms", "a.h5", "/limit/psi", "8, :", ".1 -2e-3")


def test_outputs_are_named_as_the_programs_name_them():
    assert table.output_of("./dmft-solve --force docs/coverage/r1.ini --a.b=1") == "r1.h5"
    assert table.output_of("./dmft-compare docs/coverage/r1.ini") == "r1_compare.h5"
    assert table.output_of("./dmft-solve data/r1.ini -o x.h5") == "x.h5"

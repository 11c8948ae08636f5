#!/usr/bin/env python3
"""The table of biases and coverage in docs/testing_log.md, from what coverage.c here measured.

    python3 tests/bench/coverage.py [--update]

Without --update the exit code is 1 where the page differs from tests/bench/coverage/*.tsv.
"""
import collections
import csv
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/testing_log.md"
BEGIN = "<!-- tests/bench/coverage.py begins -->\n"
END = "<!-- tests/bench/coverage.py ends -->\n"
FIELDS = ("network draws halves sites quantity t truth error bias bias_error coverage "
          "coverage_error runs").split()
HEAD = ("| network, sites | halves | coverage | runs | bias, rms | largest, of | second largest | "
        "unmatched |\n" + "| --- " * 8 + "|\n")


def measured() -> dict[tuple, list[dict]]:
    """The rows of each setting: network, sites, halves; that of all entries comes last."""
    settings = collections.defaultdict(list)
    for file in sorted((HERE / "coverage").glob("*.tsv")):
        with open(file, encoding="utf-8") as lines:
            for row in csv.DictReader(lines, FIELDS, delimiter="\t"):
                settings[row["network"], int(row["sites"]), row["halves"]].append(row)
    return settings


def cell(row: dict) -> str:
    """A bias with its error, and of what it is."""
    bias, error = float(row["bias"]), float(row["bias_error"])
    return f"{bias:.2f} ({error:.2f}), {row['quantity'].removesuffix('_diag')}({row['t']})"


def line(key: tuple, rows: list[dict]) -> str:
    """One row of the table."""
    network, sites, halves = key
    *entries, total = rows
    first, second = sorted(entries, key=lambda row: -abs(float(row["bias"])))[:2]
    return (f"| {network}, {sites} | {halves} | {float(total['coverage']):.3f} "
            f"({float(total['coverage_error']):.3f}) | {total['runs']} | "
            f"{float(total['truth']):.2f} | {cell(first)} | {cell(second)} | "
            f"{float(total['error']):.2g} |\n")


def table() -> str:
    """The whole table, as the page has it."""
    settings = measured()
    return HEAD + "".join(line(key, settings[key]) for key in sorted(settings))


def main() -> int:
    """Compares the page, or writes it."""
    text, made = PAGE.read_text(encoding="utf-8"), table()
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    print(made, end="")
    if "--update" in sys.argv:
        PAGE.write_text(text[:start] + "\n" + made + "\n" + text[end:], encoding="utf-8")
        return 0
    return text[start:end].strip() != made.strip()


if __name__ == "__main__":
    sys.exit(main())

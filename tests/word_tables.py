"""The tables of words, made from the rows of the program (make words).

    python3 tests/word_tables.py

`dmft-solve --operations` is what the rows say. python/dmft/operations.tsv keeps it; the tables of
docs/programs.md, and for a word that is an operation by its row the list of operations in
docs/program_format.md, are brought up to date: a row that is there is written again, a new one
stands behind the word before it. tests/test_network.py holds all three against the program.
"""
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def words() -> list[list[str]]:
    """Chapter, name, arguments, what it gives, what it is, names of its constants (or "-")."""
    home = Path(os.environ.get("DMFT_HOME", ROOT))
    text = subprocess.run([home / "dmft-solve", "--operations"], capture_output=True, text=True,
                          check=True).stdout
    return [line.split("\t") for line in text.splitlines()]


def with_rows(page: str, rows: list[tuple[str, str]]) -> str:
    """A page with these (beginning, row): each in the place of the row that begins so, or behind
    the one before it."""
    before = None
    for begin, row in rows:
        found = re.search(rf"^{re.escape(begin)}.*$", page, re.M)
        if found:
            page = page[:found.start()] + row + page[found.end():]
        elif before is not None:
            page = page.replace(before + "\n", f"{before}\n{row}\n", 1)
        before = row
    return page


def write(path: Path, text: str) -> None:
    if path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)} is written again")


def main() -> None:
    given = words()
    write(ROOT / "python/dmft/operations.tsv", "".join("\t".join(one) + "\n" for one in given))
    page = ROOT / "docs/programs.md"
    write(page, with_rows(page.read_text(encoding="utf-8"), [
        (f"| `{name}(", f"| `{name}({arguments})` | {about} |")
        for chapter, name, arguments, _, about, _ in given
        if chapter not in ("Optimizers", "Losses")]))
    page = ROOT / "docs/program_format.md"
    text, last = page.read_text(encoding="utf-8"), "| `pool` | "
    for _, name, _, _, about, constants in given:
        if constants != "-" and not re.search(rf"^\| [^|]*`{name}`", text, re.M):
            listed = ", ".join(f"`{one}`" for one in constants.split())
            text = text.replace(last, f"| `{name}` | {listed} | {about} |\n{last}", 1)
    write(page, text)


if __name__ == "__main__":
    main()

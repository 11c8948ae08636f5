"""The page docs/first_hour.md: its commands run as they are printed and say what it quotes."""
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys

import h5py
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/first_hour.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.S)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


def commands(block: str) -> list[tuple[list[str], list[str]]]:
    """The commands of a block, each with the lines that the page quotes of what it prints."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((shlex.split(line[2:]), []))
        else:
            found[-1][1].append(line)
    return found


def words(line: str) -> list[str]:
    """What is left of a line without its numbers, which other processors round differently."""
    return NUMBER.sub("#", line).split()


def entries(row: str) -> list[tuple[float, float]]:
    """Means and intervals of a row of the table."""
    return [(float(mean), float(width)) for mean, width in re.findall(r"(\S+) \+- (\S+)", row)]


def same(quoted: str, printed: str) -> bool:
    """Whether a line is the one that the page quotes: the same words, and for the rows of the table
    the same time, means that agree within their intervals of 95 per cent, and z within its one
    standard error. Other numbers, such as counts, times and exponents, agree to a tenth or .02."""
    if words(quoted) != words(printed):
        return False
    if "+-" not in quoted:
        pairs = zip(NUMBER.findall(quoted), NUMBER.findall(printed), strict=True)
        return all(math.isclose(float(a), float(b), rel_tol=0.1, abs_tol=0.02) for a, b in pairs)
    if quoted.split()[0] != printed.split()[0]:
        return False
    if abs(float(quoted.split()[-1]) - float(printed.split()[-1])) > 1:
        return False
    return all(math.isclose(a, b, abs_tol=da + db)
               for (a, da), (b, db) in zip(entries(quoted), entries(printed), strict=True))


def run(command: list[str], folder: pathlib.Path, code: int = 0) -> list[str]:
    """The lines that a command of a page says, which ends with this exit code."""
    name, *arguments = command
    home = pathlib.Path(os.environ.get("DMFT_HOME", ROOT)).resolve()
    call = [sys.executable, "-m", "dmft", "recipe"] if name == "dmft-recipe" else [home / name]
    done = subprocess.run([*call, *arguments], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == code, done.stdout
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands of the page run one after another, as a reader has it."""
    path = tmp_path_factory.mktemp("hour")
    (path / "data").symlink_to(ROOT / "data")
    return path


# One that is dear says what others say, too: only by make tables-check.
@pytest.mark.parametrize("block", [block for block in BLOCKS if "-o long.h5" not in block or
                                   os.environ.get("TABLES")],
                         ids=lambda block: block.split("-o ")[1].split()[0])
def test_commands_say_what_the_page_quotes(block, folder):
    for command, quotes in commands(block):
        printed = run(command, folder)
        for quote in quotes:
            assert any(same(quote, line) for line in printed), f"{quote}\n" + "\n".join(printed)


def z_of(name: str) -> float:
    """z as it stands on the page, behind the command that writes this file."""
    block = next(block for block in BLOCKS if f"-o {name}" in block)
    return float(block.splitlines()[-1].split()[-1])


def test_the_page_draws_the_conclusions_that_its_numbers_allow():
    assert z_of("small.h5") < -3 and abs(z_of("larger.h5")) < 2
    assert len(BLOCKS) == 6
    small = next(block for block in BLOCKS if "-o small.h5" in block).split()
    assert f"is {small[-2]}, and below" in PAGE and f"z = {small[-1]} blames" in PAGE


def test_other_numbers_are_held():
    """What stands in lines without errors, as those of gates, is compared, too."""
    line = "gates: ratio down to 0.028 of its first value (t = 16); largest gate 339 times the mean"
    assert same(line, line) and same(line, line.replace("339", "345"))
    assert not same(line, line.replace("339", "190")) and not same(line, line.replace("16", "19"))


def test_the_interval_of_a_limit_that_condenses_is_as_wide_as_the_page_says(folder):
    if not (folder / "condensing.h5").exists():  # this test alone was asked for
        run(commands(next(block for block in BLOCKS if "-o condensing.h5" in block))[0][0], folder)
    with h5py.File(folder / "condensing.h5") as file:
        error = file["limit/loss_se"][:]
    assert "sixty times as wide at the end as after the first step" in PAGE
    assert math.isclose(error[-1] / error[1], 60, rel_tol=0.25)

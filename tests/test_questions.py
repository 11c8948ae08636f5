"""The page docs/questions.md: its commands run as they are printed and say what it quotes."""
import os
import re

import numpy as np
import pytest
from test_first_hour import ROOT, commands, run, words
from test_tutorial import near

import dmft

PAGE = (ROOT / "docs/questions.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.S)


def same(quoted, printed):
    """Optima as the tutorial has them; of the table over all entries the name, and z within its
    standard error of one; other lines word by word."""
    if "[" in quoted and ("limit " in quoted or re.search(r"\d\]", quoted)):
        return near(quoted.strip(), printed.strip())
    if "/" in quoted and quoted.endswith(")"):
        numbers = [re.findall(r" (\d+\.\d)\b", line) for line in (quoted, printed)]
        return quoted.split()[0] == printed.split()[0] and len(numbers[0]) == len(numbers[1]) and \
            all(abs(float(a) - float(b)) < 1 for a, b in zip(*numbers))
    return quoted.split() == printed.split()


# The dearest of them only by make tables-check.
@pytest.mark.parametrize("block", [block for block in BLOCKS if "-o which.h5" not in block or
                                   os.environ.get("TABLES")],
                         ids=lambda block: block.split()[1] + block[30:60])
def test_commands_say_what_the_page_quotes(block, tmp_path):
    (tmp_path / "data").symlink_to(ROOT / "data")
    for command, quotes in commands(block):
        printed = run(command, tmp_path, 2 if "parameterization=sp" in block else 0)
        for quote in quotes:
            assert any(same(quote, line) for line in printed if line.strip()), \
                f"{quote}\n" + "\n".join(printed)
    if "experts.h5" in block:
        run_of = dmft.load(tmp_path / "experts.h5")
        said = re.search(r"```text\n(.*?)\n\[(.*?)\]", PAGE, re.S)
        assert float(said[1]) == float(run_of.limit["expert_dead"].isel(t=-1))
        gates = run_of.limit["p"].isel(t=-1).mean("mu").values
        assert np.allclose(gates, [float(word) for word in said[2].split()], atol=2e-3)


def intervals(name):
    """(low, high) of the best rate and of the loss there, of the rows of the limit in a block."""
    block = next(block for block in BLOCKS if f"-o {name}" in block)
    rows = [line for line in block.splitlines() if "limit " in line and "[" in line]
    return [[tuple(map(float, pair)) for pair in re.findall(r"\[([^,]+), ([^\]]+)\]", row)[:2]]
            for row in rows]


def test_the_page_draws_the_conclusions_that_its_numbers_allow():
    assert len(BLOCKS) == 6 and len(re.findall("^## ", PAGE, re.M)) == 5
    mup, mssp = intervals("which.h5")
    assert mssp[1][1] < mup[1][0]                       # MSSP is better in the limit
    block = next(block for block in BLOCKS if "-o rate.h5" in block)
    rates = [tuple(map(float, re.search(r"\[([^,]+), ([^\]]+)\]", line).groups()))
             for line in block.splitlines()[1:]]
    assert max(low for low, _ in rates) < min(high for _, high in rates)    # they overlap
    assert words("a 1.5") == ["a", "#"]

"""The page docs/tutorial.md: the tables that it prints are those of its commands. The sweep of
section 4 takes half a minute of two cores and is run by `make tables-check`."""
import math
import os
import pathlib
import re
import subprocess

import pytest
from test_first_hour import ROOT, run, same, words

PAGE = (ROOT / "docs/tutorial.md").read_text()
NUMBER = r"\d[\d.]*(?:e[-+]\d+)?"


def table(head: str) -> list[str]:
    """The indented lines of the page from the one that begins so on."""
    lines = PAGE[PAGE.index("    " + head):].splitlines()
    end = next(k for k, line in enumerate(lines) if not line.startswith("    "))
    return [line.strip() for line in lines[:end]]


def near(quoted: str, printed: str) -> bool:
    """Whether a row of optima is the one that the page quotes: the same words, optima and losses to
    a per cent, and the ends of their intervals, which hang on draws, to ten."""
    if words(quoted) != words(printed):
        return False
    if quoted.split()[0] != printed.split()[0]:
        return False
    pairs = zip(re.findall(rf"(\[?)({NUMBER}),? *(\]?)", quoted),
                re.findall(rf"(\[?)({NUMBER}),? *(\]?)", printed), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.1 if low or high else 0.01)
               for (low, a, high), (_, b, _) in pairs)


def test_the_first_table_is_what_is_printed(tmp_path):
    (tmp_path / "data").symlink_to(ROOT / "data")
    printed = run(["./dmft-solve", "data/regime2.ini"], tmp_path).splitlines()
    quotes = table("loss, mean with 95 % interval")
    assert len(quotes) == 4
    for quote in quotes:
        assert any(same(quote, line) for line in printed), f"{quote}\n" + "\n".join(printed)


def test_rows_of_optima_are_told_apart():
    """What stood here before is no row of what is printed now."""
    now = [row for row in table("optimum of training.eta0 by loss") if row.startswith("limit")][0]
    before = ("limit  2.517 [2.484, 3.155]  0.0003057 [0.0002351, 0.0003313]  "
              "2.517 [2.492, 3.153]  0.0003047 [0.0002306, 0.000346]")
    assert near(now, now) and not near(before, now) and not near(now.replace("limit", "256"), now)


@pytest.mark.skipif(not os.environ.get("TABLES"), reason="make tables-check: half a minute")
def test_the_table_of_optima_is_what_is_printed(tmp_path):
    inis = re.findall(r"```ini\n(.*?)```", PAGE, re.S)
    (tmp_path / "rates.ini").write_text(inis[0] + inis[1])
    home = pathlib.Path(os.environ.get("DMFT_HOME", ROOT)).resolve()
    done = subprocess.run([home / "dmft-sweep", "rates.ini"], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    quotes = table("optimum of training.eta0 by loss")
    assert len(quotes) == 7
    for quote in quotes:
        assert any(near(quote, line) for line in done.stdout.splitlines()), \
            f"{quote}\n" + done.stdout[-2000:]

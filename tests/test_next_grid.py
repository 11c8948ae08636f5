"""The sentence under the optima of a sweep that says which values to try next."""
import os
import re
import subprocess
import types

import pytest

from dmft.study import optima, optimum
from test_first_hour import ROOT

LOWEST, HIGHEST, BESIDE, NOISE = (optimum.LOWEST, optimum.HIGHEST, optimum.BESIDE, optimum.NOISE)
RATES = [0.1, 0.2, 0.4, 0.8]


def advice(values, kind, *found):
    """Of optima (reason, place of the best value), of means alone: those of medians are known."""
    key = types.SimpleNamespace(name="a.x", value=values)
    grid = types.SimpleNamespace(axes=[types.SimpleNamespace(keys=[key])], keys=[(key, 0)])
    one = object.__new__(optima.Optima)
    one.cells = types.SimpleNamespace(sweep=types.SimpleNamespace(grid=grid, types=[kind]))
    known = optimum.Optimum(optimum.KNOWN, 1)
    one.axis, one.rows = 0, [(0, optimum.Optimum(*each), known) for each in found]
    return one.advice()


@pytest.mark.parametrize("values, kind, found, said", [
    (RATES, "number", [(HIGHEST, 3)], "= logspace(0.2, 3.2, 5) next"),
    (RATES, "number", [(LOWEST, 0)], "= logspace(0.025, 0.4, 5) next"),
    (RATES[::-1], "number", [(LOWEST, 3)], "= logspace(0.025, 0.4, 5) next"),
    (RATES, "number", [(LOWEST, 0), (HIGHEST, 3)], "= logspace(0.025, 3.2, 8) next"),
    (RATES, "number", [(BESIDE, 1)], "= logspace(0.1, 0.4, 5) next"),
    (RATES, "number", [(NOISE, 0)],
     "= logspace(0.025, 0.4, 9) next, with twice the seeds and replicates"),
    ([-1, 0, 1, 2], "number", [(HIGHEST, 3)], "= linspace(0, 4.25, 5) next"),
    ([1, 2, 4], "integer", [(HIGHEST, 2)], "from 1 to 16 next"),
    ([4, 8, 16], "integer", [(LOWEST, 0)], "from 1 to 16 next")])
def test_what_is_tried_next(values, kind, found, said):
    """A factor of four beyond an end where an optimum may lie, at the steps of the grid; and the
    neighbours of the best value at half of its steps."""
    assert advice(values, kind, *found) == f"where no optimum is known, try a.x {said}"


@pytest.mark.parametrize("values, kind, found", [
    (RATES, "number", [(optimum.KNOWN, 1)]), (RATES, "number", [(optimum.NONE, None)]),
    (RATES, "number", [(optimum.RESTS, 0)]), ([1, 2, 4], "integer", [(LOWEST, 0)])])
def test_nothing_is_said_where_nothing_is_left_to_try(values, kind, found):
    assert advice(values, kind, *found) is None


def test_what_is_said_finds_the_optimum(tmp_path):
    """A grid that ends far below the optimum, and those that the sentence says, one after the
    other, until it says nothing more of the limit; each is taken by dmft-sweep as it stands."""
    home, tried = os.environ.get("DMFT_HOME", ROOT), ["0.1 0.2 0.4 0.8"]
    for k in range(4):
        done = subprocess.run(
            [os.path.join(home, "dmft-sweep"), str(ROOT / "data/dense.ini"), "-o", f"{k}.h5",
             f"--sweep.training.eta0={tried[-1]}", "--training.steps=8", "--solver.sites=256",
             "--reference.widths="], cwd=tmp_path, text=True, stdout=subprocess.PIPE, check=True)
        said = re.search(r"^where no optimum is known, try training.eta0 = (logspace\(.*\)) next",
                         done.stdout, re.M)
        if not said:
            break
        tried.append(said[1])
    (best,) = re.findall(r"^ limit +(\S+) \[", done.stdout, re.M)
    first = [float(re.match(r"logspace\((\S+),", one)[1]) for one in tried[1:]]
    assert tried[1] == "logspace(0.2, 3.2, 5)" and first == sorted(first)
    assert float(best) > 0.8

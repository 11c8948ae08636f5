"""dmft-diff: results that are equal, that differ and of which one cannot tell; runs, comparisons
and sweeps; what is refused."""
import os
import re
import shutil
from statistics import NormalDist

import h5py
import numpy as np
import pytest
import xarray

import dmft
from dmft.diff import CHANCE
from dmft.diff_command import main
from dmft.files import Result
from dmft.statistics import normal_of, student

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALL = os.path.join(ROOT, "data", "small")
pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


def words(line):
    """Of the page, with numbers to their first digit."""
    return [f"{float(word):.0e}" if re.fullmatch(r"[-+.e\d]*\d", word) else word
            for word in line.split()]


def rows(found):
    return {row.name: row for row in found.rows}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A copy of the stored file that may be changed: function of what to do with it."""
    folder = tmp_path_factory.mktemp("stored")

    def changed(do, name="new.h5"):
        path = str(folder / name)
        shutil.copyfile(SMALL + ".h5", path)
        with h5py.File(path, "a") as file:
            do(file)
        return path
    return changed


def scaled(name, factor, at=...):
    def do(file):
        values = file[name][...]
        values[at] *= factor
        file[name][...] = values
    return do


def test_the_program_computes_the_stored_result(tmp_path, capsys):
    """The test that docs/regression.md describes, and its exit code where a rate is another one."""
    new = str(tmp_path / "new.h5")
    dmft.solve(SMALL + ".ini", output=new, progress=False, **{"solver.threads": 1})
    found = dmft.diff(SMALL + ".h5", new)
    assert found.equal, found
    assert ("solver.threads", "0", "1") in found.settings and not found.shapes
    assert main([SMALL + ".h5", new]) == 0
    assert capsys.readouterr().out.endswith("\nequal\n")
    with pytest.raises(TypeError, match="ask for its .equal"):
        assert found
    dmft.solve(SMALL + ".ini", output=new, force=True, progress=False, **{"training.eta0": 0.31})
    assert main([SMALL + ".h5", new]) == 1
    said = capsys.readouterr().out
    assert "\nsetting training.eta0: 0.3 -> 0.31\n" in said and said.endswith("\nDIFFERENT\n")
    assert main([SMALL + ".h5", new, "--only", "loss"]) == 1
    with open(os.path.join(ROOT, "docs", "regression.md"), encoding="utf-8") as file:
        quoted = file.read().split("--only loss\n")[1].split("```")[0]
    printed = [words(line) for line in capsys.readouterr().out.splitlines()[2:]
               if "(not there)" not in line]  # keys that are younger than the stored file
    assert [words(line) for line in quoted.splitlines()[2:]] == printed


def test_two_runs_have_the_same_numbers(tmp_path):
    """Whatever their threads and the time of day."""
    pair = [str(tmp_path / f"{threads}.h5") for threads in (1, 2)]
    for threads, path in zip((1, 2), pair):
        dmft.solve(SMALL + ".ini", output=path, progress=False, **{"solver.threads": threads})
    found = dmft.diff(*pair, exact=True)
    assert found.equal and not found.rows and found.same > 100


def test_tolerance(stored):
    """A difference of 1e-6 of one entry is found, and one of 1e-12 by exact alone; an error is
    measured by its mean, of which it is a thousandth here."""
    old = SMALL + ".h5"
    found = dmft.diff(old, stored(scaled("limit/f", 1 + 1e-6, (4, 1))))
    row = rows(found)["limit/f"]
    assert not found.equal and (row.beyond, row.place) == (1, "t = 4 mu = 1")
    f = dmft.load(old).limit["f"].values[4, 1]
    np.testing.assert_allclose(row.absolute, 1e-6 * abs(f), rtol=1e-6)
    assert len(found.rows) == 1 and "limit/f " in str(found) and "DIFFERENT" in str(found)
    near = stored(scaled("limit/f", 1 + 1e-12))
    assert dmft.diff(old, near).equal and not dmft.diff(old, near, exact=True).equal
    assert not dmft.diff(old, near, rtol=1e-13).equal
    errors = stored(scaled("limit/loss_se", 1 + 1e-4))
    size = dmft.load(old).limit
    rate = float((1e-4 * size["loss_se"] / size["loss"]).max())
    assert dmft.diff(old, errors, rtol=1.01 * rate).equal
    assert not dmft.diff(old, errors, rtol=0.99 * rate).equal


def test_what_is_no_number(stored):
    """NaN in the same places is equal."""
    old = stored(scaled("limit/f", np.nan, (2, 0)), "old.h5")
    assert dmft.diff(old, old).equal
    found = dmft.diff(SMALL + ".h5", old)
    assert not found.equal and rows(found)["limit/f"].place.endswith("(NaN in one file)")
    assert not dmft.diff(SMALL + ".h5", old, sigma=4).equal


def test_what_one_file_lacks(stored):
    """What the new file alone has is no difference, but for exact; other shapes are one."""
    def lose(file):
        del file["limit/margin"]
    less, old = stored(lose), SMALL + ".h5"
    assert dmft.diff(less, old).equal and dmft.diff(less, old).added == ["limit/margin"]
    assert not dmft.diff(less, old, exact=True).equal
    found = dmft.diff(old, less)
    assert not found.equal and found.shapes == ["the old file alone has limit/margin"]
    assert dmft.diff(old, less, ignore="margin").equal

    def cut(file):
        values = file["limit/loss"][...]
        del file["limit/loss"]
        file["limit/loss"] = values[:3]
        file["limit/loss"].attrs["dims"] = "t3"
    found = dmft.diff(old, stored(cut), only="limit/loss")
    assert found.shapes == ["limit/loss has another shape: t 6 -> t3 3"]


def result(name, seed, series, runs=8):
    """A run with a limit of these series and nothing else."""
    return Result(name, {
        "/": xarray.Dataset(attrs={"complete": 1, "program": "dmft-solve"}),
        "parameters": xarray.Dataset(attrs={"solver.seed": str(seed)}),
        "limit": xarray.Dataset(series, attrs={"runs": runs})})


def drawn(name, seed, random, runs=4, entries=50):
    x = random.normal(size=(runs, entries))
    return result(name, seed, {"x": ("t", x.mean(0)), "x_se": (
        "t", x.std(0, ddof=1) / runs ** 0.5)}, runs)


def test_z_is_that_of_both_errors():
    """With Welch's degrees of freedom, here 7 + 7 of equal errors: Student's t of 97.5 % is z =
    1.96. Further out the laws of one and of two degrees have closed forms. 40 points know the
    integral, of a function that is not smooth at 0, to 1e-4, and with it z."""
    for freedom in (1, 2, 3, 7, 14, 30, 1000):
        assert abs(float(normal_of(student(freedom), freedom)) - 1.95996) < 1e-4
    t = np.array([1.5, 5, 50, 1e4])
    normal = NormalDist().inv_cdf
    for freedom, beyond in ((1, np.arctan2(1, t) / np.pi),
                            (2, 1 / (2 + t ** 2 + t * np.sqrt(2 + t ** 2)))):
        np.testing.assert_allclose(normal_of(t, freedom), [-normal(p) for p in beyond], atol=1e-4)
    np.testing.assert_allclose(normal_of([-4, 6], 1e6), [-4, 6], atol=1e-4)
    t = float(student(14))
    old = result("old", 1, {"x": ("t", [1.0]), "x_se": ("t", [0.3])})
    new = result("new", 2, {"x": ("t", [1.0 + t * 0.3 * 2 ** 0.5]), "x_se": ("t", [0.3])})
    found = dmft.diff(old, new)
    assert abs(found.rows[0].z - 1.96) < 1e-3
    assert f"below {2.5758:.2f}," in found.question  # of one entry: 1 in 100
    assert not dmft.diff(old, new, sigma=1.9).equal and dmft.diff(old, new, sigma=2).equal


def test_how_often_equal_results_differ():
    """Of five hundred pairs with 50 independent entries and four runs, one in a hundred: five,
    within four standard errors, and not none."""
    random, pairs = np.random.default_rng(3), 500
    bad = sum(not dmft.diff(drawn("old", 1, random), drawn("new", 2, random)).equal
              for _ in range(pairs))
    assert 0 < bad < pairs * CHANCE + 4 * (pairs * CHANCE * (1 - CHANCE)) ** 0.5


def test_runs_of_one_seed_are_paired():
    """A shift by half of an error is one, where all runs have it; without the runs nobody sees it,
    and the table says that z is too small."""
    random = np.random.default_rng(4)
    one = random.normal(size=(8, 3))
    other = one + 0.5 / 8 ** 0.5 + 1e-3 * random.normal(size=(8, 3))

    def of(name, seed, x, keep):
        series = {"x": ("t", x.mean(0)), "x_se": ("t", x.std(0, ddof=1) / 8 ** 0.5)}
        return result(name, seed, series | ({"x_runs": (("run", "t"), x)} if keep else {}))
    assert not dmft.diff(of("old", 1, one, True), of("new", 1, other, True), sigma=4).equal
    assert dmft.diff(of("old", 1, one, True), of("new", 2, other, True), sigma=4).equal
    found = dmft.diff(of("old", 1, one, False), of("new", 1, other, False), sigma=4)
    assert found.equal and "|z| is too small" in str(found)


@pytest.mark.parametrize("question", [{}, {"exact": True}, {"rtol": 1e-3}, {"sigma": 4}])
def test_numbers_in_one_file_and_texts_in_the_other(question):
    """As of the values of a swept key, 2 4 and N^0.5 4: a difference, in either order."""
    numbers = result("numbers", 1, {"x": ("t", [2.0, 4.0])})
    texts = result("texts", 1, {"x": ("t", np.array(["N^0.5", "4"], dtype=object))})
    for one, other in ((numbers, texts), (texts, numbers)):
        found = dmft.diff(one, other, **question)
        assert [row.verdict for row in found.rows] == ["different"] and not found.equal


def test_other_numbers_of_runs(tmp_path):
    """Have other errors, and are no difference where errors decide."""
    new = dmft.solve(SMALL + ".ini", progress=False, **{"solver.replicates": 8, "solver.seed": 5})
    found = dmft.diff(SMALL + ".h5", new)
    assert found.equal and np.isfinite(rows(found)["limit/f"].z), found
    assert any("limit/f_runs has another shape: run 4" in line
               for line in dmft.diff(SMALL + ".h5", new, rtol=0.5).shapes)


def test_what_has_no_error():
    """Other seeds: an array without an error, or with one of 0, tells nothing; data are data."""
    old = result("old", 1, {"x": ("t", [1.0]), "y": ("t", [1.0]), "y_se": ("t", [0.0])})
    new = result("new", 2, {"x": ("t", [1.1]), "y": ("t", [1.1]), "y_se": ("t", [0.0])})
    found = dmft.diff(old, new)
    assert found.equal and {row.verdict for row in found.rows} == {"cannot tell"}
    assert "of 2 one cannot tell" in str(found)
    for one, y in ((old, 1.0), (new, -1.0)):
        one._groups["data"] = xarray.Dataset({"y": ("mu", [y])})
    assert not dmft.diff(old, new).equal


def test_comparisons(tmp_path):
    """Their extrapolations have errors, too: other seeds are equal, another rate is not."""
    keys = {"network": {"model": "dense"},
            "data": {"inputs": 3, "dimension": 4}, "training": {"steps": 4},
            "solver": {"sites": 64, "replicates": 4},
            "reference": {"widths": "8 16 32", "seeds": 8}}
    one, other, faster = (dmft.compare(keys, progress=False, **more) for more in (
        {"solver.seed": 1}, {"solver.seed": 2}, {"solver.seed": 3, "training.eta0": 1}))
    found = dmft.diff(one, other)
    assert found.equal and rows(found)["dense/compare/loss_inf"].z < 4, found
    assert ("dense/solver.seed", "1", "2") in found.settings
    assert rows(found)["dense/compare/loss_chi2"].verdict == "cannot tell"
    found = dmft.diff(one, faster)
    assert rows(found)["dense/compare/loss_inf"].verdict == "different"
    assert dmft.diff(one, other, only="compare,dense/limit").rows
    with pytest.raises(dmft.InputError, match="is of a comparison and .* is of a run|of a run"):
        dmft.diff(one, SMALL + ".h5")


def test_sweeps():
    """The same again has the same numbers, resamples too; with another seed resamples are the error
    of the optimum."""
    keys = {"network": {"model": "dense"}, "data": {"inputs": 3, "dimension": 4},
            "training": {"steps": 6}, "solver": {"sites": 64, "replicates": 4},
            "reference": {"widths": "8", "seeds": 8}, "sweep": {"training.eta0": "0.25 0.5 1 2 4"}}
    one, again, other = (dmft.sweep(keys, progress=False, **{"solver.seed": seed})
                         for seed in (1, 1, 2))
    assert "at_samples" in one.optimum and dmft.diff(one, again, exact=True).equal
    found = dmft.diff(one, other)
    assert found.equal and np.isfinite(rows(found)["sweep/loss"].z), found
    assert np.isfinite(rows(found)["optimum/at"].z) and "at_samples" in found.notes[0]
    keys["sweep"] = {"training.eta0": "0.25 0.51 1 2 4"}  # the default of the seed, not said
    found = dmft.diff(one, dmft.sweep(keys, progress=False))
    assert not found.equal and rows(found)["sweep/loss"].verdict == "different"


@pytest.mark.parametrize("words, sentence", (
    (["new.h5", "small.ini"], "small.ini: is an ini"),
    (["new.h5", "nothing.h5"], "nothing.h5: no such file"),
    (["new.h5", "other.h5"], "other.h5: is not an output of dmft-solve"),
    (["new.h5", "cut.h5"], "cut.h5: is of a run that has not ended"),
    (["new.h5", "new.h5", "--only", "los"], "only = los: neither file has .*there is loss"),
    (["new.h5", "new.h5", "--only", "loss", "--ignore", "loss"], "nothing is left"),
    (["new.h5", "new.h5", "--rtol", "0"], "rtol = 0.0: must be above 0"),
    (["new.h5", "new.h5", "--sigma", "x"], "sigma x: must be a number above 0, or auto"),
    (["new.h5", "new.h5", "--sigma", "-1"], "sigma = -1.0: must be"),
    (["new.h5", "new.h5", "--sigma", "inf"], "sigma = inf: must be"),
    (["new.h5", "new.h5", "--exact", "--rtol", "1"], "not allowed with argument --exact"),
    (["new.h5"], "the following arguments are required: NEW.h5")))
def test_refusals(stored, words, sentence, tmp_path, capsys):
    shutil.copyfile(SMALL + ".h5", tmp_path / "new.h5")
    shutil.copyfile(SMALL + ".ini", tmp_path / "small.ini")
    h5py.File(tmp_path / "other.h5", "w").close()
    shutil.copyfile(stored(lambda file: file.attrs.modify("complete", np.int32(0))),
                    tmp_path / "cut.h5")
    words = [str(tmp_path / word) if re.search(r"\.(h5|ini)$", word) else word for word in words]
    try:
        code = main(words)
    except SystemExit as end:  # of argparse
        code = end.code
    said = capsys.readouterr().err
    assert code == 2 and re.search(sentence, said), said
    assert "Traceback" not in said


def test_one_question_at_a_time():
    with pytest.raises(dmft.InputError, match="three questions"):
        dmft.diff(SMALL + ".h5", SMALL + ".h5", rtol=1e-3, sigma=4)

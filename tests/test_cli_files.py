"""The program from outside: what the file of a run holds."""
import h5py
import numpy as np
import pytest
from running import SMALL, call, done, in_a_folder, read, write

T, P, R, SEEDS, BASES = 4, 3, 2, 3, 6
SIZES = {"t": T, "s": T, "mu": P, "nu": P}
COMMON = dict.fromkeys(("loss", "accuracy", "margin"), "t") | dict.fromkeys(
    ("f", "gate_participation", "gate_largest", "gate_top"), "t mu")
OF_LIMIT = {"rank": "t basis", "fallback": "t", "unmatched": "t"}
KERNELS = ("Phi1", "Phi3", "G1", "Phib", "Gb", "Gphi")
DIAGONAL = {name + "_diag": "t mu" for name in KERNELS} | {"G3_diag": "t"}
FULL = dict.fromkeys(KERNELS, "t mu s nu") | {"G3": "t s"}
RESPONSES = dict.fromkeys(("A_Q", "B_Q", "A_W_in", "B_W_in"), "t mu s nu") | {
    "A_W_out": "t mu s", "B_W_out": "t s nu"}


def check_dataset(group, name, dims, **sizes):
    """Shape, attributes, and axes: datasets of the same group, 0, 1, ..."""
    data, sizes = group[name], {**SIZES, "basis": BASES, **sizes}
    assert data.attrs["dims"] == dims and data.attrs["about"] and "equation" in data.attrs
    assert data.shape == tuple(sizes[axis] for axis in dims.split()), name
    for axis in dims.split():
        np.testing.assert_array_equal(group[axis], np.arange(sizes[axis]))


@pytest.mark.parametrize("kernels, of_kernels", [
    ("none", {}), ("diagonal", DIAGONAL), ("full", FULL | DIAGONAL)])
def test_layout(kernels, of_kernels):
    """These datasets with their standard errors and axes, and no others."""
    full = kernels == "full"
    write(small_ini=SMALL)
    done("--quiet", "-o", "out.h5", "small.ini", f"--output.kernels={kernels}",
         "--reference.widths=16 24", "--reference.seeds=3",
         "--output.responses=" + ("yes" if full else "no"))
    with h5py.File("out.h5") as file:
        for name in ("limit", "reference/N0016", "reference/N0024"):
            group, limit = file[name], name == "limit"
            means = COMMON | of_kernels
            if limit:
                means = means | OF_LIMIT | ({} if kernels == "none" else {"carriers": "t"}) | (
                    RESPONSES if full else {})
            others = {"n": "t", "loss_runs": "run t", "f_runs": "run t mu"}
            if limit:
                others |= {"basis_name": "basis", "loss_pseudo": "run t"}
            runs = R if limit else SEEDS
            for one, dims in (means | {one + "_se": dims for one, dims in means.items()}).items():
                check_dataset(group, one, dims)
            for one, dims in others.items():
                check_dataset(group, one, dims, run=runs)
            axes = {"t", "mu", "run"} | ({"s", "nu"} if full else set()) | (
                {"basis"} if limit else set())
            assert set(group) == axes | set(others) | set(means) | {one + "_se" for one in means}
        check_dataset(file["data"], "X", "mu i", i=4)
        check_dataset(file["data"], "y", "mu")
        for fact in "version compiler flags hdf5 backend threads created openblas".split():
            assert file["provenance"].attrs[fact]


def test_layout_without_router():
    write(small_ini=SMALL)
    done("--quiet", "-o", "out.h5", "small.ini", "--network.gate=constant", "--output.kernels=full")
    with h5py.File("out.h5") as file:
        check_dataset(file["limit"], "rank", "t basis", basis=4)
        assert "Gb" in file["limit"] and "reference" not in file
        assert not {"Gphi", "gate_top"} & set(file["limit"])


def test_layout_of_batches():
    """A batch takes the place of the inputs; test_every leaves the other times out."""
    write(small_ini=SMALL)
    done("--quiet", "-o", "out.h5", "small.ini", "--training.batch=2", "--data.test_inputs=5",
         "--output.test_every=3")
    with h5py.File("out.h5") as file:
        limit, data = file["limit"], file["data"]
        for name, dims in {"f": "t mu", "Phi1_diag": "t mu", "accuracy": "t",
                           "test_accuracy_se": "t", "test_margin_se": "t"}.items():
            check_dataset(limit, name, dims, mu=2)
        check_dataset(data, "X_test", "nu i", nu=5, i=4)
        check_dataset(data, "y_test", "nu", nu=5)
        check_dataset(data, "batch", "t b", b=2)
        assert data["batch"][...].ravel().tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
        loss = limit["test_loss"][...]
        assert loss[0] == 0.5 and loss[3] > 0 and np.isnan(loss[1:3]).all()


WEIGHTS = "[solver]\nreplicates = 0\n[reference]\nwidths = 8\nseeds = 1\n[output]\n" \
    "weights = initial\n"
LETTERS = "[data]\nsource = markov\ninputs = {}\ntokens = 4\nvocabulary = 3\n[training]\n" \
    "steps = 2\nloss = cross_entropy\n"


def test_laws_beside_weights():
    """The laws of a source and the coordinates of its inputs have axes of their own, beside
    weights."""
    write(case_ini="[network]\nmodel = transformer\n" + LETTERS.format(3) + WEIGHTS)
    done("--quiet", "-o", "out.h5", "case.ini")
    assert read("out.h5", "data/chain@dims") == "law letter next"


@pytest.mark.parametrize("ini, rows, tests, D, K", [
    ("[network]\nmodel = dense\n[data]\ninputs = 5\ntest_inputs = 2\ndimension = 3\n"
     "[training]\nsteps = 2\n", 5, 2, 3, 3),
    ("[network]\nmodel = transformer\n" + LETTERS.format(6), 24, 0, 7, 6)],
    ids=["inputs", "tokens"])
def test_coordinates(ini, rows, tests, D, K):
    """Coordinates of inputs, or of tokens and their places, in directions that read-ins have
    columns for: they have the products of the rows of X over D, sums of at most seven terms of
    order one."""
    write(case_ini=ini + WEIGHTS)
    done("--quiet", "-o", "out.h5", "case.ini")
    A, X = (read("out.h5", f"data/{name}") for name in ("coordinates", "X"))
    A, X = A.reshape(rows, K), X.reshape(rows, D)
    of = [(A, X)]
    if tests:
        of.append([read("out.h5", f"data/{name}_test") for name in ("coordinates", "X")])
        assert of[1][0].shape == (tests, K) and of[1][1].shape == (tests, D)
    for a, x in of:
        np.testing.assert_allclose(D * a @ A.T, x @ X.T, rtol=0, atol=1e-14 * D)


def test_series_of_blocks_and_tokens():
    """What each block measures of each input has an axis of tokens where inputs have them."""
    write(case_ini="[network]\nmodel = residual\ndepth = 2\nrho = 0.5\nexpert_width = 2\n" +
          LETTERS.format(3) + "[solver]\nsites = 32\nexpert_sites = 8\nreplicates = 1\n"
          "[reference]\nwidths = 8\nseeds = 1\n")
    done("-o", "out.h5", "case.ini")
    for name in ("limit/qstar", "limit/p", "reference/N0008/A"):
        assert read("out.h5", name).shape == (2, 2, 3, 4)
        assert read("out.h5", name + "@dims") == "t l mu token"


def test_notes_are_lines():
    """A note that is printed in several lines is one line in the file."""
    write(case_ini="[network]\nmodel = dense\nactivation = linear\n[data]\ninputs = 3\n"
                   "dimension = 4\n[training]\nsteps = 3\n[solver]\nsites = 64\nreplicates = 2\n")
    result = call("-o", "out.h5", "case.ini")
    told = (result.stdout + result.stderr).partition("no sampling error here")[2]
    assert result.returncode == 0 and ";\n  check_tolerance = yes adds it" in told
    with h5py.File("out.h5") as file:
        note, = (text for text in file["notes/text"].asstr() if "no sampling error here" in text)
    assert note.endswith("; check_tolerance = yes adds it") and "\n" not in note


def test_epochs_are_told():
    """Six steps of two of four inputs are three epochs."""
    write(case_ini="[network]\nmodel = dense\n[data]\ninputs = 4\ndimension = 4\n[training]\n"
                   "steps = 6\nbatch = 2\n[solver]\nsites = 64\nreplicates = 2\n")
    result = call("-o", "out.h5", "case.ini")
    assert result.returncode == 0
    assert "batches: 2 of 4 inputs a step, 3 epochs\n" in result.stderr

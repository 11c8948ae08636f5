"""dmft-compare: its file beside those of dmft-solve, its tables beside it, what is refused."""
import math
import os
import re

import h5py
import numpy as np
import pytest
from running import SMALL, call, data_file, done, in_a_folder, read, refused, write

INI = SMALL.replace("[data]", "parameterization = mup mssp\nkappa = 0.5\n[data]") + \
    "[reference]\nwidths = 8 16 32\nseeds = 3\ncoordinate_check = yes\n"
OF_SIDES = "[network]\nmodel = regime3\nparameterization = mup mssp\n[training]\nsteps = 3\n" \
    "[data]\ninputs = 3\ndimension = 4\n[solver]\nreplicates = {}\n[reference]\nwidths = {}\n"


def compare(*words, code=0):
    result = call("-o", "out.h5", "--force", "case.ini", *words, name="dmft-compare")
    assert result.returncode == code, result.stderr
    return result


def numbers(line):
    return [float(word) for word in re.findall(r"[-+]?\d[-+.e\d]*", line)]


def check_row(table, side, name, place):
    """A row of the table of quantities of a run of 4 steps, from its z (to one decimal in the
    table) and exponents (to two) in the file. place: of the side in the row."""
    row = re.search(rf"\n{name:20}(.*)", table.split("over all entries")[1])[1]
    rms, largest, at, exponent, fitted, entries = numbers(row[40 * place:40 * place + 40])
    z, approach = (read("out.h5", f"{side}/compare/{name}_{end}") for end in ("z", "approach"))
    z, approach, judged = z.ravel(), approach[np.isfinite(approach)], np.isfinite(z.ravel())
    largest_at = np.nanargmax(abs(z))
    assert judged.any() and len(approach) and (fitted, entries) == (len(approach), len(z))
    assert at == largest_at * 4 // len(z) and abs(largest - abs(z[largest_at])) < 0.051
    assert abs(rms - math.sqrt(np.mean(z[judged] ** 2))) < 0.051
    assert abs(exponent - np.median(approach)) <= 0.00501


def test_sides_are_runs_of_dmft_solve():
    """Each side is, in its group, what dmft-solve writes; and a table of each is printed."""
    write(case_ini=INI)
    out = compare().stdout
    assert "\nmup: loss" in out and "\nmssp: loss" in out and "\nA21 " in out
    assert max(map(len, out.splitlines())) <= 100
    assert f"\n{'mup':>28}{'mssp':>40}\n" in out
    assert read("out.h5", "/@complete") == 1
    check_row(out, "mup", "G1_diag", 0)
    check_row(out, "mssp", "f", 1)
    for side in ("mup", "mssp"):
        # The last row of losses, behind the limit and two widths with their errors: what networks
        # tend to, chi^2 and z, as the file has them.
        row = re.search(r"\n   3 (.*)", out.split(f"\n{side}: loss")[1])[1]
        assert row.count("+- ") >= 4
        limit, se, chi2, z = numbers(row)[6:10]
        for name, value, error in (("inf", limit, se), ("chi2", chi2, 0.051), ("z", z, 0.051)):
            assert abs(value - read("out.h5", f"{side}/compare/loss_{name}")[3]) <= error
        done("-o", "one.h5", "--force", "case.ini", f"network.parameterization={side}")
        for name in ("limit/loss", "limit/rms_h3", "reference/N0016/f", "reference/N0032/rms_A1",
                     "data/X"):
            assert read("one.h5", name).tobytes() == read("out.h5", f"{side}/{name}").tobytes()
        assert read("one.h5", "parameters@ini") == read("out.h5", f"{side}/parameters@ini")
    z = read("out.h5", "mup/compare/loss_z")
    assert len(z) == 4 and np.isfinite(z[3])


@pytest.mark.parametrize("program, words, parts", [
    ("dmft-solve", ["case.ini"],
     ["case.ini:3: [network] parameterization = mup mssp: dmft-compare sets several"]),
    ("dmft-compare", ["case.ini", "--network.parameterization=mup mup"], ['"mup" comes twice']),
    ("dmft-compare", ["case.ini", "--network.parameterization=mup mssq"],
     ["unknown choice", '"mssp"?']),
    ("dmft-compare", ["case.ini", "--reference.widths=none"], ["dmft-compare needs networks"]),
    ("dmft-compare", ["case.ini", "--network.parameterization=mup sp"],
     ["parameterization=sp: network regime2: the learning rate of matrix w grows as N^1,"]),
    ("dmft-compare", ["case.ini", "-o", "case.ini"], ["would overwrite an input"]),
    ("dmft-compare", ["data.ini", "-o", "good.h5", "--reference.widths=8"],
     ["would overwrite an input"]),
    ("dmft-compare", ["case.ini", "-o"], ["needs the name of the output file"]),
    ("dmft-compare", ["case.ini", "--defaults"], ["unknown option --defaults"]),
    ("dmft-compare", [], ["which ini file?"])])
def test_refusals(program, words, parts):
    data_file("good.h5", y1=-1)
    write(case_ini=INI, data_ini="[network]\nmodel = regime2\n[data]\nsource = file\n"
                                 "file = good.h5\n[training]\nsteps = 2\n")
    refused(parts, *words, name=program)
    assert not os.path.exists("case_compare.h5")


def test_check_of_networks_of_different_matrices():
    """Sides need not have the same matrices; the table has those of all."""
    write(case_ini=OF_SIDES.format(0, "8 16") + "coordinate_check = yes\n")
    out = compare().stdout
    assert f"\n{'mup':>28}{'mssp':>37}\n" in out
    for name in ("W_in_back_prop", "P_out_back_eff", "A_in_prop"):
        assert f"\n{name} " in out


def test_quantities_of_one_side_are_in_the_table():
    """Regime 3 under MSSP has kernels of units that it does not have under muP, which comes
    first."""
    write(case_ini=OF_SIDES.format(2, "8 16 32") +
          "seeds = 2\n[solver]\nsites = 64\nexpert_sites = 64\nunit_sites = 32\n")
    row = re.search(r"\nGtil_diag( .*)", compare().stdout)[1]
    assert re.match(r" {31,}", row) and re.search(r"\d", row)  # "-" for mup, then numbers


def test_long_names_are_kept():
    """Cosines between the penalties of two blocks have long names, which differ at their ends."""
    write(case_ini="[network]\nmodel = stack\ndepth = 2\nrho = 0.5\ngate = softmax\n"
                   "balance_loss = 0.01\n[training]\nsteps = 2\n[solver]\nreplicates = 0\n"
                   "[reference]\nwidths = 8 16\nseeds = 2\n[data]\ninputs = 2\ndimension = 3\n"
                   "[output]\ngradients = yes\ntangent = blocks\n")
    compare()
    for k in range(2):
        assert len(read("out.h5", "mssp/compare/cosine_balance_loss_0_balance_loss_1_Q_"
                                  f"{k}_inf_se")) == 2


def test_no_z_of_round_off():
    """After two steps of a rate that begins at 0 the loss has moved by its round-off, of which z
    tells nothing; by the end it has moved further. Rows end with chi^2 and z."""
    write(case_ini="[network]\nmodel = dense\n[data]\ninputs = 3\ndimension = 4\n[training]\n"
                   "steps = 21\neta0 = 1.5e-13\nwarmup = 10\n[solver]\nsites = 64\n"
                   "replicates = 3\n[reference]\nwidths = 8 16 32\nseeds = 3\n")
    out = done("-o", "out.h5", "case.ini")
    for t, known in ((2, False), (20, True)):
        row = re.search(rf"\n{t:4} .*", out)[0]
        assert (row[-8] == "-", row[-1] == "-") == (not known, not known)


def test_networks_that_diverge():
    """One of three networks diverges: the others are compared. All of a width: a failure, after
    everything else, the next parameterization too, has been computed."""
    write(case_ini=INI.replace("mup mssp\nkappa = 0.5", "mssp mup\nactivation = linear")
          .replace("steps = 4", "steps = 12\neta0 = 1").replace("8 16 32", "2 8 16"))
    out = compare().stdout
    assert "note: 1 of 3 networks of N = 2 failed and count until then; the first:\n" \
        "  N = 2, network 2, step 5: " in out
    assert np.isfinite(read("out.h5", "mssp/compare/rms_h3_exponent")).all()
    os.remove("out.h5")
    said = compare("--reference.seeds=1", "--solver.seed=2", code=3).stderr
    assert "\ndmft-compare: mssp: 1 of 1 networks failed: N = 16, network 0, step 3: the loss, " \
        in said
    loss = read("out.h5.partial", "mup/reference/N0016/loss")
    assert len(loss) == 12 and np.isfinite(loss[11])
    for side in ("mup", "mssp"):
        read("out.h5.partial", f"{side}/compare/loss_inf")


@pytest.mark.parametrize("eta0, edge", [(0.8, True), (0.2, False)])
def test_edge_of_stability(eta0, edge):
    """A sentence and an attribute where the variance of f does not fall; neither where it does."""
    write(case_ini="[network]\nmodel = dense\ndepth = 3\nactivation = linear\n[data]\ninputs = 4\n"
                   f"dimension = 10\n[training]\nsteps = 41\neta0 = {eta0}\n[solver]\nsites = 64\n"
                   "replicates = 2\n[reference]\nwidths = 16 32 64\nseeds = 16\n")
    out = compare().stdout
    assert ("warning: at the edge of stability: from t = 20 on" in out) == edge
    with h5py.File("out.h5") as file:
        dense = file["dense"]
        assert [dense[name].attrs["edge_of_stability"] for name in ("compare", "limit")] == \
            [edge, edge]
        assert dense["limit"].attrs["valid_until"] == (20 if edge else 41)
        assert not edge or dense["notes/t"][0] == 20
        exponent = dense["compare/f_variance_exponent"][...]
    assert len(exponent) == 41 and np.isnan(exponent[0]) and exponent[1] < -0.5

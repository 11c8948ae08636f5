"""What the programs say and what they leave out; what they warn of and note, so that nobody trusts
a number too much; names of files and of who wrote them."""
import os
import re

import h5py
import numpy as np
import pytest
from running import SMALL, call, data_file, done, in_a_folder, read, refused, write
from sweeping import sweep

STUDY = SMALL.replace("inputs = 3", "inputs = 2").replace("steps = 4", "steps = 2") + \
    "[reference]\nwidths = 8\nseeds = 4\n"
OF_FILE = "[network]\nmodel = {}\n[data]\nsource = file\nfile = {}\n[training]\nsteps = {}\n" \
    "[solver]\nsites = 64\nreplicates = {}\n"
DEEP = "[network]\nmodel = dense\ndepth = 3\nactivation = {}\n[data]\nsource = gaussian\n" \
    "inputs = 4\ndimension = 10\n[training]\nsteps = {}\neta0 = 0.96\ngamma0 = 1\n[solver]\n"


def said(*words, name="dmft-solve", force=True):
    """What a call prints that succeeds, and what it says beside it."""
    result = call("-o", "out.h5", *["--force"] * force, *words, name=name)
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr


def rows(path, lines):
    """A data file of lines x,...,y."""
    values = np.array([line.split(",") for line in lines], dtype=float)
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = values[:, :-1], values[:, -1]


def is_there(name):
    with h5py.File("out.h5") as file:
        return name in file


# ---- what is said ----

@pytest.mark.parametrize("program", ["dmft-solve", "dmft-compare", "dmft-sweep"])
def test_quiet(program):
    swept = "[sweep]\ntraining.eta0 = 0.1 0.2 0.4\n" * (program == "dmft-sweep")
    write(study_ini=STUDY + swept)
    assert all(said("study.ini", name=program))
    assert said("--quiet", "study.ini", name=program) == ("", "")
    assert read("out.h5", "/@program") == program


def test_one_partial_file():
    """What a run left is not replaced by the next, unless that is told to."""
    write(study_ini=STUDY)
    assert call("-o", "out.h5", "study.ini", "--training.eta0=1e6").returncode == 3
    assert os.path.exists("out.h5.partial")
    refused(["output out.h5: out.h5.partial is there", "--force"], "-o", "out.h5", "study.ini")
    said("study.ini")
    assert os.path.exists("out.h5") and not os.path.exists("out.h5.partial")


FEW = ("--solver.max_memory=0.001", "--solver.sites=100000")


@pytest.mark.parametrize("words, sentence", [
    (("--training.eta0", "0.5"),
     "--training.eta0: a key and its value are one word, --training.eta0=0.5"),
    (("--training.eta0",), "one word, --training.eta0=value"),
    (("--eta0", "0.5"), "unknown option --eta0; a key is set by --section.key=value"),
    (FEW, "try fewer sites, expert_sites, inputs or steps, fewer threads"),
    ((*FEW, "--network.model=regime3"),
     "try fewer sites, expert_sites, unit_sites, inputs or steps"),
    ((*FEW, "--network.model=dense", "--solver.expert_sites=2048"),
     "try fewer sites, inputs or steps, fewer threads"),
    (("--network.rho=0.3",), "whole number of at least 1 (limit: expert_sites = 64)"),
    (("--network.model=residual", "--network.alpha=0"), "infinite width only")])
def test_refusals(words, sentence):
    write(study_ini=STUDY)
    told = refused([sentence], "study.ini", *words)
    assert "limit:" in sentence or "limit:" not in told


def test_defaults_run():
    """Nothing but the name of the network, and of one in Lua its file."""
    names = re.findall(r"^(\w+) ", done("--help").split("\nNetworks ")[1].split("\n\n")[0], re.M)
    assert len(names) >= 8
    write(alone_lua='read_out(sigma(read_in(population("top"), "W")), "w")\n')
    for name in names:
        write(alone_ini=f"[network]\nmodel = {name}\n" +
              "program = alone.lua\n" * (name == "program"))
        said("alone.ini", "--training.steps=1", "--solver.replicates=1")


def test_scale_of_inputs():
    data_file("small.h5", y1=-1)
    write(data_ini=OF_FILE.format("regime2", "small.h5", 1, 1) + "expert_sites = 64\n",
          study_ini=STUDY)
    told = said("data.ini")[1]
    scale = np.mean(read("out.h5", "data/X") ** 2)
    assert scale < 0.5 or scale > 2
    assert f"note: |x|^2/D of the inputs is {scale:.3g} on average" in told
    assert "|x|^2/D" not in said("study.ini")[1]


@pytest.mark.parametrize("optimizer, decay, schedule, steps, note", [
    ("adamw", "0.1", "constant", 101,
     "note: each step takes 0.1 of all weights that decay in full (weight_decay, times the "
     "schedule), so that of 100 steps about the last 10 are remembered"),
    ("adamw", "0.1", "constant", 100, ""),
    ("adamw", "0.01", "constant", 1001, "so that of 1000 steps about the last 100 are remembered"),
    ("adamw", "0.0001", "constant", 1001, ""),
    ("adamw", "1", "constant", 11, "about the last 1 are remembered"),
    ("gd", "0.1", "constant", 101, "about the last 10 are remembered"),
    ("adamw", "0", "constant", 1001, ""),
    # the last n of 200 steps take 0.1 n (n + 1)/400, which is above 1 from n = 63 on
    ("adamw", "0.1", "linear", 201, "so that of 200 steps about the last 63 are remembered"),
    ("adamw", "0.1", "linear", 199, "")])
def test_decay(optimizer, decay, schedule, steps, note):
    """Weights that lose 0.1 in each step are those of the last ten: said from 100 updates on, and
    of 0.01 from 1000 on. By default nothing decays, and a schedule takes part."""
    write(decay_ini="[network]\nmodel = dense\n[data]\ninputs = 2\n[solver]\nreplicates = 0\n"
                    "[reference]\nwidths = 2\nseeds = 1\n")
    told = said("decay.ini", f"--training.steps={steps}", f"--training.optimizer={optimizer}",
                f"--training.weight_decay={decay}", f"--training.schedule={schedule}")[1]
    assert note in told if note else "weight_decay" not in told


@pytest.mark.parametrize("y, loss, note", [
    ("011", "mse", "note: all targets are 0 or 1, which loss = mse takes for"),
    ("010", "huber", "note: all targets are 0 or 1, which loss = huber takes for"),
    ("111", "mse", ""), (("-1", "1", "0"), "mse", ""), ("011", "cross_entropy", ""),
    ("122", "cross_entropy", "note: no training target is of class 0, so that 3"),
    ("022", "cross_entropy", "")])
def test_odd_targets(y, loss, note):
    """Of targets of a file: those that are probably meant otherwise."""
    rows("odd.h5", [f"1,-1,{y[0]}", f"1,1,{y[1]}", f"-1,1,{y[2]}"])
    write(odd_ini=OF_FILE.format("dense", "odd.h5", 1, 1))
    told = said("odd.ini", f"--training.loss={loss}")[1]
    assert note in told if note else "note:" not in told


def test_compare():
    """Accuracies and the largest gate have no z, and one width is one column."""
    write(study_ini=STUDY)
    out = said("study.ini", name="dmft-compare")[0]
    assert out.count("N =") == 1 and "over all entries" not in out
    assert "no z and no exponent" in out.partition("N =")[0]
    out = said("study.ini", "--reference.widths=8 16 32", name="dmft-compare")[0]
    assert "\naccuracy " not in out and "\ngate_largest " not in out
    assert "\ngate_participation " in out
    for name in ("accuracy", "gate_top"):
        assert is_there(f"mssp/compare/{name}_inf") and not is_there(f"mssp/compare/{name}_z")


@pytest.mark.parametrize("program, title", [
    ("dmft-solve", "\nloss of the test inputs, mean with 95 %"),
    ("dmft-compare", "\nmssp: loss of the test inputs, mean")])
def test_test_loss(program, title):
    """The loss of test inputs has a table of its own, at the times where it is measured."""
    write(study_ini=STUDY)
    out = said("study.ini", "--data.test_inputs=2", "--output.test_every=3", "--training.steps=6",
               name=program)[0]
    table = out.split(title)[1]
    assert "\n   0 " in table and "\n   3 " in table
    assert "\n   5 " not in table and "\n   5 " in out


@pytest.mark.parametrize("axis, optimum", [
    ("solver.seed = 1 2 3", ""), ("network.activation = tanh erf relu", ""),
    ("training.eta0 = 0.1 0.2 0.4", "optimum of training.eta0"),
    ("rates.Q = 0.1 0.2 0.4", "optimum of rates.Q")])
def test_sweep(axis, optimum):
    """Every loss is printed; an optimum only along what has an order."""
    out = sweep(f"{STUDY}[sweep]\n{axis}\n")[0]
    assert ("optimum" in out) == bool(optimum) and optimum in out
    assert len(out.split("\n\n")[0].splitlines()) - 3 == 6  # three lines of head


# ---- warnings and notes ----

def test_rank_cap():
    """A single pass: 20 new directions a step in a basis that may have 270."""
    write(small_ini=SMALL)
    words = ("small.ini", "--data.inputs=400", "--data.dimension=60", "--training.batch=20",
             "--solver.sites=300", "--solver.expert_sites=300")
    told = refused(["replicate 0, step 13: ", "too few sites", "280 of"], "-o", "out.h5", *words,
                   "--training.steps=20", code=3)
    assert "with new inputs at every step bases grow by 20 every evaluation, up to 300 of 300 " \
        "sites; the run will probably end at step 13; more than 2000 sites" in told
    # 270 have room
    assert "up to 200 of 300 sites; more than 1000 sites" in said(*words, "--training.steps=10")[1]


@pytest.mark.parametrize("rule, substeps, most, step", [
    ("gd", 1, 288, 8), ("heun", 1, 300, 4), ("heun", 2, 300, 2)])
def test_rank_of_tokens(rule, substeps, most, step):
    """Tokens are rows of their own: 4 inputs of 8 tokens grow by 32 each step, of which 270 have
    room. Flow by Heun's rule takes two evaluations a step, and again two for each of its
    substeps."""
    write(tokens_ini="[network]\nmodel = transformer\nactivation = relu\n[data]\ninputs = 4\n"
                     "dimension = 40\ntokens = 8\n[training]\nsteps = 9\neta0 = 0.1\n"
                     "[solver]\nsites = 300\nreplicates = 1\n")
    told = refused(["too few sites", "of 300", f"step {step}" * (rule == "gd")], "tokens.ini", "-o",
                   "out.h5", f"--training.integrator={rule}", f"--training.substeps={substeps}",
                   code=3)
    assert f"warning: with relu bases grow by 32 every evaluation, up to {most} of 300 sites; " \
        f"the run will probably end at step {step}; more than" in told


@pytest.mark.parametrize("activation, rho, words", [
    ("relu", 1, "relu"), ("tanh", 0.5, "rho < 1"), ("relu", 0.5, "relu and rho < 1")])
def test_uncompressed(activation, rho, words):
    """The warning names what keeps bases from compressing."""
    write(small_ini=SMALL)
    keys = ("small.ini", "--training.steps=5", f"--network.activation={activation}",
            f"--network.rho={rho}")
    assert f"warning: with {words} bases grow by 3 every" in said(*keys)[1]
    if words == "relu":
        assert "up to 15 of 32 sites in each half; more than 150 sites" in \
            said(*keys, "--solver.halves=yes")[1]
        assert b"bases_grow" in read("out.h5", "notes/code")
        assert b"limit" in read("out.h5", "notes/group")


def test_tolerance():
    """What the tolerance does is in the errors if that is asked for, and in a warning where the
    errors would else be those of round-off. This training is at its edge, where both grow by 1.8 a
    step: 37 steps are so few that round-off is below 1e-9 in f, whatever the order of additions."""
    write(linear_ini=DEEP.format("linear", 37) + "sites = 64\nreplicates = 2\n", small_ini=SMALL)
    warning = "warning: the limit has no sampling error here"
    assert warning in said("linear.ini")[0]
    out = said("linear.ini", "--training.steps=4")[0]
    assert "\n   3 " in out and "e-1" not in out  # an error of round-off is 0 in the table
    out = said("linear.ini", "--network.activation=tanh")[0]
    assert warning not in out and "tolerance" not in out
    out = said("linear.ini", "--solver.check_tolerance=yes")[0]
    assert warning not in out
    assert "tolerance: with a third of it the loss changes by up to " in out
    change, se = (read("out.h5", f"limit/loss_{end}") for end in ("tolerance", "se"))
    assert len(change) == 37 and abs(change[36]) > 1e-4
    assert abs(se[36] - abs(change[36])) < 1e-6  # sampling: 1e-10
    assert not is_there("limit/rank_tolerance")
    refused(["check_tolerance", "method = march"], "-o", "out.h5", "--force", "small.ini",
            "--solver.method=fixed_point", "--solver.check_tolerance=yes")


def test_gates_that_stay():
    """They were lowest at first."""
    write(small_ini=SMALL)
    assert "down to 1.000 of its initial value (t = 0); " in \
        said("small.ini", "--training.eta0=0")[0]


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_of_a_parallel_job_without_mpi(name, monkeypatch):
    write(small_ini=SMALL)
    monkeypatch.setenv(name, "3")
    assert "one of 3 processes of a job, but built without MPI" in \
        said("--training.steps=1", "small.ini")[1]


@pytest.mark.parametrize("sites, word", [(512, ""), (64, "note"), (32, "warning")])
def test_unmatched(sites, word):
    """Normals that were not matched: none, fewer than the sites of their population, which is
    noted, and more, of which the run warns; so says the file."""
    write(dense_ini=DEEP.format("tanh", 50) + "replicates = 2\n")
    out = said("dense.ini", f"--solver.sites={sites}")[0]
    for one in ("note", "warning"):
        assert (f"{one}: the limit has too few sites " in out) == (one == word)
    assert word != "warning" or "biases may be several standard errors" in out
    unmatched = read("out.h5", "limit/unmatched")
    assert len(unmatched) == 50
    assert (unmatched[49] > 0) == (word != "") and (unmatched[49] > 1) == (word == "warning")


@pytest.mark.parametrize("optimizer", ["gd", "adam"])
@pytest.mark.parametrize("one", ["0", "1e-300"])
def test_inputs_of_zero(one, optimizer):
    """Inputs without a direction, and of which no square is above 0: they run, and it is said why
    nothing is trained, not that the networks are."""
    rows("inputs.h5", [f"{one},0,1", f"0,{one},-1"])
    write(zero_ini=OF_FILE.format("dense", "inputs.h5", 3, 2) +
          "[reference]\nwidths = 8\nseeds = 2\n")
    out = said("zero.ini", f"--training.optimizer={optimizer}")[0]
    assert "although networks do" not in out
    assert (one != "0" and optimizer == "adam") or \
        "note: training moves nothing here, in networks as in" in out

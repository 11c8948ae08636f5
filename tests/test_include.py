"""Comments, quotes, and ini files that include others, from outside."""
import os

import pytest
from running import data_file, done, in_a_folder, read, refused, same, write
from sweeping import call

BASE = "[network]\nmodel = regime2 # sites and units\n[training]\nsteps = 2\t; few\neta0 = 0.5\n" \
    "[solver] # small\nsites = 64\nexpert_sites = 64\nreplicates = 1\n"
PROGRAM = "local s = population('s')\nlocal h = read_in(s, 'W1')\n" \
    "if key('act') == 'tanh # \"x' then h = tanh(h) else h = 3 * relu(h) end\n" \
    "read_out(h, 'w')\n"
REST = "[data]\ninputs = 2\n[training]\nsteps = 2\n[solver]\nsites = 16\nreplicates = 1\n"
OTHER = "local s = population('s')\nlocal h = read_in(s, 'W1')\nread_out({}(h), 'w')\n"
WORDS = f"[network]\nprogram = words.lua\n{REST}[program]\nact = "
FILE = "[data]\nsource = file\nfile = "


def solve(ini, output, *more):
    done("--force", "-o", output, ini, *more)
    return read(output, "parameters@ini")


def has(ini, **values):
    for key, value in values.items():
        assert f"\n{key} = {value}\n" in ini


def test_record_of_strange_paths():
    """A folder with the beginning of a comment in its name: what is recorded is read back."""
    data_file('set #1 "x"/good.h5')
    write(quotes_ini=BASE + FILE + '"set #1 ""x""/good.h5" # here\n')
    write(again_ini=solve("quotes.ini", "first.h5"))
    solve("again.ini", "second.h5")
    assert same("first.h5", "second.h5", "limit/loss", "data/X")


def test_record_of_programs(monkeypatch):
    """What is recorded of a network in Lua repeats the run without its file, also words that need
    quotes; and readers get its text as it was written, no more and no less."""
    write(words_lua=PROGRAM, words_ini=WORDS + '"tanh # ""x"\n')
    ini = solve("words.ini", "words.h5")
    has(ini, act='"tanh # ""x"')
    os.remove("words.lua")
    write(again_ini=ini)
    solve("again.ini", "again.h5")
    assert same("words.h5", "again.h5", "limit/loss")
    monkeypatch.setenv("MALLOC_PERTURB_", "165")  # fresh memory is not zero
    solve("again.ini", "again.h5")
    assert read("again.h5", "provenance@network") == PROGRAM


def test_includes():
    """Later lines go over earlier ones, the including file over all, the command line over it;
    paths count from the file that they stand in. The record alone repeats the run."""
    data_file("parts/good.h5")
    write(parts__base_ini=BASE, parts__rates_ini="[rates]\nQ = 0.5\nW1 = 2\n",
          parts__data_ini="include = base.ini\n" + FILE +
          "good.h5\n[training]\neta0 = 0.25\ngamma0 = 2\n[rates]\nQ = 3\n",
          main_ini="# all\ninclude = parts/data.ini ; first\ninclude = parts/rates.ini\n"
                   "[training]\ngamma0 = 0.5\n")
    ini = solve("main.ini", "main.h5", "--training.steps=3")
    has(ini, model="regime2", eta0=0.25, gamma0=0.5, steps=3, Q=0.5, W1=2)
    has(done("--defaults", "main.ini", "--training.steps=3"), eta0=0.25, file="parts/good.h5")
    write(parts__alone_ini=ini)
    solve("parts/alone.ini", "alone.h5")
    assert same("main.h5", "alone.h5", "limit/loss", "data/X")


def test_included_from_elsewhere():
    """Names of rows are no paths; paths of an included file count from its folder alone, wherever
    the program is started; and the record of a network in Lua may be included."""
    data_file("far/x.h5")
    data_file("far/sub/x.h5", rows=2)
    write(far__base_ini=BASE, far__sub__data_ini="[data]\nfile = x.h5\n",
          far__rows_ini="include = base.ini\n" + FILE +
          "x.h5\n[output]\nfields = h1\nkernels_of = h1\n",
          far__one_ini="include = rows.ini\n",
          far__two_ini="include = rows.ini\ninclude = sub/data.ini\n")
    has(solve("far/one.ini", "one.h5"), fields="h1")
    solve("far/two.ini", "two.h5")
    assert read("one.h5", "data/X").size == 12 and read("two.h5", "data/X").size == 8
    write(far__sub__words_lua=PROGRAM, far__sub__words_ini=WORDS + "b\n",
          far__words_ini="include = sub/words.ini\n")
    write(far__sub__record_ini=solve("far/words.ini", "far.h5"),
          far__record_ini="include = sub/record.ini\n")
    solve("far/record.ini", "record.h5")
    assert same("far.h5", "record.h5", "limit/loss")


@pytest.mark.parametrize("ini, parts", [
    ("include = none.ini\n",
     ["case.ini:1: include = none.ini: none.ini: cannot be opened: No such file"]),
    ("include =\n", ["case.ini:1: include", "which file?"]),
    ("include = /dev/zero\n", ["/dev/zero: is not a regular file"]),
    ("include = parts\n", ["parts: is a folder"]),
    ("include = case.ini\n", ["case.ini:1:", "case.ini would include itself"]),
    ("include = parts/many7.ini\n", ["more than 1000 files are included"]),
    ("include = parts/a.ini\n", ["parts/b.ini:2: include = a.ini", "would include itself"]),
    ("include = parts/bad.ini\n", ["parts/bad.ini:3: [training] eta: unknown key", '"eta0"']),
    ("include = parts/value.ini\n", ["parts/value.ini:2: [training] eta0 = fast: not a"]),
    ("include = parts/sweep.ini\n", ["parts/sweep.ini:1: [sweep]: it must stand in the ini"]),
    ("[network]\ninclude = parts/a.ini\n", ["case.ini:2: [network] include: unknown key"]),
    ('[network]\nmodel = "regime2\n', ["case.ini:2: [network]", "in double quotes ends"]),
    ("[network]\nmodel = regime2\nmodel = dense\n", ["duplicate key, given before in line 2"]),
    ("include = parts/unused.ini\n[network]\nmodel = dense\n",
     ["parts/unused.ini:2: [network] kappa = 2: model = dense does not use it"])])
def test_refusals(ini, parts):
    for k in range(8):  # eight files of the next kind each: 8^7
        write(**{f"parts__many{k}_ini": f"include = many{k - 1}.ini\n" * 8 * (k > 0)})
    write(parts__a_ini="include = b.ini\n", parts__b_ini="\ninclude = a.ini\n",
          parts__bad_ini="[training]\n\neta = 1\n", parts__value_ini="[training]\neta0 = fast\n",
          parts__sweep_ini="[sweep]\ntraining.eta0 = 1 2 3\n",
          parts__unused_ini="[network]\nkappa = 2\n", case_ini=ini)
    refused(parts, "-o", "out.h5", "case.ini")


def sweep(ini, output, *more):
    call("--quiet", "--jobs", "2", "-o", output, ini, *more)
    return read(output, "parameters@ini")


def test_sweeps():
    """The ini in the summary of a sweep repeats it without the files that were included."""
    write(parts__base_ini=BASE, sweep_ini="include = parts/base.ini\n[sweep] # two\n"
                                          "training.eta0 = 0.1 1 # 10\n")
    ini = sweep("sweep.ini", "sweep.h5", "--training.gamma0=0.5")
    os.remove("parts/base.ini")
    write(again_ini=ini)
    sweep("again.ini", "again.h5")
    assert same("sweep.h5", "again.h5", "sweep/loss")


@pytest.mark.parametrize("ini", [
    f"[network]\nmodel = dense\n{FILE}a.h5\n[sweep]\ndata.file = a.h5 b.h5\n"
    "training.optimizer = adam gd\n",
    "[network]\nprogram = words.lua\n[data]\ninputs = 2\n[program]\nact = \"tanh # \"\"x\"\n"
    "[sweep]\ntraining.eta0, training.gamma0 = 0.1 1 | 0.2 0.5 # two\n",
    "[network]\nprogram = words.lua\n[data]\ninputs = 2\n"
    "[sweep]\nnetwork.program = other.lua third.lua\n"], ids=["data", "words", "programs"])
def test_sweeps_from_elsewhere(ini):
    """Paths among the values of a sweep count from its ini, and what is recorded repeats the sweep
    from another folder: with the data, the text of a program, words of choices that use other
    keys."""
    data_file("away/a.h5")
    data_file("away/b.h5", X2=2, y1=1)
    write(away__words_lua=PROGRAM, away__other_lua=OTHER.format("tanh"),
          away__third_lua=OTHER.format("relu"),
          away__sweep_ini="[training]\nsteps = 2\n[solver]\nsites = 16\nreplicates = 1\n" + ini)
    write(away__again__sweep_ini=sweep("away/sweep.ini", "first.h5"))
    os.remove("away/words.lua")
    sweep("away/again/sweep.ini", "second.h5")
    assert same("first.h5", "second.h5", "sweep/loss")


def test_inputs_are_spared():
    """What was read is not written over: not the ini alone."""
    write(spared_ini="[training]\neta0 = 0.5\n", spared_lua=PROGRAM,
          sparing_ini="include = spared.ini\n" + WORDS.replace("words", "spared") + "b\n",
          base_ini=BASE, blank_ini="include = base.ini\n[sweep]\ntraining.eta0 = 0.1 1\n",
          paths_ini=f"[network]\nmodel = dense\n{FILE}a.h5\n[sweep]\ndata.file = a.h5 b.h5\n")
    for name in ("spared.ini", "spared.lua", "sparing.ini"):
        refused(["would overwrite an input of this run"], "--force", "-o", name, "sparing.ini")
    refused(["[sweep] varies this key"], "-o", "blank.h5", "blank.ini",
            "-- training . eta0 = 0.5", name="dmft-sweep")
    for name in ("a.h5", "b.h5"):
        data_file(name)
    refused(["-o b.h5 would overwrite an input"], "--force", "-o", "b.h5", "paths.ini",
            name="dmft-sweep")


def test_another_source():
    """A source on the command line takes the place of that in the file: keys of [data] that do not
    go with it are left out there, in an included file, too, and refused beside it."""
    data_file("data.h5", y1=-1)
    source = ("--data.source=file", "--data.file=data.h5")
    write(base_ini=BASE, data_ini="[data]\ninputs = 6\nseed = 2\n",
          case_ini="include = data.ini\ninclude = base.ini\n[data]\ndimension = 3\n",
          beside_ini=f"include = base.ini\n{FILE}data.h5\ndimension = 3\n")
    has(solve("case.ini", "out.h5", *source), source="file")
    refused(["--data.inputs=6", "used only when"], "-o", "new.h5", "case.ini", *source,
            "--data.inputs=6")
    refused(["[data] dimension = 3", "used only when"], "-o", "new.h5", "beside.ini")

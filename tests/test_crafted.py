"""Results that a stranger has made: what they hold is read or refused in one sentence, nothing of
other files is read through them, and they ask for no more memory than a result has."""
import json
import os
import shutil

import h5py
import numpy as np
import pytest
from refusing import refuses

import dmft
from dmft import guard, on_disk

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = {"solver.sites": 32, "solver.replicates": 2, "training.steps": 3,
         "reference.widths": [8, 16], "reference.seeds": 2}


@pytest.fixture(scope="module", name="good")
def whole_result(tmp_path_factory):
    """A result with a limit, networks of two widths and notes."""
    out = str(tmp_path_factory.mktemp("crafted") / "good.h5")
    dmft.solve(os.path.join(HERE, "..", "data", "dense.ini"), output=out, progress=False, **SMALL)
    return out


def _replace(file, name, values, **more):
    """A dataset with other values, or another type, with the attributes that it had."""
    attributes = {key: file[name].attrs[key] for key in file[name].attrs
                  if key not in on_disk.HIDDEN}
    del file[name]
    made = file.create_dataset(name, data=values, **more)
    for key, value in attributes.items():
        made.attrs[key] = value


def _soft_circle(file):
    file["limit/again"] = h5py.SoftLink("/limit")


def _hard_circle(file):
    file["limit/again"] = file["limit"]


def _hard_root(file):
    file["limit/above"] = file["/"]


def _external_link(file):
    file["limit/other"] = h5py.ExternalLink("other.h5", "/secret")


def _external_group(file):
    del file["reference"]
    file["reference"] = h5py.ExternalLink("other.h5", "/")


def _soft_series(file):
    file["limit/loss_again"] = h5py.SoftLink("/limit/loss")


def _external_storage(file):
    file.create_dataset("limit/secret", (40,), "u1", external=[("secret.txt", 0, 40)])


def _external_loss(file):
    del file["limit/loss"]
    file.create_dataset("limit/loss", (3,), "f8", external=[("secret.txt", 0, 24)])


def _virtual(file):
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource("other.h5", "secret", (3,))
    file.create_virtual_dataset("limit/virtual", layout)


def _deep(file):
    group = file["limit"]
    for _ in range(1500):
        group = group.create_group("g")


def _dims_of_number(file):
    file["limit/loss"].attrs["dims"] = 3.0


def _dims_of_list(file):
    file["limit/loss"].attrs["dims"] = np.arange(3)


def _dims_twice(file):
    file.create_dataset("limit/odd", data=np.zeros((2, 5))).attrs["dims"] = "t t"


def _dims_of_another_length(file):
    file.create_dataset("limit/odd", data=np.zeros(7)).attrs["dims"] = "t"


def _width_of_text(file):
    file["reference/N0008"].attrs["N"] = "eight"


def _width_nan(file):
    file["reference/N0008"].attrs["N"] = np.nan


def _width_infinite(file):
    file["reference/N0008"].attrs["N"] = np.inf


def _width_below(file):
    file["reference/N0008"].attrs["N"] = -8


def _width_of_list(file):
    file["reference/N0008"].attrs["N"] = np.array([8, 9])


def _loss_of_bytes(file):
    _replace(file, "limit/loss", np.array([b"a", b"b", b"c"]))


def _loss_of_texts(file):
    _replace(file, "limit/loss", ["a", "b", "c"], dtype=h5py.string_dtype())


def _loss_compound(file):
    _replace(file, "limit/loss", np.zeros(3, [("a", "f8"), ("b", "i4")]))


def _loss_of_references(file):
    _replace(file, "limit/loss", np.array([file.ref] * 3, dtype=h5py.ref_dtype))


def _loss_of_lists(file):
    del file["limit/loss"]
    file.create_dataset("limit/loss", (3,), h5py.vlen_dtype("f8"))


def _time_of_texts(file):
    _replace(file, "limit/t", ["a", "b", "c"], dtype=h5py.string_dtype())


def _notes_empty(file):
    del file["notes"]
    file.create_group("notes")


def _notes_numbers(file):
    for name in ("code", "kind", "text", "group"):
        _replace(file, "notes/" + name, np.zeros(file["notes/" + name].shape))


def _notes_not_utf8(file):
    _replace(file, "notes/text", [b"\xff\xfe"] * len(file["notes/text"]), dtype=h5py.string_dtype())


def _attribute_compound(file):
    file["limit"].attrs["odd"] = np.zeros(2, [("a", "f8")])


def _attribute_reference(file):
    file["limit"].attrs["odd"] = file["limit"].ref


def _complete_of_list(file):
    file.attrs["complete"] = np.arange(3)


def _program_of_number(file):
    file.attrs["program"] = 7


def _ini_of_number(file):
    file["parameters"].attrs["ini"] = 7


def _step_of_text(file):
    file["limit"].attrs["dt"] = "fast"


def _many_texts(file):
    file.create_dataset("limit/words", (1 << 21,), h5py.string_dtype())


REFUSED = {make: said for make, said in (
    (_soft_circle, "is a link"), (_hard_circle, "inside of itself"), (_hard_root, "inside of"),
    (_external_link, "is a link"), (_external_group, "is a link"), (_soft_series, "is a link"),
    (_external_storage, "values in other files"), (_external_loss, "values in other files"),
    (_virtual, "values in other files"), (_deep, "more groups inside each other"),
    (_dims_of_number, "dims of /limit/loss is not a text"),
    (_dims_of_list, "dims of /limit/loss is not a text"), (_dims_of_another_length, "damaged"),
    (_width_of_text, "N of /reference/N0008 is not a number"),
    (_width_nan, "damaged"), (_width_infinite, "damaged"), (_width_below, "a width below 1"),
    (_width_of_list, "is not a number"), (_loss_of_bytes, "limit/loss holds no numbers"),
    (_loss_of_texts, "limit/loss holds no numbers"), (_loss_compound, "neither numbers nor texts"),
    (_loss_of_references, "neither numbers nor texts"), (_loss_of_lists, "neither numbers nor"),
    (_time_of_texts, "damaged"), (_notes_empty, "damaged"),
    (_notes_numbers, "damaged"), (_notes_not_utf8, "damaged"), (_attribute_compound, "odd"),
    (_attribute_reference, "odd"), (_complete_of_list, "damaged"),
    (_program_of_number, "is not an output of"), (_ini_of_number, "is no text"),
    (_step_of_text, "damaged"), (_many_texts, "more texts than a result has"))}


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__[1:])
def test_a_crafted_file_is_refused_in_one_sentence(make, good, tmp_path):
    shutil.copy(good, tmp_path / "x.h5")
    (tmp_path / "secret.txt").write_bytes(b"secret" * 10)
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["secret"] = np.arange(3.0)
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        make(file)
    with pytest.raises(dmft.InputError) as refused:
        dmft.load(tmp_path / "x.h5")
    assert REFUSED[make] in str(refused.value) and "\n" not in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path / "x.h5"))


def test_what_was_cut_is_refused(good, tmp_path):
    with open(good, "rb") as file:
        whole = file.read()
    for k in range(20):
        (tmp_path / "x.h5").write_bytes(whole[:(len(whole) - 1) * k // 19])
        with pytest.raises(dmft.InputError) as refused:
            dmft.load(tmp_path / "x.h5")
        assert str(refused.value).startswith(str(tmp_path / "x.h5"))
        assert "\n" not in str(refused.value)


def test_arrays_of_nothing_take_no_memory(good, tmp_path):
    """Many arrays that are only a fill value: those beyond what a result has are not read."""
    shutil.copy(good, tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        for k in range(100):
            file.create_dataset(f"limit/a{k}", (guard.SMALL,), "f8", chunks=(guard.SMALL,))
    room = guard.VALUES // guard.SMALL
    run = dmft.load(tmp_path / "x.h5")
    held = [name for name in run.limit.data_vars if isinstance(run.limit[name].variable._data,
                                                               np.ndarray)]
    assert 0 < sum(name[1:].isdigit() for name in held) < room
    assert run.limit["a99"][-1] == 0


def test_files_of_a_sweep_lie_in_its_folder(tmp_path):
    """Neither above it nor anywhere else, in the file of a sweep that is done or is not."""
    run = dmft.sweep(os.path.join(HERE, "..", "data", "dense.ini"), output=str(tmp_path / "s.h5"),
                     progress=False, **SMALL | {"reference.widths": [8]},
                     **{"sweep.training.eta0": [0.1, 0.2]})
    assert len(run.points) == 2
    secret = tmp_path / "secret.h5"
    shutil.copy(run.units().values.flat[0], secret)
    for name in ("../secret.h5", str(secret), "x.h5", "0123456789abcdef.h5/../../secret.h5"):
        shutil.copy(tmp_path / "s.h5", tmp_path / "t.h5")
        with h5py.File(tmp_path / "t.h5", "r+") as file:
            file["sweep/file"][0] = name
        refuses("is no name of a run of a sweep", dmft.load, tmp_path / "t.h5")
    unit = run.units().values.flat[0]
    with h5py.File(unit, "r+") as file:
        del file["reference"]
        file["reference"] = h5py.ExternalLink(str(secret), "/reference")
    for read in (run.series, lambda name: run.points):
        refuses("is a link", read, "loss")


PROGRAM = """local a = population("a")
local h = tanh(read_in(a, "W1"))
name_rows(h, "z", {{tex = {tex}}})
read_out(h, "w")
"""


def _network(tmp_path, tex):
    (tmp_path / "net.lua").write_text(PROGRAM.format(tex=json.dumps(tex)))
    (tmp_path / "net.ini").write_text("[network]\nprogram = net.lua\n[data]\ninputs = 2\n")
    return str(tmp_path / "net.ini")


def test_a_symbol_is_only_a_symbol(tmp_path):
    for tex in (r"\zeta", r"\hat{\mathbf z}_{a}'", "z", r"\tilde h^{\star}", r"\boldsymbol{\xi}"):
        assert tex in dmft.equations(_network(tmp_path, tex)).latex()
    for tex in (r"\input{/etc/passwd}", r"z\write18{ls}", r"\csname input\endcsname x",
                r"\@@input x", r"^^5cinput x", r"\openin5=x", r"\catcode`", r"\includegraphics{x}",
                "z%", "$z$", "z\\", r"\newcommand\a{b}", r"\verbatiminput{x}", r"\directlua{x}"):
        refuses("symbol of rows z", dmft.equations, _network(tmp_path, tex))


def test_pdflatex_runs_nothing_and_reads_no_other_files(tmp_path, monkeypatch):
    """What it is told, by one that notes it."""
    (tmp_path / "bin").mkdir()
    said = tmp_path / "said"
    program = tmp_path / "bin" / "pdflatex"
    program.write_text(f"#!/bin/sh\necho \"$@\" $openin_any $openout_any $shell_escape >{said}\n"
                       "echo pdf >equations.pdf\n")
    program.chmod(0o755)
    ini = _network(tmp_path, "z")
    equations = dmft.equations(ini)
    monkeypatch.setenv("PATH", str(tmp_path / "bin") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("openin_any", "a")
    equations.write(tmp_path / "x.pdf")
    assert (tmp_path / "x.pdf").read_text() == "pdf\n"
    words = said.read_text().split()
    assert "-no-shell-escape" in words and words[-3:] == ["p", "p", "f"]

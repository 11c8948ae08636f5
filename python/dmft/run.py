"""dmft.solve, dmft.sweep, dmft.compare: settings and data in, a Result out."""
from __future__ import annotations

import difflib
import glob
import hashlib
import os
import re
import shutil
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Mapping

import h5py
import numpy as np

from dmft import description, guard, program
from dmft.description import Description
from dmft.errors import DmftError, InputError, Interrupted, NoteWarning
from dmft.files import Result, load
from dmft.network import Network
from dmft.study import command as study
from dmft.study import place

DATASETS = ("X", "y", "X_test", "y_test", "tokens", "tokens_test", "V", "weight", "weight_test")
# Arrays take the place of all of [data]; what else goes with source = file has its default.
ARRAYS = {"data.source": "file", "data.vocabulary": "0", "data.positions": "yes"}
# Words of a command line, of which the programs speak, in a call of Python.
IN_PYTHON = {"--force": "force=True", "--continue ": "dmft.resume ", "--jobs ": "jobs = ",
             "the same command": "the same call", "by -o OUT.h5": "by output=", "^-o ": "output "}


class Folder:
    """A temporary folder that lives as long as something refers to this object."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="dmft-")
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, True)

    def keep(self) -> None:
        """The folder stays."""
        self._remove.detach()


def text_of(value) -> str:
    """A value as an ini has it; lists in a list are points of a sweep, as are words with blanks and
    powers, which may follow a factor and a blank.

    >>> text_of([32, 64]), text_of(True), text_of([(0.25, 4), (0.5, 2)]), text_of(["0 1", "2"])
    ('32 64', 'yes', '0.25 4 | 0.5 2', '0 1 | 2')
    >>> text_of([1, "rho^0.5"])
    '1 | rho^0.5'
    >>> text_of([("rho^0.5", 0.1), (1, 0.2)])
    'rho^0.5 0.1 | 1 0.2'
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, str):
        if "\n" in value or "\r" in value:
            raise InputError(f"a value is one line of text, not {value!r}")
        return value
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    try:
        items = list(value)
    except TypeError:
        raise InputError(f"{value!r} is no value of an ini: text, a number, yes/no as a bool, or a "
                         "list of them") from None
    words = [" ".join(map(text_of, item)) if isinstance(item, (list, tuple, np.ndarray)) else
             text_of(item) for item in items]
    points = any(isinstance(item, (list, tuple, np.ndarray)) or " " in word or "^" in word
                 for item, word in zip(items, words))
    return (" | " if points else " ").join(words)


def _check_point(key: str, value) -> None:
    """An ini has no way to write a single value with blanks into [sweep]."""
    if "," not in key and isinstance(value, (list, tuple)) and len(value) == 1 and \
            " " in text_of(value[0]):
        raise InputError(f"sweep {key}: a single value with blanks would be several values; give "
                         "it as the key itself")


def flatten(settings: Mapping) -> dict[str, str]:
    """{"section.key": text} of {"section": {"key": value}} or {"section.key": value} or both."""
    flat = {}
    for name, value in settings.items():
        inner = value.items() if isinstance(value, Mapping) else None
        if name == "ini" and inner is None:
            raise InputError("these are the parameters of a result; their text repeats the run: "
                             "give parameters[\"ini\"]")
        if inner is None and "." not in name:
            raise InputError(f"{name!r}: must be a section with its keys in a dict, or section.key")
        for key, one in inner if inner is not None else [("", value)]:
            whole, text = f"{name}.{key}" if key else name, text_of(one)
            if flat.get(whole, text) != text:
                raise InputError(f"{whole}: is given twice, as {flat[whole]} and as {text}")
            if whole.startswith("sweep."):
                _check_point(whole.removeprefix("sweep."), one)
            flat[whole] = text
    return flat


def split(more: Mapping) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """(keys, data): a name with a dot is a key, one without is a dataset."""
    keys, arrays = {}, {}
    for name, value in more.items():
        if "." in name:
            keys[name] = text_of(value)
            continue
        try:
            array = np.asarray(value)
        except ValueError:
            raise InputError(f"{name}: is no array, as its rows have different lengths") from None
        near = difflib.get_close_matches(name, DATASETS, 1, 0.6)
        if name not in DATASETS and (near or (array.ndim and array.dtype.kind in "biuf")):
            raise InputError(f"{name}: did you mean {near[0]}?" if near else
                             f"{name}: data has no array of this name; there are "
                             f"{', '.join(DATASETS)}")
        if array.ndim == 0 or array.dtype.kind not in "biuf":
            raise InputError(f"{name}: neither an array of numbers nor a key: keys are written "
                             "**{\"section.key\": value}")
        if np.ma.is_masked(value):
            raise InputError(f"{name}: has masked values, which data cannot have; fill them or "
                             "leave out their inputs")
        arrays[name] = array.astype(np.int8) if array.dtype.kind == "b" else array
    return keys, arrays


def write_data(stem: str, arrays: Mapping[str, np.ndarray]) -> tuple[str, bool]:
    """(STEM_HASH.h5, whether it is new): the arrays as [data] source = file reads them; the same
    arrays have the same name."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.shape, array.dtype.str)).encode() + array.tobytes())
    path = f"{stem}_{digest.hexdigest()[:12]}.h5"
    new = not os.path.exists(path)
    if new:
        mine = f"{path}.{os.getpid()}.{threading.get_ident()}.new"  # others may write the same
        with h5py.File(mine, "w") as file:
            for name, array in arrays.items():
                file[name] = array
        os.replace(mine, path)
    return path, new


def _ini(config, folder: Folder, arrays) -> tuple[str, dict[str, str]]:
    """(path of an ini, settings on top of it). Settings of a dict go by the command line, where
    paths are relative to the current folder; a sweep must stand in an ini. Arrays take the place
    of [data], in an ini by the override of data.source."""
    settings = {}
    if isinstance(config, Result):
        raise InputError("a result is no ini: give parameters[\"ini\"] of it, whose text repeats "
                         "the run, or go on with it by dmft.resume")
    if isinstance(config, Mapping):
        settings = flatten(config)
        grid = {key.removeprefix("sweep."): settings.pop(key)
                for key in list(settings) if key.startswith("sweep.")}
        for key in ",".join(grid).split(","):  # what varies has no value of its own
            settings.pop(key.strip(), None)
        text = "\n".join(["[sweep]"] + [f"{key} = {value}" for key, value in grid.items()]) + "\n" \
            if grid else ""
        if arrays:
            settings = {key: value for key, value in settings.items()
                        if not key.startswith("data.")}
    elif isinstance(config, str) and "\n" in config:
        text = config
    else:
        path = os.fspath(config)
        return os.path.join(".", path) if path.startswith("-") else path, {}
    path = os.path.join(folder.path, "run.ini")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path, settings


def _check_conflicts(keys: Mapping, arrays, network: Network | None) -> None:
    """Keys of a call that say something else than its arrays or its network."""
    for key in keys:
        if arrays and key in ("data.source", "data.file"):
            raise InputError(f"{key}: the data are the arrays {', '.join(arrays)}; give either")
        if network is not None and key in ("network.model", "network.program",
                                           "network.program_text"):
            raise InputError(f"{key}: the network is the one given as network; give either")


def _partial(name: str, output: str, since: float) -> str | None:
    """What an unfinished run left: OUT.h5.partial, or the folder of a sweep with runs in it."""
    stem, partial = output.removesuffix(".h5"), output + ".partial"
    if name == "dmft-sweep":
        return stem + ".d" if glob.glob(glob.escape(stem) + ".d/*.h5") else None
    return partial if os.path.exists(partial) and os.path.getmtime(partial) >= since - 1 else None


def _network_keys(network: Network | None) -> dict[str, str]:
    if network is not None and not isinstance(network, Network):
        raise InputError(f"network must be a dmft.Network, not {type(network).__name__}; keys of "
                         "the section are written **{\"network.model\": \"dense\"}")
    return network.settings() if network is not None else {}


def _prepare(config, folder: Folder, stem: str, network: Network | None,
             more: Mapping) -> tuple[list[str], str | None]:
    """(the ini and its settings, as words of a command line; the file of data that is new, or
    None). stem: where files of data begin, before their hash. Settings of a dict are a base, which
    all others go over as over an ini."""
    keys, arrays = split(more)
    network_keys = _network_keys(network)
    _check_conflicts(keys, arrays, network)
    ini, settings = _ini(config, folder, arrays)
    data, new = None, False
    if arrays:
        data, new = write_data(stem, arrays)
        network_keys = network_keys | ARRAYS | {
            "data.file": os.path.abspath(data),
            "data.weight": "weight" if "weight" in arrays else ""}
    over = network_keys | keys
    base = {"base." + key: value for key, value in settings.items() if key not in over}
    return [ini, *_words(base | over)], data if new else None


def _run(name: str, config, output, force: bool, progress: bool, network: Network | None,
         options: list[str], more: Mapping, **how) -> Result:
    folder = Folder()
    out = os.fspath(output) if output is not None else os.path.join(folder.path, "run.h5")
    stem = os.path.join(folder.path, "data") if output is None else \
        out.removesuffix(".h5") + "_data"
    if output is not None:
        place.check(out, True)  # data go beside it
    settings, data = _prepare(config, folder, stem, network, more)
    words = ["-o", out, *(["--force"] if force else []), *options, *settings]
    try:
        return _call(name, words, out, progress, network, folder if output is None else None,
                     folder.path, above=2, **how)
    except (DmftError, Interrupted) as error:
        if error.partial and output is None:
            folder.keep()
        elif data and output is not None and not error.partial:
            os.remove(data)
        raise


def _words(keys: Mapping) -> list[str]:
    return [f"--{key}={value}" for key, value in keys.items()]


def _explain(error, network: Network | None, more: str = "") -> None:
    """Says the sentence of a program in words of Python, and where it is in a network that was
    written there."""
    error.lua, sentence = network.lua if network is not None else None, error.sentence
    place = network.place(sentence) if network is not None else ""
    for word, ours in IN_PYTHON.items():
        sentence = re.sub(word, ours, sentence)
    error.args = ("; ".join(filter(None, [sentence, place, more])),)


def _call(name: str, words: list[str], out: str, progress: bool, network: Network | None,
          owner, hide: str = "", above: int = 1, **how) -> Result:
    """What the program writes into `out`, and what it says when it fails. above: how many functions
    of this file the user's call has gone through; how: of a sweep, its executor and chunk."""
    since = time.time()
    try:
        report = study.call(words, progress, hide, **how) if name == "dmft-sweep" else \
            program.call(name, words, progress, hide)
    except (DmftError, Interrupted) as error:
        error.partial = _partial(name, out, since)
        _explain(error, network,
                 f"what was computed is in {error.partial}" if error.partial else "")
        raise
    result = load(out, owner)
    result.report = report
    for note in result.notes:
        warnings.warn(str(note), NoteWarning, stacklevel=above + 2)
    return result


def solve(config, *, output=None, force: bool = False, progress: bool = True,
          network: Network | None = None, **more) -> Result:
    """The limit and finite networks, by dmft-solve.

    config: the path of an ini, a dict {"section": {"key": value}} (or "section.key"), or the text
    of an ini. more: keys on top of it, **{"training.eta0": 0.5}, and data as arrays: X [P, D] and
    y [P], X_test and y_test if there are, or tokens and tokens_test, and weight [P] (weight_test)
    where inputs do not count alike; they take the place of [data].
    network: a network written in Python, in the place of that of config.
    output: the file to be written, which is refused where it exists without force; arrays are kept
    beside it in OUT_data_HASH.h5. Without output only the Result is kept. progress: whether the
    program's progress is shown. `report` of the Result is the table it printed. Each note of the
    run is a dmft.NoteWarning of Python's, too.

    >>> run = dmft.solve({"network": {"model": "dense"}}, **{"training.steps": 5},
    ...                  X=np.eye(4), y=[1, -1, 1, -1])         # doctest: +SKIP
    """
    return _run("dmft-solve", config, output, force, progress, network, [], more)


def compare(config, *, output=None, force: bool = False, progress: bool = True,
            network: Network | None = None, **more) -> Result:
    """Networks of several widths beside their limit, for one parameterization or several, by
    dmft-compare. Arguments as those of solve.

    >>> both = dmft.compare("x.ini", **{"network.parameterization": ["mup", "mssp"]})
    ...                                                         # doctest: +SKIP
    >>> both.compare["loss_z"].sel(parameterization="mup")      # doctest: +SKIP
    """
    return _run("dmft-compare", config, output, force, progress, network, [], more)


def sweep(config, *, output=None, force: bool = False, progress: bool = True,
          network: Network | None = None, jobs: int | None = None, retry: bool = False,
          executor=None, chunk: int = 1, **more) -> Result:
    """Runs over a grid of keys, as by dmft-sweep: config has a section sweep. With output=OUT.h5
    the same call goes on where an earlier one was stopped. retry: again what ended in a numerical
    failure. Other arguments as those of solve.

    jobs: so many runs at a time (default: all processors), each by a process of its own.
    executor: of concurrent.futures, or one like it (dask, mpi4py, submitit: docs/cluster.md), runs
    them in the place of these; its workers must see the folder OUT.d under the same name, and
    `jobs` of them (default: one) share the processors of a machine. chunk: so many runs are one
    task of the executor.

    >>> rates = dmft.sweep(dict(base, sweep={"training.eta0": [0.5, 1, 2]}))    # doctest: +SKIP
    >>> rates.sweep["loss"].sel(N=np.inf)                                       # doctest: +SKIP
    """
    if chunk < 1:
        raise InputError(f"chunk = {chunk}: must be at least 1")
    jobs = 1 if jobs is None and executor is not None else jobs
    options = ([] if jobs is None else ["--jobs", str(jobs)]) + (["--retry"] if retry else [])
    return _run("dmft-sweep", config, output, force, progress, network, options, more,
                executor=executor, chunk=chunk)


def words_of(config, folder: Folder, network: Network | None, more: Mapping) -> list[str]:
    """An ini and settings, as words of a command line; data that are arrays lie in the folder."""
    return _prepare(config, folder, os.path.join(folder.path, "data"), network, more)[0]


def describe(config, *, network: Network | None = None, limit: bool = True,
             **more) -> Description:
    """The networks of an ini and their limit as data (dmft.description); nothing is computed.

    config: as of solve, or a Result, whose file says which networks it is of. limit: whether the
    limit is asked for, too, which takes as long as a network. Other arguments as those of solve.

    >>> [W.name for W in dmft.describe("x.ini").networks[0].matrices]       # doctest: +SKIP
    ['W1', 'W2', 'w']
    """
    if isinstance(config, Result):
        if network is not None or more:
            raise InputError("a result describes the networks it was made with: no network and no "
                             "keys go with it")
        if "description" not in config["/"]:
            raise InputError(f"{config.path}: holds no networks of its own: those of a comparison "
                             "are in its groups, those of a sweep in the files of its runs")
        with guard.one_sentence(config.path):
            return description.read(config["/"]["description"].item())
    folder = Folder()
    words = words_of(config, folder, network, more) + ["--no-limit"] * (not limit)
    try:
        return description.read(program.described(words))
    except DmftError as error:
        _explain(error, network)
        raise


def settings_of(config, *, network: Network | None = None, **more) -> dict[str, str]:
    """{section.key: text} of all that an ini says or leaves at its default; arguments as those of
    solve.

    >>> settings_of("x.ini")["network.parameterization"]                    # doctest: +SKIP
    'mup mssp'
    """
    folder = Folder()
    words = words_of(config, folder, network, more)
    found, section = {}, ""
    for line in program.call("dmft-solve", ["--defaults", *words], False).splitlines():
        if line.startswith("["):
            section = line.strip("[] ")
        elif line and not line.startswith("#"):
            key, _, text = line.partition("=")
            found[f"{section}.{key.strip()}"] = text.strip()
    return found


def optimum_of(run: Result, along: str | None, objective: str | None):
    """For Result.find_optimum."""
    folder = Folder()
    out = os.path.join(folder.path, "optimum.h5")
    choice = {"--along": along, "--objective": objective}
    words = [word for pair in choice.items() if pair[1] is not None for word in pair]
    study.call(["--quiet", "--optimum", run.path, *words, "-o", out], False)
    try:
        return load(out, folder).optimum.load()
    except InputError as error:  # names the sweep, and not the file that is made for a moment
        raise InputError(str(error).replace(out, run.path)) from None


def resume(run, *, progress: bool = True, **more) -> Result:
    """Goes on with a run of solve or compare where it was cut; or further, if it had
    **{"output.checkpoint": minutes}: **{"training.steps": 400}, more replicates, seeds or widths.

    run: the Result, or the path of its OUT.h5, of which OUT.h5.partial is what a cut run leaves.
    The file is replaced by the longer one. Sweeps go on by themselves, called again.

    >>> run = dmft.solve("x.ini", output="x.h5",
    ...                  **{"output.checkpoint": 10})           # doctest: +SKIP
    >>> run = dmft.resume("x.h5", **{"training.steps": 400})    # doctest: +SKIP
    """
    path, owner = (run.path, run._owner) if isinstance(run, Result) else (os.fspath(run), None)
    out = path.removesuffix(".partial")
    keys, arrays = split(more)
    if arrays:
        raise InputError(f"{', '.join(arrays)}: a run goes on with the data that it has; only keys "
                         "are given here")
    made = next((load(file)["/"].attrs.get("program") for file in (out, out + ".partial")
                 if os.path.isfile(file)), "dmft-solve")
    if made == "dmft-sweep":
        raise InputError(f"{out}: is a sweep, which goes on when dmft.sweep is called again with "
                         "its settings and output")
    name = made if made == "dmft-compare" else "dmft-solve"  # also of what libdmft has made
    try:
        return _call(name, ["--continue", out, *_words(keys)], out, progress, None, owner)
    except (DmftError, Interrupted) as error:
        if error.partial and owner is not None:
            owner.keep()
        raise

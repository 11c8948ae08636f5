"""Files of the programs as xarray datasets.

Commands that read no result know the class Result alone, so that xarray, and with it pandas, which
take longer to import than all else, are imported by what makes a dataset (dmft.on_disk).
"""
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import h5py
import numpy as np

from dmft import guard
from dmft.errors import InputError
from dmft.guard import Room

if TYPE_CHECKING:
    import xarray

@dataclass(frozen=True)
class Note:
    """What a reader must know of the numbers of a group: kind is "warning" or "note", group the
    path of what it speaks of ("/": the whole run), t the first time from which it holds, or
    None."""
    code: str
    kind: str
    text: str
    group: str
    t: int | None

    def __str__(self) -> str:
        return f"{self.group}: {self.text}"


def valid(data: xarray.Dataset) -> xarray.DataArray:
    """Over t: whether the numbers of a limit or of networks, in a series of a sweep those of each
    run, hold at this time, before valid_until (docs/output.md). All of them in files without it.

    >>> run.limit["loss"].where(dmft.valid(run.limit))      # doctest: +SKIP
    """
    until = data.coords.get("valid_until", data.attrs.get("valid_until", np.inf))
    return (data["t"] < until).drop_vars("valid_until", errors="ignore").rename("valid")


class Result(Mapping):
    """A file of dmft-solve, dmft-compare or dmft-sweep.

    limit, compare, sweep, optimum, data are Datasets, reference is {width: Dataset}. NAME_se beside
    NAME is the standard error of its mean. As a mapping it has every group by its path:
    run["limit/sweeps"], run["reference/N0064"]. A comparison has `sides`, {parameterization:
    Result}; compare has all of them along the axis `parameterization`, and limit and reference are
    those of its only side, where it has one. A sweep has `points`, {values of its keys: Result}.

    >>> run = load("regime2.h5")                    # doctest: +SKIP
    >>> run.limit["loss"].sel(t=10)                 # doctest: +SKIP
    """

    without_limit = " ([solver] replicates = 0, a sweep, or not begun)"  # why there may be none

    def __init__(self, path: str, groups: Mapping[str, xarray.Dataset], owner=None):
        self.path, self.report, self._groups, self._owner = path, "", dict(groups), owner
        self._units: dict = {}  # {path: (what tells it from another file, its Result)}

    def __getitem__(self, name: str) -> xarray.Dataset:
        if name not in self._groups:
            raise KeyError(f"{self.path} has no group {name}; there are {' '.join(self._groups)}")
        return self._groups[name]

    def __contains__(self, name) -> bool:
        return name in self._groups

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __repr__(self) -> str:
        words = [f"sides {' '.join(self.sides)}"] if self.sides else \
            ["limit"] * ("limit" in self) + [f"networks of N = {N}" for N in self.reference]
        if "sweep" in self:
            words.append("sweep of " + (", ".join(self["sweep"]["loss"].dims[:-1]) or "one point"))
        return f"<dmft.Result {self.path}: {'; '.join(words) or 'nothing yet'}" + \
            ("" if self.complete else " (incomplete)") + ">"

    def _repr_html_(self) -> str:
        from dmft.notebook import html
        return html(self)

    def plot(self, what: str | None = None, *, times=None, kernels=None, x: str | None = None):
        """One of the pictures of dmft-plot, as a figure of matplotlib: what = loss, kernels,
        exponents, gates, ... as dmft-plot --what; the default is the loss, of a sweep its losses
        and optima. times and kernels choose as the options of dmft-plot do; x, of a sweep, is a
        size of the networks that the objective is drawn against, such as "active_parameters".

        >>> load("regime2.h5").plot("kernels", kernels=["Phi3"])        # doctest: +SKIP
        """
        from dmft.notebook import plot
        return plot(self, what, times=times, kernels=kernels, x=x)

    def _only(self) -> "Result":
        """Itself, or the only side of a comparison."""
        sides = self.sides
        if len(sides) > 1:
            names = " ".join(sides)
            raise InputError(f"{self.path}: has several parameterizations ({names}); take "
                             f"sides[{next(iter(sides))!r}]")
        return next(iter(sides.values()), self)

    def _get(self, name: str, hint: str) -> xarray.Dataset:
        run = self._only()
        if name not in run:
            raise InputError(f"{self.path}: has no {name}{hint}")
        return run[name]

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return bool(self["/"].attrs.get("complete", 0))

    @property
    def limit(self) -> xarray.Dataset:
        """The infinite network."""
        return self._get("limit", self.without_limit)

    @property
    def reference(self) -> dict[int, xarray.Dataset]:
        """{N: networks of this width}."""
        run = self._only()
        found = [run[name] for name in run if name.startswith("reference/")
                 and "N" in run[name].attrs]     # none yet, where a run has only begun
        return _ByWidth({int(data.attrs["N"]): data
                         for data in sorted(found, key=lambda data: data.attrs["N"])})

    @property
    def data(self) -> xarray.Dataset:
        """Inputs and targets."""
        return self._get("data", "")

    def weights(self, name: str, width: int, seed: int = 0, t: int = 0) -> xarray.DataArray:
        """Matrix NAME of one network as it was used at time t, of a run with [output] weights:
        read-ins act on data["coordinates"] (docs/output.md).

        >>> W1 = run.weights("W1", 64)                                          # doctest: +SKIP
        >>> h1 = run.data["coordinates"].values @ W1.values.T                   # doctest: +SKIP
        """
        networks = self.reference[width]
        if "weights_" + name not in networks:
            raise InputError(f"{self.path}: has no matrix {name} of networks of N = {width} "
                             "([output] weights)")
        matrix = networks["weights_" + name]
        times = matrix[matrix.dims[1]]
        if t not in times or not 0 <= seed < matrix.sizes["run"]:
            raise InputError(f"{self.path}: matrices are kept of seeds 0 to "
                             f"{matrix.sizes['run'] - 1} at t = "
                             + " ".join(str(time) for time in times.values))
        return matrix.isel(run=seed).sel({times.name: t})

    def predict(self, X=None, *, tokens=None) -> "Result":
        """Outputs at inputs X [n, D] ([n, rows, D]) or tokens [n, rows] that the run did not know,
        of the limit and of networks of every width, at its end: limit["f"], reference[N]["f"], each
        with f_se and f_runs. They are what the run would have with these as test inputs. It must
        have kept its states, **{"output.checkpoint": minutes}; with halves limit["f"] is corrected.
        Without states networks alone are computed from **{"output.weights": "both"}, by PyTorch;
        what they are along directions that no input of the run had is then drawn anew.

        >>> run.predict(X).limit["f"]                                           # doctest: +SKIP
        """
        from dmft.prediction import predict
        return predict(self, X, tokens)

    def singular(self, name: str, width: int | None = None) -> xarray.Dataset:
        """Singular values of matrix NAME over sqrt(n/m), of the limit or of networks of a width, of
        a run with [output] singular: value, learned, independent and edge, and momentum where Muon
        moves it, each with its standard error NAME_se (docs/output.md).

        >>> spikes = run.singular("W2").value                                   # doctest: +SKIP
        >>> run.singular("W2", 256).learned.isel(t=-1)                          # doctest: +SKIP
        """
        data = self.limit if width is None else self.reference[width]
        stem = "singular_" + name
        if stem not in data:
            raise InputError(f"{self.path}: has no singular values of {name} "
                             + ("in the limit" if width is None else f"of networks of N = {width}")
                             + " ([output] singular)")
        parts = {"value": stem} | {part: f"{stem}_{part}"
                                   for part in ("learned", "independent", "edge", "momentum")
                                   if f"{stem}_{part}" in data}
        return data[[one + end for one in parts.values() for end in ("", "_se")]].rename(
            {stored + end: part + end for part, stored in parts.items() for end in ("", "_se")})

    @property
    def sweep(self) -> xarray.Dataset:
        """Final losses over the grid of a sweep; its axis N has inf for the limit."""
        return self._get("sweep", "; it is not of dmft-sweep")

    @property
    def optimum(self) -> xarray.Dataset:
        """Where the final loss is smallest, of a sweep with a key of numbers."""
        return self._get("optimum", "; a sweep has one where it is complete and a key has three "
                         "numbers or more")

    def find_optimum(self, *, along: str | None = None,
                     objective: str | None = None) -> xarray.Dataset:
        """Where a sweep that is done is best along another key, or by another objective, by
        dmft-sweep --optimum; nothing is run. Without a choice it is that of the sweep.

        >>> rates.find_optimum(along="training.eta0", objective="time_to=0.1")  # doctest: +SKIP
        """
        from dmft.run import optimum_of
        return optimum_of(self, along, objective)

    def series(self, name: str) -> xarray.Dataset:
        """A series NAME of all runs of a sweep over the swept keys, N and its own axes, NaN where
        there is none, and with it NAME_se, NAME_runs, NAME_pseudo and NAME_tolerance, if any.
        Sizes, costs (`active_parameters`, ...) and `valid_until` of networks are coordinates.

        >>> sweep.series("Phi3_diag")["Phi3_diag"].sel(N=np.inf)                # doctest: +SKIP
        """
        from dmft.folder import series_of
        return series_of(self, name)

    @property
    def compare(self) -> xarray.Dataset:
        """Extrapolations, their z and exponents, along the axis parameterization."""
        parts = [side["compare"].drop_vars("tau", errors="ignore").expand_dims(
            parameterization=[name]) for name, side in self.sides.items() if "compare" in side]
        if not parts:
            raise InputError(f"{self.path}: has no compare; it is not of dmft-compare, or not done")
        names = [part["parameterization"].item() for part in parts]
        import xarray
        return xarray.merge(parts, join="outer", compat="no_conflicts",
                            combine_attrs="override").sel(parameterization=names)

    @property
    def sides(self) -> dict[str, "Result"]:
        """{parameterization: Result} of a comparison, else {}."""
        names = [name for name in self if name + "/parameters" in self]
        return {side: Result(f"{self.path}", {"/": self["/"]} | {
            name.removeprefix(side + "/"): data for name, data in self.items()
            if name.startswith(side + "/")}, self._owner) for side in names}

    @property
    def parameters(self) -> dict:
        """{section.key: value} of every key, and "ini", a text that repeats the run."""
        return dict(self._get("parameters", "").attrs)

    @property
    def provenance(self) -> dict:
        """Versions, compiler, backend, source of the equations."""
        return dict(self._get("provenance", "").attrs)

    @property
    def notes(self) -> list[Note]:
        """All notes and warnings of a run, of a comparison those of all sides, of a sweep one for
        each kind, which names the points that have it."""
        found = []
        for name, data in self.items():
            if name != "notes" and not name.endswith("/notes"):
                continue
            words = [data[key].values for key in ("code", "kind", "text", "group", "t")]
            for code, kind, text, group, t in zip(*words):
                place = name.removesuffix("notes") + group.removeprefix("/") or "/"
                found.append(Note(code, kind, text, place, int(t) if np.isfinite(t) else None))
        return found

    @property
    def points(self) -> dict[tuple, "Result"]:
        """{values of the swept keys in their order: limit and networks of all widths} of a sweep,
        from the folder beside it; without what failed as a whole. Keys that vary together have one
        value each, side by side with the others: points[0.5, 2, 0.1] where kappa and expert_width
        vary together, and eta0 by itself."""
        sweep, units = self.sweep, self.units()
        axes = units.dims[:-1]
        keys = [(axis, key) for axis in axes for key in axis.split(",")]
        found = Points([key for _, key in keys])
        for index in np.ndindex(units.shape[:-1]):
            point = tuple(sweep[key].values.tolist()[index[axes.index(axis)]] for axis, key in keys)
            groups, notes = {}, []
            for path, ended in zip(units.values[index], sweep["n"].values[index]):
                if ended > 0:
                    groups |= {name: data.copy() for name, data in self._unit(path).items()}
                    notes += [groups.pop("notes")] if "notes" in groups else []
            if notes:
                import xarray
                groups["notes"] = xarray.concat(notes, "note")
            found[point] = Result(self._folder, groups, self._owner)
        return found

    def _unit(self, path: str) -> "Result":
        """A file of the folder, read once as long as no other one takes its place."""
        from dmft.on_disk import seen
        self.check_run(path)
        now = seen(path)
        if self._units.get(path, (None,))[0] != now:
            self._units[path] = now, load(path, self._owner)
        return self._units[path][1]

    @property
    def _folder(self) -> str:
        """Of the runs of a sweep, beside its file."""
        return self.path if os.path.isdir(self.path) else self.path.removesuffix(".h5") + ".d"

    def check_run(self, path: str) -> None:
        """InputError where the file of a run of a sweep is not there, as of a sweep whose file was
        moved without its folder."""
        if not os.path.exists(path):
            raise InputError(f"{self.path}: the runs of a sweep lie in {self._folder} beside its "
                             f"file, and {os.path.basename(path)} is not there")

    def units(self) -> xarray.DataArray:
        """The file of each run of a sweep, over the swept keys and N; it is there where
        sweep["n"], the runs of this width that ended, or sweep["failed"] is above 0.

        >>> load(sweep.units().sel({"training.eta0": 0.1, "N": 64}).item())     # doctest: +SKIP
        """
        grid = self.sweep["loss"]
        paths = [unit_path(self._folder, str(name)) for name in self.sweep["file"].values.flat]
        import xarray
        return xarray.DataArray(np.reshape(np.array(paths, dtype=object), grid.shape), grid.coords,
                                grid.dims, "file")


class Points(dict):
    """Results of the points of a sweep; a point that it does not have is answered by a sentence."""

    def __init__(self, keys: list[str]):
        super().__init__()
        self.swept = keys

    def __missing__(self, point):
        some = ", ".join(map(repr, list(self)[:3])) + ", ..." * (len(self) > 3)
        raise KeyError(f"there is no point {point!r}: a point has a value of each of "
                       f"{', '.join(self.swept)}; there are {some}")


def unit_path(folder: str, name: str) -> str:
    """The file of a unit of a sweep; of one of which some runs failed, what it left."""
    if not guard.UNIT.fullmatch(name):
        raise InputError(f"{folder}: {name!r} is no name of a run of a sweep, and is not read")
    path = os.path.join(folder, name)
    return path if os.path.exists(path) else path + ".partial"


def _refuse_missing(path: str) -> None:
    """FileNotFoundError with what may be meant."""
    stem = path.removesuffix(".h5")
    for other, why in ((path + ".partial", "a run that is not complete"),
                       (stem + ".d", "a sweep that is not complete")):
        if os.path.exists(other):
            raise FileNotFoundError(f"{path}: no such file; {other} is there, of {why}")
    raise FileNotFoundError(f"{path}: no such file")


class _ByWidth(dict):
    """A width that is not there is refused with those that are."""

    def __missing__(self, width):
        raise InputError(f"reference[{width!r}]: there are no networks of this width; widths are "
                         + (" ".join(map(str, self)) or "none, of a limit alone"))


def load(path, owner=None) -> Result:
    """Every kind of file the programs write: of a run, a comparison, a sweep; of a run in progress
    (OUT.h5.partial), and the folder OUT.d of a sweep in progress. Arrays of more than a million
    values are read when they are used; no file stays open. A file may come from a stranger: links
    to other files are not followed, and one that is no result is an InputError. owner: for dmft
    itself.

    >>> load("regime2.h5").limit["Phi3_diag"].mean("mu")        # doctest: +SKIP
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        _refuse_missing(path)
    if os.path.isdir(path):
        from dmft.folder import unfinished
        return Result(path, unfinished(path), owner)
    if not h5py.is_hdf5(path):
        open(path, "rb").close()  # or what the system says
        if path.endswith(".ini"):
            raise InputError(f"{path}: is an ini, whose result comes first: dmft-solve {path} "
                             f"writes {os.path.basename(path)[:-4]}.h5")
        raise InputError(f"{path}: is not a whole HDF5 file")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        if error.errno is None:  # it is HDF5's
            raise InputError(f"{path}: cannot be opened as HDF5, it is damaged or incomplete: "
                             f"{error}") from None
        raise InputError(f"{path}: {error}") from None
    from dmft.on_disk import read_group
    with guard.one_sentence(path), file:
        if not str(file.attrs.get("program", "")).startswith("dmft-"):
            raise InputError(f"{path}: is not an output of dmft-solve, dmft-compare or dmft-sweep")
        room = Room()
        result = Result(path, {name: read_group(path, group, items, owner, room)
                               for name, group, items in guard.groups(path, file)}, owner)
        guard.check(result)
        return result

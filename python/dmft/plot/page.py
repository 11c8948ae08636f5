"""One page of HTML to explore results with: sliders over time, width and whatever a sweep or a
comparison varies. It needs no network: plotly's script is in the page.

    dmft-plot --html rates.html rates.h5        # or several files, of runs, comparisons, sweeps

Left is a series over time, of the networks and of the limit; right the same series at the chosen
time, against a key of the sweep or against the width. Bands and bars are 95 % intervals, as in all
other pictures (dmft.plot.axes); a limit is dotted from where a warning says that it does not hold.
"""
from __future__ import annotations

import html
import importlib.resources
import json
import os
import re

import numpy as np

from dmft.plot.select import networks, number, quantity
from dmft.plot.style import Missing

MOST = 4_000_000  # numbers in a page: some 40 MB of text


def _runs(result) -> tuple[list[str], list[tuple]]:
    """(names of what varies, [(its values as text, Result)]) of a file."""
    if "sweep" in result:
        names = [str(name) for name in result["sweep"]["loss"].dims[:-1]]
        return names, [(_by_axis(names, point), run) for point, run in result.points.items()]
    if result.sides:
        return ["parameterization"], [((side,), run) for side, run in result.sides.items()]
    return [], [((), result)]


def _by_axis(names: list[str], point: tuple) -> tuple[str, ...]:
    """The values of keys that vary together as one text."""
    rest = iter(map(_word, point))
    return tuple(", ".join(next(rest) for _ in name.split(",")) for name in names)


def _word(value) -> str:
    return number(value) if isinstance(value, (float, np.floating)) else str(value)


def _numbers(array) -> list:
    """JSON has no NaN; six digits are more than a picture shows."""
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in np.asarray(array, dtype=float)]


def _is_shown(name: str, series) -> bool:
    """A series of the time alone, or the diagonal of a kernel, averaged over inputs."""
    return "t" in series.dims and (series.dims == ("t",) or name.endswith("_diag")
                                   and not {"l", "i"} & set(series.dims))


def _curves(run) -> dict:
    """{width, or "limit": {NAME: [mean, half of the interval]}} of all that is shown."""
    groups = {str(int(data.attrs["N"])): data for data in networks(run)}
    if "limit" in run and "loss" in run["limit"]:
        groups["limit"] = run["limit"]
    found = {}
    for width, data in groups.items():
        found[width] = {
            str(name): [_numbers(part) for part in quantity(data, name)]
            for name, series in data.items()
            if _is_shown(str(name), series) and name + "_se" in data and "n" in data}
        found[width]["until"] = int(data.attrs.get("valid_until", data.sizes["t"]))
    return found


def _about(runs) -> dict[str, str]:
    """What each series is, in the words of the file."""
    return {str(name): str(series.attrs.get("about", "")) + ", averaged over inputs" *
            str(name).endswith("_diag") + (f" ({series.attrs['label']})" if "label" in series.attrs
                                           else "") for _, run in runs
            for data in [*networks(run), *([run["limit"]] if "limit" in run else [])]
            for name, series in data.items()}


def _opening(result) -> dict[str, str]:
    """What a page begins with: of a sweep with an optimum its key on the right, and the value of
    the grid that is best in the limit, or at the widest networks, for the first values of other
    keys."""
    if "sweep" not in result or "optimum" not in result:
        return {}
    optimum, key = result.optimum, result.optimum.attrs["key"]
    best = optimum["least_at"].isel({dim: 0 for dim in optimum["least_at"].dims if dim != "N"})
    known = [float(value) for value in best.values if np.isfinite(value)]
    return {"against": key} | ({key: _word(known[-1])} if known else {})


def _failures(result, runs) -> list[str]:
    """Of a sweep, what has no curves, as all of its runs failed."""
    if "sweep" not in result:
        return []
    failed, said = result["sweep"]["failed"], []
    for (values, _), index in zip(runs, np.ndindex(failed.shape[:-1])):
        for N, count, ended in zip(failed["N"].values, failed.values[index],
                                   result["sweep"]["n"].values[index]):
            if count > 0 and not ended > 0:
                where = f"N = {N:.0f}" if np.isfinite(N) else "limit"
                said.append(" ".join([*values, where]) + ": every run failed")
    return said


def _files(results) -> list[str]:
    """What each file is called: its name, or its path where two have the same name."""
    paths = [os.path.normpath(result.path) for result in results]
    names = [os.path.basename(path) for path in paths]
    return names if len(set(names)) == len(names) else paths


def content(results) -> dict:
    """What the page shows, as the script of page.html reads it."""
    several = len(results) > 1
    points, settings, notes, files = [], [], [], _files(results)
    parts = [_runs(result) for result in results]
    names = ["file"] * several + parts[0][0]
    for file, (own, _) in zip(files, parts):
        if own != parts[0][0]:
            said = [f"{one} varies {', '.join(keys) or 'no key'}"
                    for one, keys in ((files[0], parts[0][0]), (file, own))]
            raise Missing(" and ".join(said) + ": files of one page vary the same keys; make a "
                          "page of each kind")
    for file, result, (_, runs) in zip(files, results, parts):
        points += [((file,) * several + values, run) for values, run in runs]
        # a sweep in progress has those of its points alone, of which some may have failed
        said = next((one for one in (result, *(run for _, run in runs)) if "parameters" in one), {})
        settings += [[file, str(said.parameters.get("ini", ""))]] if said else []
        for values, run in runs:
            notes += [" ".join([*values, str(note)]) for note in run.notes]
        notes += _failures(result, runs)
    data = {"axes": [[name, list(dict.fromkeys(values[a] for values, _ in points))]
                     for a, name in enumerate(names)],
            "first": _opening(results[0]),
            "points": {"|".join(values): _curves(run) for values, run in points},
            "about": _about(points), "settings": settings, "notes": list(dict.fromkeys(notes))}
    if not any(data["points"].values()):
        raise Missing("has no trajectories yet")
    size = sum(len(part) for curves in data["points"].values() for series in curves.values()
               for pair in series.values() if isinstance(pair, list) for part in pair)
    if size > MOST:
        raise Missing(f"a page has at most {MOST} numbers, and this would have {size}: give a part "
                      "of the files, or sweep fewer points")
    return data


def text(results, title: str) -> str:
    """The page of some results of dmft.load."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise Missing("--html needs plotly: pip install plotly, or \"dmft[html]\"") from None
    page = importlib.resources.files("dmft.plot").joinpath("page.html").read_text("utf-8")
    # Nothing of a file can end the script that holds it, or begin another one.
    parts = {"TITLE": html.escape(title), "PLOTLY": get_plotlyjs(),
             "DATA": json.dumps(content(results)).replace("<", "\\u003c")}
    return re.sub("@(TITLE|PLOTLY|DATA)@", lambda found: parts[found[1]], page)

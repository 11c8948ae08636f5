"""What a notebook shows of a result: its curve, a table of the loss, notes and settings; and
Result.plot, which draws one of the pictures of dmft-plot."""
from __future__ import annotations

import base64
import io
import re
from html import escape
from types import SimpleNamespace

import numpy as np

from dmft.errors import InputError

ROWS = 6  # times of the table, the first and the last among them


def plot(result, what: str | None, **options):
    """A figure of matplotlib: see Result.plot."""
    import matplotlib.pyplot as plt

    from dmft.plot.command import of_one
    from dmft.plot.style import STYLE, Missing
    if options.get("x") and "sweep" not in result:
        raise InputError(f"x = {options['x']!r} is of a sweep; a run has one network of each width")
    try:
        pictures = of_one(result)
        # those of a whole comparison come last, and are meant where a part has the same
        there = {name: (part, function) for _, name, part, function in pictures}
        chosen = what or next(iter(there))
        if chosen not in there:
            raise InputError(f"what = {chosen!r}: allowed are {' '.join(there)}")
        part, function = there[chosen]
        with plt.rc_context(STYLE):
            figure = function(part, SimpleNamespace(what=chosen, **options))
            # A first figure starts the backend, which a notebook needs when the context is left.
            backend = {key: plt.rcParams[key] for key in ("backend", "interactive")}
        plt.rcParams.update(backend)
        return figure
    except Missing as missing:
        raise InputError(f"{result.path}: {missing}") from None


def _picture(result) -> str:
    """The first picture as an image inside of the page; nothing without matplotlib or data."""
    try:
        import matplotlib.pyplot as plt
        figure = plot(result, None)
    except (ImportError, InputError):
        return ""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=100)
    plt.close(figure)
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}">'


def _number(mean: float, error: float) -> str:
    """A mean with its standard error, for example 0.2508(12); a number without one as it is."""
    if not np.isfinite(mean):
        return "&ndash;"
    if not np.isfinite(error) or error <= 0:
        return f"{mean:.5g}"
    digits = max(0, 1 - int(np.floor(np.log10(error))))
    if digits > 8 or abs(mean) >= 1e6:
        return f"{mean:.3g} &plusmn; {error:.1g}"
    return f"{mean:.{digits}f}({error * 10 ** digits:.0f})"


def _table(head: list[str], rows: list[list[str]]) -> str:
    def row(tag, cells):
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"
    return "<table>" + row("th", head) + "".join(row("td", cells) for cells in rows) + "</table>"


def _losses(run) -> str:
    """The loss over time, of the limit and of each width, with standard errors. Times from which a
    group does not hold any more (valid_until) are marked."""
    columns = [("limit", run["limit"])] if "limit" in run else []
    columns += [(f"N = {N}", data) for N, data in run.reference.items()]
    columns = [(name, data) for name, data in columns if "loss" in data]
    if not columns:
        return ""
    times = columns[0][1]["t"].values
    chosen = times[np.unique(np.linspace(0, len(times) - 1, ROWS).round().astype(int))]
    rows = [[f"{t:g}"] for t in chosen]
    doubtful = False
    for _, data in columns:
        for row, t in zip(rows, chosen):
            one = data.sel(t=t)
            cell = _number(float(one["loss"]), float(one.get("loss_se", np.nan)))
            invalid = bool(t >= data.attrs.get("valid_until", np.inf))
            doubtful = doubtful or invalid
            row.append(cell + "&nbsp;*" * invalid)
    words = "loss, mean and standard error" + "; * does not hold: see the notes" * doubtful
    return f"<p>{words}</p>" + _table(["t", *[name for name, _ in columns]], rows)


def _optima(result) -> str:
    """The best value of the key and the objective there, at each point of the other axes, with
    intervals; or why it is not known."""
    best = result["optimum"].drop_dims("sample", errors="ignore")
    reasons = dict(re.findall(r"(\d+): (.*?)(?:; (?=\d+:)|$)", best.attrs.get("reasons", "")))
    axes = list(best["at"].dims)
    rows = []
    for index in np.ndindex(best["at"].shape):
        one = best.isel(dict(zip(axes, index)))
        place = ["limit" if axis == "N" and np.isinf(value) else
                 f"{value:g}" if isinstance(value, float) else escape(str(value))
                 for axis, value in ((axis, one[axis].item()) for axis in axes)]
        cells = [reasons.get(str(int(one["reason"])), "not known"), ""] \
            if not np.isfinite(one["at"]) else \
            [f"{float(one[name]):.4g} [{float(one[low]):.4g}, {float(one[high]):.4g}]"
             for name, low, high in (("at", "low", "high"),
                                     ("objective", "objective_low", "objective_high"))]
        rows.append([*place, *map(escape, cells)])
    words = f"{best.attrs['key']} where {best.attrs['objective']} is smallest, intervals of 95 %"
    return f"<p>{escape(words)}</p>" + _table([*map(escape, axes), "best", "there"], rows)


def _settings(run) -> str:
    """The keys of the ini that repeats the run, folded."""
    text = str(run["parameters"].attrs.get("ini", "")) if "parameters" in run else ""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return "<details><summary>settings</summary><pre>" + escape("\n".join(lines)) + \
        "</pre></details>" if lines else ""


def html(result) -> str:
    """Of a run, a comparison or a sweep."""
    parts = [f"<p><code>{escape(repr(result))}</code></p>", _picture(result)]
    if "sweep" in result:
        parts.append(_optima(result) if "optimum" in result else "")
    else:
        for side, run in (result.sides or {"": result}).items():
            parts += [f"<h4>{escape(side)}</h4>" * (side != ""), _losses(run)]
    notes = "".join(f"<li>{escape(f'{note.kind}: {note}')}</li>" for note in result.notes)
    parts.append(f"<ul>{notes}</ul>" * (notes != ""))
    first = next(iter(result.sides.values()), result)
    return "".join([*parts, _settings(first)])

"""Pictures of fits along an axis (dmft.extrapolate, dmft.exponent): the points, the curve, and what
follows from it."""
from __future__ import annotations

import numpy as np

from dmft.errors import InputError
from dmft.extrapolation import exponent as exponent_of
from dmft.extrapolation import extrapolate, runs_of, series_of, with_axis
from dmft.judgement import HALF
from dmft.plot.select import Missing, student
from dmft.plot.sweeps import scale


def _half(data, name: str):
    """Half of the 95 % interval of each point: Student's where it is known of how many runs."""
    error, runs = data[name + "_se"], runs_of(data, name)
    return error * (HALF if runs is None else
                    runs.copy(data=student(np.maximum(runs.values, 1) - 1)))


def _last(data, name: str):
    """A Dataset as it is; of a result, or of the path of its file, the series at its last time."""
    found = series_of(data, name)
    return found.isel(t=-1) if found is not data and "t" in found.dims else found


def _points(data, name: str, along: str):
    """x, mean and half of the interval of the points, infinite x among them; and standard errors.
    """
    parts = []
    for error in (_half(data, name), data[name + "_se"]):
        flat = with_axis(data.assign({name + "_se": error}), name, along)
        others = [dim for dim in flat[name].dims if dim != along]
        if others:
            raise InputError(f"{name} has other axes, {', '.join(map(str, others))}: choose a point"
                             " of each, by sel or isel, for a picture of one fit")
        parts.append(flat)
    x, mean, half = (parts[0][key].values.astype(float) for key in (along, name, name + "_se"))
    return x, mean, half, parts[1][name + "_se"].values.astype(float)


def extrapolation(ax, data, name: str, along: str, power: float | None = 1.0, color="C0"):
    """NAME against x^-power, so that infinity is at 0: points with 95 % intervals, the fit a + b
    x^-power of dmft.extrapolate, and a at 0; the point at infinite x (the limit on the axis N), to
    which a is to be compared, is an open square. The label has a, its error and chi^2. Returns the
    fit. Arguments as those of dmft.extrapolate; of a result it is the last time.

    >>> extrapolation(plt.gca(), run.series("loss").isel(t=-1), "loss", "N")    # doctest: +SKIP
    """
    data = _last(data, name)
    found = extrapolate(data, name, along, power)
    x, mean, half, _ = _points(data, name, along)
    p = float(found["power"]) if power is None else power
    if not np.isfinite(p):
        raise InputError(f"no power between .05 and 8 fits {name} along {along}; give one")
    at = np.where(np.isfinite(x), np.abs(x), np.inf) ** -p
    finite = np.isfinite(x)
    a, error = float(found[name + "_inf"]), float(found[name + "_inf_se"])
    largest = np.max(x[finite])  # that of at_largest, whether or not it has a value
    line = np.array([0, at[finite].max()])
    ax.errorbar(at[finite], mean[finite], half[finite], color=color, marker="o", ls="", capsize=2)
    ax.plot(line, a + float(found["at_largest"]) * line * largest ** p, color=color, lw=1.2)
    ax.errorbar([0], [a], [HALF * error], color=color, marker="*", ms=9, capsize=3,
                label=rf"${a:.4g} \pm {HALF * error:.1g}$,  $\chi^2 = "
                      rf"{float(found['chi2']):.1f}$ ({int(found['freedom'])})")
    ax.errorbar(at[~finite], mean[~finite], half[~finite], color="k", marker="s", mfc="none", ls="",
                capsize=3)
    ax.set(xlabel=f"{along}$^{{{-p:.3g}}}$", ylabel=name.replace("_", " "))
    ax.legend(fontsize=8)
    return found


def power_law(ax, data, name: str, along: str, color="C0"):
    """|NAME| against x on logarithmic axes, with 95 % intervals and the power of dmft.exponent,
    whose values below two errors, which the fit leaves out, are open. Returns the fit. Of a result
    it is the last time.

    >>> power_law(plt.gca(), widths, "rms_A1", "N")                     # doctest: +SKIP
    """
    data = _last(data, name)
    found = exponent_of(data, name, along)
    x, mean, half, se = _points(data, name, along)
    good = np.isfinite(x) & (np.abs(mean) > 2 * se)
    if not good.any():
        raise Missing(f"no value of {name} is above two of its errors")
    slope, error = float(found["exponent"]), float(found["exponent_se"])
    weight = (mean[good] / se[good]) ** 2 if np.all(se[good] > 0) else np.ones(good.sum())
    centre = np.average(np.log(np.abs(mean[good])) - slope * np.log(x[good]), weights=weight)
    for some, face in ((good, color), (np.isfinite(x) & ~good, "none")):
        ax.errorbar(x[some], np.abs(mean[some]), half[some], color=color, mfc=face, marker="o",
                    ls="", capsize=2)
    ends = np.array([x[good].min(), x[good].max()])
    ax.plot(ends, np.exp(centre) * ends ** slope, color=color, lw=1.2,
            label=rf"${slope:.2f} \pm {HALF * error:.1g}$,  $\chi^2 = {float(found['chi2']):.1f}$ "
                  f"({int(found['freedom'])})")
    ax.set(xscale="log", yscale="log", xlabel=along, ylabel=name.replace("_", " "))
    scale(ax.xaxis, x)
    scale(ax.yaxis, np.abs(mean[good]))
    ax.legend(fontsize=8)
    return found

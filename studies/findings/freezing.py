"""Do routers freeze in SP, and do they learn in muP, at widths to 4096?

    python/with studies/findings/freezing.py SWEEP.h5 [TABLE.csv [PICTURE.png [SWEEP.h5 ...]]]
    python/with studies/findings/freezing.py --picture TABLE.csv PICTURE.png

Reads sweeps of freezing.ini, and keeps of each network at a few times the entropy of its gates
over ln M, the norm of the gradient of the loss by its router, and the router's tangent kernel. Says
what is seen, and draws it; from the table as well. What a step of the router would be over its norm
at the start, follows from the gradient.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, told, units_of  # noqa: E402
from verdict import WORDS, above, below, interval, judge, of_runs  # noqa: E402

HEAD = ("gate", "parameterization", "rate", "routing", "N", "series", "step",
        "values of each network")
TIMES = (1, 2, 3, 5, 8, 13, 20)
SERIES = {"entropy": r"entropy over $\ln M$", "gradient": "gradient of $Q$",
          "kernel": "tangent kernel of $Q$"}
FROZEN = {"gradient": "gradient of the loss", "kernel": "tangent kernel"}
SIDES = {("sp", "one"): "SP, one rate", ("sp", "N^1/2"): r"SP, rate as $N^{1/2}$",
         ("mup", "one"): "\u03bcP"}


def of_router(data) -> dict:
    """{name: [run, t]}: entropy of the gates over ln M, norm of the loss's gradient of Q, and its
    tangent kernel, each the mean over inputs."""
    square = data["tangent_loss_Q_runs"].values.mean((2, 3))
    return {"entropy": data["router_entropy_runs"].values.mean(2),
            "gradient": np.sqrt(np.maximum(square, 0)),
            "kernel": np.diagonal(data["tangent_Q_runs"].values, axis1=2, axis2=3).mean(2)}


def rows_of(path):
    """The rows of the table of one sweep, of points and widths where no network failed."""
    for unit in units_of(dmft.load(path)):
        keys = unit.parameters
        rate = "N^1/2" if "N^0.5" in str(keys["rates.Q"]) else "one"
        routing = "soft" if keys["network.rho"] == 1 else "top-2"
        for N, data in unit.reference.items():
            for series, values in of_router(data).items():
                for t in (t for t in TIMES if t < values.shape[1]):
                    yield (keys["network.gate"], keys["network.parameterization"], rate, routing,
                           f"{N:g}", series, str(t),
                           " ".join(f"{one:.5g}" for one in values[:, t]))


def points(rows):
    """{(gate, parameterization, rate, routing): {series: {N: {t: [network]}}}}."""
    found = {}
    for row in rows:
        widths = found.setdefault(row[:4], {}).setdefault(row[5], {})
        widths.setdefault(float(row[4]), {})[int(row[6])] = np.array(row[7].split(), float)
    return {key: {series: dict(sorted(widths.items())) for series, widths in one.items()}
            for key, one in sorted(found.items(), key=lambda item: (
                item[0][0] != "softmax", list(SIDES).index(item[0][1:3]), item[0][3]))}


def ends(widths):
    """Samples [width, sample] of the logarithm of the mean at the first time and at the last."""
    return [np.array([of_runs(times[pick(times)], N) for N, times in widths.items()])
            for pick in (min, max)]


def known(N, samples):
    """Widths of which no sample is missing, and their samples."""
    good = np.isfinite(samples).all(1)
    return N[good], samples[good]


def log_of_step(rate, N):
    """Logarithm of the norm of a step of Q over that of Q at the start and the norm of the
    gradient, but for a constant. A step is eta0 sqrt(r) times the latter, which contains sqrt(r),
    for the rate r of the weights: 1, 1/8 N^1/2 or, in muP, 1/N. Q has the norm sqrt(M) in SP and
    sqrt(M/N) in muP."""
    return (0.25 if rate == "N^1/2" else 0) * np.log(N)


def seen(found):
    """(verdict, sentence). Widest and narrowest are compared: along ln N these ratios bend."""
    for (gate, side, rate, routing), series in found.items():
        words = f"{gate}, {SIDES[side, rate].replace('$N^{1/2}$', 'N^1/2')}, {routing}"
        N = np.array(list(series["entropy"]))
        wide, last = known(N, ends(series["entropy"])[1])
        moved = last[-1] - last[0]
        claim = below(np.log(0.75)) if side == "sp" else above(np.log(0.75))
        yield judge(moved, claim), (
            f"{words}: the entropy of the gates at the end "
            f"{'falls' if side == 'sp' else 'stays'}: {', '.join(map(told, last))} at N = "
            f"{', '.join(f'{n:g}' for n in wide)}, times {told(moved)}")
        wide, last = known(N, ends(series["gradient"])[1])
        step = last + log_of_step(rate, wide)[:, None]
        moved = step[1:] - step[:-1]
        yield judge(moved[-1], below(0)), (
            f"{words}: the router's next step, over its norm at the start, is smaller in the "
            f"widest networks than in the next ones, N = {wide[-1]:g} and {wide[-2]:g}: at N = "
            f"{', '.join(f'{n:g}' for n in wide)} from N to N times "
            f"{', '.join(map(told, moved))}; the last over the first "
            f"{told(step[-1] - step[0])}")
        for name, what in FROZEN.items() if side == "sp" else ():
            first, last = ends(series[name])
            wide, later = known(N, last - first)
            yield judge(later[-1], below(np.log(0.5))), (
                f"{words}: after the first step the router's {what} falls to less than half, "
                f"N = {wide[-1]:g}: times {', '.join(map(told, later))} at N = "
                f"{', '.join(f'{n:g}' for n in wide)}")
            moved = later[-1] - later[0]
            yield judge(moved, below(0)), (
                f"{words}: it falls by more, or grows by less, in wider networks: the widest over "
                f"the narrowest {told(moved)}")


def say(found):
    for good, sentence in seen(found):
        print(f"{WORDS[good]}: {sentence}")


def with_bars(ax, times, N, apart, **style):
    """Means of networks over steps, with the intervals of their logarithms where these are known
    and do not span more than a factor of a hundred. apart: by which steps are multiplied, so that
    bars of different lines stand side by side."""
    t = np.array(sorted(times))
    mean = np.array([times[one].mean() for one in t])
    low, high = np.transpose([interval(of_runs(times[one], N)) for one in t])
    known = high - low < np.log(100)
    bars = np.where(known, [mean - np.exp(np.where(known, low, 0)),
                            np.exp(np.where(known, high, 0)) - mean], 0)
    ax.errorbar(t * apart, mean, bars, lw=1, elinewidth=0.8, **style)


def draw(rows, path):
    """A row of panels for each series and gate, a column for each parameterization and rate."""
    import matplotlib.pyplot as plt
    from dmft.plot.select import shades
    from dmft.plot.sweeps import scale
    found = points(rows)
    say(found)
    gates = sorted({key[0] for key in found}, reverse=True)
    figure, axes = plt.subplots(len(SERIES) * len(gates), len(SIDES), squeeze=False, sharex=True,
                                figsize=(8.4, 1.6 * len(SERIES) * len(gates)),
                                layout="constrained")
    for (gate, side, rate, routing), series in found.items():
        column = list(SIDES).index((side, rate))
        for k, (name, label) in enumerate(SERIES.items()):
            ax = axes[gates.index(gate) * len(SERIES) + k, column]
            colours = shades(4)
            for c, ((N, times), shade) in enumerate(zip(series[name].items(), colours)):
                line, apart = ("-", 0.96) if routing == "soft" else ("--", 1.04)
                with_bars(ax, times, N, apart * 1.02 ** (c - 1.5), color=shade, ls=line,
                          label=f"$N = {N:g}$, {routing}")
            if name == "entropy":
                ax.set(ylim=(0, 1.03), title=f"{SIDES[side, rate]}, {gate}")
                ax.title.set_fontsize(9)
            else:
                ax.set_yscale("log")
            if column == 0:
                ax.set_ylabel(label)
    for ax in axes[-1]:
        scale(ax.xaxis, TIMES)
        ax.set_xlabel("step $t$")
    for row in axes:
        means = np.concatenate([line.get_ydata() for ax in row for line in ax.lines])
        for ax in row:
            if ax.get_yscale() == "log":
                ax.set_ylim(np.nanmin(means) / 2, 2 * np.nanmax(means))
            ax.tick_params(labelleft=ax is row[0])
    networks = sorted({str(len(row[7].split())) for row in rows})
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper center", ncol=4, fontsize=8,
                  bbox_to_anchor=(0.5, 0),
                  title=f"means of {', '.join(networks)} networks, bars: 95 % (none where they "
                        "span more than a factor\nof a hundred, or where one network makes more "
                        "than half of the mean)")
    figure.savefig(path, dpi=100, bbox_inches="tight")


def main(path, out=None, picture=None, *more):
    rows = [row for sweep in (path, *more) for row in rows_of(sweep)]
    keep(rows, HEAD, draw, out, picture)
    if not picture:
        say(points(rows))


if __name__ == "__main__":
    command(main, draw)

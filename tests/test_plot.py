"""Pictures: their numbers against tables and against laws known exactly, and the command on whole,
partial and wrong files. Run by tests/python.sh."""
import math
import os
import pathlib
import types
import warnings

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray

import dmft
from dmft.plot import axes, command, figures, maps, select, sweeps, together
from dmft.plot.style import STYLE, Missing, symbol

HERE = os.path.dirname(os.path.abspath(__file__))
STUDENT_4, STUDENT_7 = 2.776445105, 2.364624252  # 97.5 % of Student's t, from a table
WIDTHS = [32, 64, 128]
SMALL = {"solver.sites": 64, "training.steps": 6, "reference.widths": [16, 32],
         "reference.seeds": 3}


def solve(folder, name, ini, **keys):
    out = str(folder / name)
    dmft.solve(os.path.join(HERE, "..", "data", ini), output=out, progress=False, **SMALL | keys)
    return out


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One small output of each kind. So few sites warn, whichever test asks for the files first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmft.NoteWarning)
        yield made(tmp_path_factory.mktemp("runs"))


def made(folder):
    few = {"solver.expert_sites": 64}
    rates = {"sweep": {"network.parameterization": "mup mssp", "training.eta0": [0.2, 0.4, 0.8]},
             "network.model": "regime2", "solver.expert_sites": 64, **SMALL}
    sweep = str(folder / "rates.h5")
    dmft.sweep(rates, output=sweep, progress=False)
    both = str(folder / "sides.h5")
    dmft.compare(os.path.join(HERE, "..", "data", "regime2_compare.ini"), output=both,
                 progress=False, **SMALL | few)
    return {"full": solve(folder, "full.h5", "regime2.ini", **few, **{
        "output.kernels": "full", "output.fields": ["h1", "phi", "g_h3"],
        "output.tangent": "sum", "output.experts": "yes", "output.singular": "Q"}),
            "single": solve(folder, "single.h5", "regime2.ini", **few, **{
                "solver.replicates": 1, "reference.seeds": 1}),
            "few": solve(folder, "few.h5", "regime1.ini"),
            "blocks": solve(folder, "blocks.h5", "residual.ini", **{"solver.unit_sites": 64}),
            "heads": solve(folder, "heads.h5", "transformer.ini", **{
                "network.heads": 2, "data.inputs": 4, "data.tokens": 3, "data.test_inputs": 0,
                "training.steps": 3, "solver.replicates": 2, "output.tangent": "blocks",
                "output.kernels": "full"}),
            "topk": solve(folder, "topk.h5", "regime2.ini", **few, **{"network.rho": 0.5}),
            "dense": solve(folder, "dense.h5", "dense.ini"), "rates": sweep, "sides": both}


@pytest.fixture
def ax():
    yield plt.figure().add_subplot()
    plt.close("all")


def dataset(loss, kernel, se, n, **attrs):
    """A group with loss [t] and one kernel, all standard errors se times the value."""
    values = {"loss": loss, "loss_se": se * np.abs(loss), "K_diag": kernel,
              "K_diag_se": se * np.abs(kernel)}
    variables = {name: (("t", "mu")[:np.ndim(value)], value) for name, value in values.items()}
    variables["n"] = ("t", np.full(len(loss), n))
    data = xarray.Dataset(variables, attrs=attrs)
    data["K_diag"].attrs = {"about": "feature kernel", "equation": "<k k>"}
    return data


def law(se=0.01):
    """loss_N = loss + 2/N at t = 1 and loss + 1e-6/N at t = 2; K = 3 N^-1 at every input."""
    run = {"limit": dataset(np.array([1.0, 0.5, 0.2]), np.ones((3, 2)), 1e-4, 8)}
    for N in WIDTHS:
        loss = np.array([1.0, 0.5 + 2 / N, 0.2 + 1e-6 / N])
        run[f"reference/N{N:04d}"] = dataset(loss, np.full((3, 2), 3 / N), se, 8, N=float(N))
    return run


def test_student():
    """Closed forms for 1, 2 and 4 degrees of freedom, a table, the normal distribution."""
    q = 4 * 0.975 * 0.025
    four = math.sqrt(4 * (math.cos(math.acos(math.sqrt(q)) / 3) / math.sqrt(q) - 1))
    exact = [math.tan(0.475 * math.pi), 0.95 * math.sqrt(2 / (1 - 0.95**2)), four]
    assert np.allclose(select.student([1, 2, 4]), exact, rtol=1e-12)  # some hundred roundings
    assert np.allclose(select.student([[4, 7]]), [[STUDENT_4, STUDENT_7]], rtol=1e-9)
    assert np.isclose(select.student(1e7), 1.959963985, rtol=5e-7)  # it differs by 2.4e-7
    assert np.isnan(select.student(0))


def test_intervals():
    mean, half = select.quantity(law()["reference/N0032"], "K_diag")
    assert np.allclose(mean, 3 / 32, rtol=1e-14)
    assert np.allclose(half, STUDENT_7 * 0.01 * 3 / 32, rtol=1e-9)  # digits of the table


def test_equal_times_of_a_full_kernel(files):
    data = command.load(files["full"])["limit"]
    mean, _ = select.quantity(data, "Phi3")
    K = data["Phi3"].values
    assert mean.dims == ("t",)
    for t in range(6):
        assert np.isclose(mean[t], np.mean([K[t, mu, t, mu] for mu in range(4)]), rtol=1e-14)
    assert np.array_equal(select.quantity(data, "G3")[0], np.diag(data["G3"].values))


def test_equal_rows_of_tokens(files):
    data = command.load(files["heads"])["limit"]
    K = data["Ch_0"].values
    want = [np.trace(K[t, :, t]) / K.shape[1] for t in range(3)]
    assert data["Ch_0"].dims == ("t", "row", "s", "column") and K.shape[1] == 12
    assert np.allclose(select.quantity(data, "Ch_0")[0], want, rtol=1e-14)  # 12 roundings
    C = np.random.default_rng(0).normal(size=(3, 2, 3, 2))  # G3 of two outputs
    data = law()["limit"].assign(G=(("t", "c", "s", "d"), C), G_se=(("t", "c", "s", "d"), C))
    want = [np.trace(C[t, :, t]) / 2 for t in range(3)]
    assert np.allclose(select.quantity(data, "G")[0], want, rtol=1e-14, atol=1e-15)


def test_axes_that_no_picture_knows():
    """K[t][mu][nu][c] and its error: equal inputs, the mean over them and over c."""
    K = np.random.default_rng(0).normal(size=(3, 2, 2, 5))
    data = law()["limit"].assign(K=(("t", "mu", "nu", "c"), K), K_se=(("c", "t"), np.ones((5, 3))))
    mean, half = select.quantity(data, "K")
    assert np.allclose(mean, (K[:, 0, 0] + K[:, 1, 1]).mean(-1) / 2, rtol=1e-14, atol=1e-15)
    assert mean.dims == half.dims == ("t",) and np.allclose(half, STUDENT_7, rtol=1e-9)


def test_one_run_has_no_band(files):
    mean, half = select.quantity(command.load(files["single"])["limit"], "loss")
    assert np.isfinite(mean).all() and np.isnan(half).all()


def test_exponents(ax):
    axes.exponents(ax, law(), {"K": "K_diag"})
    assert np.allclose(ax.lines[0].get_ydata(), -1, atol=1e-12)  # round-off of logs of about 5
    # equal weights 1/h^2, h = t se: h / sqrt(sum of (x - mean)^2), x = log N
    half = STUDENT_7 * 0.01 / np.sqrt(2 * np.log(2) ** 2)
    edge = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert np.allclose([edge.min(), edge.max()], [-1 - half, -1 + half], rtol=1e-9)


def test_exponents_need_error_bars(ax):
    with pytest.raises(Missing, match="error bars"):
        axes.exponents(ax, law(se=np.nan), {"K": "K_diag"})


def test_a_limit_that_is_none_is_dotted(ax):
    """From valid_until on, and not drawn where that is at once."""
    run = law()
    for until, styles in ((1, ["-", ":"]), (0, []), (3, ["-"])):
        ax.clear()
        run["limit"].attrs["valid_until"] = float(until)
        axes.curves(ax, run, "loss")
        lines = [line for line in ax.lines if str(line.get_color()) == "black"]
        assert [line.get_linestyle() for line in lines] == styles
        assert sum(len(line.get_xdata()) for line in lines) == 3 * bool(styles) + (until == 1)


def test_heat_maps(files, ax):
    run = command.load(files["full"])
    K, y = run["limit"]["Phi3"].values, run["data"]["y"].values
    assert list(y) == [1, -1, 1, -1]
    image = axes.input_heat(ax, run, "Phi3", 5).get_array()
    assert image[0, 3] == K[5, 0, 5, 3] and image[1, 2] == K[5, 2, 5, 1]
    image = axes.time_heat(ax, run, "Phi3").get_array()
    assert np.isclose(image[5, 2], np.mean([K[5, mu, 2, mu] for mu in range(4)]), rtol=1e-14)


def shown(figure):
    """{title: image} of the first row of maps; and the limits of all colours."""
    first = [ax for ax in figure.axes if ax.images and ax.get_title()]
    limits = {ax.images[0].get_clim() for ax in figure.axes if ax.images}
    return {ax.get_title(): ax.images[0].get_array() for ax in first}, limits


@pytest.mark.filterwarnings("error")
def test_attention_maps(files, tmp_path, sketched):
    """A row for each head; beside them the one head of the limit."""
    run = command.load(files["heads"])
    figure = maps.figure_attention(run, types.SimpleNamespace(times=None))
    images, limits = shown(figure)
    sides = {r"$N \to \infty$": run["limit"], "$N = 32$": run["reference/N0032"]}
    assert list(images) == [f"{side},  $t = {t}$" for side in sides for t in range(3)]
    for side, data in sides.items():
        first = [name for name in data if name.startswith("attention_")][0]
        for t in range(3):
            np.testing.assert_array_equal(images[f"{side},  $t = {t}$"], data[first][t, 0])
    weights = [data[name][:, 0].values.max() for data in sides.values() for name in data
               if name.startswith("attention_") and not name.endswith("_se")]
    assert limits == {(0, max(weights))}
    rows = [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel()]
    assert rows == ["block 0, head 0\ntoken", "block 0, head 1\ntoken", "weight"]
    assert pictures(files["heads"], tmp_path, "--what", "attention", "--times", "0", "2") == (
        0, [""])


@pytest.mark.filterwarnings("error")
def test_tangent_maps(files, tmp_path, capsys, sketched):
    run = command.load(files["full"])
    images, limits = shown(maps.figure_tangent(run, types.SimpleNamespace(times=[0, 5])))
    order = [0, 2, 1, 3]  # of y = 1 -1 1 -1
    both = [run[name]["tangent"].values for name in ("limit", "reference/N0032")]
    for side, K in zip((r"$N \to \infty$", "$N = 32$"), both):
        for t in (0, 5):
            np.testing.assert_array_equal(images[f"{side},  $t = {t}$"], K[t][np.ix_(order, order)])
    most = max(np.abs(K[[0, 5]]).max() for K in both)
    assert min(K[[0, 5]].min() for K in both) < 0 and limits == {(-most, most)}
    assert pictures(files["full"], tmp_path, "--what", "tangent") == (0, [""])
    run = command.load(files["heads"])  # heads are one in the limit, and the sum of their parts
    net, name = run["reference/N0032"], "tangent_W_O_0"
    assert name in run["limit"] and name not in net
    both = (net[name + "_0"] + net[name + "_1"])[2]
    np.testing.assert_array_equal(maps._part(net, name, 2), both)
    rows = [ax.get_ylabel() for ax in
            maps.figure_tangent(run, types.SimpleNamespace(times=[0, 2])).axes]
    assert rows[0].startswith("all matrices\n") and not any("W_O_0_1" in row for row in rows)
    assert command.main([files["dense"], "--what", "tangent"]) == 2
    assert command.main([files["dense"], "--what", "attention"]) == 2
    said = capsys.readouterr().err
    assert "no tangent: the run had [output] tangent = none" in said
    assert "no attention: no attention weights are in it" in said


def test_words():
    assert symbol("Phi2_0") == r"$\Phi_{2,0}$"
    assert symbol("Gphi") == r"$G_{\phi}$"
    assert symbol("novel") == "novel"


def pictures(path, folder, *arguments):
    """What of a file is drawn: the names between "out_" and ".png"."""
    code = command.main([path, "-o", str(folder / "out.png"), *arguments])
    names = sorted(os.listdir(folder))
    for name in names:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    return code, [name[4:-4] for name in names]


@pytest.mark.filterwarnings("error")
def test_all_pictures(files, tmp_path, capsys, sketched):
    every = sorted(set(figures.FIGURES) - {"attention"})
    want = {"full": every, "single": ["convergence", "gates", "kernels", "loss"],
            "dense": ["convergence", "exponents", "kernels", "loss"]}
    for name, drawn in want.items():
        folder = tmp_path / name
        folder.mkdir()
        known = list(select.kernels_of(command.load(files[name])))
        some = {known[0], known[-1], "G3" if name == "full" else known[0]}  # few are fast to draw
        assert pictures(files[name], folder, "--kernels", *some) == (0, drawn), name
    for name in ("few", "blocks", "topk", "heads"):
        folder = tmp_path / name
        folder.mkdir()
        assert pictures(files[name], folder, "--what", "gates") == (0, [""]), name
    assert capsys.readouterr().err == ""  # nobody has asked for what they have no data for
    assert command.main([files["dense"], "--what", "gates"]) == 2
    assert "no gates: the network" in capsys.readouterr().err


@pytest.mark.filterwarnings("error")
def test_sides(files, tmp_path, capsys, sketched):
    """What dmft-compare writes: every picture of each parameterization, loss and kernels of all on
    one axis, the coordinate check; and the lines of that are the exponents of the file."""
    run = command.load(files["sides"])
    every = {f"{side}_{what}" for side in ("mssp", "mup") for what in figures.FIGURES}
    assert {"_".join(filter(None, picture[:2])) for picture in command.of_one(run)} == \
        every | {*together.FIGURES, "coordinate"}
    assert command.main([files["sides"], "--what", "loss", "-o", str(tmp_path / "out.png")]) == 0
    assert sorted(os.listdir(tmp_path)) == ["out.png", "out_mssp.png", "out_mup.png"]
    picture = figures.figure_coordinate(run.sides, None)
    drawn = picture.axes
    place = 10 * list(run.sides).index("mup")
    assert drawn[3].get_title() == "experts aggregated"
    assert drawn[place].get_ylabel().startswith("\u03bcP")
    part = run.sides["mup"]["compare"]
    (line,) = [line for line in drawn[place + 3].lines if line.get_label() == "initial"]
    np.testing.assert_array_equal(line.get_ydata(), part["rms_A1_exponent"])
    edge = drawn[place + 3].collections[0].get_paths()[0].vertices[:, 1]  # 2 widths of 3 networks
    top = part["rms_A1_exponent"] + STUDENT_4 * part["rms_A1_exponent_se"]
    assert np.isclose(edge.max(), top.max(), rtol=1e-9)
    common = ["initial", "propagating", "effective"]
    for ax in drawn[:2]:  # matrices go by their own names in every network
        assert ax.get_legend_handles_labels()[1] == common
    # once for each title; and the common one beside all, which matplotlib 3.6 has at drawn[4]
    told = [ax.get_title() for ax in drawn if ax.get_legend() and ax is not drawn[4]]
    assert len(told) == len(set(told)) == 5
    (beside,) = picture.legends or [drawn[4].get_legend()]
    assert [text.get_text() for text in beside.get_texts()] == common
    assert command.main([files["few"], "--what", "coordinate"]) == 2
    assert "not made by dmft-compare" in capsys.readouterr().err


@pytest.mark.filterwarnings("error")
def test_several_files_on_one_axis(files, tmp_path, monkeypatch, capsys, coarse):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(STYLE, "figure.constrained_layout.use", True)
    assert command.main([files["full"], files["single"], "--what", "loss"]) == 0
    assert os.listdir(tmp_path) == ["full_single.png"]
    sides = list(command.load(files["sides"]).sides.values())
    ax = together.figure_loss(sides, None).axes[0]
    solid = [line for line in ax.lines if len(line.get_ydata()) and line.get_linestyle() == "-"]
    assert len(solid) == 2
    for line, side in zip(solid, sides):
        np.testing.assert_array_equal(line.get_ydata(), side.limit["loss"])
    assert sorted(together.names(sides)) == ["MSSP", "\u03bcP"]
    assert command.main([files["full"], files["dense"], "--kernels", "Phi9"]) == 2
    assert "no kernel Phi9 in all of them" in capsys.readouterr().err
    assert command.main([files["full"], files["rates"]]) == 2
    assert "no axis in common" in capsys.readouterr().err
    plt.close("all")


@pytest.mark.filterwarnings("error")
def test_sweeps(files, tmp_path, monkeypatch, capsys, coarse):
    """The lines are the losses of the file, of each width and the limit; and a folder alone draws
    the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(STYLE, "figure.constrained_layout.use", True)
    folder = files["rates"].removesuffix(".h5") + ".d"
    assert command.main([files["rates"]]) == 0 and command.main([folder, "-o", "d.png"]) == 0
    assert sorted(os.listdir(tmp_path)) == ["d_sweep.png", "rates_sweep.png"]
    run = command.load(files["rates"])
    drawn = sweeps.figure(run).axes
    assert [ax.get_title() for ax in drawn[:2]] == ["\u03bcP", "MSSP"]
    assert [container.get_label() for container in drawn[0].containers] == [
        "$N = 16$", "$N = 32$", r"$N \to \infty$"]
    line, _, bars = drawn[1].containers[2]
    part = run.sweep.sel({"network.parameterization": "mssp", "N": np.inf})
    np.testing.assert_array_equal(line.get_ydata(), part["loss"])
    top = bars[0].get_segments()[1][:, 1].max()  # 8 replicates
    assert np.isclose(top, part["loss"][1] + STUDENT_7 * part["loss_se"][1], rtol=1e-9)
    assert command.main([files["rates"], files["rates"], "-o", "two.png"]) == 0
    assert command.main([files["rates"], "--what", "loss"]) == 2
    assert "no loss; there is sweep" in capsys.readouterr().err
    plt.close("all")


@pytest.mark.filterwarnings("error")
def test_a_run_that_was_stopped(files, tmp_path, sketched):
    """n = 3 2 1 0 0 0 runs: NaN from t = 3 on, no error from t = 2 on."""
    path = str(tmp_path / "stopped.h5.partial")
    with open(files["full"], "rb") as file, open(path, "wb") as copy:
        copy.write(file.read())
    with h5py.File(path, "r+") as file:
        file.attrs["complete"] = 0
        for group in (file["limit"], file["reference/N0016"], file["reference/N0032"]):
            group["n"][:] = [3, 2, 1, 0, 0, 0]
            for values in group.values():
                dims = str(values.attrs["dims"]).split() if values.dtype.kind == "f" else []
                for axis in (axis for axis, dim in enumerate(dims) if dim in ("t", "s")):
                    values[(slice(None),) * axis + (slice(3, None),)] = np.nan
    run = dmft.load(path)
    assert select.title(run).endswith("(incomplete)")
    options = types.SimpleNamespace(times=None, kernels=["Phi3"])
    figure = figures.figure_kernels(run, options)
    assert "$t = s = 2$" in [ax.get_title() for ax in figure.axes]
    folder = tmp_path / "out"
    folder.mkdir()
    assert pictures(path, folder, "--kernels", "Phi3") == (
        0, sorted(set(figures.FIGURES) - {"attention"}))


@pytest.mark.parametrize("arguments, sentence", [
    (["--what", "kernels", "--kernels", "Phi9"], "no kernel Phi9; there are Phi1 G1"),
    (["--what", "convergence", "--times", "2", "6"], "no step 6; there are 6"),
    (["--what", "sweep"], "no sweep; there is loss kernels"),
    (["--what", "loss", "-o", "nowhere/loss.png"], "No such file"),
    (["--what", "loss", "-o", "loss.xyz"], "not supported")])
def test_wrong_options(files, tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert command.main([files["full"], *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1 and not os.listdir(tmp_path)


def test_a_name_that_is_not_there_fails_the_whole(files, tmp_path, capsys):
    """Also among all pictures, of which the others are drawn."""
    code, drawn = pictures(files["dense"], tmp_path, "--kernels", "Phi9")
    assert code == 2 and drawn == ["convergence", "loss"]


def test_wrong_files(files, tmp_path, capsys):
    cut = tmp_path / "cut.h5"
    with open(files["full"], "rb") as file:
        cut.write_bytes(file.read(3000))
    data = os.path.join(HERE, "..", "data", "fashion_7x7.h5")
    for path, sentence in ((str(tmp_path / "none.h5"), "no such file"),
                           (str(cut), "damaged or incomplete: "),
                           (__file__, "is not a whole HDF5 file"),
                           (HERE, "which has a file grid; it has no result (OUT.h5)"),
                           (os.path.dirname(data), "file grid; load a result in it, as "),
                           (data, "is not an output of dmft-solve, dmft-compare or dmft-sweep")):
        assert command.main([path]) == 2
        said = capsys.readouterr().err
        assert sentence in said and path in said and said.count("\n") == 1


def test_pictures_and_pages_that_cannot_be_written(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command.page, "text", lambda runs, title: title)
    (tmp_path / "x.png").symlink_to("/dev/full")
    (tmp_path / "x.html").symlink_to("/dev/full")
    for place, code, why in (("x", 1, "No space left on device"),
                             ("none/x", 2, "No such file or directory")):
        for option, end, more in (("-o", ".png", ["--what", "loss"]), ("--html", ".html", [])):
            out = str(tmp_path / place) + end
            assert command.main([files["dense"], option, out, *more]) == code
            said = capsys.readouterr().err
            assert said == f"dmft-plot: {files['dense']}: cannot write {out}: {why}\n"


def test_damaged_files(files, tmp_path, monkeypatch, capsys):
    """Cut, or without a part that every file has: one sentence and a code, no traceback."""
    monkeypatch.chdir(tmp_path)
    bad, good = tmp_path / "bad.h5", pathlib.Path(files["dense"]).read_bytes()
    for size in (100, len(good) // 2):
        bad.write_bytes(good[:size])
        assert command.main(["bad.h5", "--what", "loss"]) == 2
        assert capsys.readouterr().err.count("\n") == 1

    def shape(file):
        del file["limit/loss"]
        file["limit/loss"] = np.zeros((2, 2))
    for change in (lambda file: file.__delitem__("parameters"), shape,
                   lambda file: file.attrs.__delitem__("complete"),
                   lambda file: file["limit/loss"].attrs.__delitem__("dims")):
        bad.write_bytes(good)
        with h5py.File(bad, "a") as file:
            change(file)
        assert command.main(["bad.h5", "--what", "loss"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("dmft-plot: bad.h5: ") and said.count("\n") == 1, said

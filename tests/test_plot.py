"""plot/dmft_plot.py: numbers of the pictures against tables and against laws known exactly, and the
command on whole, partial and wrong files. Run by make plot-test; DMFT_SOLVE names the program."""
import os
import subprocess
import types

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray

import dmft_plot

HERE = os.path.dirname(os.path.abspath(__file__))
SOLVE = os.path.abspath(os.environ.get("DMFT_SOLVE", os.path.join(HERE, "..", "dmft-solve")))
STUDENT_7 = 2.364624252  # 97.5 % of Student's t with 7 degrees of freedom, from a table
WIDTHS = [32, 64, 128]


def solve(folder, name, ini, *keys):
    out = str(folder / name)
    subprocess.run([SOLVE, "--quiet", "-o", out, os.path.join(HERE, "..", "data", ini), *keys],
                   check=True, stdout=subprocess.DEVNULL)
    return out


SMALL = ["--solver.sites=64", "--training.steps=6", "--reference.widths=16 32",
         "--reference.seeds=3"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One small output of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    full = [*SMALL, "--solver.expert_sites=64", "--output.kernels=full"]
    return {"full": solve(folder, "full.h5", "regime2.ini", *full),
            "single": solve(folder, "single.h5", "regime2.ini", *SMALL, "--solver.replicates=1",
                            "--solver.expert_sites=64", "--reference.seeds=1"),
            "few": solve(folder, "few.h5", "regime1.ini", *SMALL),
            "blocks": solve(folder, "blocks.h5", "residual.ini", *SMALL, "--solver.unit_sites=64"),
            "dense": solve(folder, "dense.h5", "dense.ini", *SMALL)}


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


def test_load(files):
    run = dmft_plot.load(files["full"])
    assert {"/", "limit", "data", "parameters", "reference/N0016", "reference/N0032"} <= set(run)
    assert run["parameters"].attrs["training.steps"] == 6 and run["/"].attrs["complete"] == 1
    with h5py.File(files["full"]) as file:
        assert run["limit"]["Phi3"].dims == ("t", "mu", "s", "nu")
        assert np.array_equal(run["limit"]["Phi3"], file["limit/Phi3"][:])


def test_intervals():
    mean, half = dmft_plot.quantity(law()["reference/N0032"], "K_diag")
    assert np.allclose(mean, 3 / 32, rtol=1e-14)
    assert np.allclose(half, STUDENT_7 * 0.01 * 3 / 32, rtol=1e-9)  # digits of the table


def test_equal_times_of_a_full_kernel(files):
    data = dmft_plot.load(files["full"])["limit"]
    mean, _ = dmft_plot.quantity(data, "Phi3")
    K = data["Phi3"].values
    assert mean.dims == ("t",)
    for t in range(6):
        assert np.isclose(mean[t], np.mean([K[t, mu, t, mu] for mu in range(4)]), rtol=1e-14)
    assert np.array_equal(dmft_plot.quantity(data, "G3")[0], np.diag(data["G3"].values))


def test_one_run_has_no_band(files):
    mean, half = dmft_plot.quantity(dmft_plot.load(files["single"])["limit"], "loss")
    assert np.isfinite(mean).all() and np.isnan(half).all()


def test_exponents(ax):
    dmft_plot.exponents(ax, law(), {"K": "K_diag"})
    assert np.allclose(ax.lines[0].get_ydata(), -1, atol=1e-12)  # round-off of logs of about 5
    # equal weights 1/h^2, h = t se: h / sqrt(sum of (x - mean)^2), x = log N
    half = STUDENT_7 * 0.01 / np.sqrt(2 * np.log(2) ** 2)
    edge = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert np.allclose([edge.min(), edge.max()], [-1 - half, -1 + half], rtol=1e-9)


def test_exponents_need_error_bars(ax):
    with pytest.raises(dmft_plot.Missing, match="error bars"):
        dmft_plot.exponents(ax, law(se=np.nan), {"K": "K_diag"})


def test_convergence(ax):
    dmft_plot.convergence(ax, law(), [1, 2])
    for k, (gaps, known) in enumerate([(2 / np.array(WIDTHS), True),
                                       (1e-6 / np.array(WIDTHS), False)]):
        points = [one for one in ax.collections if hasattr(one, "get_sizes")
                  and len(one.get_offsets())][k]
        # a difference of numbers of order one
        assert np.allclose(points.get_offsets()[:, 1], gaps, atol=1e-15)
        assert (points.get_facecolors()[:, :3] == 1).all() != known


def test_interval_of_the_difference(ax):
    """Welch: at equal errors and numbers of runs 14 degrees of freedom."""
    run = law()
    for data in run.values():
        data["loss_se"][:] = 0.001
    dmft_plot.convergence(ax, run, [1])
    segment = ax.containers[0].lines[2][0].get_segments()[0]
    assert np.isclose(segment[1, 1] - 2 / 32, 2.144786688 * 0.001 * np.sqrt(2), rtol=1e-9)


def test_heat_maps(files, ax):
    run = dmft_plot.load(files["full"])
    K, y = run["limit"]["Phi3"].values, run["data"]["y"].values
    assert list(y) == [1, -1, 1, -1]
    image = dmft_plot.input_heat(ax, run, "Phi3", 5).get_array()
    assert image[0, 3] == K[5, 0, 5, 3] and image[1, 2] == K[5, 2, 5, 1]
    image = dmft_plot.time_heat(ax, run, "Phi3").get_array()
    assert np.isclose(image[5, 2], np.mean([K[5, mu, 2, mu] for mu in range(4)]), rtol=1e-14)


def test_words():
    assert dmft_plot.symbol("Phi2_0") == r"$\Phi_{2,0}$"
    assert dmft_plot.symbol("Gphi") == r"$G_{\phi}$"
    assert dmft_plot.symbol("novel") == "novel"


def pictures(path, folder, *arguments):
    """What of a file is drawn: the names between "out_" and ".png"."""
    code = dmft_plot.main([path, "-o", str(folder / "out.png"), *arguments])
    names = sorted(os.listdir(folder))
    for name in names:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    return code, [name[4:-4] for name in names]


@pytest.mark.filterwarnings("error")
def test_all_pictures(files, tmp_path, capsys):
    every = sorted(dmft_plot.FIGURES)
    want = {"full": every, "few": every, "blocks": every,
            "single": ["convergence", "gates", "kernels", "loss"],
            "dense": ["convergence", "exponents", "kernels", "loss"]}
    for name, drawn in want.items():
        folder = tmp_path / name
        folder.mkdir()
        assert pictures(files[name], folder) == (0, drawn), name
    said = capsys.readouterr().err
    assert "no exponents: no kernel has error bars" in said and "no gates: the network" in said


@pytest.mark.filterwarnings("error")
def test_sides(files, tmp_path, capsys):
    """What dmft-compare writes: every picture of each parameterization, the coordinate check of
    both; and the lines of that are the exponents of the file."""
    path = str(tmp_path / "sides.h5")
    subprocess.run([SOLVE.replace("dmft-solve", "dmft-compare"), "--quiet", "-o", path, os.path.join(
        HERE, "..", "data", "regime2_compare.ini"), *SMALL, "--solver.expert_sites=64"], check=True,
        stdout=subprocess.DEVNULL)
    folder = tmp_path / "out"
    folder.mkdir()
    every = [f"{side}_{what}" for side in ("mssp", "mup") for what in sorted(dmft_plot.FIGURES)]
    assert pictures(path, folder) == (0, sorted([*every, "coordinate"]))
    run = dmft_plot.load(path)
    axes = dmft_plot.figure_coordinate(run, None).axes
    assert axes[3].get_title() == "experts aggregated" and axes[0].get_ylabel().startswith("\u03bcP")
    stored = run["mup/compare"]["rms_A1_exponent"].values
    lines = [line for line in axes[3].lines if line.get_label() == "initial"]
    np.testing.assert_array_equal(lines[0].get_ydata(), stored)
    for ax in axes[:2]:  # matrices go by their own names in every network
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [
            "initial", "propagating", "effective"]
    assert dmft_plot.main([files["few"], "--what", "coordinate"]) == 2
    assert "not made by dmft-compare" in capsys.readouterr().err


@pytest.mark.filterwarnings("error")
def test_a_run_that_was_stopped(files, tmp_path):
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
    run = dmft_plot.load(path)
    assert dmft_plot.title(run).endswith("(incomplete)")
    options = types.SimpleNamespace(times=None, kernels=["Phi3"])
    figure = dmft_plot.figure_kernels(run, options)
    assert "$t = s = 2$" in [ax.get_title() for ax in figure.axes]
    for data in run.values():
        data.close()
    folder = tmp_path / "out"
    folder.mkdir()
    assert pictures(path, folder) == (0, sorted(dmft_plot.FIGURES))


@pytest.mark.parametrize("arguments, sentence", [
    (["--what", "kernels", "--kernels", "Phi9"], "no kernel Phi9; there are Phi1 Phi3"),
    (["--what", "convergence", "--times", "2", "6"], "no step 6; there are 6"),
    (["--what", "loss", "-o", "nowhere/loss.png"], "No such file"),
    (["--what", "loss", "-o", "loss.xyz"], "not supported"),
])
def test_wrong_options(files, tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert dmft_plot.main([files["full"], *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1 and not os.listdir(tmp_path)


def test_wrong_files(files, tmp_path, capsys):
    cut = tmp_path / "cut.h5"
    with open(files["full"], "rb") as file:
        cut.write_bytes(file.read(3000))
    data = os.path.join(HERE, "..", "data", "fashion_7x7.h5")
    for path, sentence in ((str(tmp_path / "none.h5"), "No such file"), (str(cut), "truncated"),
                           (__file__, "is not a whole HDF5 file"), (str(tmp_path), "directory"),
                           (data, "is not an output of dmft-solve")):
        assert dmft_plot.main([path]) == 2
        said = capsys.readouterr().err
        assert sentence in said and path in said and said.count("\n") == 1

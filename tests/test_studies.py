"""plot/studies.py: the runs of a sweep and their order, and each study, made small. Run by make
plot-test."""
import os
import subprocess

import numpy as np
import pytest

import dmft_plot
import studies

HERE = os.path.dirname(os.path.abspath(__file__))
SWEEP = os.path.abspath(os.environ.get("DMFT_SWEEP", os.path.join(HERE, "..", "dmft-sweep")))
SMALL = {"fig1_regime2": ["--solver.sites=64", "--solver.expert_sites=64"],
         "regime3": ["--solver.sites=64", "--solver.expert_sites=16", "--solver.unit_sites=16"],
         "routers_freeze": [], "lr_transfer": ["--solver.sites=128", "--solver.expert_sites=128"]}


def sweep(folder, name, *keys):
    out = str(folder / f"{name}.h5")
    subprocess.run([SWEEP, "--quiet", "-o", out, os.path.join(HERE, "..", "studies", name + ".ini"),
                    "--reference.widths=16 32", "--reference.seeds=3", "--training.steps=4", *keys,
                    *SMALL[name]], check=True, stdout=subprocess.DEVNULL)
    return out


@pytest.mark.parametrize("name", studies.FIGURES)
def test_every_study_gives_a_picture(tmp_path, name):
    if name == "routers_freeze" and not os.path.exists("/usr/share/datasets/fashion-mnist"):
        pytest.skip("no dataset-fashion-mnist here")
    out = sweep(tmp_path, name)
    assert studies.main([out, "-o", str(tmp_path / "picture.png")]) == 0
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_runs_belong_to_their_points(tmp_path):
    """The keys in the file of each run, and its loss at the end, are those of the point."""
    summary, runs = studies.load(sweep(tmp_path, "lr_transfer"))
    loss = summary["sweep"]["loss"]
    assert len(runs) == 20
    for (name, eta0), run in runs.items():
        attrs = run["parameters"].attrs
        assert (attrs["network.parameterization"], attrs["training.eta0"]) == (name, eta0)
        part = loss.sel({studies.PARAMETERIZATION: name, "training.eta0": eta0})
        for N, data in dmft_plot.widths_of(run, 2):
            assert np.isclose(part.sel(N=N), data["loss"][-1], rtol=1e-14)
        assert np.isclose(part.sel(N=np.inf), run["limit"]["loss"][-1], rtol=1e-14)


def test_keys_that_vary_together(tmp_path):
    """A list of points is one axis; its keys are coordinates and have their own places."""
    axis = "training.gamma0,network.kappa"
    ini = tmp_path / "list.ini"
    with open(os.path.join(HERE, "..", "studies", "lr_transfer.ini"), encoding="utf-8") as file:
        text = file.read().split("[sweep]")[0]
    ini.write_text(text + "[sweep]\ntraining.eta0 = 1 2\n"
                   "training.gamma0, network.kappa = 1 0.5 | 0.5 0.25\n", encoding="utf-8")
    out = str(tmp_path / "list.h5")
    subprocess.run([SWEEP, "--quiet", "-o", out, str(ini), "--reference.widths=16",
                    "--reference.seeds=2", "--training.steps=3", *SMALL["lr_transfer"]], check=True,
                   stdout=subprocess.DEVNULL)
    summary, runs = studies.load(out)
    loss = summary["sweep"]["loss"]
    assert loss.dims == ("training.eta0", axis, "N")
    assert list(runs) == [(1, 1, 0.5), (1, 0.5, 0.25), (2, 1, 0.5), (2, 0.5, 0.25)]
    assert list(loss["network.kappa"].values) == [0.5, 0.25]
    assert list(loss[axis].values) == ["1 0.5", "0.5 0.25"]
    for (eta0, gamma0, kappa), run in runs.items():
        attrs = run["parameters"].attrs
        assert (attrs["training.eta0"], attrs["training.gamma0"], attrs["network.kappa"]) == \
            (eta0, gamma0, kappa)
        part = loss.sel({"training.eta0": eta0}).where(loss["network.kappa"] == kappa, drop=True)
        assert np.isclose(part.sel(N=np.inf).item(), run["limit"]["loss"][-1], rtol=1e-14)
    plain = studies.xarray.open_dataset(out, group="sweep", engine="h5netcdf")
    assert "network.kappa" in plain.coords


def test_refusals(tmp_path, capsys):
    single = str(tmp_path / "regime3.h5")
    assert studies.main([str(tmp_path / "what.h5")]) == 2
    assert "no study of this name" in capsys.readouterr().err
    subprocess.run([SWEEP.replace("dmft-sweep", "dmft-solve"), "--quiet", "-o", single,
                    os.path.join(HERE, "..", "data", "dense.ini"), "--training.steps=2",
                    "--solver.sites=16", "--reference.widths="], check=True,
                   stdout=subprocess.DEVNULL)
    assert studies.main([single]) == 2
    assert "is not an output of dmft-sweep" in capsys.readouterr().err

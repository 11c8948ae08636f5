"""The figures of studies/, each made small, and the runs of a sweep in their order. Run by
tests/python.sh."""
import os

import numpy as np
import pytest

import dmft
from dmft.plot import studies
from dmft.plot.select import widths_of

HERE = os.path.dirname(os.path.abspath(__file__))
PARAMETERIZATION = "network.parameterization"
SITES = {"solver.sites": 64, "solver.expert_sites": 64}
SMALL = {"fig1_regime2": SITES, "routers_freeze": {}, "lr_transfer": SITES,
         "regime3": {"solver.sites": 64, "solver.expert_sites": 16, "solver.unit_sites": 16}}
FEW = {"reference.widths": [16, 32], "reference.seeds": 3, "training.steps": 4}


def sweep(folder, name):
    out = str(folder / f"{name}.h5")
    dmft.sweep(os.path.join(HERE, "..", "studies", name + ".ini"), output=out, progress=False,
               **FEW | SMALL[name])
    return out


@pytest.mark.parametrize("name", studies.FIGURES)
def test_every_study_gives_a_picture(tmp_path, name):
    if name == "routers_freeze" and not os.path.exists("/usr/share/datasets/fashion-mnist"):
        pytest.skip("no dataset-fashion-mnist here")
    out = sweep(tmp_path, name)
    assert studies.main([out, "-o", str(tmp_path / "picture.png")]) == 0
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    if name == "fig1_regime2":
        runs_belong_to_their_points(dmft.load(out))


def runs_belong_to_their_points(run):
    """The keys in the file of each run, and its loss at the end, are those of the point."""
    loss, points = run.sweep["loss"], run.points
    assert len(points) == 2
    for (name,), point in points.items():
        assert point.parameters[PARAMETERIZATION] == name
        part = loss.sel({PARAMETERIZATION: name})
        for N, data in widths_of(point, 2):
            assert np.isclose(part.sel(N=N), data["loss"][-1], rtol=1e-14)
        assert np.isclose(part.sel(N=np.inf), point.limit["loss"][-1], rtol=1e-14)


def test_keys_that_vary_together():
    """A list of points is one axis; its keys are coordinates and have their own places."""
    axis = "training.gamma0,network.kappa"
    run = dmft.sweep({"network.model": "regime2", "reference.widths": 16, "reference.seeds": 2,
                      "training.steps": 3, **SITES, "sweep": {
                          "training.eta0": [1, 2], axis: [(1, 0.5), (0.5, 0.25)]}},
                     progress=False)
    loss = run.sweep["loss"]
    assert loss.dims == ("training.eta0", axis, "N")
    assert list(run.points) == [(1, 1, 0.5), (1, 0.5, 0.25), (2, 1, 0.5), (2, 0.5, 0.25)]
    assert list(loss["network.kappa"].values) == [0.5, 0.25]
    assert list(loss[axis].values) == ["1 0.5", "0.5 0.25"]
    for (eta0, gamma0, kappa), point in run.points.items():
        keys = point.parameters
        assert (keys["training.eta0"], keys["training.gamma0"], keys["network.kappa"]) == \
            (eta0, gamma0, kappa)
        part = loss.sel({"training.eta0": eta0}).where(loss["network.kappa"] == kappa, drop=True)
        assert np.isclose(part.sel(N=np.inf).item(), point.limit["loss"][-1], rtol=1e-14)


def test_refusals(tmp_path, capsys):
    single = str(tmp_path / "regime3.h5")
    assert studies.main([str(tmp_path / "what.h5")]) == 2
    assert "no study of this name" in capsys.readouterr().err
    dmft.solve(os.path.join(HERE, "..", "data", "dense.ini"), output=single, progress=False, **{
        "training.steps": 2, "solver.sites": 16, "reference.widths": []})
    assert studies.main([single]) == 2
    assert "it is not of dmft-sweep" in capsys.readouterr().err

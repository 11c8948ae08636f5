"""Sweeps whose inputs are not in the files of their runs are put together."""
import os

import dmft
import numpy as np
from dmft import data

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def test_a_sweep_of_a_text_without_inputs(tmp_path):
    keys = {"data.file": os.path.join(ROOT, "README.md"), "data.inputs": 24, "data.test_inputs": 4,
            "training.steps": 5, "training.batch": 6, "output.test_every": 2,
            "reference.widths": [16], "reference.seeds": 2, "sweep.training.eta0": [0.25, 0.5]}
    run = dmft.sweep(os.path.join(ROOT, "data", "text.ini"), progress=False,
                     output=str(tmp_path / "text.h5"), **keys)
    loss = run.sweep["loss"]
    assert loss.sizes["training.eta0"] == 2 and np.isfinite(loss.sel(N=16)).all()
    assert np.isfinite(run.sweep["test_loss"].sel(N=16)).all()


def test_a_sweep_of_tokens_of_a_file_without_inputs(tmp_path):
    """One pass through its 24 inputs is 6 batches of 4, whatever the key inputs says, which is not
    read with a file."""
    tokens = np.arange(24 * 3).reshape(24, 3) ** 2 % 5
    data.write(tmp_path / "tokens.h5", data.Data({"tokens": tokens, "y": tokens[:, ::-1]}))
    run = dmft.sweep({"network.model": "transformer", "network.depth": 1, "network.experts": 0},
                     progress=False, **{"data.source": "file",
                     "data.file": str(tmp_path / "tokens.h5"), "training.batch": 4,
                     "training.steps": 40, "training.loss": "cross_entropy",
                     "solver.replicates": 0, "output.kernels": "none", "output.inputs": "none",
                     "reference.widths": [8], "reference.seeds": 2, "sweep.training.eta0": [1, 2]})
    assert "(over the last 6 times)" in run.report


def test_a_sweep_of_vectors_without_inputs():
    run = dmft.sweep({"network.model": "dense", "network.depth": 1}, progress=False, **{
        "data.source": "multi_index", "data.inputs": 8, "data.dimension": 4, "training.batch": 4,
        "training.steps": 3, "solver.replicates": 0, "output.kernels": "none",
        "output.inputs": "none", "reference.widths": [8], "reference.seeds": 2,
        "sweep.training.eta0": [0.1, 0.2]})
    assert np.isfinite(run.sweep["loss"].sel(N=8)).all()

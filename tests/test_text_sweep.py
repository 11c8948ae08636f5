"""A sweep over a text, whose inputs are not in the files of its runs, is put together."""
import os

import dmft
import numpy as np

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

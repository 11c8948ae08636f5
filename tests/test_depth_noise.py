"""studies/findings/depth_noise.py: what it says of losses that are known, and of small sweeps."""

import importlib.util
import os
import sys

import numpy as np
import pytest

import dmft
from test_findings import written

HERE = os.path.dirname(os.path.abspath(__file__))
STUDIES = os.path.join(HERE, "..", "studies")
sys.path.insert(0, STUDIES)
SPEC = importlib.util.spec_from_file_location(
    "depth_noise", os.path.join(STUDIES, "findings", "depth_noise.py"))
study = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(study)


def losses(curve):
    """Twenty-four networks with errors of a fiftieth, one set for all rates."""
    noise = 0.02 * np.random.default_rng(3).standard_normal(24)
    return {rate: value * (1 + noise - noise.mean()) for rate, value in curve.items()}


@pytest.mark.parametrize("moved, lower, verdicts", (
    (1.0, 0.7, ("shown", "shown")), (2.0, 0.7, ("shown", "contradicted")),
    (1.0, 1.3, ("contradicted", "shown"))))
def test_gains_and_shifts_of_known_curves(moved, lower, verdicts, capsys):
    rates = np.geomspace(0.25, 1.414214, 6)
    curve = {rate: 1 + np.log(rate / 0.6) ** 2 for rate in rates}
    other = {rate: lower * (1 + np.log(rate / moved / 0.6) ** 2) for rate in rates}
    if moved != 1:  # compared at the same rates
        other = {rate: 0.4 * value for rate, value in other.items()}
    study.tell({("normal", 0.25, 64): losses(curve), ("normal", 4.0, 64): losses(other)})
    first, last = capsys.readouterr().out.splitlines()
    assert f": {verdicts[0]}: " in first and f"within 1.25: {verdicts[1]}" in last


@pytest.mark.filterwarnings("ignore")
def test_small_sweeps_are_read_and_drawn(tmp_path, capsys):
    made = []
    for name in ("depth_noise", "depth_noise_none"):
        sections = written(name + ".ini")
        for key, value in {"data.inputs": 12, "data.dimension": 4, "data.test_inputs": 4,
                           "training.steps": 7, "training.batch": 2, "reference.seeds": 3,
                           "output.test_every": 6}.items():
            section, key = key.split(".")
            sections[section][key] = value
        sections["sweep"] = {"network.alpha": "4 0.5", "training.eta0": "0.5 0.707107 1"}
        made.append(dmft.sweep(sections, output=str(tmp_path / name) + ".h5", progress=False).path)
    study.main(made[0], str(tmp_path / "out.csv"), str(tmp_path / "out.png"), made[1])
    said = capsys.readouterr().out
    assert "second matrix zero" in said and "second matrix normal" in said
    with open(tmp_path / "out.png", "rb") as file:
        assert file.read(4) == b"\x89PNG"

"""docs/python.md can be pasted block by block, into one session."""
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What the first block makes, in a size that takes seconds.
SMALLER = (*((f'{{"steps": {steps}}}', '{"steps": 3}, "solver": {"sites": 64, "replicates": 2}')
             for steps in (20, 50)),
           ('"training.steps": 50', "**FEW"),
           ('{"sweep": {"program.b"', '{**FEW, "sweep": {"program.b"'),
           ("logspace(0.1, 6, 8)", "logspace(0.1, 6, 4)"),
           ("sizes=[1, 0.5, 0.25], powers=[0, 0.5, 1]", "sizes=[1, 0.25], powers=[0, 1]"),
           ("logspace(0.5, 4, 10)", "logspace(0.5, 4, 3)"), ("[64, 128]", "[8, 16]"),
           (r"parameterization = mup\n", r"parameterization = mup\n[training]\nsteps = 3\n[solver]"
            r"\nsites = 64\nexpert_sites = 64\nreplicates = 2\n"),
           ("widths = 64 128", "widths = 8 16"))


@pytest.mark.filterwarnings("ignore")
def test_blocks_run_one_after_the_other(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    assert len(blocks) >= 6
    assert all(any(whole in block for block in blocks) for whole, _ in SMALLER)
    session = {"FEW": {"training.steps": 3, "solver.sites": 64, "solver.replicates": 2}}
    for block in blocks:
        for whole, part in SMALLER:
            block = block.replace(whole, part)
        exec(block, session)  # pylint: disable=exec-used
    assert "rates" in session and "found" in session

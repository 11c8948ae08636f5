"""Numbers of each token, pooled: a balancing loss of each sequence by itself, as docs/programs.md
writes it."""
import dmft
import dmft.torch
import numpy as np
import pytest
from common import ROOT, ROUND_OFF

HEAD = """
local M, K = 4, 2
local x = tanh(read_in(population("bottom"), "W1"))
local up = population("top")
local psi = bias(look(x, M, {name = "Q", a0 = 0}), {0.6, 0.2, -0.3, -0.5}, "b")
local e = exp(psi)
local mask, q = top(psi, K), e / sum(e)
local p, h = mask * e / sum(mask * e), nil
for i = 1, M do local y = p[i] * tanh(map(x, up, "W2_" .. i)); h = h and h + y or y end
"""
KEYS = {"data.inputs": 4, "data.tokens": 3, "data.dimension": 10, "training.eta0": 0.4}


@pytest.fixture
def ini(tmp_path):
    with open(f"{ROOT}/docs/programs.md", encoding="utf-8") as page:
        text = page.read()
    start = text.index("penalty(M / K * sum(pool(mask)")
    script = HEAD + text[start:text.index("```", start)] + 'read_out(h, "w")\n'
    (tmp_path / "seq.lua").write_text(script)
    path = tmp_path / "seq.ini"
    path.write_text("[network]\nprogram = seq.lua\n")
    return str(path)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_the_balance_of_each_sequence(ini):
    """Looks are 0 at the start of the limit: all tokens choose the first two of four experts."""
    run = dmft.solve(ini, progress=False, **KEYS, **{
        "training.steps": 2, "solver.sites": 128, "solver.replicates": 2, "reference.widths": 32,
        "reference.seeds": 2})
    q = np.exp([0.6, 0.2, -0.3, -0.5])
    for side in (run.limit, run.reference[32]):
        assert abs(side["aux"].values[0] - 2 * (q[0] + q[1]) / q.sum()) < 1e-13
        assert side["aux"].values[1] < side["aux"].values[0] - 1e-3


def test_it_trains_as_in_pytorch(ini):
    found = dmft.torch.verify(ini, 12, **KEYS, **{"training.steps": 5})
    assert found.largest < ROUND_OFF, found

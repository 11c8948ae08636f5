"""Networks of the program come back: dmft.torch.Network of an ini, read as somebody's module
without looking inside, has the outputs and the gradients that it had."""
import glob
import os

import dmft
import dmft.torch
import pytest
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INIS = [os.path.relpath(path, ROOT) for folder in ("data", "examples")
        for path in sorted(glob.glob(os.path.join(ROOT, folder, "*.ini")))]
# No network alone, and a text that make text writes.
ELSEWHERE = {"data/regime2_compare.ini", "data/text.ini"}
# Widths of inis whose draws need more.
WIDE = {"data/fashion10.ini": (64, 128), "data/residual_multi_index.ini": (64, 128)}


def inputs_of(path, widths):
    """(an example for the module of an ini, the function of its output and penalties)."""
    first = dmft.torch.Network(path, N=widths[0], centre=False)
    torch.manual_seed(1)
    shape = (60, first.program.tokens)
    if first.program.vocabulary:
        x = torch.randint(first.program.vocabulary, shape)
    else:
        x = torch.randn(*(shape if first.program.tokens > 1 else shape[:1]), first.dimension)

    def output(net, x):
        f = net(tokens=x) if first.program.vocabulary else net(x)
        return f, net.penalty
    return x, output


def read_again(ini):
    """The import of the module of an ini."""
    widths, path = WIDE.get(ini, (16, 32)), os.path.join(ROOT, ini)
    x, output = inputs_of(path, widths)
    return dmft.torch.import_module(lambda N: dmft.torch.Network(path, N=N, centre=False), x,
                                    widths, output=output)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("ini", [ini for ini in INIS if ini not in ELSEWHERE])
def test_networks_come_back(ini):
    mine = read_again(ini)
    assert mine.difference < 1e-12, mine.differences    # round-off; 2e-15 has been seen

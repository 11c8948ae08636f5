"""Random networks beside PyTorch, fifty of them (tests/random/networks.py; make check-random has
five hundred), and that a fault is found among them."""
import os
import sys

import pytest
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "random"))
import networks  # noqa: E402
import programs  # noqa: E402
from dmft.torch import Network  # noqa: E402

torch.set_num_threads(1)
NETWORKS = 50


@pytest.mark.filterwarnings("ignore")
def test_random_networks(tmp_path):
    tally = networks.Tally(str(tmp_path / "kept"))
    for seed in range(1, 1 + NETWORKS):
        tally.look_at(seed, str(tmp_path))
    assert tally.bad == 0, str(tally)  # what differs is printed
    assert tally.networks >= NETWORKS - 5 and tally.failed <= 5, str(tally)


def test_programs_follow_from_the_seed():
    for limit in (False, True):
        assert programs.draw(7, limit) == programs.draw(7, limit)
        assert programs.draw(7, limit).lua != programs.draw(8, limit).lua


@pytest.mark.filterwarnings("ignore")
def test_a_fault_is_found(tmp_path, monkeypatch, capsys):
    """Rates of all matrices of rows wrong by a thousand-millionth."""
    right = Network._group

    def group(net, W, *more):
        made = right(net, W, *more)
        return made | {"lr": made["lr"] * (1 + 1e-9 * (W.kind == "map"))}

    monkeypatch.setattr(Network, "_group", group)
    tally = networks.Tally(str(tmp_path / "kept"))
    for seed in range(1, 13):
        tally.look_at(seed, str(tmp_path))
    assert tally.bad >= 6, str(tally)
    said = capsys.readouterr().out
    assert "differs first at step" in said and "kept as" in said and "read_out(" in said
    assert len(list((tmp_path / "kept").glob("*.ini"))) == tally.bad

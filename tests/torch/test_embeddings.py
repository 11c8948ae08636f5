"""Trained vectors of numbers (embed), numbers of the input, and matrices with two uses: trained by
dmft-solve and by PyTorch, which finds every gradient by itself, from the same weights."""
import pytest
import torch
from common import OPTIMIZERS, ROUND_OFF

import dmft
import dmft.torch

LETTERS = """[data]
source = markov
inputs = 4
tokens = 4
vocabulary = 4
[training]
steps = 5
loss = cross_entropy
"""
NUMBERS = """[data]
source = gaussian
inputs = 6
dimension = 5
[training]
steps = 5
"""
TIED = """local E = {name = "E", tied = true, s_f = 1.5, rate = 2.25, adam_rate = 1.5}
local p = population("p")
local h = embed(input(1, vocabulary), p, E) + embed(input(6, 8), p, "P")
h = h + map(tanh(norm(h)), p, "W")
"""
PROGRAMS = {
    "the read-out": (LETTERS, TIED + "output(2 * read_out(norm(h), E))"),
    "the read-out alone": (LETTERS, TIED + "read_out(norm(h), E)"),
    "a look": (LETTERS, TIED + """output(look(norm(h), vocabulary, E)
        + read_out(h, "w"))"""),
    "three uses": (LETTERS, TIED + """h = h + embed(softmax(look(h, vocabulary, E)), p, E)
        output(read_out(norm(h), E))"""),
    "numbers of an input": (NUMBERS, """local p = population("p")
        local x = tanh(embed(input(2, 4), p, "A") + read_in(p, "B"))
        read_out(map(x, p, "W") + embed(relu(input(1, 5)), p, "C"), "w")"""),
    "numbers that learn": (NUMBERS, """local p, q = population("p"), population("q")
        local x = tanh(read_in(p, "B"))
        read_out(tanh(embed(gelu(look(x, 3, "down")), q, {name = "up", s_f = 2, rate = 4})), "w")
        """),
}


def ini_of(tmp_path, text: str, program: str) -> str:
    """An ini with this program, and both beside each other."""
    (tmp_path / "p.lua").write_text(program)
    (tmp_path / "p.ini").write_text("[network]\nprogram = p.lua\n" + text)
    return str(tmp_path / "p.ini")


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("name, optimizer", [(name, one) for name in PROGRAMS for one in OPTIMIZERS
                                             if name == "three uses" or one in ("gd", "adamw")])
def test_gradients_are_those_of_autograd(tmp_path, name, optimizer):
    decay = {} if optimizer == "adam" else {"training.weight_decay": 0.01}
    found = dmft.torch.verify(ini_of(tmp_path, *PROGRAMS[name]), 16, **{
        "training.optimizer": optimizer, "training.gamma0": 1.5, "training.clip": 0.5,
        "solver.replicates": 0} | decay)
    assert found.largest < ROUND_OFF, found


@pytest.mark.parametrize("name", ["three uses", "numbers of an input"])
def test_test_inputs_have_numbers_of_their_own(tmp_path, name):
    text, program = PROGRAMS[name]
    ini = ini_of(tmp_path, text.replace("[training]", "test_inputs = 3\n[training]"), program)
    keys = {"training.batch": 2, "reference.centre": "no", "solver.replicates": 0,
            "reference.widths": 16, "reference.seeds": 1}
    run, test = dmft.solve(ini, progress=False, **keys), dmft.torch.data(ini, test=True, **keys)
    net = dmft.torch.Network(ini, 16, weights="dmft", **keys)
    loss = net.loss(net(test.X), test.y).item()
    assert abs(loss - run.reference[16]["test_loss_runs"].values[0, 0]) < 1e-13


def test_a_table_of_letters_is_a_read_in_of_letters(tmp_path):
    """Of letters alone X/sqrt D is 1 at the letter, so that both are one network."""
    nets = []
    for first in ("read_in(p, \"E\")", "embed(input(1, vocabulary), p, \"E\")"):
        program = f"local p = population(\"p\")\nread_out(tanh({first}), \"w\")"
        ini = ini_of(tmp_path, LETTERS + "eta0 = 0.3\n", program)
        nets.append(dmft.torch.Network(ini, 16, **{"data.positions": "no"}))
    nets[1].load_state_dict(nets[0].state_dict())
    tokens = torch.arange(12).reshape(3, 4) % 4
    assert torch.equal(nets[0](tokens=tokens), nets[1](tokens=tokens))
    assert [group["lr"] for group in nets[0].parameter_groups()] == \
        [group["lr"] for group in nets[1].parameter_groups()]

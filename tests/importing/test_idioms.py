"""Routers of public code, as practitioners write them: each is the module with its outputs, all of
its gradients, and eight steps of SGD, Adam and AdamW; or one sentence with its line."""
import dmft
import dmft.torch
import idioms
import idioms_gates
import idioms_refused
import modules
import pytest
from test_import import ROUND_OFF, refusal
from test_training import OPTIMIZERS, OTHER, WIDTH, compared

READ = {one.__name__: one for one in [*idioms.IDIOMS, *idioms_gates.IDIOMS]}
# Of each way to choose, one.
TRAINED = ("MaxRouter", "Topk2Cols", "ConstBias", "BiasParam", "Kth", "StraightThrough", "Unbind",
           "Groups", "Llama4", "GptOss", "TokHash", "CosineRouter", "Copies", "MoD",
           "GroupsHidden")


def example(build):
    """Inputs of a router: letters, numbers of tokens, or numbers."""
    if issubclass(build, (idioms.OfLetters, idioms_gates.MoD)):
        return modules.letters(40)
    return modules.numbers(96)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("name", READ)
def test_outputs_and_gradients_are_those_of_the_router(name):
    mine = dmft.torch.import_module(READ[name], example(READ[name]), (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_his_loop_and_ours_are_one(name, kind):
    build = READ[name]
    compared((build, lambda: example(build), {}), OPTIMIZERS[kind],
             OTHER if kind == "adamw" else WIDTH)


@pytest.mark.parametrize("build, words", idioms_refused.REFUSED.items(),
                         ids=[one.__name__ for one in idioms_refused.REFUSED])
def test_what_is_not_read_is_named_with_its_line(build, words):
    sentence = refusal(build, example(build))
    assert words in sentence and "idioms_refused.py:" in sentence, sentence


def test_a_loop_over_chosen_experts_needs_the_same_at_both_widths():
    sentence = refusal(idioms_gates.SharedGate, modules.numbers(1))
    assert "comes to other ones at the two widths" in sentence and "idioms_gates.py:" in sentence

"""Attention of public code: packed and shared keys, rotary positions, temperatures, norms, caps."""
import dmft
import dmft.torch
import modules
import pytest
from attentions import ATTENTIONS, build_of
from test_import import ROUND_OFF
from test_training import OPTIMIZERS, OTHER, WIDTH, compared

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


@pytest.mark.parametrize("name", ATTENTIONS)
def test_outputs_and_gradients_are_those_of_the_module(name):
    mine = dmft.torch.import_module(build_of(ATTENTIONS[name]), modules.letters(), (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


@pytest.mark.parametrize("name", ["Grouped", "Packed", "PackedByHead", "Latent", "Temperature"])
@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_his_loop_and_ours_are_one(name, kind):
    compared((build_of(ATTENTIONS[name]), modules.letters, {}), OPTIMIZERS[kind],
             OTHER if kind == "adamw" else WIDTH)

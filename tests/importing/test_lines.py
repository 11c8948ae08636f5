"""Refusals of what is found after a module has been read name the line that it is about."""
import inspect
import os
import warnings

import dmft
import dmft.torch
import idioms
import modules
import pytest
import refused
import torch
from refused import Two
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


def line_of(function, words: str = "# here") -> str:
    """The one line of a function that has these words."""
    lines, first = inspect.getsourcelines(function)
    (k,) = [k for k, line in enumerate(lines) if words in line]
    return f"{os.path.basename(inspect.getsourcefile(function))}:{first + k}"


@pytest.mark.parametrize("middle", [*refused.NUMBERS_IN, *refused.LETTERS_IN],
                         ids=lambda middle: middle.__name__)
def test_a_refusal_is_a_sentence_with_its_line_and_what_to_do(middle):
    letters = middle in refused.LETTERS_IN
    said, mend = (refused.LETTERS_IN if letters else refused.NUMBERS_IN)[middle]
    example = modules.letters() if letters else modules.numbers()
    with pytest.raises(dmft.InputError) as error:
        dmft.torch.import_module(lambda N: Two(N, middle, letters), example, (16, 32))
    sentence = str(error.value)
    assert said in sentence and mend in sentence and line_of(middle) in sentence, sentence
    assert "\n" not in sentence and "network.lua" not in sentence, sentence


class Shared(nn.Module):
    """One tensor that reads inputs and is read out."""

    def __init__(self, N):
        super().__init__()
        self.read = nn.Linear(modules.NUMBERS, N, bias=False)

    def forward(self, x):
        h = torch.tanh(self.read(x))
        return h @ self.read.weight


def test_a_parameter_of_several_matrices_has_its_lines():
    with pytest.raises(dmft.InputError, match="read.weight is used as several matrices") as error:
        dmft.torch.import_module(Shared, modules.numbers(), (16, 32))
    for words in ("self.read(x)", "h @ self"):
        assert line_of(Shared, words) in str(error.value), error.value


def test_a_choice_that_the_example_does_not_decide_has_its_line():
    """A router of zeros chooses by ties, which are broken otherwise at other inputs."""
    def build(N):
        module = modules.Dispatched(N)
        nn.init.zeros_(module.router.weight)
        return module
    with pytest.raises(dmft.InputError, match="never chose.* 24 or more rows") as error:
        dmft.torch.import_module(build, modules.numbers(), (16, 32))
    assert line_of(modules.Dispatched.mix, ".topk(") in str(error.value), error.value


def grows(module, h):
    if h.abs().max() < 1e3:  # here
        return torch.tanh(h)
    return torch.relu(h)


def takes(module, h):
    size = h.abs().max().item()  # here
    return torch.tanh(h) if size < 1e3 else torch.relu(h)


@pytest.mark.parametrize("middle", [grows, takes])
def test_a_branch_that_no_compared_input_takes_is_said_with_its_line(middle):
    with pytest.warns(dmft.NoteWarning, match="cannot be told, since a decision on data") as said:
        dmft.torch.import_module(lambda N: Two(N, middle), modules.numbers(), (16, 32))
    (note,) = [str(one.message) for one in said if "decision" in str(one.message)]
    assert line_of(middle) in note, note


def test_a_loop_over_experts_is_compared_with_some_that_no_row_chose():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*a decision on data", dmft.NoteWarning)
        dmft.torch.import_module(idioms.MaxRouter, modules.numbers(96), (16, 32))


class Named(Two):
    """Gives its output a name."""

    def forward(self, x):
        return {"outputs": super().forward(x)}


def test_what_returns_no_output_is_told_where():
    with pytest.raises(dmft.InputError, match="returns a dict; give output=") as error:
        dmft.torch.import_module(Named, modules.numbers(), (16, 32))
    assert line_of(Named, "def forward") in str(error.value), error.value


def twice(gradient):
    return 2 * gradient


@pytest.mark.parametrize("word", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_of_a_parameter_is_refused(word):
    """It would act on the gradients of both sides that are compared."""
    def build(N):
        module = Two(N)
        getattr(module.second.weight, word)(twice)
        return module
    with pytest.raises(dmft.InputError, match="second.weight has a hook .* scale the lr") as error:
        dmft.torch.import_module(build, modules.numbers(), (16, 32))
    assert line_of(twice, "def twice") in str(error.value)


class OneSided(Two):
    """The whole is computed without a gradient."""

    @torch.no_grad()
    def forward(self, x):
        h = self.read(x)
        return self.head(torch.tanh(h))[:, 0]


def test_a_module_without_gradients_is_told_to_have_them():
    with pytest.raises(dmft.InputError, match="let the forward pass run with gradients") as error:
        dmft.torch.import_module(OneSided, modules.numbers(), (16, 32))
    assert line_of(OneSided, "return self.head") in str(error.value)


# {what an optimizer is told: (the optimizers of a module, the line of which function or module)}
TOLD = {
    "second.weight is in 2 of the optimizers.*give it to one": (lambda m: [
        torch.optim.SGD(m.parameters(), 0.1), torch.optim.SGD([m.second.weight], 0.1)], Two),
    "read.weight decays by 0 at N = 16 .*give it one weight_decay": (lambda m: torch.optim.AdamW(
        m.parameters(), 0.1, weight_decay=0.5 if m.N > 16 else 0), Two),
    "Adagrad is not known here; SGD": (lambda m: torch.optim.Adagrad(m.parameters()), None),
    "Adam with amsgrad .* leave it out": (
        lambda m: torch.optim.Adam(m.parameters(), amsgrad=True), None),
    "differ in betas.* give them one": (lambda m: torch.optim.Adam(
        [{"params": [m.read.weight], "betas": (0.5, 0.9)}, {"params": [m.head.weight]}]), None),
    "gives a int; it must give an optimizer": (lambda m: 3, None),
    "ends with AttributeError.*; let it be a function of the module": (
        lambda m: torch.optim.Adam(m.weights()), None)}


@pytest.mark.parametrize("words", TOLD)
def test_what_an_optimizer_is_told_has_a_line(words):
    mine = dmft.torch.import_module(Two, modules.numbers(), (16, 32))
    optimizer, what = TOLD[words]
    with pytest.raises(dmft.InputError, match=words) as error:
        mine.as_trained(optimizer)
    first = inspect.getsourcelines(optimizer)[1]
    ours = [f"test_lines.py:{first + k}:" for k in range(3)]
    assert line_of(Two, "self.read(x)" if "read" in words else "self.second(") in str(error.value) \
        if what else any(line in str(error.value) for line in ours), error.value


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_muon_of_what_reads_inputs_has_a_line():
    mine = dmft.torch.import_module(Two, modules.numbers(), (16, 32))
    with pytest.raises(dmft.InputError, match="has a side that does not grow") as error:
        mine.as_trained(lambda module: [
            torch.optim.Muon([module.read.weight], 0.1),
            torch.optim.AdamW([one for name, one in module.named_parameters()
                               if name != "read.weight"], 0.1)])
    assert line_of(Two, "self.read(x)") in str(error.value), error.value

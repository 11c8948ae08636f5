"""Attention that sees some tokens: those of a sequence that are no padding, by the ways in which it
is written."""
import math

import dmft
import dmft.torch
import numpy as np
import pytest
import torch
from test_limit import approach
from test_training import OPTIMIZERS, STEPS, WIDTH, his_outputs
from torch import nn
from torch.nn import functional as F

LETTERS, PLACES, ROUND_OFF = 6, 5, 1e-12
LEAST = torch.finfo(torch.float32).min


def example(rows=24):
    """Letters of which 0 is padding; the first of a sequence never is."""
    x = torch.randint(0, LETTERS, (rows, PLACES), generator=torch.Generator().manual_seed(2))
    x[:, 0] = x[:, 0].clamp(min=1)
    return x


def fill(logits, x):
    return logits.masked_fill((x == 0)[:, None], -math.inf)


def least(logits, x):
    return logits + (1.0 - (x != 0).to(logits.dtype))[:, None, :] * LEAST


def bert(logits, x):
    return logits + (1.0 - (x != 0).to(logits.dtype))[:, None, :] * -10000.0


def where(logits, x):
    return torch.where((x != 0).unsqueeze(1), logits, LEAST)


def causal(logits, x):
    seen = torch.ones(PLACES, PLACES).tril().bool()
    return logits.masked_fill((x == 0)[:, None], LEAST).masked_fill(~seen, -math.inf)


def either(logits, x):
    return logits.masked_fill(((x == 0) | (x == 3))[:, None], LEAST)


def both(logits, x):
    later = torch.ones(PLACES, PLACES).triu(1).bool()
    return logits.masked_fill(torch.logical_or(later, (x == 0)[:, None]), LEAST)


def window(logits, x):
    seen = torch.ones(PLACES, PLACES).tril().triu(-1).bool()
    return logits.masked_fill(~seen, -math.inf)


def alibi(logits, x):
    at = torch.arange(PLACES)
    return causal(logits - 0.5 * (at[:, None] - at).abs(), x)


def added(logits, x):
    """As nn.MultiheadAttention adds key_padding_mask to attn_mask."""
    later = torch.zeros(PLACES, PLACES).masked_fill(torch.ones(PLACES, PLACES).triu(1).bool(),
                                                    -math.inf)
    return logits + (later + torch.zeros(len(x), 1, PLACES).masked_fill((x == 0)[:, None], LEAST))


class Attention(nn.Module):
    """Of one head, behind the letters and places of a sequence."""

    def __init__(self, N, hide=None):
        super().__init__()
        self.letter, self.place = nn.Embedding(LETTERS, N), nn.Embedding(PLACES, N)
        self.q, self.k, self.v = (nn.Linear(N, N, bias=False) for _ in range(3))
        self.head, self.hide = nn.Linear(N, LETTERS, bias=False), hide

    def attended(self, h, x):
        """Values of the tokens that are seen."""
        logits = self.hide(self.q(h) @ self.k(h).mT / h.shape[-1], x)
        return logits.softmax(-1) @ self.v(h)

    def forward(self, x):
        h = self.letter(x) + self.place(torch.arange(x.shape[1]))
        return self.head(torch.tanh(h + self.attended(h, x)))


class Fused(Attention):
    """By the operation of PyTorch."""

    def attended(self, h, x):
        h = h[:, None]
        seen = (x != 0)[:, None, None, :]
        y = F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h), attn_mask=seen)
        return y[:, 0]


class Layer(nn.Module):
    """PyTorch's own layer."""

    def __init__(self, N):
        super().__init__()
        self.letter, self.head = nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS, bias=False)
        self.layer = nn.TransformerEncoderLayer(N, 2, 2 * N, 0.0, batch_first=True)

    def forward(self, x):
        return self.head(self.layer(self.letter(x), src_key_padding_mask=x == 0))


WAYS = (fill, least, bert, where, causal, either, both, window, alibi, added)
BUILDS = {one.__name__: lambda N, one=one: Attention(N, one) for one in WAYS} | {
    "fused": Fused, "layer": Layer}


@pytest.mark.filterwarnings("ignore:no output depends")
@pytest.mark.parametrize("name", BUILDS)
def test_padding_is_not_seen(name):
    mine = dmft.torch.import_module(BUILDS[name], example(), (16, 32))
    assert mine.difference < ROUND_OFF


def test_a_branch_on_letters_that_the_example_lacks_is_found():
    class Hides(Attention):
        def attended(self, h, x):
            if (x == 0).any():          # of which no letter of the example is
                h = h * (x != 0)[..., None]
            return self.v(h)
    with pytest.raises(dmft.InputError, match=r"branch on data \(.*if \(x == 0\).any\(\):"):
        dmft.torch.import_module(Hides, example().clamp(min=1), (16, 32))


@pytest.mark.parametrize("name, kind", [("least", "sgd"), ("causal", "adam")])
def test_it_trains_as_its_owner_does(name, kind):
    mine = dmft.torch.import_module(BUILDS[name], example(), (16, 32))
    run = dmft.solve(mine.settings, network=mine.as_trained(OPTIMIZERS[kind]), progress=False, **{
        "training.steps": STEPS, "reference.widths": WIDTH, "reference.seeds": 1,
        "solver.replicates": 0, "output.weights": "initial"})
    his = his_outputs(mine, BUILDS[name], run, OPTIMIZERS[kind])
    ours = run.reference[WIDTH]["f"].values
    assert np.abs(his - ours).max() < ROUND_OFF * np.abs(ours).max()


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_it_approaches_the_limit():
    approach(dmft.torch.import_module(BUILDS["least"], example(), (16, 32)), "sgd")


def masked(m, x):
    """With padding that the tokenizer would say."""
    return m(x, attention_mask=(x != 0).long()).logits


@pytest.mark.parametrize("name, output", [
    ("Llama", masked), ("GPT2", masked), ("Mistral", lambda m, x: m(x).logits), ("Bert", masked)])
@pytest.mark.filterwarnings("ignore:no output depends")
def test_models_of_transformers_have_masks(name, output):
    """A mask beside the tokens, and a sliding window."""
    transformers = pytest.importorskip("transformers")
    shape = {"vocab_size": LETTERS, "num_hidden_layers": 1, "num_attention_heads": 2,
             "max_position_embeddings": PLACES, "pad_token_id": None} | {
        "GPT2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
        "Mistral": {"sliding_window": 2, "num_key_value_heads": 2},
        "Bert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}}.get(name, {})
    model = getattr(transformers, {"GPT2": "GPT2LMHeadModel", "Bert": "BertForMaskedLM"}.get(
        name, name + "ForCausalLM"))

    def build(N):
        return model(getattr(transformers, name + "Config")(
            hidden_size=N, **{} if name == "GPT2" else {"intermediate_size": 2 * N},
            tie_word_embeddings=False, **shape))
    assert dmft.torch.import_module(build, example(), (16, 32),
                                    output=output).difference < ROUND_OFF

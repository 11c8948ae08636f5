"""Models of the package transformers as it writes them, at small sizes and otherwise at their
default settings: grouped experts, rotary positions, caches, float32 inside."""
import warnings

import dmft
import dmft.torch
import numpy as np
import pytest
import torch
from test_limit import approach, settings_of
from test_training import OPTIMIZERS, ROUND_OFF, his_outputs

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
LETTERS, PLACES, WIDTH = 11, 5, 16


def causal(kind, N, **more):
    """A model of two layers and two heads."""
    config = getattr(transformers, kind + "Config")(**{
        "vocab_size": LETTERS, "hidden_size": N, "intermediate_size": 2 * N,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": N // 2, "max_position_embeddings": PLACES} | more)
    return getattr(transformers, kind + "ForCausalLM")(config)


def gpt2(N, **more):
    """GPT-2 without dropout."""
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{
        "vocab_size": LETTERS, "n_positions": PLACES, "n_embd": N, "n_layer": 2, "n_head": 2,
        "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "tie_word_embeddings": False} | more))


def scaled(kind, **more):
    """Llama with rotary positions for longer texts."""
    return lambda N: causal("Llama", N, rope_theta=1e4, rope_scaling={"rope_type": kind} | more)


def latent(N, kind="DeepseekV3", **more):
    """Attention of DeepSeek, with keys and values of a smaller layer, and its groups of experts."""
    return causal(kind, N, **{
        "num_key_value_heads": 2, "moe_intermediate_size": 2 * N, "n_routed_experts": 8,
        "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
        "q_lora_rank": N // 2, "kv_lora_rank": N // 2, "qk_rope_head_dim": N // 4,
        "qk_nope_head_dim": N // 2, "v_head_dim": N // 2, "head_dim": N // 4,
        "pad_token_id": None} | more)


BUILDS = {
    "gpt2": gpt2,
    "llama": lambda N: causal("Llama", N),
    "mixtral": lambda N: causal("Mixtral", N, num_local_experts=4),
    "mixtral_loop": lambda N: causal("Mixtral", N, num_local_experts=4,
                                     experts_implementation="eager"),
    "olmoe": lambda N: causal("Olmoe", N, num_experts=4, num_experts_per_tok=2, pad_token_id=None),
    "qwen3": lambda N: causal("Qwen3Moe", N, num_experts=4, num_experts_per_tok=2,
                              moe_intermediate_size=2 * N),
    "linear": scaled("linear", factor=2.0), "dynamic": scaled("dynamic", factor=2.0),
    "llama3": scaled("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                     original_max_position_embeddings=4),
    "phi3": lambda N: causal("Phi3", N, pad_token_id=None),
    "glm4_moe": lambda N: causal("Glm4Moe", N, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
                                 topk_group=1, moe_intermediate_size=2 * N, n_shared_experts=1),
    "opt": lambda N: transformers.OPTForCausalLM(transformers.OPTConfig(
        vocab_size=LETTERS, hidden_size=N, ffn_dim=2 * N, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=PLACES, word_embed_proj_dim=N,
        dropout=0, tie_word_embeddings=False)),
    "deepseek_v2": lambda N: latent(N, "DeepseekV2"),
    "deepseek_v3": lambda N: latent(N, rope_interleave=False, experts_implementation="eager"),
}
REFUSED = {
    "yarn": (scaled("yarn", factor=4.0, original_max_position_embeddings=4),
             "yarn and longrope, .* rope_type default, linear or dynamic.*modeling_llama.py:"),
    "in_turn": (latent, "rope_interleave=False in transformers.*modeling_deepseek_v3.py:"),
}


def example():
    """Tokens."""
    return torch.randint(LETTERS, (24, PLACES), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", BUILDS)
def test_outputs_and_gradients_are_those_of_the_model(name):
    mine = dmft.torch.import_module(BUILDS[name], example(), (16, 32))
    assert mine.difference < ROUND_OFF
    assert set(mine.names) == {key for key, _ in BUILDS[name](16).named_parameters()}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_named_with_its_line(name):
    build, words = REFUSED[name]
    with pytest.raises(dmft.InputError, match=words):
        dmft.torch.import_module(build, example(), (16, 32))


# Powers of N of the standard deviation and of the rate of Adam: the root of d in attention is in q
# and k, a fourth root in each, through the rotary positions; the router ends in few numbers.
POWERS = {"self_attn.q_proj": (-0.75, -1.25), "self_attn.k_proj": (-0.75, -1.25),
          "self_attn.v_proj": (-0.5, -1), "mlp.gate.": (-1, -1), "experts.gate_up": (-0.5, -1),
          "experts.down": (-0.5, -1), "norm": (0, 0), "embed_tokens": (0, 0), "lm_head": (-1, -1)}


def test_a_plan_of_mixtral_needs_no_change_of_it():
    plan = dmft.torch.plan(BUILDS["mixtral"], example(), {"N": 16}, widths={"N": (16, 32)})
    assert not plan.notes
    for word, powers in POWERS.items():
        entries = [one for one in plan._content["parameters"] if word in one["names"][0]]
        assert entries, word
        for one in entries:
            assert (one["parts"][0]["std"].get("N", 0), one["adam"].get("N", 0)) == powers, word
    model = BUILDS["mixtral"](64)
    plan.initialize(model)
    assert plan.sizes(model) == {"N": 64} and len(plan.groups(model, lr=1e-3)) > 2


@pytest.mark.parametrize("kind, key", [("Mixtral", "num_local_experts"), ("Olmoe", "num_experts"),
                                       ("Qwen3Moe", "num_experts")])
def test_many_experts_and_blocks_are_planned_from_few(kind, key):
    def build(N, E, L):
        return causal(kind, N, num_hidden_layers=L, num_experts_per_tok=2, pad_token_id=None,
                      num_key_value_heads=2, **{key: E}, **(
                          {"moe_intermediate_size": 2 * N} if kind == "Qwen3Moe" else {}))

    def few(N, E, L):
        assert max(E, L) <= 8
        return build(N, E, L)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmft.NoteWarning)   # the root of d, which is said
        plan = dmft.torch.plan(few, example(), {"N": 16}, widths={"N": (16, 32)},
                               counts={"E": 64, "L": 10})
        direct = dmft.torch.plan(lambda N: build(N, 6, 2), example(), {"N": 16},
                                 widths={"N": (16, 32)})
    with torch.device("meta"):
        large = build(32, 64, 10)
    assert plan.sizes(large) == {"N": 32, "E": 64, "L": 10}
    model, rates = build(64, 6, 2), []
    for one in (plan, direct):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dmft.NoteWarning)   # other numbers of experts
            rates.append({id(p): {key: value for key, value in group.items() if key != "params"}
                          for group in one.groups(model, lr=1e-3, weight_decay=0.1)
                          for p in group["params"]})
    assert rates[0] == rates[1] and len(rates[0]) == len(list(model.parameters()))


def test_the_number_of_experts_of_mixtral_grows_as_in_a_module_of_ones_own():
    """The laws are those of examples/torch/language_model.py, which is the same network but for
    rotary positions, gated units and normalized gates."""
    def build(N, M):
        return causal("Mixtral", N, intermediate_size=4, num_hidden_layers=1, num_key_value_heads=2,
                      num_local_experts=M, num_experts_per_tok=M // 4)
    widths = {"N": (16, 32), "M": (4, 8)}
    assert dmft.torch.import_module(build, example(), widths).difference < ROUND_OFF
    for word, down in (("mup", ({}, {})), ("mssp", ({"M": 0.5}, {}))):
        plan = dmft.torch.plan(build, example(), {"N": 64, "M": 16}, word, widths=widths)
        assert not plan.notes
        laws = {one["names"][0].split(".")[-1]: (one["parts"][0]["std"], one["adam"])
                for one in plan._content["parameters"] if "experts" in one["names"][0]}
        assert laws == {"gate_up_proj": ({"N": -0.5}, {"N": -1}), "down_proj": down}, word


@pytest.mark.parametrize("name, kind", [("gpt2", "adam"), ("mixtral_loop", "sgd"),
                                        ("mixtral_loop", "adam"), ("llama", "adam"),
                                        ("linear", "adam"), ("dynamic", "adam"),
                                        ("llama3", "adam"), ("deepseek_v3", "adam")])
def test_his_loop_and_ours_are_one(name, kind):
    trained(BUILDS[name], kind)


def trained(build, kind):
    """Fails unless his loop and ours are one."""
    optimizer = OPTIMIZERS[kind]
    mine = dmft.torch.import_module(build, example(), (16, 32), check=False)
    run = dmft.solve(mine.settings, network=mine.as_trained(optimizer), progress=False, **{
        "training.steps": 8, "reference.widths": WIDTH, "reference.seeds": 1,
        "solver.replicates": 0, "output.weights": "initial", "output.inputs": "all"})

    def doubled(N):
        module = mine._builds.at(N)
        return InDouble(module)
    his = his_outputs(mine, doubled, run, optimizer)
    ours = run.reference[WIDTH]["f_runs"].values[0].reshape(his.shape)
    assert np.abs(his - ours).max() < ROUND_OFF * np.abs(his).max()


def over_d(build):
    """With attention over d in place of its root."""
    def made(N):
        model = build(N)
        for one in model.modules():
            if hasattr(one, "scaling"):
                one.scaling = one.scaling ** 2
        return model
    return made


# Of a packed matrix, or behind a norm with a gain, the root of d can go into no matrix.
LIMITS = {name: over_d(BUILDS[name]) if name in ("gpt2", "olmoe", "qwen3") else BUILDS[name]
          for name in ("gpt2", "llama", "mixtral", "olmoe", "qwen3")}


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("name", LIMITS)
def test_models_approach_the_limit(name):
    mine = dmft.torch.import_module(LIMITS[name], example(), (16, 32))
    approach(mine, "sgd", {32: 16, 64: 12, 128: 8})


@pytest.mark.parametrize("name", ["gpt2", "olmoe", "qwen3"])
def test_a_root_of_d_that_no_matrix_can_have_is_named(name):
    mine = dmft.torch.import_module(BUILDS[name], example(), (16, 32))
    assert mine.left and all("attention" in one.place for one in mine.left), mine.left
    with pytest.raises(dmft.InputError, match=r"grows as N\^0.5, so that there is no limit.*py:\d"):
        dmft.solve(settings_of(mine, "sgd"), network=mine.network, progress=False)
    with pytest.warns(dmft.NoteWarning, match="multiply it by"):
        plan = dmft.torch.plan(BUILDS[name], example(), {"N": 16}, widths={"N": (16, 32)})
    assert plan.notes


class InDouble(torch.nn.Module):
    """A model whose float32 inside is float64, and whose output are its logits."""

    def __init__(self, model):
        super().__init__()
        self.__dict__["model"] = model

    def named_parameters(self, *_, **__):
        return self.model.named_parameters()

    def parameters(self, *_, **__):
        return self.model.parameters()

    def double(self):
        return self

    def forward(self, x):
        from dmft.torch.importing.record import call
        return call(self.model, x)[0]


def test_its_load_balancing_loss_is_a_penalty():
    def output(model, x):
        found = model(x)
        return found.logits, 0.02 * found.aux_loss
    mine = dmft.torch.import_module(
        lambda N: causal("Mixtral", N, num_local_experts=4, output_router_logits=True), example(),
        (16, 32), output=output)
    assert mine.difference < ROUND_OFF and "terms of the loss" in mine.differences


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_a_head_that_is_the_embedding_trains_as_his(kind):
    """GPT-2 at its default."""
    trained(lambda N: gpt2(N, tie_word_embeddings=True), kind)


def over_the_width(N):
    """GPT-2 at its default, with attention over d and logits over N."""
    model = over_d(lambda N: gpt2(N, tie_word_embeddings=True))(N)
    model.lm_head.register_forward_hook(lambda module, given, out: out / N)
    return model


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_head_that_is_the_embedding_has_a_limit_over_the_width(kind):
    """What a token's own embedding leaves on the stream makes a logit that is not 0 at the start,
    at any width, so that nothing is subtracted."""
    mine = dmft.torch.import_module(over_the_width, example(), (16, 32))
    assert not mine.left
    approach(mine, kind, {32: 48, 64: 36, 128: 24}, centre="no")


def test_a_padding_token_is_read():
    mine = dmft.torch.import_module(lambda N: causal("Llama", N, pad_token_id=1),
                                    example(), (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences

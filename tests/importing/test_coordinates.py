"""dmft.torch.coordinate_check of imports: rows of tensors, part by part, beside what the modules of
PyTorch themselves take and give."""
import dmft
import dmft.torch
import modules
import numpy as np
import pytest
import torch
from dmft.torch.importing.record import InDouble, doubles
from torch import nn
from torch.nn import functional as F

X, TOKENS = modules.numbers(96), modules.letters()
ADAM = {"adam": lambda model: torch.optim.Adam(model.parameters(), 1e-2)}


class Experts(nn.Module):
    """Two of four experts for each row, on the rows that chose them."""

    def __init__(self, N):
        super().__init__()
        layer = lambda n, m: nn.Linear(m, n, bias=False)
        self.read, self.router, self.head = layer(N, 7), layer(4, N), layer(1, N)
        self.up = nn.ModuleList(layer(2 * N, N) for _ in range(4))
        self.down = nn.ModuleList(layer(N, 2 * N) for _ in range(4))

    def forward(self, x):
        x = torch.tanh(self.read(x))
        scores, chosen = self.router(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for e, (up, down) in enumerate(zip(self.up, self.down)):
            row, slot = torch.where(chosen == e)
            out.index_add_(0, row, down(torch.relu(up(x[row]))) * scores[row, slot, None])
        return self.head(x + out)[:, 0]


class Stacked(Experts):
    """The same with two tensors for all experts."""

    def __init__(self, N, E=4, blocks=1):
        nn.Module.__init__(self)
        layer = lambda n, m: nn.Linear(m, n, bias=False)
        self.read, self.head = layer(N, 7), layer(1, N)
        self.router = nn.ModuleList(layer(E, N) for _ in range(blocks))
        self.up = nn.ParameterList(torch.randn(E, 2 * N, N) * N ** -0.5 for _ in range(blocks))
        self.down = nn.ParameterList(torch.randn(E, N, 2 * N) * N ** -0.5 for _ in range(blocks))

    def forward(self, x):
        x = torch.tanh(self.read(x))
        for router, up, down in zip(self.router, self.up, self.down):
            scores, chosen = router(x).softmax(-1).topk(2, -1)
            gates = torch.zeros(len(x), len(up)).scatter(-1, chosen, scores)
            hidden = torch.relu(torch.einsum("pn,emn->pem", x, up)) * gates[..., None]
            x = x + torch.einsum("pem,enm->pn", hidden, down)
        return self.head(x)[:, 0]


def checked(mine, data, **more):
    """By the tensors of an import, and by the modules of the same models."""
    widths, more = [16, 32, 64], {"optimizers": ADAM} | more
    by_module = dmft.torch.coordinate_check(
        in_double(mine), widths,
        tuple(one.double() if one.is_floating_point() else one for one in data), **more)
    return dmft.torch.coordinate_check(mine, widths, data, **more), by_module


def in_double(mine):
    """build, in the precision of the import."""
    def build(N):
        module = mine._builds.of_sizes([N], torch.initial_seed())
        forward = module.forward

        def called(*given):
            with InDouble(), doubles():
                return forward(*given)
        module.forward = called
        return module
    return build


def same(found, other, name, parts=("init", "prop", "eff"), row=None):
    """Asserts that a row of both is the same to round-off."""
    for part in parts:
        ours, theirs = found.rms["adam"][name][part], other.rms["adam"][row or name][part]
        assert np.all(theirs) or part == "prop"
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-13, err_msg=f"{name} {part}")


def test_tensors_of_experts_are_compared_on_the_same_rows():
    """Every layer is a tensor of its own here, so that rows of both kinds are the same: an expert
    has at the start and at the end other rows, of which both find those that it has twice."""
    found, other = checked(dmft.torch.import_module(Experts, X, (16, 32)), (X, X[:, 0]), steps=6)
    for name in ("read", "router", "head", *(f"{of}.{e}" for of in ("up", "down")
                                             for e in range(4))):
        same(found, other, name)
    same(found, other, "output", ("init", "eff"))
    same(found, other, "(itself): softmax", ("init", "eff"))
    assert not found.left_out


def test_an_expert_without_rows_is_left_out_by_name():
    """Of one row two experts of four are chosen."""
    mine = dmft.torch.import_module(Experts, X, (16, 32))
    found = dmft.torch.coordinate_check(mine, [32], (X[:1], X[:1, 0]), seeds=1, steps=0,
                                        optimizers=ADAM)
    model = mine._builds.of_sizes([32], 0)
    chosen = model.router(torch.tanh(model.read(X[:1].double()))).topk(2).indices[0].tolist()
    assert found.left_out["adam"] == {
        f"{of}.{e}": "eff: it is never called, or with no tokens, at width 32"
        for of in ("up", "down") for e in range(4) if e not in chosen}
    assert {f"up.{e}" for e in chosen} < set(found.rms["adam"])


def test_stacked_experts_and_packed_matrices_are_judged_part_by_part():
    """One tensor for all experts has a row for each, equal to that of experts that are modules;
    queries, keys and values of one matrix are six rows of two heads, which together are what the
    module gives."""
    mine = dmft.torch.import_module(Stacked, X, (16, 32))
    found, other = checked(mine, (X, X[:, 0]))
    assert {f"up.0[{e}]" for e in range(4)} <= set(found.rms["adam"])
    assert "up.0" not in found.rms["adam"] and "up.0" not in other.rms["adam"]
    same(found, other, "read")
    both = dmft.torch.import_module(modules.Transformer, TOKENS, (16, 32))
    loss = lambda f, y: F.cross_entropy(f.flatten(0, 1), y.flatten())
    found, other = checked(both, (TOKENS, TOKENS.flip(1)), loss=loss, steps=2)
    rows = found.rms["adam"]
    parts = [rows[f"attention.1.qkv[{k} of 6]"] for k in range(1, 7)]
    for part in ("prop", "eff"):        # the module's has the bias, too, which changes slowly
        together = np.sqrt(np.mean([one[part] ** 2 for one in parts], axis=0))
        ours, theirs = together, other.rms["adam"]["attention.1.qkv"][part]
        assert np.all(abs(ours / theirs - 1) < 0.1), part
    same(found, other, "attention.0: logits", ("init", "eff"))
    same(found, other, "head")
    same(found, other, "output", ("init", "eff"))
    assert rows["norms.0.bias"]["init"][0] == 0 and rows["norms.0.bias"]["eff"][0] > 0


class Cosines(nn.Module):
    """Attention by cosines times a trained number, with a bias of the distance."""

    def __init__(self, N):
        super().__init__()
        self.wte, self.head = nn.Embedding(modules.LETTERS, N), nn.Linear(N, modules.LETTERS)
        self.q, self.k = (nn.Linear(N, N, bias=False) for _ in range(2))
        self.t = nn.Parameter(torch.ones(()))

    def forward(self, t):
        x, places = self.wte(t), torch.arange(t.shape[1])
        q, k = (F.normalize(one(x), dim=-1) for one in (self.q, self.k))
        logits = q @ k.mT * self.t.exp() - (places[:, None] - places).abs()
        return self.head(x + logits.softmax(-1) @ x)


def test_logits_are_all_that_a_softmax_takes():
    """With factors and biases, of which the products of queries and keys have none."""
    mine = dmft.torch.import_module(Cosines, TOKENS, (16, 32))
    assert not mine.left                # of a norm of N^1/2 on either side, and a sum over N
    loss = lambda f, y: F.cross_entropy(f.flatten(0, 1), y.flatten())
    found, other = checked(mine, (TOKENS, TOKENS.flip(1)), loss=loss, steps=2)
    for row in ("logits", "softmax", "attention"):
        same(found, other, "(itself): " + row, ("init", "eff"))


class Patches(nn.Module):
    """Patches of an image, as many numbers each as the image has columns."""

    def __init__(self, N):
        super().__init__()
        self.read, self.head = nn.Conv2d(1, N, 2, stride=2, bias=False), nn.Linear(N, 1)
        self.middle = nn.Linear(N, N, bias=False)

    def forward(self, x):
        h = torch.tanh(self.read(x).flatten(2).mT)
        return self.head((h + self.middle(h)).mean(1))[:, 0]


def test_images_are_taken_apart():
    images = torch.randn(24, 1, 4, 4, generator=torch.Generator().manual_seed(5))
    mine = dmft.torch.import_module(Patches, images, (16, 32))
    found, other = checked(mine, (images, torch.sin(images.sum((1, 2, 3)))))
    same(found, other, "middle")
    for part in ("init", "eff"):
        same(found, other, "output", (part,))
    with pytest.raises(dmft.InputError, match=r"\[24, 1, 4, 4\].*inputs\(x\)"):
        mine.load(Patches(16).double())(images.double())


@pytest.mark.parametrize("size", ["E", "L"])
def test_experts_and_blocks_grow(size):
    """They are counts of the import, which is made anew at each number of them."""
    def build(N, E, L):
        return Stacked(N, E, L)
    mine = dmft.torch.import_module(build, X, (16, 32), counts={"E": 6, "L": 2})
    found = dmft.torch.coordinate_check(mine, [4, 8], (X, X[:, 0]), optimizers=ADAM, size=size)
    rows = found.rms["adam"]
    assert f"rms at {size} = 8" in str(found)
    assert "up.*[*]" in rows and len(rows["read"]["eff"]) == 2
    with pytest.raises(dmft.InputError, match="size 'M': of this import N or E or L may grow"):
        dmft.torch.coordinate_check(mine, [4, 8], (X, X[:, 0]), size="M")


def test_a_module_is_imported_from_an_example():
    found = dmft.torch.coordinate_check(Experts, [64, 128], (X, X[:, 0]), example=X, steps=1,
                                        seeds=1, optimizers=ADAM)
    assert "(itself): softmax" in found.rms["adam"] and "up.3" in found.rms["adam"]
    with pytest.raises(dmft.InputError, match="X is a tuple"):
        dmft.torch.coordinate_check(Experts, [64, 128], ((X, X), X[:, 0]), example=X)

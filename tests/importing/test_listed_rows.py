"""Experts in a list whose rows are sorted, cut, put back, or chosen by the experts, of a number
that grows and of a fixed one: they are what they are in a loop with masks."""
import dmft
import dmft.torch
import pytest
import torch
from dmft.torch.plans import MUON_RULES
from test_listed_experts import ROWS, WIDTHS, Expert, Listed, Stacked, numbers_of
from test_listed_training import OPTIMIZERS, WIDTH, by_muon
from test_training import needs_muon, trained_alike
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
TOKENS = torch.randn(40, 6, 7, generator=torch.Generator().manual_seed(1))


class Normed(Expert):
    """A norm of the hidden units, and dropout."""

    def __init__(self, N, units, bias, norm=nn.LayerNorm, dropout=0.0):
        super().__init__(N, units, bias)
        self.norm, self.dropout = norm(units), nn.Dropout(dropout)

    def forward(self, x):
        return self.down(self.dropout(torch.relu(self.norm(self.up(x)))))


class Dispatched(Listed):
    """Rows of slots: each is sent to one of the experts that its input chose. K: how many these
    are; room: of how many rows an expert has in `buffer`."""

    def __init__(self, N, E, form, units=3, bias=False, expert=None, K=2, room=None):
        super().__init__(N, E, form, units, bias)
        self.K, self.room = K, room
        if expert:
            self.experts = nn.ModuleList(expert(N, e) for e in range(E))

    def chosen_by(self, logits):
        values, index = logits.topk(self.K)
        return values.softmax(-1) if self.K > 1 else values.sigmoid(), index

    def repeat(self, x, logits):
        weights, index = self.chosen_by(logits)
        x, made = x.repeat_interleave(self.K, 0), None
        for e, expert in enumerate(self.experts):
            mine = index.view(-1) == e
            found = expert(x[mine])
            made = torch.empty_like(x) if made is None else made
            made[mine] = found
        return (made.view(*weights.shape, -1) * weights[..., None]).sum(1)

    def sorted(self, x, index):
        """(what the experts make of rows in their order, the order)."""
        order = index.flatten().argsort(stable=True)
        counts = torch.bincount(index.flatten(), minlength=len(self.experts)).tolist()
        parts = x[order // self.K].split(counts)
        return torch.cat([expert(part) for expert, part in zip(self.experts, parts)]), order

    def back(self, x, logits):
        weights, index = self.chosen_by(logits)
        made, order = self.sorted(x, index)
        found = torch.empty_like(made)
        found[order] = made
        return (found.view(*index.shape, -1) * weights[..., None]).sum(1)

    def added(self, x, logits):
        weights, index = self.chosen_by(logits)
        made, order = self.sorted(x, index)
        return torch.zeros_like(x).index_add(0, order // self.K,
                                             made * weights.flatten()[order, None])

    def slices(self, x, logits):
        """Those without rows are left out, as in DeepSeek's inference."""
        weights, index = self.chosen_by(logits)
        order, mixed, start = index.view(-1).argsort(), torch.zeros_like(x), 0
        counts = torch.zeros_like(logits, dtype=torch.long).scatter_(1, index, 1).sum(0)
        for e, count in enumerate(counts.tolist()):
            mine = order[start:start + count]
            start += count
            if count:
                rows = mine // self.K
                mixed.index_add_(0, rows, self.experts[e](x[rows])
                                 * weights.flatten()[mine, None])
        return mixed

    def buffer(self, x, logits):
        weights, index = self.chosen_by(logits)
        hits = torch.zeros_like(logits, dtype=torch.long).scatter(1, index, 1)
        at = (hits.cumsum(0) - 1).gather(1, index)
        rows = x.new_zeros(len(self.experts), self.room or len(x), x.shape[-1])
        rows[index, at] = x[:, None].expand(-1, self.K, -1)
        made = torch.stack([expert(rows[e]) for e, expert in enumerate(self.experts)])
        return (made[index, at] * weights[..., None]).sum(1)

    def of_inputs(self, x, logits):
        mixed = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            weights, rows = logits[:, e].topk(self.K)
            mixed.index_add_(0, rows, weights[:, None] * expert(x[rows]))
        return mixed


class Chooses(Dispatched):
    """Experts that choose their tokens."""

    def forward(self, x):
        x = torch.tanh(self.inlet(x))
        mixed = getattr(self, self.form)(x, self.router(x).softmax(-1))
        return self.outlet(x + self.shared(x) + mixed)[..., 0].mean(1)

    def one_by_one(self, x, scores):
        mixed = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            weights, rows = scores[..., e].topk(self.K, dim=1)
            at = rows[..., None].expand(-1, -1, x.shape[-1])
            mixed.scatter_add_(1, at, expert(x.gather(1, at)) * weights[..., None])
        return mixed

    def at_once(self, x, scores):
        weights, rows = scores.transpose(1, 2).topk(self.K, dim=-1)
        mixed = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            at = rows[:, e, :, None].expand(-1, -1, x.shape[-1])
            mixed = mixed.scatter_add(1, at, weights[:, e, :, None] * expert(x.gather(1, at)))
        return mixed


FORMS = ("repeat", "back", "added", "slices", "buffer")
CHOICES = ("one_by_one", "at_once")


def imported(form, growing=True, **more):
    kind, x = (Chooses, TOKENS) if hasattr(Chooses, form) and not hasattr(Dispatched, form) else \
        (Dispatched, ROWS)
    build = (lambda N, E: kind(N, E, form, **more)) if growing else \
        (lambda N: kind(N, 4, form, **more))
    return dmft.torch.import_module(build, x, WIDTHS if growing else WIDTHS["N"]), build


@pytest.mark.parametrize("growing", [True, False])
@pytest.mark.parametrize("form, more", [
    *((form, {"bias": True}) for form in FORMS + CHOICES), ("back", {"K": 1}), ("added", {"K": 1}),
    ("buffer", {"K": 1}), *((form, {"units": 16}) for form in ("slices", "buffer", "at_once")),
    *(("added", {"expert": lambda N, e, norm=norm: Normed(N, 3, True, norm)})
      for norm in (nn.LayerNorm, nn.RMSNorm)),
    ("back", {"expert": lambda N, e: Normed(N, 3, False, dropout=0.1)})])
def test_outputs_and_gradients_are_those_of_the_module(form, more, growing):
    mine, _ = imported(form, growing, **more)
    assert mine.difference < 1e-10


@pytest.mark.parametrize("form", FORMS)
def test_experts_of_several_sizes_may_be_of_a_fixed_number(form):
    mine, _ = imported(form, False, expert=lambda N, e: Expert(N, 2 + e if e % 2 else N, True))
    assert mine.difference < 1e-10


@pytest.mark.parametrize("form", ["back", "added", "buffer"])
def test_an_expert_may_have_no_rows_in_the_example(form):
    """Of 24 that are chosen by 24 rows some have none."""
    mine = dmft.torch.import_module(lambda N: Dispatched(N, 24, form, K=1), ROWS[:24], (8, 16))
    assert mine.difference < 1e-10


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("units", [3, 16])
def test_norms_of_the_units_of_each_expert(norm, units):
    for form in ("soft", "where"):
        mine, _ = imported(form, expert=lambda N, e: Normed(N, units, True, norm))
        assert mine.difference < 1e-10


@pytest.mark.parametrize("growing", [True, False])
@pytest.mark.parametrize("form, kind", [("added", "adamw"), ("back", "adam"), ("buffer", "sgd"),
                                        ("slices", "sgd"), ("repeat", "adamw"),
                                        ("one_by_one", "adamw"), ("at_once", "sgd")])
def test_his_loop_and_ours_are_one(form, kind, growing):
    mine, build = imported(form, growing, bias=True)
    trained_alike(mine, build, OPTIMIZERS[kind], WIDTH)


@needs_muon
@pytest.mark.parametrize("rule", MUON_RULES)
@pytest.mark.parametrize("form", ["added", "one_by_one"])
def test_muon_takes_the_matrix_of_each_expert(form, rule):
    mine, build = imported(form, expert=lambda N, e: Expert(N, 2 * N, True))
    trained_alike(mine, build, lambda m: by_muon(m, adjust_lr_fn=rule), WIDTH)


class StackedChoice(Chooses, Stacked):
    """Experts that choose their tokens as one tensor."""

    def forward(self, x):
        x = torch.tanh(self.inlet(x))
        scores = self.router(x).softmax(-1)
        gates = scores * torch.zeros_like(scores).scatter(1, scores.topk(2, dim=1).indices, 1.0)
        made = torch.einsum("btn,emn->btem", x, self.experts.up).relu() * gates[..., None]
        mixed = torch.einsum("btem,enm->btn", made, self.experts.down)
        return self.outlet(x + self.shared(x) + mixed)[..., 0].mean(1)


@pytest.mark.parametrize("word", ["mssp", "mup"])
@pytest.mark.parametrize("form", ["repeat", "back", "added", "buffer", "one_by_one"])
def test_a_plan_is_that_of_the_same_experts_as_one_tensor(form, word):
    kinds = (Dispatched, Stacked) if form in FORMS else (Chooses, StackedChoice)
    listed, stacked = (dmft.torch.plan(
        lambda N, E, kind=kind: kind(N, E, form), ROWS if form in FORMS else TOKENS,
        {"N": 8, "E": 4}, word, widths=WIDTHS) for kind in kinds)
    assert numbers_of(listed) == numbers_of(stacked)
    assert [one.rpartition("): ")[2] for one in listed.notes] == [
        one.rpartition("): ")[2] for one in stacked.notes]


@pytest.mark.parametrize("form, more, sentence", [
    ("buffer", {"room": 150}, "room for 150 of 200 rows, and which do not fit"),
    ("of_inputs", {}, "the largest of all inputs, whose number may be any"),
    ("soft", {"expert": lambda N, e: Expert(N, 3 + e % 2, False)}, "several classes or shapes"),
    ("soft", {"expert": lambda N, e: Expert(N, 3, False).requires_grad_(e > 0)}, "do not learn")])
def test_what_is_no_network_is_refused(form, more, sentence):
    with pytest.raises(dmft.InputError, match=sentence):
        imported(form, **more)


class Limited(Dispatched):
    """Experts that have fewer rows than chose them where these are many, which they are not here:
    by a comparison, by the first rows alone, and where other numbers decide, too."""
    limit = 199

    def where(self, x, logits, which=lambda rows, e: rows):
        weights, index = self.chosen_by(logits)
        mixed = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slot = which(torch.where(self.mine(weights, index, logits, e)), e)
            mixed.index_add_(0, rows, weights[rows, slot, None] * expert(x[rows]))
        return mixed

    def mine(self, weights, index, logits, e):
        hits = torch.zeros_like(logits, dtype=torch.long).scatter(1, index, 1)
        few = (hits.cumsum(0)[:, e] < 199)[:, None] if self.form == "compared" else weights > 1e-9
        return (index == e) & few if self.form != "first" else index == e

    compared = above = where

    def first(self, x, logits):
        return self.where(x, logits, lambda rows, e: [one[:199] for one in rows])

    def first_sorted(self, x, logits):
        weights, index = self.chosen_by(logits)
        order = index.flatten().argsort()
        parts = x[order // self.K].split(index.flatten().bincount(minlength=4).tolist())
        made = torch.cat([expert(part[:199]) for expert, part in zip(self.experts, parts)])
        found = torch.empty_like(made)
        found[order] = made
        return (found.view(*index.shape, -1) * weights[..., None]).sum(1)

    def shortest(self, x, logits):
        return self.where(x, logits, lambda rows, e: [one[:min(len(one), self.limit)]
                                                         for one in rows])

    def last(self, x, logits):
        return self.where(x, logits, lambda rows, e: [one[-199:] for one in rows])

    def pieces(self, x, logits):
        return self.where(x, logits, lambda rows, e: [one.split(199)[0] for one in rows])


@pytest.mark.parametrize("growing", [True, False])
@pytest.mark.parametrize("form", ["compared", "above", "first", "first_sorted", "shortest", "last",
                                  "pieces"])
def test_a_limit_that_no_row_meets_here_is_one(form, growing):
    """On other data it would leave rows out."""
    build = (lambda N, E: Limited(N, E, form)) if growing else lambda N: Limited(N, 4, form)
    with pytest.raises(dmft.InputError, match=r"test_listed_rows.py:\d+"):
        dmft.torch.import_module(build, ROWS, WIDTHS if growing else WIDTHS["N"])


class OfLetters(Limited):
    """The same behind an embedding, over all tokens of all inputs."""
    limit = 260

    def __init__(self, N, E, form):
        super().__init__(N, E, form)
        self.inlet, self.outlet = nn.Embedding(9, N), nn.Linear(N, 9, bias=False)

    def forward(self, x):
        h = torch.tanh(self.inlet(x)).flatten(0, 1)
        mixed = getattr(self, self.form)(h, self.router(h))
        return self.outlet(h + mixed).view(*x.shape, 9)


@pytest.mark.parametrize("growing", [True, False])
def test_a_limit_of_tokens_that_none_meets_here_is_one(growing):
    letters = torch.randint(9, (40, 6), generator=torch.Generator().manual_seed(2))
    for form in ("back", "shortest"):
        build = (lambda N, E: OfLetters(N, E, form)) if growing else lambda N: OfLetters(N, 4, form)
        args = build, letters, WIDTHS if growing else WIDTHS["N"]
        if form == "back":              # which has no limit
            assert dmft.torch.import_module(*args).difference < 1e-10
        else:
            with pytest.raises(dmft.InputError, match=r"test_listed_rows.py:\d+"):
                dmft.torch.import_module(*args)

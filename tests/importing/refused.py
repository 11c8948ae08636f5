"""Ways to write a module that an import refuses: each function is the middle of a module, and the
line that its sentence must name ends with `# here`."""
import torch
from modules import LETTERS, NUMBERS, PLACES
from torch import nn
from torch.nn import functional as F


class Two(nn.Module):
    """Two layers, with `middle` between them, a router, and parameters that it may use."""

    def __init__(self, N, middle=lambda module, h: h, letters=False):
        super().__init__()
        self.N, self.middle, outputs = N, middle, LETTERS if letters else 1
        self.read = nn.Embedding(LETTERS, N) if letters else nn.Linear(NUMBERS, N)
        self.second, self.head = nn.Linear(N, N), nn.Linear(N, outputs, bias=False)
        self.router, self.number = nn.Linear(N, 4, bias=False), nn.Parameter(torch.ones(()))
        self.register_buffer("count", torch.ones(()))
        self.register_buffer("drawn", torch.randn(N))

    def forward(self, x):
        h = self.read(x)
        return self.head(torch.tanh(self.second(self.middle(self, h)))).squeeze(-1)


# --- found when the module is run ----------------------------------------------------------------

def fails(module, h):
    return h @ torch.ones(3, 3)  # here


def leaves(module, h):
    return h * float(h.detach().numpy().mean())  # here


def writes(module, h):
    with torch.no_grad():
        module.second.weight.mul_(0.9)  # here
    return h


class Doubled(torch.autograd.Function):
    """A gradient of one's own."""

    @staticmethod
    def forward(ctx, x):
        """x."""
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        """2 g."""
        return 2 * g


def custom(module, h):
    return Doubled.apply(h)  # here


# --- found when it is read -----------------------------------------------------------------------

def unknown(module, h):
    return h - h.median(-1, keepdim=True)[0]  # here


def compares(module, h):
    return torch.where(h > module.second(h), h, 0 * h)  # here


def sorts(module, h):
    return h.sort(-1)[0]  # here


def turns(module, h):
    return h.flip(-1)  # here


def of_two(module, h):
    return h @ (module.second.weight + module.second.weight.T)  # here


def of_a_list(module, h):
    layers = [nn.Linear(module.N, module.N)]
    return layers[0](h)  # here


def chosen_alone(module, h):
    w, i = module.router(h).softmax(-1).topk(1)
    return sum(w * (i == e) * h for e in i.unique())  # here


def multiplies(module, h):
    return h * h.prod(-1, keepdim=True)  # here


def over_inputs(module, h):
    return h @ h.T @ h  # here


def fourier(module, h):
    return torch.fft.fft(h).real  # here


def transforms(module, h):
    return F.batch_norm(h, None, None, training=True)  # here


def draws(module, h):
    return h * torch.bernoulli(torch.sigmoid(h), p=0.5)  # here


def normals(module, h):
    return h * torch.randn(PLACES, 1)  # here


def scatters(module, h):
    s = module.router(h)
    value, at = s.topk(2, -1)
    kept = torch.full_like(s, -1e9).scatter(1, at, value)  # here
    return h * kept.sum(-1, keepdim=True)


def selects(module, h):
    chosen = module.router(h).argmax(-1)
    return h * torch.arange(4.0)[chosen][:, None]  # here


def other_steps(module, h):
    if module.N > 16:
        h = h.tanh()  # here
    return h


def fewer_steps(module, h):
    h = h.sum(-1, keepdim=True) * h
    for _ in range(module.N // 16):
        h = h.tanh()  # here
    return h


def hidden(module, h):
    scores = (h @ h.mT).masked_fill(torch.ones(PLACES, PLACES).triu(1).bool(), -1e9)
    return scores @ h  # here


def windows(module, h):
    return F.conv_transpose1d(h.mT, torch.ones(module.N, module.N, 1)).mT  # here


# --- found when it is written as a program -------------------------------------------------------

def drawn_by_build(module, h):
    return h * module.drawn  # here


def no_power(module, h):
    return h * (1 + module.N)  # here


def a_number(module, h):
    size = h.square().mean().item()  # here
    h = h + 1
    return h * size


def transposed(module, h):
    return torch.tanh(module.second(h)) @ module.second.weight  # here


def one_for_several(module, h):
    s = module.router(h) + module.number  # here
    return h * s.tanh().sum(-1, keepdim=True)


def of_a_choice(module, h):
    w = F.one_hot(module.router(h).argmax(-1), 4).to(h.dtype)  # here
    return h * (w * torch.arange(4.0)).sum(-1, keepdim=True)


def over_the_batch(module, h):
    return h - h.mean(0)  # here


def shares(module, h):
    return torch.tanh(h @ module.read.weight) @ module.read.weight.T  # here


# --- found by comparison -------------------------------------------------------------------------

def doubled(module, h):
    h.data.mul_(2)  # here
    return h


def hooked(module, h):
    if h.requires_grad:
        h.register_hook(lambda g: 2 * g)  # here
    return h


def written(module, h):
    h = h * module.count
    with torch.no_grad():
        module.count.add_(1)  # here
    return h


def counted(module, h):
    h = h * module.count.clone()
    with torch.no_grad():
        module.count.add_(1)  # here
    return h


def branch(module, h):
    if h.abs().max() > 4:
        h = torch.relu(h)  # here
    return h


def branch_of_numbers(module, h):
    return (2 if h.abs().max() > 4 else 1) * h  # here


def infinite(module, h):
    return h / (len(h) - 49)  # here


def thresholds(module, h):
    """As sparsemixer has them."""
    scores = module.router(h)
    largest = scores.max(-1, keepdim=True)[0]
    size = scores.abs().clamp(min=largest)  # here
    return h * (scores / size).sum(-1, keepdim=True)


def linear_attention(module, h):
    """As lightning attention goes on, block by block."""
    state, made = torch.zeros(len(h), module.N, module.N), []
    for t in range(0, h.shape[1], 2):
        one = h[:, t:t + 2]
        made.append(one @ state + (one @ one.mT).tril() @ one)  # here
        state = 0.9 * state + one.mT @ one
    return torch.cat(made, 1) / module.N


def state_space(module, h):
    """A scan of which each token decides what is kept and read."""
    keep = module.second(h).sigmoid()
    write, read = module.router(h).split(2, -1)  # here
    state, made = torch.zeros(len(h), module.N, 2), []
    for t in range(h.shape[1]):
        state = keep[:, t, :, None] * state + h[:, t, :, None] * write[:, t, None]
        made.append((state * read[:, t, None]).sum(-1))
    return torch.stack(made, 1)


# {function: (what its sentence says, what it says to do)}
NUMBERS_IN = {
    fails: ("run on the example, ends with", "give inputs of the shape"),
    leaves: ("leave PyTorch", "write it with operations of torch"),
    writes: ("writes into its parameter second.weight", "do it in build"),
    custom: ("a torch.autograd.Function (", "take it out of the forward pass"),
    unknown: ("median of [48, 16]: it has no counterpart", "write it with sums"),
    compares: ("a comparison of computed numbers", "write it with sums"),
    sorts: ("numbers are sorted", "by topk of its own scores"),
    turns: ("not along the tokens", "a layer of its own"),
    of_two: ("computed from parameters", "let build make it one parameter"),
    of_a_list: ("a matrix of constants", "nn.ModuleList"),
    chosen_alone: ("_unique2 of [48, 1]: it tells which", "torch.where(chosen == e)"),
    multiplies: ("a product of more than", "take the sum, mean"),
    over_inputs: ("a sum over tokens or inputs", "nn.Linear of rows"),
    fourier: ("no transforms", "a Conv1d"),
    transforms: ("inputs of a batch act", "LayerNorm, RMSNorm"),
    draws: ("finds no gradient", "operations that have one"),
    scatters: ("other than zeros", "multiply what the experts make"),
    selects: ("chosen by data", "torch.where(chosen == e)"),
    fewer_steps: ("different things at the two widths", "let others be sums and means"),
    other_steps: ("different things at the two widths", "let others be sums and means"),
    drawn_by_build: ("differ from site to site", "nn.Parameter"),
    no_power: ("no power of the width: 17 at N = 16 and 33 at 32", "let it be c N^p"),
    a_number: ("no power of the width", "or a tensor"),
    transposed: ("as a matrix and as its transpose", "a parameter for each"),
    one_for_several: ("added to several", "an entry for each"),
    of_a_choice: ("router.weight decides about a choice alone", "weight what is chosen"),
    over_the_batch: ("one for all inputs", "LayerNorm"),
    shares: ("read.weight is used as several matrices", "with separate ones"),
    doubled: ("the gradient of read.bias", "take it out of the forward pass"),
    hooked: ("the gradient of read.bias", "take it out of the forward pass"),
    written: ("modified by an in", "compute a new tensor"),
    counted: ("earlier calls", "let your loop change it"),
    branch: ("computes something else there", "let build decide"),
    branch_of_numbers: ("a branch on data", "let build decide"),
    thresholds: ("clamp of [48, 4] and [48, 1]: numbers are cut off", "by topk of a softmax"),
    infinite: ("is not finite", "let it be finite")}
LETTERS_IN = {
    normals: ("no numbers of each input", "draw torch.randn_like(h)"),
    hidden: ("without a softmax", "sums over experts, heads or tokens"),
    linear_attention: ("a product with a state that begins at 0", "(q @ k.mT) @ v"),
    state_space: ("router.weight is used as several matrices", "as those of nn.GRU"),
    windows: ("along the tokens", "Conv1d of x.mT")}

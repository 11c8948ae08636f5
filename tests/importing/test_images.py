"""Images: patches as tokens, a class token before them, convolutions over places, and images that
are read as a whole."""
import dmft
import dmft.torch
import numpy as np
import pytest
import torch
from dmft.torch.importing.layout import Layout
from test_import import ROUND_OFF
from test_limit import images_of
from test_training import OPTIMIZERS, STEPS, WIDTH
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
C, SIZE, PATCH, CLASSES = 2, 6, 3, 3
IMAGES = torch.randn(24, C, SIZE, SIZE, generator=torch.Generator().manual_seed(2))


class Patches(nn.Module):
    """The mean of patches that a convolution reads; subclasses cut them out otherwise."""

    def __init__(self, N):
        super().__init__()
        self.read, self.middle, self.head = self.reader(N), nn.Linear(N, N), nn.Linear(N, CLASSES)

    def reader(self, N):
        """Reads a patch."""
        return nn.Linear(C * PATCH ** 2, N)

    def rows(self, x):
        """The patches that are read."""
        n = SIZE // PATCH
        x = x.reshape(len(x), C, n, PATCH, n, PATCH).permute(0, 2, 4, 3, 5, 1)
        return self.read(x.reshape(len(x), n * n, -1))

    def forward(self, x):
        h = self.rows(x)
        return self.head((h + F.gelu(self.middle(h))).mean(1))


class Unfolded(Patches):
    """Columns of patches."""

    def rows(self, x):
        return self.read(F.unfold(x, PATCH, stride=PATCH).transpose(1, 2))


class Vision(Patches):
    """A vision transformer with a class token and a table of places."""

    def __init__(self, N):
        super().__init__(N)
        self.cls, self.place = (nn.Parameter(0.1 * torch.randn(1, n, N)) for n in (1, 5))
        self.norm, self.qkv = nn.LayerNorm(N), nn.Linear(N, 3 * N)

    def reader(self, N):
        return nn.Conv2d(C, N, PATCH, stride=PATCH)

    def rows(self, x):
        return self.read(x).flatten(2).transpose(1, 2)

    def forward(self, x):
        h = torch.cat([self.cls.expand(len(x), -1, -1), self.rows(x)], 1) + self.place
        q, k, v = self.qkv(self.norm(h)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        h = h + self.middle(self.attended(q, k, v).transpose(1, 2).flatten(2))
        return self.head(h[:, 0])

    def attended(self, q, k, v):
        """Of all heads."""
        return F.scaled_dot_product_attention(q, k, v)


class Whole(nn.Sequential):
    """A perceptron on all places."""

    def __init__(self, N):
        super().__init__(nn.Flatten(), nn.Linear(C * SIZE ** 2, N), nn.ReLU(), nn.Linear(N, N),
                         nn.ReLU(), nn.Linear(N, CLASSES))


class Convolutional(nn.Module):
    """Convolutions with a stride and a mean of places, and a layer that reads all that is left."""

    def __init__(self, N):
        super().__init__()
        self.one = nn.Conv2d(C, N, 3, padding=1, bias=False)
        self.two = nn.Conv2d(N, 2 * N, 3, stride=2, padding=1)
        self.by_channel = nn.Conv2d(2 * N, 2 * N, 3, padding=1, groups=2 * N)
        self.three, self.head = nn.Linear(2 * N * 4, N), nn.Linear(N, CLASSES)

    def forward(self, x):
        h = F.avg_pool2d(torch.relu(self.one(x)), 1)
        h = torch.tanh(self.two(h))
        h = F.avg_pool2d(h + self.by_channel(h), 2, 1)
        return self.head(torch.tanh(self.three(h.flatten(1))))


class Small(nn.Module):
    """A convolution and the mean of all places."""

    def __init__(self, N):
        super().__init__()
        self.one, self.two = nn.Conv2d(C, N, 3, stride=2, bias=False), nn.Conv2d(N, N, 1)
        self.head = nn.Linear(N, 1, bias=False)

    def forward(self, x):
        return self.head(torch.tanh(self.two(torch.tanh(self.one(x)))).mean((2, 3)))[:, 0]


class Checked(Small):
    """Asks for the largest number of all images before it reads them."""

    def forward(self, x):
        if x.abs().max() > 1e9:
            raise ValueError("no images")
        return super().forward(x)


class Largest(Small):
    """The largest of several places, and of all."""

    def forward(self, x):
        x = F.max_pool2d(torch.tanh(self.one(x)), 2, 1)
        return self.head(x.mean((2, 3)) + F.adaptive_max_pool2d(self.two(x), 1).flatten(1))[:, 0]


class Padded(Small):
    """Windows that reach beyond the image, as in a ResNet: the largest of places, and means with
    and without the zeros that lie there."""

    def forward(self, x):
        x = F.max_pool2d(torch.tanh(self.one(x)), 3, 2, 1)
        x = F.max_pool2d(self.two(x) - 1, 2, 1, 1)
        x = F.avg_pool2d(x, 2, 1, 1) + F.avg_pool2d(x, 2, 1, 1, count_include_pad=False)
        return self.head(torch.tanh(x.mean((2, 3))))[:, 0]


class Last(Small):
    """Layers over channels, which it has last (ConvNeXt)."""

    def __init__(self, N):
        super().__init__(N)
        self.wide, self.narrow = nn.Linear(N, 2 * N), nn.Linear(2 * N, N)

    def forward(self, x):
        x = torch.tanh(self.one(x))
        y = self.narrow(F.gelu(self.wide(x.permute(0, 2, 3, 1)))).permute(0, 3, 1, 2)
        return self.head((x + y).mean((2, 3)))[:, 0]


MODULES = {one.__name__: one for one in (Patches, Unfolded, Vision, Whole, Convolutional, Small,
                                         Checked, Largest, Padded, Last)}


@pytest.mark.parametrize("name", MODULES)
def test_outputs_and_gradients_are_those_of_the_module(name):
    mine = dmft.torch.import_module(MODULES[name], IMAGES, (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


@pytest.mark.parametrize("name", ["Vision", "Whole", "Convolutional", "Largest", "Padded"])
@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_his_loop_and_ours_are_one(name, kind):
    """The network has images as mine.inputs gives them."""
    build, optimizer = MODULES[name], OPTIMIZERS[kind]
    mine = dmft.torch.import_module(build, IMAGES, (16, 32))
    assert torch.equal(images_of(mine, mine.inputs(IMAGES)), IMAGES)
    run = dmft.solve(mine.settings, network=mine.as_trained(optimizer), progress=False, **{
        "training.steps": STEPS, "reference.widths": WIDTH, "reference.seeds": 1,
        "solver.replicates": 0, "output.weights": "initial", "output.inputs": "all"})
    data = dmft.torch.inputs.data_of(run)
    module = build(WIDTH).double()
    mine.store(dmft.torch.Network(run, WIDTH, weights=run), module)
    made, his = optimizer(module), []
    for _ in range(STEPS):
        f = module(images_of(mine, data.X))
        his.append(f.detach().numpy())
        made.zero_grad()
        dmft.torch.loss_of("mse", f, data.y, f.dim() > 1).backward()
        made.step()
    his, ours = np.stack(his), run.reference[WIDTH]["f_runs"].values[0]
    assert np.abs(his[-1] - his[0]).max() > 0.01
    assert np.abs(his - ours.reshape(his.shape)).max() < 1e-12 * np.abs(his).max()


def test_layouts():
    """Patches come row by row, channels before places."""
    x = torch.arange(32.0).reshape(1, 2, 4, 4)
    assert Layout((2, 4, 4), 2).of(x)[0, 1].tolist() == [2, 3, 6, 7, 18, 19, 22, 23]
    assert Layout((2, 4, 4), 0).of(x).shape == (1, 32)
    assert Layout((2, 4, 4), 1).tokens == 16

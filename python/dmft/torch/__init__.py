"""The networks of dmft-solve in PyTorch, and one's own networks of PyTorch beside them.

    import torch, dmft.torch
    net = dmft.torch.Network("data/regime2.ini", N=256)
    optimizer = torch.optim.Adam(net.parameter_groups("adam", eta0=0.1))
    loss = net.loss(net(X), y)

A Network is any network of a description as a torch.nn.Module with parameters in PyTorch's own
convention, Network.parameter_groups what makes torch.optim train it as dmft-solve does, and
dmft.torch.verify (python -m dmft.torch FILE.ini) trains both and compares them. check sets the
scales and rates of somebody's own module beside those of a network, coordinate_check measures what
its matrices and their updates contribute (docs/pytorch.md). import_module makes a network of
somebody's own module (docs/import.md), plan the scales and rates with which it trains alike at any
size (docs/plan.md).
"""
import sys

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    SENTENCE = 'dmft.torch needs PyTorch: pip install "dmft[torch]", or Debian\'s python3-torch'
    if sys.argv[0] == "-m":  # while python -m dmft.torch begins
        sys.exit(SENTENCE)
    raise ImportError(SENTENCE) from error

from dmft.errors import InputError as _InputError
from dmft.torch.comparison import Comparison, verify
from dmft.torch.coordinates import Coordinates, coordinate_check
from dmft.torch.exponents import Check, check
from dmft.torch.inputs import Data, data
from dmft.torch.muon import Muon
from dmft.torch.network import Network
from dmft.torch.plans import Plan
from dmft.torch.training import Lion, Momentum, loss_of, schedule_factor, train


def __getattr__(name: str):
    """What needs a newer PyTorch than the rest is imported when it is asked for."""
    if name not in ("import_module", "Imported", "plan"):
        raise AttributeError(f"module dmft.torch has no attribute {name}")
    try:
        from dmft.torch import importing, planning
    except ImportError as error:
        raise _InputError("dmft.torch.import_module and plan need PyTorch 2.3 or later, and this "
                          f"is {_torch.__version__} ({error})") from error
    return getattr(planning if name == "plan" else importing, name)


__all__ = ["import_module", "Imported", "plan", "Plan", "Network", "Data", "data", "train",
           "loss_of", "schedule_factor", "Lion", "Momentum",
           "Muon", "verify", "Comparison", "check", "Check", "coordinate_check", "Coordinates"]

"""What the tests of dmft.torch share: where the project is, and settings."""
import os

import torch
from dmft.scaling import OPTIMIZERS  # noqa: F401

torch.set_num_threads(1)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROUND_OFF = 1e-11  # of a few steps of training, in which differences grow
# Half of the experts are selected, with biases that balance them and a term of the loss.
SPARSE = {"training.optimizer": "adamw", "training.weight_decay": 0.01, "training.eta0": 0.1,
          "network.rho": 0.5, "network.eta_bias": 0.1, "network.gate": "softmax",
          "network.z_loss": 0.1}

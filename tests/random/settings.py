"""What surrounds a random network: data, loss, optimizer and schedule, factors of matrices."""
from __future__ import annotations

import random

from dmft.scaling import BY_ENTRY, BY_MATRIX

ACTIVATIONS = ("linear", "tanh", "erf", "relu", "gelu", "softplus", "silu")


class Settings:
    """Draws the sections of an ini."""
    random: random.Random
    limit: bool
    matrices: list[str]

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def any(self, *choices):
        return self.random.choice(choices)

    def draw_data(self) -> None:
        r = self.random
        kind = r.choice(("rows", "rows", "tokens", "tokens", "markov", "copy", "modular"))
        data, training, network = {"inputs": r.randint(2, 5), "seed": r.randint(1, 999)}, {}, {}
        self.n, self.vocabulary, self.of_token = 1, 0, False
        if kind in ("rows", "tokens"):
            data = {"source": "gaussian", "dimension": r.randint(2, 8)} | data
            if kind == "tokens":
                self.n = data["tokens"] = r.randint(2, 4)
            outputs = r.choice((1, 1, 2, 3))
            if outputs > 1:
                network["outputs"] = outputs
            training["loss"] = r.choice(("mse", "cross_entropy") if outputs > 1 else
                                        ("mse", "mse", "logistic", "hinge"))
            if outputs == 1 and data["inputs"] % 2:
                data["inputs"] += 1
        else:
            data = {"source": kind} | data
            self.vocabulary = data["vocabulary"] = r.randint(2, 4)
            self.of_token, self.n = True, 3
            if kind != "modular":
                self.n = data["tokens"] = r.choice((3, 4) if kind == "markov" else (4, 6))
            if self.chance(0.3):
                data["positions"] = "no"
            training["loss"] = "cross_entropy"
            self.vocabulary += kind in ("copy", "modular")
        if kind == "modular":
            data["inputs"] = min(data["inputs"], data["vocabulary"] ** 2)
        if self.chance(0.25) and kind != "modular":
            training["batch"] = data["inputs"]
            data["inputs"] = 2 * data["inputs"]
            training["order"] = r.choice(("cyclic", "shuffled"))
        if self.chance(0.2) and kind != "modular":
            data["test_inputs"] = 2
        self.kind, self.data, self.training, self.network = kind, data, training, network

    def draw_training(self) -> None:
        r, t = self.random, self.training
        t["steps"] = r.randint(4, 6)
        optimizer = t["optimizer"] = r.choice(BY_MATRIX + BY_ENTRY)
        by_entry = optimizer in BY_ENTRY
        t["eta0"] = r.choice((0.02, 0.05, 0.1)) if by_entry else r.choice((0.05, 0.1, 0.3))
        t["gamma0"] = r.choice((1, 1, 0.5, 2))
        if optimizer == "momentum":
            t["momentum"] = r.choice((0.5, 0.9))
        if by_entry:
            t["beta1"], t["beta2"] = r.choice((0.8, 0.9)), r.choice((0.9, 0.99))
            t["eps"] = r.choice((0.05, 0.2))
        if optimizer in ("adamw", "lion"):
            t["weight_decay"] = r.choice((0.01, 0.1))
        schedule = t["schedule"] = r.choice(("constant", "constant", "linear", "cosine",
                                             "polynomial", "power"))
        if self.chance(0.3):
            t["warmup"] = 2
        if schedule in ("linear", "cosine", "polynomial"):
            t["schedule_end"] = r.choice((0, 0.3))
            if self.chance(0.5):
                t["schedule_steps"] = 3
        if schedule == "polynomial":
            t["schedule_power"] = r.choice((0.5, 2))
        if schedule == "power":
            t["schedule_power"], t["schedule_t0"] = r.choice((0.5, 1)), r.choice((1, 3))
        if self.chance(0.25):
            t["clip"] = r.choice((0.05, 0.3))

    def with_factors(self, lua: str) -> list[str]:
        """Matrices of the script that learn and do not start at zero; others take no factors."""
        found = []
        for name in self.matrices:
            line = next((line for line in lua.split("\n") if f'"{name}"' in line), "zero")
            if not any(word in line for word in ("zero", "a0 = 0,", "a0 = 0}", "fixed", "rate = 0,",
                                                 "rate = 0}")) and "read_out(" not in line:
                found.append(name)
        return found

    def sections(self, lua: str, body: str, program: dict) -> dict:
        network = self.network
        if "sigma(" in body:
            network["activation"] = self.random.choice(ACTIVATIONS)
        if "sigma_of_experts(" in body and self.chance(0.5):
            network["expert_activation"] = self.random.choice(ACTIVATIONS)
        if self.chance(0.1):
            network["read_out"] = "zero"
        reference = {}
        if not self.limit and self.chance(0.2):
            reference["centre"] = "no"
        if self.chance(0.15) and self.kind == "rows" and self.data["dimension"] <= 4 and \
                not self.data.get("test_inputs"):
            reference["draws"] = "balanced"
        sections = {"network": network, "program": program, "data": self.data,
                    "training": self.training, "reference": reference}
        names = self.with_factors(lua)
        for section in ("init", "rates", "eps") if names else ():
            if self.chance(0.12) and (section != "eps" or self.training["optimizer"] in BY_ENTRY):
                sections[section] = {self.random.choice(names): self.any(0.5, 2)}
        return sections

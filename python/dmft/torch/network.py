"""Any network of a description as a torch.nn.Module."""
from __future__ import annotations

import math
from contextlib import suppress

import torch

from dmft.description import Description, Matrix, Program
from dmft.errors import InputError
from dmft.files import Result
from dmft.run import describe, solve
from dmft.scaling import BY_ENTRY, OPTIMIZERS, Scaling, parts_of, scaling, side_of
from dmft.torch.inputs import ALONE, BRIEF
from dmft.torch.operations import Evaluation
from dmft.torch.training import loss_of

# Of X/sqrt D, which dmft-solve and PyTorch compute apart: the root, the quotient, the product.
ROUNDINGS = 4 * torch.finfo(torch.float64).eps


def _rates(optimizer: str) -> str:
    """Optimizers whose rates are alike are of one kind."""
    return "entries" if optimizer in BY_ENTRY else "muon" if optimizer == "muon" else "gradient"


class _Weights(torch.nn.ParameterDict):
    """Parameters by the names of their matrices, which may be those of what a module has itself,
    such as keys, values or half; these get a sign that no matrix has."""

    def _key_to_attr(self, key: str) -> str:
        return key + "-" if hasattr(torch.nn.ParameterDict, key) or key == "training" else key


class Network(torch.nn.Module):
    """The network of width N that an ini describes; it interprets the operations of
    docs/program_format.md, and parameters have the names of its matrices.

    ini: as of dmft.describe, with keys on top of it, or a Result. weights: "drawn" by PyTorch with
    the seed; or "dmft", those of dmft-solve's network of this seed; or a Result that has them
    ([output] weights = initial). centre: whether what is read out at the start is subtracted; None:
    as the ini says. Noise of rows (`noise` in a program) is drawn by PyTorch, in training mode
    alone: not after .eval(), nor in what is subtracted. `program` is its description,
    `training_settings` the section training of the ini, `penalty` what the last evaluation adds to
    the loss.

    >>> net = Network("data/regime2.ini", N=64, weights="dmft")             # doctest: +SKIP
    >>> net(X).shape                                                        # doctest: +SKIP
    torch.Size([4])
    """

    def __init__(self, ini, N: int = 256, seed: int = 0, dtype=torch.float64, *,
                 weights="drawn", centre: bool | None = None, network=None, **keys):
        super().__init__()
        self._source = ini  # which may own the files of its data
        self._ini = ini.parameters["ini"] if isinstance(ini, Result) else ini
        self._network, self._keys = network, keys | ALONE | {"reference.widths": N}
        described = self._describe()
        self._others: dict[str, tuple[Program, dict]] = {}
        self.program: Program = described[N]
        self.settings = described.settings
        self.training_settings = described.settings["training"]
        self.dimension = described.dimension
        self.centre = self.program.centre if centre is None else centre
        self.scale: dict[str, Scaling] = {W.name: scaling(self.program, W)
                                          for W in self.program.matrices}
        self.weights = _Weights()
        self._draw(seed, dtype)
        if weights != "drawn":
            self.load(self._run_with(weights, seed), seed)
        self._add_states()
        self.last: Evaluation | None = None
        for name in self.weights if self.centre else ():
            self.register_buffer("start_" + name, self.weights[name].detach().clone())

    @property
    def dtype(self) -> torch.dtype:
        """Of its parameters."""
        return next(self.parameters()).dtype

    def __getstate__(self) -> dict:
        """What copies and files have: all but the last evaluation and the result it is of, whose
        files of data a copy may outlive, so that it knows the rates of all optimizers."""
        if isinstance(self._source, Result):
            for kind in OPTIMIZERS:
                with suppress(InputError):  # one that this network refuses, which its call will say
                    self._trained_by(kind)
        return self.__dict__ | {"last": None, "_source": None}

    def _describe(self, optimizer: str | None = None) -> Description:
        """Of the ini, or of the same with another optimizer, which rates may depend on."""
        more = {"training.optimizer": optimizer} if optimizer else {}
        return describe(self._ini, network=self._network, limit=False, **self._keys | more)

    def _trained_by(self, kind: str) -> tuple[Program, dict]:
        """The network and the section training, with an optimizer of this kind."""
        said = self.training_settings
        if _rates(kind) == _rates(said["optimizer"]):
            return self.program, said
        if kind not in self._others:  # other rates, other keys
            described = self._describe(kind)
            self._others[kind] = described[self.program.width], described.settings["training"]
        return self._others[kind]

    # --- weights ---------------------------------------------------------------------------------

    def _draw(self, seed: int, dtype) -> None:
        generator = torch.Generator().manual_seed(seed)
        for W in self.program.matrices:
            scale = self.scale[W.name]
            shape = (scale.shape[0], self.dimension) if W.kind == "read_in" else scale.shape
            if W.start is not None:
                V = torch.tensor(W.start, dtype=dtype).expand(shape) if W.kind == "vector" else \
                    torch.tensor(W.start, dtype=dtype).reshape(shape)
                V = V.clone()
            else:
                V = scale.std * torch.randn(shape, dtype=dtype, generator=generator)
            self.weights[W.name] = torch.nn.Parameter(V, requires_grad=W.learns)

    def _run_with(self, weights, seed: int) -> Result:
        """A result that has the matrices."""
        if isinstance(weights, Result):
            return weights
        if weights != "dmft":
            raise InputError(f"weights {weights!r}: must be drawn, dmft or a result")
        return solve(self._ini, progress=False, network=self._network, **self._keys | BRIEF | {
            "reference.seeds": seed + 1, "output.weights": "initial"})

    def load(self, run: Result, seed: int = 0, t: int = 0) -> None:
        """The weights of a result that has them at time t ([output] weights), of the network of
        this seed; selection biases, which no result has, stay as they are.

        >>> net.load(run, t=run.parameters["training.steps"] - 1)           # doctest: +SKIP
        """
        N = self.program.width
        for W in self.program.matrices:
            U = torch.as_tensor(run.weights(W.name, N, seed, t).values).double()
            if W.kind == "read_in":
                V = self._read_in(run, W, U, seed, t)
            else:
                V = U / self.scale[W.name].unit
            self.weights[W.name].data.copy_(V.reshape(self.weights[W.name].shape))

    def _read_in(self, run: Result, W: Matrix, U: torch.Tensor, seed: int,
                 t: int) -> torch.Tensor:
        """What acts on X/sqrt D: the columns of the file along the directions of the inputs, and
        along those that no input has, on which nothing depends, what was drawn."""
        kept = run.data
        X, A = kept["X"].values, kept["coordinates"].values
        X, A = (torch.as_tensor(x.reshape(-1, x.shape[-1])) for x in (X, A))
        if "coordinates_test" in kept:
            X_test, A_test = kept["X_test"].values, kept["coordinates_test"].values
            X_test, A_test = (torch.as_tensor(x.reshape(-1, x.shape[-1]))
                              for x in (X_test, A_test))
            more = A_test.shape[1] - A.shape[1]
            X = torch.cat([X, X_test])
            A = torch.cat([torch.nn.functional.pad(A, (0, more)), A_test])
            if more:
                rest = run.weights(W.name + "_rest", self.program.width, seed, t).values
                U = torch.cat([U, torch.as_tensor(rest)], 1)
        X = X / math.sqrt(self.dimension)
        if A.shape == X.shape and (A - X).abs().max() <= ROUNDINGS * X.abs().max():
            return U  # entry by entry; such directions need not be independent
        directions = torch.linalg.lstsq(A, X).solution
        drawn = self.weights[W.name].detach().double()
        return U @ directions + drawn - drawn @ directions.T @ directions

    def _add_states(self) -> None:
        """Selection biases, a buffer for each state of rules that has them."""
        self._states = []
        for v in self.program.operations:
            if v.constants.get("rule") == "select":
                b = torch.zeros(self.program.size(v.population), dtype=self.dtype)
                b += torch.tensor(v.constants.get("start", 0.0), dtype=self.dtype)
            elif v.constants.get("rule") == "mask" and v["eta_bias"]:
                b = torch.zeros(v.numbers, dtype=self.dtype)
            else:
                continue
            self._states.append(v.state)
            self.register_buffer(f"selection_{v.state}", b)
            self.register_buffer(f"start_selection_{v.state}", b.clone())

    @property
    def has_selection_biases(self) -> bool:
        """Whether selections have biases, which move beside the parameters."""
        return bool(self._states)

    # --- evaluation ------------------------------------------------------------------------------

    def inputs_of(self, tokens: torch.Tensor) -> torch.Tensor:
        """X [P, n, D] of tokens, as [data] makes them."""
        kinds, n = self.program.vocabulary, tokens.shape[-1]
        places = n if self.settings["data"].get("positions") == "yes" else 0
        if kinds + places != self.dimension:
            raise InputError(f"inputs of this network have {self.dimension} numbers, which are not "
                             "those of a token and its place alone; give X")
        X = torch.nn.functional.one_hot(tokens, kinds).to(self.dtype)
        if places:
            place = torch.eye(n, dtype=self.dtype, device=X.device).expand(*tokens.shape, n)
            X = torch.cat([X, place], -1) / math.sqrt(2)
        return X * math.sqrt(self.dimension)

    def _run(self, X, tokens, of_start: bool, origin=None) -> Evaluation:
        prefix = "start_" if of_start else ""
        weights = {name: getattr(self, prefix + name) for name in self.weights} if of_start else \
            self.weights
        biases = {state: getattr(self, f"{prefix}selection_{state}") for state in self._states}
        if X.dim() not in (2, 3) or X.shape[-1] != self.dimension:
            raise InputError(f"X is {list(X.shape)}; this network takes [P, {self.dimension}] or "
                             f"[P, n, {self.dimension}] (an import makes them of its module's "
                             "images by inputs(x))")
        A = X.to(self.dtype) / math.sqrt(self.dimension)
        return Evaluation(self.program, weights, biases, A[:, None] if A.dim() == 2 else A, tokens,
                          self.training and not of_start, origin)

    def _shape(self, f: torch.Tensor) -> torch.Tensor:
        """[P] or [P, C], of outputs of tokens [P, n] or [P, n, C]."""
        f = f if self.program.output_of_token else f[:, 0]
        return f if self.program.outputs > 1 else f[..., 0]

    def evaluate(self, X: torch.Tensor | None = None,
                 tokens: torch.Tensor | None = None) -> Evaluation:
        """All values of an evaluation, in the order of the operations; its output is f as it is,
        nothing subtracted."""
        return self._run(self.inputs_of(tokens) if X is None else X, tokens, False)

    def forward(self, X: torch.Tensor | None = None,
                tokens: torch.Tensor | None = None) -> torch.Tensor:
        """f of inputs X, [P, D] or [P, n, D] as they are in the data, and of tokens [P, n], where
        there are kinds of them; of tokens alone where inputs are nothing else. f has the shape of
        the result file: [P], [P, C], [P, n] or [P, n, C]."""
        X = self.inputs_of(tokens) if X is None else X
        origin = None
        if self.centre:
            with torch.no_grad():
                origin = self._run(X, tokens, True).read_out
        self.last = self._run(X, tokens, False, origin)
        return self._shape(self.last.output)

    @property
    def penalty(self) -> torch.Tensor:
        """What the network adds to the loss, of the last call."""
        return self.last.penalty if self.last else torch.zeros((), dtype=self.dtype)

    def loss(self, f: torch.Tensor, y: torch.Tensor,
             weight: torch.Tensor | None = None) -> torch.Tensor:
        """The loss of the ini and what the network adds to it; f is that of the last call, weight
        that of the Data."""
        several = self.program.outputs > 1
        return loss_of(self.training_settings["loss"], f, y, several, weight) + self.penalty

    # --- training --------------------------------------------------------------------------------

    def parameter_groups(self, optimizer: str | None = None, eta0: float | None = None,
                         eps: float | None = None,
                         weight_decay: float | None = None) -> list[dict]:
        """Groups for torch.optim, one of each matrix that learns (with muon_heads = together one of
        the matrices of all heads); SGD has those of gd and momentum (of momentum
        with weight decay dmft.torch.Momentum: SGD puts the decay into the velocity).
        What is not given is as in the ini.

        >>> torch.optim.Adam(net.parameter_groups("adam", eta0=0.1))        # doctest: +SKIP
        """
        kind = optimizer or self.training_settings["optimizer"]
        if kind not in OPTIMIZERS:
            raise InputError(f"optimizer {kind!r}: must be one of {' '.join(OPTIMIZERS)}")
        program, said = self._trained_by(kind)
        eta0 = said["eta0"] if eta0 is None else eta0
        eps = said.get("eps", 1e-8) if eps is None else eps
        decay = said.get("weight_decay", 0) if weight_decay is None else weight_decay
        if kind == "muon":
            return [self._muon_group(program, W, said, eta0, eps, decay)
                    for W in program.matrices if W.learns and W is parts_of(program, W)[0]]
        return [self._group(W, scaling(program, W), kind, eta0, eps, decay)
                for W in program.matrices if W.learns]

    def _muon_group(self, program: Program, W: Matrix, said: dict, eta0: float, eps: float,
                    decay: float) -> dict:
        scale = scaling(program, W)
        group = {"params": [self.weights[W.name]], "name": W.name, "by": W.optimizer}
        if W.optimizer == "muon":
            least = 1e-12 / (self.program.gamma0 * scale.shape[0])
            group |= {"lr": eta0 * scale.muon, "least": least, "rows": W.muon_rows,
                      "columns": W.muon_columns}
            parts = parts_of(program, W)
            if len(parts) > 1:
                group |= {"name": W.muon_whole, "join": side_of(program, parts),
                          "params": [self.weights[one.name] for one in parts]}
        elif W.optimizer == "adam":
            group |= {"lr": said["rest_eta0"] * scale.adam, "eps": eps * scale.eps}
        else:
            group |= {"lr": said["rest_eta0"] * scale.sgd}
        return group | self._decay(W, group["lr"], decay)

    @staticmethod
    def _decay(W: Matrix, lr: float, decay: float) -> dict:
        if decay and not lr:
            raise InputError("weight decay at eta0 = 0 is what no optimizer of PyTorch has, "
                             "whose decay is lr times weight_decay; eta0 must be above 0")
        return {"weight_decay": W.decays * decay / lr if decay else 0}

    def _group(self, W: Matrix, scale: Scaling, kind: str, eta0: float, eps: float,
               decay: float) -> dict:
        group = {"params": [self.weights[W.name]], "name": W.name}
        group |= {"lr": eta0 * scale.adam, "eps": eps * scale.eps} if kind in BY_ENTRY else \
            {"lr": eta0 * scale.sgd}
        return group if kind == "adam" else group | self._decay(W, group["lr"], decay)

    def after_step(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """What acts once a step beside the gradient: selection biases move by the loads of the last
        call, and of an optimizer that decays so do matrices that never learn, by the share of the
        run's decay, which all of its groups with a decay tell."""
        for state, (load, share, eta, sign) in (self.last.loads if self.last else {}).items():
            excess = load - share
            if sign:    # round-off is no excess: loads are multiples of 1/inputs
                excess = torch.where(excess.abs() > 1e-9, excess.sign(), 0.0)
            if eta:
                getattr(self, f"selection_{state}").sub_(eta * excess)
        groups = optimizer.param_groups if optimizer else []
        parts = {W.name: W.decays for W in self.program.matrices}
        decays = [group["lr"] * group["weight_decay"] / (parts.get(group.get("name")) or 1)
                  for group in groups if group.get("weight_decay")]
        fixed = [W.name for W in self.program.matrices if W.decays and not W.learns]
        if fixed and decays and max(decays) - min(decays) > 1e-6 * max(decays):
            raise InputError(f"{', '.join(fixed)}: never learns and decays with all others, but "
                             "the groups of the optimizer have different decays: lr times "
                             "weight_decay, over `decays` of the matrix, is from "
                             f"{min(decays):g} to {max(decays):g}")
        with torch.no_grad():
            for name in fixed if decays else ():
                self.weights[name].mul_(1 - parts[name] * decays[0])

    def clip(self, most: float) -> float:
        """Gradients whose norm, in the units in which every entry learns at one rate
        (docs/learning.md (10.1)), is above `most` are scaled down to it; returns the norm."""
        learning = [(self.scale[name].sgd, V) for name, V in self.weights.items()
                    if V.grad is not None]
        norm = math.sqrt(sum(rate * V.grad.square().sum().item() for rate, V in learning))
        for _, V in learning if norm > most else ():
            V.grad.mul_(most / norm)
        return norm

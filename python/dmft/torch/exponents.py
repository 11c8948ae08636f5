"""The scales and rates of somebody's own module beside those of a network: how they go with the
width."""
from __future__ import annotations

import dataclasses
import math
import re

import torch

from dmft.description import Description, Matrix, Program, stem
from dmft.errors import InputError
from dmft.power import slope
from dmft.run import describe
from dmft.scaling import scaling
from dmft.torch.inputs import ALONE
from dmft.torch.optimizer_laws import Law, optimizer_laws
from dmft.torch.pieces import Piece, parameters_of, pieces_of
from dmft.torch.same_outputs import Outputs, compare_outputs
from dmft.torch.strangers import built

CLOSE = 0.05  # of an exponent
LEAST = 0.5  # power by which starts and rates of parameterizations differ


@dataclasses.dataclass
class Tensor:
    """A tensor of the module and what it stands for: exponents over the width of the two of them,
    None where a number is zero; `learned` is by which power its updates are off, infinite where no
    power bounds them. Verdicts are what makes another limit of it; remarks are of Adam's eps and of
    weight decay, which may be too small to matter; unknown is what cannot be told."""
    name: str
    ours: str
    std: float | None
    std_ours: float | None
    lr: float | None
    lr_ours: float | None
    learned: float | None
    verdicts: list[str]
    remarks: list[str]
    unknown: list[str]

    @property
    def agrees(self) -> bool:
        """Whether the limit is that of the network, as far as this tensor decides it."""
        return not self.verdicts

    @property
    def text(self) -> str:
        """All that is said of it."""
        return "; ".join([*(self.verdicts or ["as ours"]), *self.remarks, *self.unknown])


@dataclasses.dataclass
class Check:
    """What check has found, tensor by tensor; names on either side that were not given; whether
    both give the same outputs from the same weights; and {line of the module: by which power of the
    width what it computes is off, which no tensor carries}."""
    tensors: list[Tensor]
    widths: tuple[int, int]
    unnamed: list[str]
    missing: list[str]
    outputs: Outputs
    left: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def agrees(self) -> bool | None:
        """True where every trainable tensor goes with the width as its matrix does, and both give
        the same outputs from the same weights at both widths; False where a tensor or a factor of
        the forward pass does not; None where a tensor or something of it was not compared, or the
        outputs are others or were not."""
        if self.left or not all(tensor.agrees for tensor in self.tensors):
            return False
        whole = not self.unnamed and not self.missing and self.outputs.same \
            and not any(tensor.unknown for tensor in self.tensors)
        return True if whole else None

    def __getitem__(self, name: str) -> Tensor:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise InputError(f"nothing was compared under the name {name}; there are "
                         + " ".join(tensor.name for tensor in self.tensors))

    def __str__(self) -> str:
        head = ["tensor", "is", "std", "ours", "lr", "ours", "in the limit"]
        rows = _folded([[t.name, t.ours, _text(t.std), _text(t.std_ours), _text(t.lr),
                         _text(t.lr_ours), t.text] for t in self.tensors])
        wide = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
        lines = ["  ".join(map(str.ljust, row, wide)).rstrip() for row in [head, *rows]]
        if self.unnamed:
            lines.append("not compared: " + " ".join(self.unnamed))
        if self.missing:
            lines.append("matrices of the network that nothing stands for: "
                         + " ".join(self.missing))
        lines += [f"{place}: what is computed here {'grows' if power > 0 else 'vanishes'} as "
                  f"N^{power:.2f}, and no tensor carries it: multiply it by N^{-power:.2f}"
                  for place, power in self.left.items()]
        return "\n".join([*lines, str(self.outputs)])


def _folded(rows: list[list[str]]) -> list[list[str]]:
    """Tensors that are one of several alike, such as experts, and of which the same is said, are
    one row, with the exponents of the first."""
    alike: dict = {}
    for row in rows:
        said = re.sub(r"[-\d.]+", "#", row[-1])
        alike.setdefault((re.sub(r"\d+", "*", row[0]), stem(row[1]), said), []).append(row)
    return [same[0] if len(same) == 1 else
            [f"{name} ({len(same)})", f"{matrix}_*", *same[0][2:]]
            for (name, matrix, _), same in alike.items()]


def _text(exponent: float | None) -> str:
    return "zero" if exponent is None else f"N^{round(exponent, 2) + 0.0:.2f}"


# --- both sides ------------------------------------------------------------------------------

@dataclasses.dataclass
class Side:
    """Numbers of one tensor at both widths: std and its round-off of sampling, lr, eps, decay."""
    std: list[float]
    lr: list[float]
    eps: list[float]
    decay: list[float | None] = dataclasses.field(default_factory=list)
    sampling: float = 0


def _theirs(models, laws: list[dict[str, Law]], piece: Piece, widths) -> Side:
    """As the module uses it: multiplied by what the forward pass multiplies it by."""
    side, errors = Side([], [], []), []
    for model, law_of, N in zip(models, laws, widths):
        c, V = piece.factor(N), piece.of(parameters_of(model)[piece.parameter].detach())
        law = law_of.get(_first_name(model, piece.parameter))
        side.std.append(abs(c) * V.square().mean().sqrt().item())
        side.lr.append((c * c if law.by_entry is False else abs(c)) * law.rate if law else 0)
        side.eps.append(law.eps / abs(c) if law else 0)
        side.decay.append(law.decay if law else 0)
        errors.append(1 / (2 * V.numel()))
    side.sampling = math.sqrt(sum(errors))
    return side


def _first_name(model, name: str) -> str:
    """A tied parameter has several names, and model.named_parameters() one of them."""
    V = parameters_of(model)[name]
    return next(one for one, U in model.named_parameters() if U is V)


def _ours(networks: list[Program], piece: Piece, by_entry: bool) -> Side:
    """Numbers over eta0 and eps; of a matrix that starts at zero the std it would have else. Of one
    that reads ones those of the vector that comes of it."""
    side = Side([], [], [])
    for network in networks:
        W = network.matrix(piece.matrix)
        scale = scaling(network, dataclasses.replace(W, a0=W.a0 or 1.0, s_f=W.s_f or 1.0))
        m = scale.shape[1] if piece.vector else 1
        side.std.append(scale.std * math.sqrt(m))
        side.lr.append((scale.adam if by_entry else scale.sgd) * m if W.learns else 0)
        side.eps.append(scale.eps)
    return side


class Pair:
    """A tensor of the module and the matrix it stands for."""

    def __init__(self, piece: Piece, matrix: Matrix, by_entry: bool | None, theirs: Side,
                 ours: Side, widths):
        self.name, self.matrix, self.by_entry = piece.name, matrix, by_entry
        self.vector = piece.vector or matrix.kind == "vector"
        self.decay = None if None in theirs.decay else slope(theirs.decay, widths)
        self.decays = [one for one in theirs.decay if one != 0]
        self.std, self.lr, self.eps = (slope(side, widths)
                                       for side in (theirs.std, theirs.lr, theirs.eps))
        self.std_ours, self.lr_ours, self.eps_ours = (slope(side, widths)
                                                      for side in (ours.std, ours.lr, ours.eps))
        self.zero = matrix.kind != "bias" and 0 in (matrix.a0, matrix.s_f)
        self.sampling = theirs.sampling / math.log(widths[1] / widths[0])
        self.error = max(CLOSE, 4 * self.sampling)

    @property
    def start(self) -> float:
        """By which power of the width its start is off."""
        if self.matrix.kind == "bias" or self.vector:
            return 0.0 if self.std is None else self.std
        if self.std is None:
            return 0.0 if self.zero else -math.inf
        return self.std - self.std_ours

    @property
    def rate(self) -> float:
        """By which its lr is; a frozen one by all."""
        return -math.inf if self.lr is None or self.lr_ours is None else self.lr - self.lr_ours

    def tensor(self, gradient: float, error: float) -> Tensor:
        """What is said of it, where its gradient is off by this power, known to this error."""
        learned, eps, sure = None, None, CLOSE if self.by_entry else error
        if self.lr is not None and self.lr_ours is not None and self.by_entry is not None:
            learned = self.rate + (0 if self.by_entry else gradient)
            if self.by_entry and self.eps is not None:
                eps = self.eps - self.eps_ours - gradient
        return Tensor(self.name, self.matrix.name, self.std,
                      None if self.zero else self.std_ours, self.lr, self.lr_ours, learned,
                      [*self._of_start(), *self._of_rate(), *self._of_updates(learned, sure)],
                      [*self._of_eps(eps, error), *self._of_decay()],
                      [*self._of_what_is_not_known(), *self._of_noise(learned, sure)])

    def _of_start(self):
        if self.start == -math.inf:
            yield "starts at zero"
        elif self.start > self.error:
            summed = self.matrix.kind not in ("read_in", "embed", "bias") and not self.vector
            gives = self.std + (0.5 if summed else 0)
            yield f"what it gives at the start explodes as N^{gives:.2f}" if gives > self.error \
                else f"gives at the start N^{self.start:.2f} times what ours does"
        elif self.start < -self.error:
            yield f"what it gives at the start vanishes beside ours as N^{self.start:.2f}"
        elif self.zero and self.std is not None and not self.vector:
            yield "does not start at zero"

    def _of_rate(self):
        if self.lr is None and self.lr_ours is not None:
            yield "is frozen"
        elif self.lr is not None and self.lr_ours is None:
            yield "learns, which ours does not"

    def _of_decay(self):
        """Ours takes the same share of a matrix in each step at every width."""
        if self.decay is not None and abs(self.decay) > CLOSE:
            yield f"decay takes a share of it that {'grows' if self.decay > 0 else 'falls'} as " \
                f"N^{self.decay:.2f}"

    def _of_what_is_not_known(self):
        if None in self.decays:
            yield "its decay is no fixed share of it, and is not judged"
        if self.by_entry is None:
            yield "how its updates go with its gradient is not known, and they are not judged"

    def _of_noise(self, learned: float | None, sure: float):
        """At small widths a start is measured from few numbers, and may be off unseen: what is
        found is as ours, and within two standard errors also off by the least power there is."""
        drawn = self.std is not None and self.matrix.kind != "bias"
        if drawn and LEAST - self.error / 2 <= abs(self.start) <= self.error:
            yield f"its start is known to N^+-{self.error / 2:.2f} alone, which larger widths mend"
        elif learned is not None and LEAST - sure / 2 <= abs(learned) <= sure:
            yield f"its updates are known to N^+-{sure / 2:.2f} alone, which larger widths mend"

    @staticmethod
    def _of_updates(learned: float | None, error: float):
        if learned == math.inf:
            yield "its updates diverge: those of matrices behind it explode, by a larger power " \
                "of N in each step; mend these, or take a smaller lr"
        elif learned is not None and learned > error:
            yield f"its updates explode as N^{learned:.2f}"
        elif learned is not None and learned < -error:
            yield f"lazy: its updates vanish as N^{learned:.2f}"

    @staticmethod
    def _of_eps(eps: float | None, error: float):
        if eps is not None and error < abs(eps) < math.inf:
            yield f"eps {'grows' if eps > 0 else 'falls'} beside its gradient as N^{eps:.2f}"


# --- the whole -------------------------------------------------------------------------------

def _downstream(network: Program, pairs: dict[str, Pair], error: float) -> dict[str, float]:
    """{matrix: by which power the gradient that arrives at it is off in the first steps}: along the
    worst path to the output, each matrix by its start, or if that is zero by what it learns. Where
    numbers take a mean over sites, what is random adds up to N^0.5 less than what has learned.

    What a matrix moved by gradients learns is known to `error`, and is 0 within it: each of several
    in a row would double it else. Where two of them explode in a row it is more in each step, as
    each multiplies the gradient of the other, and what arrives in front of them is infinite."""
    operations = network.operations
    arriving = [-math.inf] * len(operations)
    exploded = [False] * len(operations)    # on the way from the output, by what was learned
    arriving[network.output] = 0.0
    powers: dict[str, float] = {}
    for i in reversed(range(len(operations))):
        name, own, explodes = operations[i].matrix, 0.0, False
        if arriving[i] == -math.inf:
            continue
        if name:
            powers[name] = max(powers.get(name, -math.inf), arriving[i])
        if name in pairs and pairs[name].matrix.kind != "bias" and not pairs[name].vector:
            own = pairs[name].start
            if own == -math.inf:
                own = pairs[name].rate
                if not pairs[name].by_entry and own > -math.inf:
                    own += arriving[i]
                    own = own if abs(own) > error else 0.0
                    explodes = own > 0
        if own == -math.inf:
            continue
        for k in operations[i].arguments:
            power = math.inf if explodes and exploded[i] else arriving[i] + own
            if operations[i].population is not None and operations[k].population is None:
                power = max(power - 0.5, min(power, 0))
            if power > arriving[k]:
                arriving[k], exploded[k] = power, exploded[i] or explodes
    return powers


def _models(given, widths):
    if callable(given) and not isinstance(given, torch.nn.Module):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return [built(given, N) for N in widths]
    models = list(given) if isinstance(given, (list, tuple)) else []
    if len(models) != 2 or not all(isinstance(one, torch.nn.Module) for one in models):
        raise InputError("models: must be a function of the width, or two modules")
    return models


def _described(ini, widths, by_entry: bool, network, keys) -> Description:
    """With an optimizer of the kind of theirs."""
    keys = keys | ALONE | {"reference.widths": list(widths)}
    found = describe(ini, network=network, **keys)
    ours = found.settings["training"]["optimizer"]
    if ours == "muon" or by_entry == (ours in ("gd", "momentum")):
        found = describe(ini, network=network, **keys | {
            "training.optimizer": "adam" if by_entry else "gd"})
    return found


def check(models, names, ini=None, widths=None, *, optimizer, network=None, **keys) -> Check:
    """How the scales and rates of your own module go with the width, beside those of the network of
    an ini: tensor by tensor what differs, and what it does in the limit.

    models: a function of the width that builds it, or the modules of the two widths. names: {name
    of a parameter: matrix}, or (matrix, c) where the forward pass multiplies the parameter by c, a
    number or a function of the width; a list of matrices of a tensor that holds several, one block
    of rows after the other; "experts.*.up.weight": "W2_*" for all experts. optimizer: a function of
    the module that gives its optimizer, or a list of several, or groups of Adam. How far it moves
    each tensor is measured by a step of a copy. Numbers that do not go with the width are not
    judged.

    Then both compute outputs from the same weights (moved away from where they start), at both
    widths. Only where these are the same, and every trainable tensor has its matrix, does the whole
    agree: a factor of the forward pass that no tensor carries shows nowhere else.

    Without an ini the network is the module itself, as import_module reads it, and names is an
    example of its inputs; other keywords are those of import_module.

    >>> check(build, {"head.weight": "w"}, "data/regime1.ini",
    ...       optimizer=lambda model: torch.optim.Adam(model.parameters(), 1e-3))
    ...                                                                     # doctest: +SKIP
    """
    if isinstance(names, torch.Tensor) and ini is None and network is None:
        return _imported(models, names, widths, optimizer, keys)
    if not isinstance(names, dict) or ini is None and network is None:
        raise InputError("names: must be {parameter: matrix}, with the ini of a network, or, "
                         "without one, a tensor of inputs, with which the module is imported")
    widths = widths or (256, 1024)
    if len(widths) != 2 or not 0 < widths[0] < widths[1]:
        raise InputError(f"widths {' '.join(map(str, widths))}: must be two, the larger one last")
    models = _models(models, widths)
    laws = [optimizer_laws(model, optimizer) for model in models]
    kinds = {law.by_entry is not False for law in laws[0].values()} or {False}
    described = {kind: _described(ini, widths, kind, network, keys) for kind in sorted(kinds)}
    some = next(iter(described.values()))
    networks = {kind: [found[N] for N in widths] for kind, found in described.items()}
    of_sizes = [pieces_of(names, model, some[N], some.dimension)
                for model, N in zip(models, widths)]
    pieces, pairs = of_sizes[0], []
    for piece in pieces:
        law = laws[0].get(_first_name(models[0], piece.parameter))
        kind = law.by_entry is not False if law else max(kinds)
        pairs.append(Pair(piece, networks[kind][0].matrix(piece.matrix),
                           law.by_entry if law else kind, _theirs(models, laws, piece, widths),
                           _ours(networks[kind], piece, kind), widths))
    ours = next(iter(networks.values()))[0]
    known = {piece.matrix for piece in pieces}
    there = parameters_of(models[0])
    compared = [there[piece.parameter] for piece in pieces]
    unnamed = [name for name, V in models[0].named_parameters()
               if not any(V is one for one in compared)]
    missing = [W.name for W in ours.matrices if W.name not in known]
    outputs = Outputs(None, "not every tensor has its matrix") if unnamed or missing else \
        compare_outputs(models, of_sizes, widths, ini, network, keys)
    return judged(pairs, ours, widths, unnamed, missing, outputs)


def _imported(build, example, widths, optimizer, keys) -> Check:
    """The check of a module beside the network that it is."""
    import dmft.torch
    given = {"widths": widths} if widths else {}
    try:
        mine = dmft.torch.import_module(build, example, **given, **keys)
    except InputError as error:
        raise InputError("cannot tell how the scales go with the width, since the module is no "
                         f"network of this program: {error.sentence}") from error
    return mine.check(optimizer)


def judged(pairs: list[Pair], network: Program, widths, unnamed: list[str], missing: list[str],
           outputs: Outputs, left=()) -> Check:
    """What is said of pairs of tensors and matrices of a network; unnamed: parameters without a
    matrix, missing: matrices without a parameter, left: of Check."""
    error = max(CLOSE, 4 * math.hypot(*(pair.sampling for pair in pairs
                                        if pair.matrix.kind != "bias")))
    gradients = _downstream(network, {pair.matrix.name: pair for pair in pairs}, error)
    return Check([pair.tensor(gradients.get(pair.matrix.name, 0.0), error) for pair in pairs],
                 tuple(widths), unnamed, missing, outputs, dict(left))

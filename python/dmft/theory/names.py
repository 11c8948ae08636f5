r"""Symbols of the names in a description: h1 is h^{(1)}, h_in h^{\mathrm{in}}, psi_0 \psi_0."""
from __future__ import annotations

import re

from dmft.theory.structure import Symbol

GREEK = ("Gamma Delta Theta Lambda Sigma Phi Psi Omega alpha beta gamma delta epsilon kappa lambda "
         "sigma phi psi omega chi xi rho iota eta mu nu tau theta").split()
ACCENTS = {"bar": r"\bar", "til": r"\tilde", "tilde": r"\tilde", "hat": r"\hat"}
KEYS = {"expert_width": "N_e", "experts": "M", "depth": "L", "dimension": "D",
        "N_e": "N_e", "units": "N_e",
        "heads": "H", "expert_layers": "E", "attention_beta": r"\beta_A", "branch": "b",
        "router_rate": r"\eta_r", "balance_loss": r"\lambda_{\mathrm{bal}}",
        "z_loss": r"\lambda_z", "eta_bias": r"\eta_b", "head_size": r"\nu",
        "attention_width": r"\nu"}


def _head(word: str) -> tuple[str, str]:
    """(TeX of a Greek or Latin letter at the start, what follows)."""
    for name in sorted(GREEK, key=len, reverse=True):
        if word.startswith(name):
            return "\\" + name, word[len(name):]
    return word[:1], word[1:]


def of(name: str, expert: bool = False) -> Symbol:
    """The symbol of a name. expert: whether its last number tells experts (or heads) apart.

    >>> of("h1"), of("W_in_0").indices, of("Phitil").base
    (Symbol(base='h', words=(), indices=(('layer', 1),)), (('block', 0),), '\\\\tilde{\\\\Phi}')
    >>> of("W_3_1").indices, of("W2_0_1").indices
    ((('layer', 3), ('block', 1)), (('layer', 2), ('block', 0), ('block', 1)))
    """
    first, *rest = [word for word in name.split("_") if word] or ["x"]
    base, tail = _head(first)
    words, indices = [], []
    match = re.fullmatch(r"(\d*)([A-Za-z]*)(\d*)", tail)
    if match:
        number, letters, after = match.groups()
        if letters in ACCENTS:
            base, letters = f"{ACCENTS[letters]}{{{base}}}", ""
        if number:
            indices.append(("layer", int(number)))
        if len(letters) > 1 and base.islower() and not base.startswith("\\"):
            base, letters = rf"\mathrm{{{base}{letters}}}", ""
        if letters:
            words.append(letters)
        if after:
            indices.append(("layer", int(after)))
    elif tail:
        words.append(tail)
    if base.isupper() and not tail and len(rest) == 2 and all(map(str.isdigit, rest)):
        indices.append(("layer", int(rest.pop(0))))     # W_3_1 is the third matrix of block 1
    for word in rest:
        match = re.fullmatch(r"([A-Za-z]*)(\d+)", word)
        if match and (not match.group(1) or len(rest) == 1 or word == rest[-1]):
            if match.group(1):
                words.append(match.group(1))
            indices.append(("block", int(match.group(2))))
        else:
            words.append(word)
    if expert and indices:
        indices[-1] = ("expert", indices[-1][1])
    return Symbol(base, tuple(words), tuple(indices))


def key(name: str) -> str:
    r"""TeX of a key of the ini.

    >>> key("kappa"), key("expert_width"), key("gain")
    ('\\kappa', 'N_e', '\\mathrm{gain}')
    """
    if name in KEYS:
        return KEYS[name]
    head, tail = _head(name)
    if not tail:
        return head
    return rf"\mathrm{{{name}}}".replace("_", r"\_")


def cotangent(symbol: Symbol) -> Symbol:
    """The symbol of the cotangent of a row: g with all that tells it apart."""
    words = symbol.words if symbol.base == "h" else (symbol.base, *symbol.words)
    return Symbol("g", words, symbol.indices)


def like(base: str, matrix: Symbol) -> Symbol:
    """A symbol that goes with a matrix: a field, a response, what comes back."""
    words = matrix.words if matrix.base == "W" else (matrix.base, *matrix.words)
    return Symbol(base, words, matrix.indices)

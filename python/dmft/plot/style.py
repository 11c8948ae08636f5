"""How pictures look: sizes, colours, names, figures with panels and a legend beside them."""
from __future__ import annotations

import re

from dmft.errors import InputError

STYLE = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 8,
    "legend.title_fontsize": 8, "legend.frameon": False, "xtick.labelsize": 8,
    "ytick.labelsize": 8, "xtick.major.width": 0.7, "ytick.major.width": 0.7,
    "axes.linewidth": 0.7, "lines.linewidth": 1.4, "axes.spines.top": False,
    "axes.spines.right": False, "axes.formatter.limits": (-3, 4), "savefig.dpi": 200,
    "figure.constrained_layout.use": True}
# Okabe and Ito's colours, told apart by everybody: for times, experts and kernels.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F"]
BANDS = "bands: 95 %"
BARS = "bars: 95 %"
NAMES = {"mup": "\u03bcP", "mssp": "MSSP", "sp": "SP", "ntp": "NTP", "simp": "simP"}


class Missing(InputError):
    """The file has no data for a picture; the text is a sentence."""


class NotThere(Missing):
    """Something asked for by name is not in the file."""


def short(key: str) -> str:
    """A key in a picture: its last word, and of a matrix the section as well, without which a rate
    could not be told from a start.

    >>> short("network.depth"), short("rates.W1")
    ('depth', 'rates.W1')
    """
    section, _, word = key.rpartition(".")
    return key if section in ("init", "rates", "eps", "decays") else word


def symbol(name):
    """Phi2_0 -> $\\Phi_{2,0}$."""
    match = re.fullmatch(r"(Phi|G|Ch|Cg|Mphi|Mg|MAA)_?(.*)", name)
    if not match:
        return name
    head = {"Phi": r"\Phi", "Ch": "C^h", "Cg": "C^g", "Mphi": r"M^\phi", "Mg": "M^g",
            "MAA": "M^A"}.get(match[1], match[1])
    return "$%s_{%s}$" % (head, match[2].replace("_", ",").replace("phi", r"\phi"))

"""The table of a recipe as text, Markdown, LaTeX and HTML."""
from __future__ import annotations

import html as markup
import re

from dmft.description import stem
from dmft.errors import InputError
from dmft.power import Law
from dmft.sizes import MEANING

TITLES = {"std": "std", "sgd": "lr, SGD", "adam": "lr, Adam", "eps": "eps", "decay": "weight decay",
          "muon": "lr, Muon"}
MARK = "*"


class Style:
    """How laws and words are written; this one is plain text."""
    times = " x "

    def law(self, law: Law) -> str:
        """A law, marked where it is none."""
        return " ".join(law.words()) + ("" if law.exact else " " + MARK)

    def word(self, text: str) -> str:
        """Any other text."""
        return text


class Markdown(Style):
    """Cells of a table in Markdown."""

    def word(self, text: str) -> str:
        return re.sub(r"([|*])", r"\\\1", text)


class Latex(Style):
    """Cells of a tabular."""
    times = r" $\times$ "

    def law(self, law: Law) -> str:
        words = law.words(lambda size: r"\gamma_0" if size == "gamma0" else size,
                          "{}^{{{}}}".format)
        words = [rf"\cdot 10^{{{int(word.split('e')[1])}}}".join([word.split("e")[0], ""])
                 if "e" in word and word[0].isdigit() else word for word in words]
        return "$" + r"\,".join(words) + ("" if law.exact else "^{*}") + "$"

    def word(self, text: str) -> str:
        from dmft.theory.symbols import printed     # whose package takes a while to import
        return printed(text)


class Html(Style):
    """Cells of a table in a notebook."""
    times = " &times; "

    def law(self, law: Law) -> str:
        def name(size):
            size = size.replace("gamma0", "&gamma;_0")
            stem, _, index = size.partition("_")
            return f"{stem}<sub>{index}</sub>" if index else stem
        return " ".join(law.words(name, "{}<sup>{}</sup>".format)) + \
            ("" if law.exact else " " + MARK)

    def word(self, text: str) -> str:
        return markup.escape(text)


def sizes(values) -> str:
    """Sizes with their values."""
    return ", ".join(f"{size} = {value:g}" for size, value in values.items())


def by_muon(recipe) -> bool:
    """Whether Muon has a column."""
    return any(family.optimizer == "muon" for family in recipe.families)


def columns(recipe) -> list[str]:
    """The numbers that the table has."""
    return [name for name in TITLES if name != "muon" or by_muon(recipe)]


def _cells(recipe, one, style: Style) -> tuple[str, ...]:
    """All of a tensor behind its name."""
    fixed = one.sgd is None
    words = [style.law(one.rows) + style.times + style.law(one.columns)]
    for name in columns(recipe):
        law = one.numbers()[name]
        if law is not None:
            words.append(style.law(law))
        else:
            words.append("given" if name == "std" else "fixed" if fixed and name in ("sgd", "adam")
                         else "")
    return tuple(words)


def rows(recipe, style: Style) -> list[list[str]]:
    """The head and a row for each tensor; parameterizations or points that agree share one."""
    several = len(recipe.families) > 1
    head = ["tensor", *[style.word(recipe.heading)] * several]
    long = "," in recipe.heading
    agree: dict[str, dict] = {}
    labels = {}
    for one in recipe.tensors:
        cells = _cells(recipe, one, style)
        agree.setdefault(one.name, {}).setdefault(cells, []).append((one.point or "", one.count))
        labels[one.name] = ", ".join(one.labels)
    together: dict = {}  # rows of one label, or of one name but for the numbers behind it
    for name, mine in agree.items():
        one = labels[name], "" if labels[name] else stem(name)
        together.setdefault((one, repr(mine)), []).append(name)
    numbered = any(len(names) > 1 for names in together.values()) or \
        any(str(one.count) != "1" for one in recipe.tensors)
    found = [head + ["number"] * numbered + ["shape", *(TITLES[name] for name in columns(recipe))]]
    for ((label, _), _), names in together.items():
        for cells, those in agree[names[0]].items():
            words = [point for point, _ in those]
            all_of_them = long and len(words) == len(recipe.families)
            which = "all" if all_of_them else ("; " if long else " ").join(words)
            number = style.law(those[0][1] * Law(float(len(names))))
            found.append([style.word(label or " ".join(names)), *[style.word(which)] * several,
                          *[number] * numbered, *cells])
    return found


def notes(recipe) -> list[str]:
    """Whole sentences."""
    free = recipe.families[0].free
    if recipe.title:
        found = [recipe.title + "."]
    else:
        found = ["Sizes, and what they are in the ini: " + ", ".join(
            f"{size} {MEANING[size]} ({recipe.sizes[size]:g})" for size in free) + "."]
    if not recipe.title.startswith("Multipliers"):
        found.append("A tensor V of shape n x m is used as x @ V.T; the gradient is that of the "
                     "mean loss of a step.")
        found.append("Learning rates are to be multiplied by eta0, eps by [training] eps, and "
                     "weight decay, which is that of torch's AdamW, by omega/eta0, where a step "
                     "takes p *= 1 - omega: with eta0 = 0.1 and omega = 0.001 an entry of 64 is "
                     "weight_decay = 0.64. With SGD it is omega over the learning rate of SGD.")
        found.append("Momentum has the rates of SGD, AdamW and Lion those of Adam.")
        if by_muon(recipe):
            found.append("The ini trains by Muon, p += lr NS(M/|M|), M the momentum and |M| the "
                         "root of the sum of its squares, with the lr of the last column over "
                         "eta0; where experts or heads are matrices of their own (muon_experts or "
                         "muon_heads = each), of each part; with muon_heads = together, of the "
                         "matrix of all heads. What has no lr there is left to SGD or Adam, at "
                         "rest_eta0 in "
                         "the place of eta0. The weight decay of what Muon moves is omega/lr.")
    idle = recipe.families[0].idle
    if idle:
        found.append(f"Of the sweep {', '.join(idle)} change{'s' * (len(idle) == 1)} nothing in "
                     "this table; sizes are those of its first point.")
    D = "D" if "D" in free and not recipe.title else f"{recipe.sizes['D']:g}"
    if any(one.kind == "read_in" for one in recipe.tensors):
        found.append("Read-ins act on the inputs x as they are." if recipe.raw else
                     f"Read-ins act on x/sqrt({D}); of inputs x as they are, divide std and Adam's "
                     f"rate by sqrt({D}) and SGD's rate by {D}, and multiply eps and weight decay "
                     f"by sqrt({D}).")
    alone = list(dict.fromkeys(
        one.name + ("" if one.decays == 1 else f" by {one.decays:g} omega")
        for one in recipe.tensors if one.sgd is None and one.decays))
    if alone:
        found.append(f"What is fixed ({', '.join(alone)}) decays nevertheless where an optimizer "
                     "has weight decay: p *= 1 - omega at each step, which a rate of 0 would not "
                     "do.")
    if "D" not in free and not recipe.title:
        found.append(f"The dimension of the inputs cannot be varied here: its powers, at D = "
                     f"{recipe.sizes['D']:g}, are part of the coefficients.")
    if not all(one.exact for one in recipe.tensors):
        found.append(f"{MARK} is no product of powers of these sizes; the number is that of the ini"
                     " and its first width, and `at` gives it at others.")
    return found


def text(recipe) -> str:
    """An aligned table, the numbers of it at two widths, and the notes."""
    return "\n".join([*_aligned(rows(recipe, Style())), "", *_at_two_widths(recipe),
                      *notes(recipe)])


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
             for row in table]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def _at_two_widths(recipe) -> list[str]:
    """What is read at once, where the powers above take thought: std and learning rates at the
    first width of the ini and at four times it. Of laws alone; [] where the recipe is numbers."""
    if recipe.title or any("N" not in family.free for family in recipe.families):
        return []
    N = recipe.sizes["N"]
    try:
        both = [rows(recipe.at(N=width), Style()) for width in (N, 4 * N)]
    except InputError:  # networks four times as wide may have no such data
        return []
    if len(both[0]) != len(both[1]):
        return []
    first = both[0][0].index("shape")
    names = [name for name in (TITLES[k] for k in ("std", "sgd", "adam", "muon"))
             if name in both[0][0]]
    table = [both[0][0][:first] + names]
    for one, other in zip(both[0][1:], both[1][1:]):
        pairs = [(one[both[0][0].index(name)], other[both[0][0].index(name)]) for name in names]
        table.append(one[:first] + [a if a == b else f"{a}, {b}" for a, b in pairs])
    return [f"At N = {N:g}, and where it is another number at N = {4 * N:g}, with the ratios of "
            "the ini:", *_aligned(table), ""]


def markdown(recipe) -> str:
    """A table of Markdown."""
    head, *rest = [f"| {' | '.join(row)} |" for row in rows(recipe, Markdown())]
    columns = head.replace(r"\|", "").count("|") - 1
    return "\n".join([head, "|" + " --- |" * columns, *rest])


def latex(recipe) -> str:
    """A tabular."""
    head, *rest = [" & ".join(row) + r" \\" for row in rows(recipe, Latex())]
    columns = "l" * (head.count("&") + 1)
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *rest,
                      r"\hline", r"\end{tabular}"])


def html(recipe) -> str:
    """A table and the notes."""
    head, *rest = rows(recipe, Html())
    lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rest]
    return "<table>" + "".join(lines) + "</table><p>" + \
        "<br>".join(map(markup.escape, notes(recipe))) + "</p>"

r"""What a page of equations says in words, and the formulas of losses."""
from dmft.rows import LOSSES as ROWS
from dmft.rows import WORDS as OPERATIONS

LOSSES = {
    "mse": (r"\tfrac12\sum_c(y_c-f_c)^2", r"y_c-f_c", r"\tfrac12(y-f)^2", "y-f"),
    "huber": (r"\sum_c d_c\bigl(|y_c-f_c|-\tfrac12d_c\bigr),\ d_c=\min(|y_c-f_c|,1)",
              r"\max(-1,\min(1,y_c-f_c))", r"d\bigl(|y-f|-\tfrac12d\bigr),\ d=\min(|y-f|,1)",
              r"\max(-1,\min(1,y-f))"),
    "logistic": ("", "", r"\ln\bigl(1+e^{-yf}\bigr)", r"\frac{y}{1+e^{yf}}"),
    "hinge": ("", "", r"\max(0,1-yf)", r"y\,\mathbf 1[yf<1]"),
    "cross_entropy": (r"-\sum_c y_c\ln\mathrm{softmax}(f)_c", r"y_c-\mathrm{softmax}(f)_c",
                      r"-\sum_c y_c\ln\mathrm{softmax}(f)_c", r"y-\mathrm{softmax}(f)")}
NOTES = {
    "sigmoid": r"$\mathrm{sig}(x)=1/(1+e^{-x})$.",
    "silu": r"$\mathrm{silu}(x)=x/(1+e^{-x})$.",
    "gelu": r"$\mathrm{gelu}(x)=\tfrac x2\bigl(1+\mathrm{erf}(x/\sqrt2)\bigr)$.",
    "softplus": r"$\mathrm{softplus}(x)=\ln(1+e^x)$.",
    "relu": r"$\mathrm{relu}(x)=\max(0,x)$.",
    "group": r"$\langle\,\rangle_j$ is the mean over the sites of a group.",
    "copies": r"$\langle\,\rangle_i$ is the mean over the groups.",
    "inputs": r"$\langle\,\rangle_\mu$ is the mean over all inputs.",
    "measured": "Names beside kernels are those of result files.",
    "norm": r"$\mathrm{norm}(x)=x/\langle x\,x\rangle^{1/2}$ and its transpose "
            r"$\mathrm{norm}'_x[g]=(g-y\,\langle y\,g\rangle)/\langle x\,x\rangle^{1/2}$ "
            r"with $y=\mathrm{norm}(x)$.",
    "softmax_of_sites": r"Over sites $\mathrm{softmax}(\psi)=e^{\psi}/\langle e^{\psi}\rangle$.",
    "masked": r"$\mathrm{softmax}_m(\psi)=m\,e^{\psi}/\langle m\,e^{\psi}\rangle$.",
    "top": r"$\mathrm{top}_\rho$ is 1 on the share $\rho$ of the sites that is largest, else 0, "
           r"and a constant in the backward pass.",
    "noise_of_rows": r"$\mathcal N(0,1)$ are standard normals, independent at every site, input, "
                     r"token and step, and constants in the backward pass; a test input has 0 "
                     r"in their place.",
    "constant": r"$\mathrm{const}$ are given numbers of a site, at its place $u$ among all or in "
                r"its group, and of a token $\tau$ where there are any.",
    "top_rows": r"$\mathrm{top}^\tau_C(x)$ is 1, at each site or of each number, on the $C$ tokens "
                r"of an input whose $x$ is largest, else 0, and a constant in the backward pass.",
    "first_rows": r"$\mathrm{first}^\tau_C(x)$ is 1, at each site or of each number, on the first "
                  r"$C$ tokens of an input whose $x$ is above 0, else 0, and a constant in the "
                  r"backward pass.",
    "input": r"$\mathrm{input}_{a\ldots b}$ are the numbers $a$ to $b$ of an input.",
    "kinds_and_places": r"$\mathrm{input}_{a\ldots b}$ are numbers of a token: 1 where it is "
                        r"of the kind, or, counted behind the kinds, at the place of the "
                        r"number, else 0.",
    "select": r"$\mathrm{top}_\rho(x+b)$ is 1 on the share $\rho$ of the sites where $x+b$ is "
              r"largest, else 0, and a constant in the backward pass.",
    "gates": r"The index top $K$ says that gates are 0 but for the $K$ largest, whose mask $m$ is "
             r"a constant in the backward pass.",
    "mix_places": r"$S^{n'\times n}_k$ is a given matrix from $n$ tokens or places of an input to "
                  r"$n'$ places; what is of places has their index $\tau$, too.",
    "lag": r"Tokens before the first and behind the last are 0.",
    "kind": r"$z$ is the kind of a token.",
    "noise": r"$\zeta$ are normals of the step, the same for all inputs."}


def plain_notes(used: set) -> list[str]:
    """Of words that have no note and no form of their own: what docs/programs.md says they are."""
    plain = str.maketrans({"_": r"\_", "`": "", "<": r"$\langle$", ">": r"$\rangle$", "^": r"\^{}"})
    notes = [(r"$\mathrm{%s}$: %s." % (name, OPERATIONS[name][2])).translate(plain)
             for name in sorted(used & set(OPERATIONS))]
    if "transpose" in used:
        notes.append(r"$\mathrm f^\top_k$ is the transpose of $\mathrm f$ in its argument $k$.")
    return notes


def unknown_loss(name: str) -> tuple:
    """A loss that is not in LOSSES: the formula of its row."""
    loss = rf"\bigl({ROWS[name]}\bigr)"
    return (loss, rf"-\tfrac{{\partial}}{{\partial f_c}}{loss}", loss, rf"-\tfrac{{d}}{{df}}{loss}")

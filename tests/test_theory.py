"""dmft.equations: which terms the theories of the networks have, and how they are written."""
import glob
import os
import re
import shutil
import subprocess

import dmft
import pytest
from dmft import rows
from dmft.scaling import OPTIMIZERS
from dmft.theory import command, insert, structure
from dmft.theory.optimizers import KNOWN
from dmft.theory.sentences import LOSSES, plain_notes, unknown_loss
from test_description import INIS, LUA, MORE, ROOT

SETTINGS = {"adam": ("data/dense.ini", {"training.optimizer": "adam"}),
            "adamw": ("data/dense.ini", {"training.optimizer": "adamw",
                                         "training.weight_decay": 0.1}),
            "momentum": ("data/dense.ini", {"training.optimizer": "momentum", "training.clip": 1}),
            "cosine": ("data/dense.ini", {"training.schedule": "cosine"}),
            "heun": ("data/dense.ini", {"training.integrator": "heun"}),
            "hinge": ("data/dense.ini", {"training.loss": "hinge"}),
            "outputs": ("data/dense.ini", {"network.outputs": 3}),
            "deep": ("data/dense.ini", {"network.depth": 6}),
            "blocks": ("data/transformer.ini", {"network.depth": 3}),
            "tokens": ("data/transformer.ini", {"training.optimizer": "adam"}),
            "softmax3": ("data/regime3.ini", {"network.gate": "softmax", "network.rho": 0.5}),
            "norms": ("data/stack.ini", {"network.block_norm": "both", "network.depth": 4})}
# (12) to (17) of docs/theory/regime2.md, with cotangents n dF/dh: g^psi = kappa g_psi,
# g^in = kappa N_e g_in, xi^out = kappa N_e b, so that Gamma^in = N_e^2 Gb.
REGIME2 = r"""
h^{(1)}(t) &= u^{(1)} + \sum_{s<t}c\,\Delta(s)\,\Phi_0\,g^{(1)}(s)
\psi(t) &= u^{Q}(t) + \sum_{s<t}\bigl[A^{Q}(t,s) + c\,\Delta(s)\,\Phi^{(1)}(t,s)\bigr]\,g^{\psi}(s)
h^{\mathrm{in}}(t) &= u^{\mathrm{in}}(t) + \sum_{s<t}\bigl[A^{\mathrm{in}}(t,s)
     + \tfrac{1}{\kappa N_e}\,c\,\Delta(s)\,\Phi^{(1)}(t,s)\bigr]\,g^{\mathrm{in}}(s)
h^{(3)}(t) &= u^{\mathrm{out}}(t) + \sum_{s<t}\bigl[A^{\mathrm{out}}(t,s)
     + c\,\Delta(s)\,\Phi^{b}(t,s)\bigr]\,w(s)
\xi^{\mathrm{out}}(t) &= v^{\mathrm{out}}(t) + \sum_{s\le t}B^{\mathrm{out}}(t,s)\,x^{(2)}(s)
     + \sum_{s<t}c\,\Delta(s)\,G^{(3)}(t,s)\,x^{(2)}(s)
\xi^{\mathrm{in}}(t) &= v^{\mathrm{in}}(t) + \sum_{s\le t}B^{\mathrm{in}}(t,s)\,x^{(1)}(s)
     + \sum_{s<t}\tfrac{1}{\kappa N_e}\,c\,\Delta(s)\,\Gamma^{\mathrm{in}}(t,s)\,x^{(1)}(s)
\xi^{Q}(t) &= v^{Q}(t) + \sum_{s\le t}B^{Q}(t,s)\,x^{(1)}(s)
     + \sum_{s<t}c\,\Delta(s)\,G^{\phi}(t,s)\,x^{(1)}(s)
w(t) &= w(0) + \sum_{s<t}c\,\Delta(s)\,h^{(3)}(s)
g^{\mathrm{in}} &= \tanh'(h^{\mathrm{in}})\,\phi\,\xi^{\mathrm{out}}
g^{\psi} &= \beta\,\mathrm{sig}'(\beta\,\psi)\,
    \langle \tanh(h^{\mathrm{in}})\,\xi^{\mathrm{out}}\rangle_{j}
g^{(1)} &= \tanh'(h^{(1)})\,g^{x,(1)}
u^{Q} &\sim\mathcal{GP}\bigl(0,\,\Phi^{(1)}\bigr)
u^{\mathrm{in}} &\sim\mathcal{GP}\bigl(0,\,\Phi^{(1)}\bigr)
u^{\mathrm{out}} &\sim\mathcal{GP}\bigl(0,\,\Phi^{b}\bigr)
v^{\mathrm{out}} &\sim\mathcal{GP}\bigl(0,\,\kappa\,N_e\,G^{(3)}\bigr)
v^{\mathrm{in}} &\sim\mathcal{GP}\bigl(0,\,\tfrac{1}{\kappa N_e}\,\Gamma^{\mathrm{in}}\bigr)
v^{Q} &\sim\mathcal{GP}\bigl(0,\,\tfrac{1}{\kappa}\,G^{\phi}\bigr)
A^{\mathrm{out}}(t,s) &= \kappa\,N_e\,
    \Bigl\langle\frac{\delta\,x^{(2)}(t)}{\delta\,v^{\mathrm{out}}(s)}\Bigr\rangle
B^{\mathrm{out}}(t,s) &= \Bigl\langle\frac{\delta\,w(t)}{\delta\,u^{\mathrm{out}}(s)}\Bigr\rangle
"""
# (14) to (19) of docs/theory/regime3.md: g^in = iota g, xi^A,out + xi^P,out = iota b.
REGIME3 = r"""
\psi(t) &= u^{Q}(t) + \sum_{s<t}\bigl[A^{Q}(t,s) + c\,\Delta(s)\,\Phi^{(1)}(t,s)\bigr]\,g^{\psi}(s)
h^{P,\mathrm{in}}(t) &= \sum_{s<t}\tfrac{1}{\kappa \iota}\,c\,\Delta(s)\,\Phi^{(1)}(t,s)
    \,g^{\mathrm{in}}(s)
h^{A,\mathrm{in}}(t) &= u^{A,\mathrm{in}}(t)
     + \sum_{s<t}A^{A,\mathrm{in}}(t,s)\,g^{A,\mathrm{in}}(s)
h^{\mathrm{in}} &= h^{P,\mathrm{in}} + h^{A,\mathrm{in}}
g^{A,\mathrm{in}} &= \langle g^{\mathrm{in}}\rangle_{i}
h^{P,\mathrm{out}}(t) &= \sum_{s<t}\tfrac{\iota}{\kappa}\,c\,\Delta(s)\,\bar{\Phi}(t,s)\,w(s)
h^{A,\mathrm{out}}(t) &= u^{A,\mathrm{out}}(t) + \sum_{s<t}A^{A,\mathrm{out}}(t,s)\,w(s)
\xi^{A,\mathrm{out}}(t) &= v^{A,\mathrm{out}}(t)
     + \sum_{s\le t}B^{A,\mathrm{out}}(t,s)\,x^{A,\mathrm{out}}(s)
\xi^{P,\mathrm{out}}(t) &= \sum_{s<t}\tfrac{\iota}{\kappa}\,c\,\Delta(s)\,G^{(3)}(t,s)\,x^{(2)}(s)
\xi^{A,\mathrm{in}}(t) &= v^{A,\mathrm{in}}(t) + \sum_{s\le t}B^{A,\mathrm{in}}(t,s)\,x^{(1)}(s)
\xi^{Q}(t) &= v^{Q}(t) + \sum_{s\le t}B^{Q}(t,s)\,x^{(1)}(s)
     + \sum_{s<t}c\,\Delta(s)\,G^{\phi,(1)}(t,s)\,x^{(1)}(s)
u^{A,\mathrm{out}} &\sim\mathcal{GP}\bigl(0,\,\iota\,\tilde{\Phi}\bigr)
v^{A,\mathrm{out}} &\sim\mathcal{GP}\bigl(0,\,\iota^{2}\,G^{(3)}\bigr)
v^{Q} &\sim\mathcal{GP}\bigl(0,\,\tfrac{1}{\kappa}\,G^{\phi,(1)}\bigr)
"""


def equations(ini, **more):
    return dmft.equations(os.path.join(ROOT, ini), **more)


@pytest.mark.parametrize("name", ["regime2", "regime3"])
def test_terms_are_those_of_the_theory_page(name):
    found = equations(f"data/{name}.ini").latex().splitlines()
    lines = [line.removesuffix(r" \\") for line in found]
    expected = re.sub("\n {4}", "", {"regime2": REGIME2, "regime3": REGIME3}[name])
    for line in expected.strip().splitlines():
        assert line in lines


def terms(ini, **more):
    """{(symbol, kind of term)} of all processes."""
    theory = equations(ini, **more).theory
    return {((one.symbol.base, one.symbol.words, one.symbol.indices), type(term).__name__)
            for one in theory.quantities.values() if isinstance(one.value, structure.Process)
            for term in one.value.terms}


def test_mup_loses_the_random_part_of_the_experts_output_and_no_more():
    mssp, mup = terms("data/regime2.ini"), terms("data/regime2_mup.ini")
    top, back = ("h", (), (("layer", 3),)), (r"\xi", ("out",), ())
    assert mssp - mup == {(top, "FieldTerm"), (top, "Memory"), (back, "FieldTerm"),
                          (back, "Memory")}
    assert mup <= mssp


def test_mup_of_regime_3_has_no_sums_over_experts():
    """docs/theory/regime3.md: no R1 in (16), no alpha3, no D3, no Gtil."""
    mup = equations("data/regime3_mup.ini").theory
    named = {one.symbol.words: [type(term).__name__ for term in one.value.terms]
             for one in mup.quantities.values() if isinstance(one.value, structure.Process)}
    assert named["in",] == ["Memory", "Learned"]                # xi: B_h, no field of Gtil
    assert named["out",] == ["FieldTerm", "Learned"]            # xi: xi_j, no D3
    assert not any(one.symbol.base == r"\tilde{\Phi}" for one in mup.kernels.values())
    h = {one.symbol: one.value for one in mup.quantities.values()}
    inside = h[structure.Symbol("h", ("in",))]
    assert [type(term).__name__ for term in inside.terms] == ["FieldTerm", "Learned"]
    top = h[structure.Symbol("h", (), (("layer", 3),))]
    assert [type(term).__name__ for term in top.terms] == ["Memory", "Learned"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Everything: {name: Equations}."""
    lua = tmp_path_factory.mktemp("lua") / "all.lua"
    lua.write_text(LUA)
    made = {os.path.relpath(ini, ROOT): dmft.equations(ini) for ini in INIS}
    made.update({f"more{k}": equations(ini, **more) for k, (ini, more) in enumerate(MORE)})
    made.update({name: equations(ini, **more) for name, (ini, more) in SETTINGS.items()})
    made["all.lua"] = dmft.equations({"network": {"program": str(lua)},
                                      "data": {"inputs": 4, "dimension": 8, "tokens": 3},
                                      "reference": {"widths": 32}})
    return made


def test_every_network_has_a_page(pages, tmp_path):
    text = "\n\\newpage\n".join(page._repr_latex_() for page in pages.values())
    for page in pages.values():
        assert page.latex().count("{") == page.latex().count("}")
        assert "nan" not in page.latex() and "Ref(" not in page.latex()
        assert page.markdown().count("$$") % 2 == 0
    if shutil.which("pdflatex"):
        whole = pages["data/dense.ini"].latex()
        before, after = whole.split(pages["data/dense.ini"]._repr_latex_())
        (tmp_path / "all.tex").write_text(before + text + after)
        subprocess.run(["pdflatex", "-interaction=batchmode", "-halt-on-error", "all.tex"],
                       cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)


def test_noise_of_logits_is_inside_what_multiplies_them():
    page = equations("data/regime1.ini", **{"network.bias_noise": 0.3}).latex()
    assert r"\beta\,\bigl(\psi + 0.3\,\zeta\bigr)" in page


def test_test_inputs_have_no_noise_of_rows(pages):
    assert "a test input has 0 in their place" in pages["examples/noisy_top.ini"].latex()


def test_alike_equations_are_one(pages):
    deep = pages["deep"].latex()
    assert re.search(r"h\^\{\(l\)\}\(t\) &= .*\\Phi\^\{\(l-1\)\}.*\(l=2,\\dots,6\)", deep)
    experts = pages["data/regime1.ini"].latex()
    assert r"h^{\mathrm{top}} &= \sum_{i=0}^{3}p_{i}\,h^{(3)}_{i}" in experts
    assert r"g^{(3)}_{i} &= p_{i}\,w\qquad(i=0,\dots,3)" in experts
    assert r"(\ell=0,1)" in pages["data/stack.ini"].latex()
    blocks = pages["blocks"].latex()    # the number 1 of h_1 is not that of an expert
    for row in (r"\xi^{(2)}_{\ell,i}", r"h^{(2)}_{\ell,i}"):
        line = next(line for line in blocks.splitlines() if line.startswith(row + "(t) &="))
        assert r"(i=0,1)\qquad(\ell=0,\dots,2)" in line
    assert r"h_{\ell} &= h^{\mathrm{mid}}_{\ell-1}" in blocks and "_{2,0}" not in blocks
    assert re.search(r"g\^\{\(2\)\}_\{\\ell\} &= .*g_\{\\ell\+1\}", blocks)
    hashed = pages["examples/hash_routing.ini"].latex()
    assert r"(\ell" not in hashed and hashed.count("(i=1,2)") == hashed.count("=1,2)") > 10
    assert r"\xi^{(3)}_{\ell}" in pages["examples/parallel.ini"].latex()


def test_softmax_norms_and_attention_are_one_thing_each(pages):
    text = pages["data/regime2_softmax.ini"].latex()
    assert r"\phi &= \mathrm{softmax}(\beta\,\psi)" in text and r"\exp" not in text
    assert r"\beta\,\bigl(\phi\," in text and r"- \phi\,\langle \phi\," in text
    text = pages["data/transformer.ini"].latex()
    assert r"a_{0,\tau\sigma} &= \mathrm{softmax}_{\sigma\le\tau}(A_{0,\tau\sigma})" in text
    assert r"y^{Q}_{0} &= \mathrm{norm}(h_{0})" in text and "^{-0.5}" not in text


def test_equations_know_every_loss_and_optimizer(choices):
    """A loss without a form here has that of its row; other optimizers are refused."""
    assert set(LOSSES) <= choices("loss") == set(rows.LOSSES)
    assert set(KNOWN) <= choices("optimizer") == set(rows.OPTIMIZERS) == set(OPTIMIZERS)
    assert unknown_loss("hinge")[3] == r"-\tfrac{d}{df}\bigl(\max(0, 1 - y f)\bigr)"


def test_words_without_a_form_have_the_sentence_of_their_row():
    assert plain_notes({"top_rows", "hash"})[0].startswith(
        r"$\mathrm{top\_rows}$: a mask, at each site or of each number")
    assert plain_notes({"transpose"}) == [
        r"$\mathrm f^\top_k$ is the transpose of $\mathrm f$ in its argument $k$."]


def test_momentum_weighs_earlier_gradients():
    """Written out: a letter that loses its backslash is no letter of Greek."""
    for more, line in (({}, r"\sum_{r=s}^{t-1}\mu^{r-s}"),
                       ({"training.schedule": "cosine", "training.clip": 1},
                        r"\chi(s)\,\sum_{r=s}^{t-1}\sigma(r)\,\mu^{r-s}")):
        page = dmft.equations(f"{ROOT}/data/dense.ini", **{"training.optimizer": "momentum"} | more)
        assert rf"\omega(t,s) &= {line}" in page.latex()


def test_weights_of_inputs_stand_in_the_loss():
    ini = os.path.join(ROOT, "data", "dense.ini")
    data = {"X": [[1.0, 0.0], [0.0, 1.0]], "y": [1.0, -1.0]}
    text = dmft.equations(ini, **data, weight=[1.0, 2.0]).latex()
    assert r"\tfrac1P\sum_\mu w_\mu\Bigl[" in text
    assert r"\tfrac{\partial\mathcal L}{\partial f} = w_\mu\bigl(y-f\bigr)" in text
    assert r"w_\mu" not in dmft.equations(ini, **data).latex()


def test_optimizers_and_ties_have_templates_of_their_own(pages):
    assert r"\langle \mathcal{W}^{(l)}(t)\,x^{(l-1)}(t)\rangle" in pages["adam"].latex()
    assert r"\vartheta(t)\bigl[" in pages["adamw"].latex()
    assert r"c\,\omega(t,s)\,\Delta(s)" in pages["momentum"].latex()
    assert r"\sum_{k'}\sum_{s<t}\bigl[A_{k,k'}(t,s)" in pages["examples/tied.ini"].latex()
    for process in (one.value for one in pages["examples/tied.ini"].theory.quantities.values()):
        for kind in (structure.Memory, structure.Learned):  # of each use, of all four
            assert getattr(process, "use", None) is None or \
                [term.use for term in process.terms if isinstance(term, kind)] == [0, 1, 2, 3]


def test_muon_and_what_it_leaves_have_rates_of_their_own():
    """All that the ini says of Muon stands in the equations, and what it does not say does not."""
    def page(ini="regime2", **more):
        return dmft.equations(f"{ROOT}/data/{ini}.ini", **{
            "training.optimizer": "muon", "training.weight_decay": 0.01} | more)

    plain = page().latex()
    for term in (r"D_{aa}(t) = \tfrac{\Delta(r)}{P}\,\mu_V^{t-r}", r"$\mu_V=0.9$",
                 r"S(t+1) &= (1-\lambda)\,S(t) + \eta\,\Theta(t)",
                 r"\mathcal{W}^{\mathrm{in}}:\quad (g_a,x_a) &= (g^{\mathrm{in}},\,x^{(1)}),\quad "
                 r"\Gamma_{ab}=\langle g_a\,g_b\rangle_j,\qquad \eta=\eta_0",
                 r"(w,\,x^{(2)}),\quad \Phi_{ab}=\langle x_a\,x_b\rangle_j",
                 r"\eta=\eta_{\mathrm{rest}}", r"\hat v"):
        assert term in plain, term
    for term in (r"\chi", r"\sigma(t)", r"\delta_{r,t}", r"\omega"):
        assert term not in plain, term
    other = page(**{"training.muon_experts": "together", "training.rest": "Q",
                    "training.rest_optimizer": "gd", "training.nesterov": "yes",
                    "training.schedule": "cosine", "training.clip": 0.1}).latex()
    for term in (r"\bigl(\delta_{r,t} + \mu_V^{t-r+1}\bigr)", r"c=\eta_{\mathrm{rest}}\gamma_0/P",
                 r"\omega(t,s) &= \chi(s)\,\sigma(s)\,\frac{\vartheta(t)}{\vartheta(s+1)}",
                 r"S(t+1) &= (1-\sigma(t)\,\lambda)\,S(t) + \sigma(t)\,\eta\,\Theta(t)"):
        assert term in other, term
    for term in (r"\rangle_j,", r"\mathcal{W}^{Q}", r"\hat v"):
        assert term not in other, term
    exact = page("muon", **{"training.muon": "exact", "training.momentum": 0}).latex()
    assert r"\bigl(\Phi\,D\,\Gamma\,D\bigr)^{-1/2}" in exact and "five times" not in exact
    assert r"\mu_V" not in exact and r"\tfrac{\Delta(r)}{P}\,\delta_{r,t}" in exact
    biased = page("regime1", **{"training.rest_optimizer": "gd"}).latex()
    assert r"Without decay, $\lambda=0$, move $b$." in biased


def test_schedule_clipping_and_decay_stand_in_the_steps_of_entries():
    def page(optimizer, ini="dense", **more):
        return dmft.equations(f"{ROOT}/data/{ini}.ini",
                              **{"training.optimizer": optimizer} | more).latex()

    decay = {"training.weight_decay": 0.01}
    plain = page("adam")
    assert r"\mathcal{W}(t+1) &= \mathcal{W}(t) + \eta\,\frac{\hat m(t)}{" in plain
    assert r"\sigma" not in plain and r"\chi" not in plain and r"\lambda" not in plain
    whole = page("adamw", **decay | {"training.schedule": "cosine", "training.clip": 0.1})
    for term in (r"\mathcal{W}(t+1) &= (1-\sigma(t)\,\lambda)\,\mathcal{W}(t) + \sigma(t)\,\eta\,",
                 r"(1-\beta_1)\,\chi(t)\,G(t)", r"\bigl(\chi(t)\,G(t)\bigr)^2",
                 r"\vartheta(t) &= \prod_{r<t}\bigl(1-\lambda\,\sigma(r)\bigr)",
                 r"$\sigma$ is the schedule", r"\chi=\min(1"):
        assert term in whole, term
    lion = page("lion", **decay)
    assert r"\frac{u(t)}{|u(t)| + \epsilon}" in lion and r"\hat v" not in lion
    assert r"m(t) &= \beta_2 m(t-1) + (1-\beta_2)\,G(t)" in lion
    biased = page("adamw", "regime1", **decay)
    assert r"b_{k}(t) &= b_{k}(0) + \mathcal{W}^{b}_{k}(t)" in biased
    assert r"Without decay, $\lambda=0$, move $\mathcal{W}^{b}$." in biased
    assert "Without decay" not in page("adamw", **decay)
    part = page("adamw", **decay, **{"decays.W2": 0.3})
    assert r"With $0.3\,\lambda$ in the place of $\lambda$ move $\mathcal{W}^{(2)}$." in part
    assert r"\lambda" not in page("adamw")


def test_what_was_left_out_or_wrong_is_there(pages):
    tied = equations("examples/tied.ini", **{"training.optimizer": "adamw", "rates.W0": 0,
                                             "training.weight_decay": 0.01}).latex()
    assert r"\sum_{k'}\langle \mathcal" not in tied
    assert r"\langle \mathcal{W}(t)\,x_{k}(t)\rangle" in tied
    assert r"h^{(0)}(t) &= u^{(0)} \\" in tied and r"h_{k}(t) &= \vartheta(t)\bigl[" in tied
    balanced = pages["more0"].latex()
    assert r"\langle m_{k}(t)\rangle_\mu" in balanced
    assert r"s + b^{\mathrm{sel}}" in balanced and r"b^{\mathrm{sel}}_{k}(0)=0" in balanced
    assert r"\langle p^{'}\rangle_{\mu}\,\langle m\rangle_{\mu}" in balanced
    assert r"0.1\,\tfrac{4}{2}\,\langle s\rangle_\mu" in balanced  # 4 experts, 2 are at work
    assert r"0.1\,\langle \bigl(s^{'}\bigr)^2\rangle_\mu" in balanced
    assert r"\mathrm{top}_{0.5}(\psi)" in pages["more1"].latex()
    steep = equations("data/regime2_softmax.ini", **{"network.z_loss": 0.1, "network.beta": 3})
    assert r"\ln\langle\exp(\beta\,\psi)\rangle" in steep.latex()
    assert r"\mathrm{softmax}(3" not in steep.latex()
    kinds = pages["examples/hash_routing.ini"].latex()
    assert r"\mathrm{hash}_{k,z}(0)" in kinds and "kind of a token" in kinds
    assert r"\bigl(\ln \sum_k \exp(" in pages["examples/balanced.ini"].latex()
    assert r"_{\tau+1}" in pages["all.lua"].latex()
    clipped = equations("data/dense.ini", **{"training.clip": 1}).latex()
    assert r"|G|^2=\sum_W\tfrac{\Lambda_W}{P^2}" in clipped
    assert r"\omega(t,s) &= \chi(s)" in clipped and r"\chi(s)\,1" not in clipped
    batches = equations("data/single_pass.ini").latex()
    assert "inputs of a batch" in batches and "A test input" in batches


def test_constants_are_written_by_their_keys(pages):
    for text in (r"$\kappa=0.5$", r"$N_e=2$"):
        assert text in pages["data/regime2.ini"].latex()
    assert "L=" not in pages["data/dense.ini"].latex()
    for name in ("adam", "tokens"):     # where D is a key and where it follows from others
        assert r"\eta=\tfrac{1}{\sqrt{D}}\,\eta_0" in pages[name].latex()
        assert "$D=10$" in pages[name].latex()


def test_all_that_equations_have_is_said(pages):
    """Where rows start, what sites are there, functions that are no standard ones."""
    residual = pages["data/residual.ini"].latex()
    assert r"w(0) &\sim\mathcal N(0,\,1)\text{ at every site}" in residual
    assert r"\texttt{unit\_0}" not in residual and r"\texttt{units\_0}" in residual
    assert r"$\mathrm{sig}(x)=1/(1+e^{-x})$" in residual and r"\rangle_j$ is" in residual
    assert r"\rangle_i$ is" not in residual
    assert r"\rangle_i$ is" in pages["data/regime3.ini"].latex()
    assert "Given are $b_{k}(0)$." in pages["data/regime1.ini"].latex()


@pytest.mark.parametrize("page", [os.path.relpath(page, ROOT) for page in sorted(
    glob.glob(f"{ROOT}/docs/theory/*.md"))])
def test_theory_pages_have_the_equations_of_their_ini(page):
    """After a change: python/with -m dmft.theory.insert docs/theory/*.md"""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read()
    assert insert.renewed(text, ROOT) == text


def test_every_network_of_the_theory_has_its_equations_on_a_page():
    text = "".join(open(page, encoding="utf-8").read()
                   for page in glob.glob(f"{ROOT}/docs/theory/*.md"))
    found = set(re.findall(insert.BEGIN, text))
    assert {f"data/{name}.ini" for name in ("dense", "regime1", "regime2", "regime3", "residual",
                                            "resnet", "stack", "transformer")} <= found


def test_command(tmp_path, capsys, monkeypatch):
    ini, out = f"{ROOT}/data/dense.ini", str(tmp_path / "x.md")
    assert command.main([ini, "-o", out, "--network.depth=4"]) == 0
    assert r"(l=2,\dots,4)" in open(out, encoding="utf-8").read()
    assert command.main([ini, "-o", out]) == 2      # which stays as it is
    assert f"output {out}: exists already; choose another name or add --force" in \
        capsys.readouterr().err and r"(l=2,\dots,4)" in open(out, encoding="utf-8").read()
    assert command.main([ini, "-o", out, "--force"]) == 0
    assert r"(l=2,\dots,4)" not in open(out, encoding="utf-8").read()
    assert command.main([ini]) == 0 and r"\begin{document}" in capsys.readouterr().out
    monkeypatch.setattr(shutil, "which", lambda name: None)
    for words, sentence in (
            ([ini, "-o", "x.doc"], "x.doc: equations are written as .tex, .md or .pdf"),
            ([ini, "-o", "x.pdf"], "no pdflatex here; write x.tex or x.md instead"),
            ([ini, "-o", str(tmp_path / "no" / "x.tex")], "No such file"),
            ([ini, "depth=4"], "is neither an option nor --section.key=value"),
            ([ini, "--network.dept=4"], "did you mean"),
            ([f"{ROOT}/data/regime2.ini", "--init.Q=N^0.5", "--solver.replicates=0"],
             "this network has no limit: ")):
        assert command.main(words) == 2
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1


def test_symbols_are_those_of_the_author(tmp_path):
    (tmp_path / "own.lua").write_text('local a = population("a")\nlocal h = read_in(a, "W1")\n'
                                      'name_rows(h, "h", {tex = "z^{\\\\mathrm{low}}"})\n'
                                      'read_out(map(tanh(h), a, "W2"), "w")\n')
    keys = {"network": {"program": str(tmp_path / "own.lua")},
            "data": {"inputs": 2, "dimension": 3}, "reference": {"widths": 16}}
    text = dmft.equations(keys).markdown()
    assert r"z^{\mathrm{low}}(t) &= u" in text and r"\tanh(z^{\mathrm{low}})" in text
    text = dmft.equations(f"{ROOT}/data/regime2.ini", symbols={"h_in": "Z"}).markdown()
    assert "Z(t) &=" in text and r"h^{\mathrm{in}}" not in text
    with pytest.raises(dmft.InputError, match="no rows h_out; there are"):
        dmft.equations(f"{ROOT}/data/regime2.ini", symbols={"h_out": "Z"})

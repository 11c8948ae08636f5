"""The scripts of studies/findings: each reads a small sweep of its ini, judges, and writes a
table; a few of them or, with LONG=1, all."""
import csv
import glob
import importlib.util
import json
import os
import sys

import numpy as np
import pytest
import xarray

import dmft
from dmft.judgement import COUNT
from dmft.study import command

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                      "studies", "findings")
DRAWN = {"data.inputs": 4, "data.dimension": 4, "data.test_inputs": 4, "reference.seeds": 2,
         "solver.sites": 32, "solver.replicates": 2}
EXPERTS = {**DRAWN, "solver.expert_sites": 16}
LETTERS = {"data.file": os.path.join(FOLDER, "..", "..", "README.md"), "data.inputs": 6,
           "data.test_inputs": 4, "data.tokens": 4, "training.batch": 2, "training.steps": 3,
           "training.warmup": 1, "reference.seeds": 2, "reference.widths": [8, 16],
           "output.test_every": 2}
SPARSE = "network.beta, init.W_out, rates.W_out, rates.W_in, rates.Q, rates.W1"
TEXT_BASE = os.path.join(FOLDER, "text_base.ini")
# Settings on top of each ini, and lines of [sweep] in the place of its own.
SMALL = {
    "delay": ({"reference.seeds": 2, "reference.widths": [16, 32], "data.inputs": 2,
               "data.dimension": 4},
              {"data.seed": "1", "training.optimizer, training.eta0, training.eps, training.steps":
               "gd 1 0.05 12 | adam 0.05 0.05 12"}),
    "collapse": ({**DRAWN, "data.inputs": 12, "solver.replicates": 0, "training.steps": 7,
                  "training.batch": 2, "reference.widths": [16, 32], "output.test_every": 6},
                 {"network.parameterization, network.read_out": "mup zero | mssp zero",
                  "training.eta0": "0.05 0.1 0.2 0.4"}),
    "depth_paths": ({**DRAWN, "solver.replicates": 0, "training.steps": 3,
                     "reference.widths": [8, 64]},
                    {"network.depth, network.alpha": "4 2 | 8 4", "training.eta0": "0.25 0.5"}),
    "depth_pass": ({**DRAWN, "data.inputs": 12, "solver.replicates": 0, "training.steps": 7,
                    "training.batch": 2, "output.test_every": 6},
                   {"network.depth, network.alpha": "2 1 | 4 2 | 2 0.25 | 4 0.25",
                    "training.eta0": "0.25 0.354 0.5 0.707107 1"}),
    "sparse_limit": ({**EXPERTS, "solver.expert_sites": 64, "training.steps": 3},
                     {SPARSE: f"0.1, rho^0.5, {'rho, ' * 3}1 | 0.1, rho^0.5, {'rho, ' * 3}rho",
                      "network.rho": "0.5 0.25 0.125"}),
    "softmax_limit": ({**DRAWN, "network.program": os.path.join(FOLDER, "softmax_limit.lua"),
                       "solver.replicates": 0, "training.steps": 12, "reference.widths": [8, 16]},
                      {"training.gamma0, training.eta0": "2 0.1 | 4 0.05"}),
    "balance_gradients": ({**EXPERTS, "reference.widths": [16]}, {}),
    "balance_rates": ({**DRAWN, "solver.replicates": 0, "training.steps": 3,
                       "reference.widths": [16, 32]},
                      {"network.eta_bias, network.balance_loss": "0 0 | 0.1 0 | 0 0.1",
                       "training.eta0": "0.2 0.4 0.8"}),
    "lazy_rich_experts": ({**DRAWN, "training.steps": 3, "training.dt": 0.2,
                           "reference.widths": [64, 256]}, {"training.gamma0": "0.1 0.5 1"}),
    "depth_rates": ({**EXPERTS, "training.steps": 3, "reference.widths": [16]},
                    {"training.eta0": "0.4 0.8 1.6"}),
    "lazy_rich_gates": ({**EXPERTS, "training.steps": 3, "reference.widths": [64, 256],
                         "output.fields": "psi", "output.fields_at": ""},
                        {"training.gamma0": "0.1 1 3"}),
    "lazy_rich_softmax": ({**EXPERTS, "training.steps": 3, "reference.widths": [64, 512]},
                          {"training.gamma0": "0.1 3"}),
    "sparse_rates": ({**DRAWN, "solver.replicates": 0, "training.steps": 3,
                      "reference.widths": [16]},
                     {"network.kappa, network.rho": "0.5 0.25 | 2 0.0625",
                      "training.eta0": "0.1 0.2 0.4"}),
    "transformer_limit": ({"data.inputs": 3, "data.tokens": 3, "data.test_inputs": 4,
                           "reference.seeds": 2, "reference.widths": [16, 32],
                           "training.steps": 3, "training.warmup": 1, "output.test_every": 2,
                           "solver.sites": 128, "solver.expert_sites": 128,
                           "solver.replicates": 2}, {"training.eta0": "0.1 0.2 0.4 0.8"}),
    "sparse_experts": ({**EXPERTS, "training.steps": 3, "reference.widths": [32]},
                       {"network.kappa, network.rho": "0.125 1 | 2 0.0625",
                        "training.eta0": "0.1 0.25 0.4"}),
    "muon_rates": ({**DRAWN, "solver.replicates": 0, "training.steps": 3,
                    "reference.widths": [8, 16]},
                   {"training.eta0": "0.2 0.4 0.8"}),
    "image_rates": ({"data.inputs": 6, "data.file": [], "data.source": "multi_index",
                     "data.dimension": 4, "data.test_inputs": 4, "training.loss":
                     "mse", "training.batch": 2, "training.steps": 3, "reference.seeds": 2,
                     "reference.widths": [16, 32], "output.test_every": 2},
                    {"training.eta0": "0.2 0.4 0.8"}),
    **{name: (LETTERS, {"training.eta0": "0.2 0.4 0.8"})
       for name in ("text_rates", "text_rates_few", "text_rates_sp")},
    **{name: ({**LETTERS, "reference.widths": [32]}, {"training.eta0": "0.2 0.4 0.8"})
       for name in ("text_heads", "text_experts")},
    "text_decay": ({**LETTERS, "reference.widths": [32]}, {}),
    "text_shapes": (LETTERS, {}),
    "text_coordinates": ({**LETTERS, "data.test_inputs": 0, "training.batch": 0,
                          "training.warmup": 0, "training.steps": 21, "output.test_every": 1}, {}),
    "shapes": ({"data.inputs": 8, "data.dimension": 4, "data.test_inputs": 4, "training.steps": 12,
                "training.batch": 2, "training.warmup": 2, "reference.seeds": 2,
                "output.test_every": 5},
               {"network.depth, network.experts, network.alpha": "4 8 0.125 | 8 8 0.125",
                "training.eta0": "0.1 0.2 0.4"}),
    "freezing": ({"data.inputs": 8, "data.file": [], "data.source": "multi_index",
                  "data.dimension": 4, "training.loss": "mse", "training.batch": 2,
                  "training.steps": 4, "reference.seeds": 2, "reference.widths": [16, 32]}, {}),
}
LONG = bool(os.environ.get("LONG"))
# Sweeps of networks and of limits, of letters, of pairs of keys; and pictures of means, samples,
# optima and a map.
SHORT = ("delay", "depth_pass", "sparse_limit", "balance_gradients", "muon_rates", "text_rates",
         "text_decay")
DRAWN_SHORT = ("collapse", "depth_pass", "sparse_limit", "text_shapes", "shapes")


def reader(name):
    """The name of the script, and of the table, of an ini."""
    if name.startswith("text_rates"):
        return "text_rates"
    return "text_shapes" if name in ("text_heads", "text_experts", "text_decay") else name


def script(name):
    name = reader(name)
    spec = importlib.util.spec_from_file_location(name, os.path.join(FOLDER, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(path, name):
    """Rows below the header, which is that of the table of this name."""
    with open(path, encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    with open(os.path.join(FOLDER, name + ".csv"), encoding="utf-8") as file:
        assert header == next(csv.reader(file))
    assert all(len(row) == len(header) for row in rows)
    return rows


def written(name):
    """{section: {key: value}} of an ini and of what it includes."""
    sections, section = {}, None
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        for line in file:
            text = line.strip()
            if text.startswith("["):
                section = sections.setdefault(text.strip("[]"), {})
            elif text and not text.startswith("#"):
                key, value = (part.strip() for part in text.split("=", 1))
                if section is None:
                    sections = written(value)
                else:
                    section[key] = value
    return sections


def sections_of(name, more, swept):
    """The ini as {section: {key: value}}, made small."""
    sections = written(name + ".ini")
    for key, value in more.items():
        part, short = key.split(".")
        if value == []:  # not of this data
            sections[part].pop(short)
        else:
            sections.setdefault(part, {})[short] = value
    sections["sweep"].update(swept)
    return sections


def inis(swept):
    """Inis of sweeps, or those of comparisons, which have no [sweep]; not what others include."""
    for path in sorted(set(glob.glob(os.path.join(FOLDER, "*.ini"))) - {TEXT_BASE}):
        with open(path, encoding="utf-8") as file:
            if ("[sweep]" in file.read().split()) == swept:
                yield path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL if LONG else SHORT)
def test_a_script_reads_its_sweep(name, tmp_path, capsys, sketched):
    sections = sections_of(name, *SMALL[name])
    ini = tmp_path / "small.ini"
    ini.write_text("".join(f"[{section}]\n" + "".join(
        f"{key} = {' '.join(map(str, value)) if isinstance(value, list) else value}\n"
        for key, value in keys.items()) for section, keys in sections.items()))
    run = dmft.sweep(str(ini), output=str(tmp_path / "small.h5"), progress=False, jobs=2)
    pictures = [str(tmp_path / "small.png")] if name == "muon_rates" else []  # not of its table
    script(name).main(run.path, str(tmp_path / "small.csv"), *pictures)
    assert all(map(os.path.getsize, pictures))
    said = capsys.readouterr().out
    assert any(word in said for word in ("shown", "cannot tell")) or name == "lazy_rich_gates"
    assert len(table(tmp_path / "small.csv", reader(name))) >= 8


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ini", inis(False), ids=os.path.basename)
def test_a_script_reads_its_comparisons(ini, tmp_path, capsys, sketched):
    """One with the router moved by Muon, one by Adam."""
    small = {"reference.widths": [8, 16], "reference.seeds": 2, "data.inputs": 4,
             "data.dimension": 4}
    runs = [dmft.compare(ini, output=str(tmp_path / f"{k}.h5"), progress=False, **small, **more)
            for k, more in enumerate([{}, {"training.rest": "Q"}])]
    name = os.path.basename(ini)[:-4]
    pictures = [str(tmp_path / "small.png")] if name == "muon_spectra" else []
    script(name).main(*(run.path for run in runs), str(tmp_path / "small.csv"), *pictures)
    assert all(map(os.path.getsize, pictures))
    assert any(word in capsys.readouterr().out for word in ("shown", "cannot tell"))
    rows = table(tmp_path / "small.csv", name)
    assert len(rows) >= 100
    if name == "muon_parts":
        parts_are_of(runs, {tuple(row[:5]): float(row[5]) for row in rows})


def parts_are_of(runs, rows):
    """The ratio of losses between the ends of the widths, and an exponent."""
    loss = [runs[0].sides["mup"].reference[N]["loss"].values[14] for N in (8, 16)]
    ratio = rows["Muon", "mup", "loss", "largest N over smallest", "14"]
    assert ratio == pytest.approx(loss[1] / loss[0], abs=6e-4)
    part = runs[1].sides["mssp"]["compare"]["rms_A1_exponent"].values[8]
    assert rows["Adam", "mssp", "A1", "exponent", "8"] == pytest.approx(part, abs=6e-4)


def test_exponents_of_a_curve_that_bends():
    """Those between neighbours: one exponent of all points would have an error that is too small
    and be 4.3, far from the 4 of the beginning. What is common to all values of a run has no part
    in the error."""
    x, common = np.array([0.05, 0.1, 0.2, 0.5]), np.array([0.5, 1, 2])
    noise = np.array([[-1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    study = script("lazy_rich_experts")
    power, half = study.slopes(xarray.DataArray(
        (x ** 4 * (1 + 3 * x ** 2))[:, None] * common * np.exp(0.03 * noise), {study.KEY: x},
        (study.KEY, "run")))
    assert power[0] == pytest.approx(4.03, abs=0.01) and power[-1] > 4.4
    # Student's 97.5 % at two degrees of freedom, times the error of the mean of three
    assert half[0] == pytest.approx(4.3027 * 0.03 / 3 ** 0.5 / np.log(2), rel=1e-4)
    assert (half[1:] < 1e-12).all()


class Losses:
    """Stands for a sweep over three rates with two widths of twenty networks."""

    def __init__(self, narrow, wide):
        noise = np.random.default_rng(1).normal(size=(3, 2, 20, 1))
        means = np.array([narrow, wide]).T[:, :, None, None]
        self.losses = xarray.DataArray(
            means + 0.002 * noise, dims=("training.eta0", "N", "run", "t"),
            coords={"training.eta0": [0.1, 0.2, 0.4], "N": [64, 256]})

    def series(self, name):
        return {name + "_runs": self.losses}


@pytest.mark.parametrize("narrow, wide, verdict", (
    ([1.9, 1.8, 1.9], [1.8, 1.7, 1.8], "shown"),           # one rate is best for both
    ([1.9, 1.8, 1.9], [1.6, 1.7, 1.8], "contradicted"),       # another is, by a sixteenth
    ([1.9, 1.8, 1.8001], [1.8, 1.7, 1.75], "cannot tell")  # narrow ones do not tell two apart
))
def test_what_a_rate_of_narrow_networks_costs(narrow, wide, verdict, capsys):
    row, = script("text_rates").costs(Losses(narrow, wide), "made up", {"mup": {}})
    assert row[3].endswith(": " + verdict) and f": {verdict}:" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_weights_are_counted_as_networks_have_them(tmp_path):
    """All that a network of the study writes of its matrices."""
    sections = sections_of("text_shapes", {**LETTERS, "reference.widths": [16], "network.depth": 3,
                                           "network.iota": 0.25, "output.weights": "final"}, {})
    del sections["sweep"]
    run = dmft.solve(sections, output=str(tmp_path / "small.h5"), progress=False)
    data = run.reference[16]
    there = sum(data[name][0, 0].size for name in data
                if name.startswith("weights_") and not name.endswith("_rest"))
    shapes = script("text_shapes")
    letters, tokens = run.data.sizes["letter"], run.data.sizes["token"]
    counts = shapes.weights_in(3, 4, 0.25, 0.25, 16, letters, tokens)
    assert counts[0] == there
    assert counts[0] - counts[1] == counts[2] - counts[3] == (2 * letters + tokens) * 16
    assert counts[1] - counts[3] == 3 * 3 * 2 * 4 * 16


def test_what_a_line_explains():
    """All of a line, and nothing of what is even about the middle."""
    size = np.exp([0.0, 1.0, 2.0])
    line, even = np.array([[3.0, 2.0, 1.0]]), np.array([[1.0, 2.0, 1.0]])
    shapes = script("text_shapes")
    np.testing.assert_allclose(shapes.explained(size, line), 1, rtol=1e-12)
    np.testing.assert_allclose(shapes.explained(size, even), 0, atol=1e-12)


@pytest.mark.parametrize("loss, verdict", ((1.999, "shown"), (1.9, "contradicted"),
                                           (1.98, "cannot tell")))
def test_what_a_decay_gains(loss, verdict, capsys):
    """Of twenty networks each, more than a hundredth of the loss or not."""
    noise = np.random.default_rng(2).normal(size=(2, 20))
    noise -= noise.mean(1, keepdims=True)

    class Decays:
        @staticmethod
        def series(name):
            losses = np.array([[2.0], [loss]]) + 0.005 * noise
            return {name + "_runs": xarray.DataArray(
                losses[:, None, :, None], dims=("training.weight_decay", "N", "run", "t"),
                coords={"training.weight_decay": [0.0, 0.001], "N": [64]})}

    rows = list(script("text_shapes").of_decay(Decays()))
    assert rows[-1][0].endswith(": " + verdict)
    assert capsys.readouterr().out.splitlines()[-1].endswith(": " + verdict)


@pytest.mark.parametrize("words, rates, verdict", (
    ("more experts", [0.4, 0.4, 0.4], "shown"), ("more experts", [0.4, 0.4, 0.8], "contradicted"),
    ("more experts", [0.4, 0.8, 0.4], "contradicted"), ("finer experts", [0.4, 0.4, 0.8], "shown"),
    ("finer experts", [0.8, 0.4, 0.4], "shown"), ("finer experts", [0.4, 0.4, 0.4], "contradicted"),
    ("finer experts", [0.4, 0.4, 0.44], "cannot tell")))
def test_whether_best_rates_stay_or_move(words, rates, verdict):
    noise = 0.01 * np.random.default_rng(3).normal(size=(3, COUNT))
    best = {text: {"objective": 1 + one, "at": np.log(rate) + one}
            for text, rate, one in zip("abc", rates, noise)}
    rows = list(script("text_shapes").of_chain(words, list("abc"), best))
    assert all(row[0].endswith(": " + verdict) for row in rows if "best rate of" in row[0])
    assert sum("best rate of" in row[0] for row in rows) == 2


@pytest.mark.parametrize("ends, verdict", (
    ((10, 10.2), "within 1.25: shown"), ((10, 20), "later by more than 1.25: shown"),
    ((10, 12.5), "within 1.25: cannot tell; later by more than 1.25: cannot tell")))
def test_whether_networks_learn_later_with_the_width(ends, verdict):
    """Of twelve networks at each of three widths, in two draws of the data."""
    study, noise = script("delay"), np.random.default_rng(4).normal(size=(2, 3, 12))
    rows = [(f"draw {d}", "mup, zero", "gd", N, k, half + 0.4 * noise[d, j, k], np.nan, np.nan)
            for d in range(2) for j, (N, half) in enumerate(zip((64, 128, 256),
                                                                np.geomspace(*ends, 3)))
            for k in range(12)]
    words, _ = study.of_stays(study.means(rows, 5), "gd", "mup, zero", ["draw 0", "draw 1"])
    assert words.endswith(verdict)


def test_when_a_loss_has_halved_and_how_an_output_grows():
    """A line that falls by 1/8 in each step, of means over three it is the same; an output that
    grows by a tenth in each step, until the loss falls."""
    study, t = script("delay"), np.arange(30)
    loss = 2 - t / 8
    np.testing.assert_allclose([study.half_time(loss), study.half_time(loss, 3)], 8, rtol=1e-12)
    assert np.isnan(study.half_time(loss[:5]))
    growth, size = study.resting(np.where(t < 20, 1, 0.5), np.exp(0.1 * t)[:, None])
    assert growth == pytest.approx(0.1) and size == pytest.approx(np.exp(0.2))
    assert np.isnan(study.resting(np.where(t < 6, 1, 0.5), np.exp(0.1 * t)[:, None])[0])


def test_every_script_has_its_ini_and_its_table():
    names = {os.path.basename(path)[:-3] for path in glob.glob(os.path.join(FOLDER, "*.py"))}
    names = {name for name in names if name.rpartition("_")[0] not in names}  # images_tune: images
    assert len(names) >= 5
    pages = []
    for page in glob.glob(os.path.join(os.path.dirname(FOLDER), os.pardir, "docs", "findings*.md")):
        with open(page, encoding="utf-8") as file:
            pages.append(file.read())
    for name in names:
        with open(os.path.join(FOLDER, name + ".py"), encoding="utf-8") as file:
            trained = "examples/torch/" in file.read()      # by a script of PyTorch, without an ini
        for end in ("*.csv",) if trained else (".ini", "*.csv"):
            assert glob.glob(os.path.join(FOLDER, name + end)), name + end
        assert any(name in text for text in pages), f"no page of findings says anything of {name}"


@pytest.mark.parametrize("name", DRAWN_SHORT if not LONG else (
    "balance_gradients", "balance_rates", "collapse", "delay", "depth_pass", "depth_paths",
    "depth_rates", "freezing", "image_rates", "lazy_rich_experts", "lazy_rich_gates",
    "lazy_rich_softmax", "shapes", "sharpness_rates", "softmax_limit", "sparse_experts",
    "sparse_limit", "sparse_rates", "text_rates", "text_shapes", "transformer_limit"))
def test_pictures_are_made_of_the_tables(name, tmp_path, monkeypatch, sketched):
    path = str(tmp_path / "out.png")
    monkeypatch.setattr(sys, "argv", [name, "--picture", os.path.join(FOLDER, name + ".csv"), path])
    made = script(name)
    made.command(made.main, made.draw)
    with open(path, "rb") as file:
        assert file.read(4) == b"\x89PNG"


def test_inis_of_sweeps_are_read():
    """Also of a study that has no script yet."""
    paths, said = list(inis(True)), []
    assert paths
    for path in paths:
        command.run(["--points", path], said.append, said.append)
    assert len(said) == len(paths) and all(json.loads(line)["axes"] for line in said)


@pytest.mark.filterwarnings("ignore")
def test_images_are_told_from_tables(tmp_path, capsys):
    """The sweep of both sides becomes tables, and the same sentences are made of these alone."""
    sections = sections_of("images", {
        "data.source": "gaussian", "data.file": [], "data.inputs": 64, "data.test_inputs": 8,
        "training.batch": 4, "training.steps": 16, "output.test_every": 15, "reference.seeds": 3,
        "reference.widths": "16 32"}, {"training.eta0": "0.25 0.5 1"})
    run = dmft.sweep(sections, output=str(tmp_path / "small.h5"), progress=False, jobs=2)
    study, stem = script("images"), str(tmp_path / "small")
    study.main(run.path, stem)
    said = capsys.readouterr().out
    study.main("--tables", stem, stem + ".png")
    assert capsys.readouterr().out == said and len(said.splitlines()) == 10
    assert len(table(stem + "_rates.csv", "images_rates")) == 2 * 2 * 3 * 3


def test_half_times_are_of_means():
    """The mean of ten steps from 0 on is at half of the first loss at the last of them; a network
    that never gets there has none."""
    loss = np.array([np.r_[2.0, np.full(29, 0.8)], np.r_[2.0, np.full(29, 1.5)]])
    np.testing.assert_array_equal(script("images").half_times(loss), [9, np.nan])


def test_a_slope_and_what_finite_widths_add_are_told_apart():
    """3 + 6 ln N - 20 N^-1/2 with noise of .2, of 400 samples: the slope is 6 within four standard
    errors, and a line without the last term is wrong by more than three times as much."""
    N, noise = 2.0 ** np.arange(6, 12), 0.2 * np.random.default_rng(2).normal(size=(6, 400))
    times, fit = (3 + 6 * np.log(N) - 20 * N**-0.5)[:, None] + noise, script("delay").least_squares
    (_, slope, _), _ = fit((np.log(N), N**-0.5), times)
    straight = fit((np.log(N),), times)[0][1].mean()
    assert abs(np.mean(slope) - 6) < 4 * slope.std() / 20 < (straight - 6) / 3


def test_the_formula_of_delays_finds_its_numbers():
    """t0 - slope ln(c^2 + k/N)/2 with noise of .2, by which slope and k are known to 5 and 30 %."""
    N, c = (one.ravel() for one in np.meshgrid([64.0, 256.0, 1024.0], [0.3, 0.1, 0.03, 0.01]))
    noise = np.random.default_rng(1).standard_normal((len(N), 400))
    times = (5 - 6 * np.log(c**2 + 1.5 / N))[:, None] + 0.2 * noise
    slope, k, fitted = script("delay").formula(N, c, times)
    assert abs(np.median(slope) / 12 - 1) < 0.05 and abs(np.log(np.median(k) / 1.5)) < 0.3
    assert np.abs(np.median(fitted, 1) / np.median(times, 1) - 1).max() < 0.02
    assert abs(np.median(script("delay").formula(N, c, times[::-1])[0]) / 12 - 1) > 0.5


@pytest.mark.parametrize("factor", (1.0, 1.2))
def test_curves_are_apart_by_the_factor_between_them(factor):
    """Of nine rates with errors of .03: chi squared is that of errors alone where it is 1."""
    random, rates = np.random.default_rng(2), [f"{0.1 * k}" for k in range(1, 10)]
    one = {rate: (random.normal(0, 0.03), 0.03) for rate in rates}
    other = {rate: (np.log(factor) + random.normal(0, 0.03), 0.03) for rate in rates}
    samples, chi, count = script("collapse").apart(one, other)
    low, high = np.exp(np.quantile(samples, (0.025, 0.975)))
    assert count == 9 and low <= factor <= high < factor * 1.1
    assert (chi < 22) == (factor == 1)
    rows = [("mup", "zero", "1", "0.25", "64", "0.1", "1", "0", "2")]  # of three networks
    (_, error), = script("collapse").losses_of(rows, 3)["mup", "zero"][64].values()
    assert abs(error - 1 / 4.302653) < 1e-6

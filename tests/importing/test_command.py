"""The command dmft-torch: what it prints and writes, and what it refuses."""
import json
import os
import re
import textwrap

import dmft
import dmft.torch
import pytest
from dmft.torch_command import main

MODEL = """
    import torch
    from torch import nn

    def build(N):
        return nn.Sequential(nn.Linear(7, N, bias=False), nn.Tanh(), nn.Linear(N, N, bias=False),
                             nn.Tanh(), nn.Linear(N, 1, bias=False), nn.Flatten(0))

    def blocks(N, L):
        return nn.Sequential(nn.Linear(7, N, bias=False), *(
            nn.Sequential(nn.Tanh(), nn.Linear(N, N, bias=False)) for _ in range(L)),
            nn.Linear(N, 1, bias=False), nn.Flatten(0))

    def with_bias(N, L):
        return nn.Sequential(*list(blocks(N, L))[:-2], nn.Linear(N, 1), nn.Flatten(0))

    def letters(N):
        return nn.Sequential(nn.Embedding(9, N), nn.Linear(N, 9, bias=False))

    def plain(model):
        return torch.optim.Adam(model.parameters(), 1e-3)

    def scaled(model):
        read, hidden, head = (one.weight for one in model if hasattr(one, "weight"))
        N = len(read)
        with torch.no_grad():
            read.normal_(std=1.0)
            head.normal_(std=1 / N)
        groups = [{"params": [read], "eps": 1e-8 / N}, {"params": [hidden], "lr": 1 / N,
                  "eps": 1e-8 / N}, {"params": [head], "lr": 1 / N}]
        return torch.optim.Adam(groups, 1.0)

    def waits(N):
        raise KeyboardInterrupt

    def fails(N):
        raise RuntimeError("no such width")
"""


@pytest.fixture(name="file")
def model_file(tmp_path, monkeypatch):
    """A file with builds and optimizers."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(textwrap.dedent(MODEL))
    return "model.py"


NUMBERS = ["--example", "numbers 48 7", "--widths", "N=64:256"]


def test_it_prints_the_matrices(file, capsys):
    assert main([f"{file}:build", *NUMBERS]) == 0
    said = capsys.readouterr().out
    assert said.startswith("<3 parameters of a module as 3 matrices") and "4.weight: W4" in said


def test_many_blocks_are_read_from_few(file, capsys):
    words = [f"{file}:blocks", *NUMBERS, "--counts", "L=500"]
    assert main([*words, "--recipe"]) == 0
    assert "*.*.weight (500 alike)" in capsys.readouterr().out
    assert main([*words, "--looped"]) == 0
    assert 'local L = key("L", 500)' in capsys.readouterr().out
    assert main([f"{file}:with_bias", *NUMBERS, "--counts", "L=9", "--recipe"]) == 0
    notes = capsys.readouterr().err.splitlines()
    assert any("draws single numbers" in one for one in notes) and len(set(notes)) == len(notes)
    assert main([*words, "--plan", "plan.json"]) == 0
    plan = dmft.torch.Plan.load("plan.json")
    assert plan.counts == {"L": 500} and "L = 500" in capsys.readouterr().out
    assert main([*words[:-1], "L=0"]) == 2
    assert "--counts L=0: sizes are whole numbers of at least 1" in capsys.readouterr().err


def test_tokens(file, capsys):
    assert main([f"{file}:letters", "--example", "tokens 24 5 9", "--recipe"]) == 0
    assert "0.weight" in capsys.readouterr().out


@pytest.mark.parametrize("optimizer, code", [("plain", 1), ("scaled", 0)])
def test_check_says_in_its_exit_code_whether_all_agrees(file, capsys, optimizer, code):
    assert main([f"{file}:build", *NUMBERS, "--check", f"{file}:{optimizer}"]) == code
    said = capsys.readouterr().out
    assert ("explode" in said) == bool(code) and "outputs from the same weights: the same" in said


def test_recipe_and_plan_together(file, capsys, tmp_path):
    assert main([f"{file}:build", *NUMBERS, "--recipe", "--plan", "plan.json",
                 "--parameterization", "mup"]) == 0
    said = capsys.readouterr().out
    assert "at width N your numbers are those at 64" in said and "mup: your numbers" in said
    assert json.loads((tmp_path / "plan.json").read_text())["parameterization"] == "mup"


def test_the_limit_has_the_keys_of_the_ini(file, capsys, tmp_path):
    ini = tmp_path / "settings.ini"
    ini.write_text("[training]\nsteps = 3\n[data]\nsource = gaussian\ninputs = 5\ndimension = 7\n"
                   "[solver]\nsites = 128\nreplicates = 2\n[reference]\nwidths = 16\nseeds = 2\n")
    assert main([f"{file}:build", *NUMBERS, "--limit", str(ini), "--limit-to", "out.h5"]) == 0
    assert "loss, mean with 95 % interval" in capsys.readouterr().out
    run = dmft.load("out.h5")
    assert len(run.limit["loss"]) == 3 and len(run.limit["f"].mu) == 5


BAD = {"no file": (["nowhere.py:build", *NUMBERS], "nowhere.py: there is no such file"),
       "no function": (["model.py:bild", *NUMBERS], "has no function bild"),
       "no colon": (["model.py", *NUMBERS], "is given as FILE.py:NAME"),
       "example": (["model.py:build", "--example", "numbers 48"], "must be \"tokens"),
       "kind": (["model.py:build", "--example", "words 3 4 5"], "must be \"tokens"),
       "base": (["model.py:build", *NUMBERS, "--base", "64"], "sizes are written N=64,M=8"),
       "widths": (["model.py:build", "--example", "numbers 48 7", "--widths", "N=64"],
                  "sizes are written N=32:64"),
       "fails": (["model.py:fails", *NUMBERS], "ends with RuntimeError: no such width"),
       "broken": (["broken.py:build", *NUMBERS], "broken.py cannot be imported: SyntaxError"),
       "ignore": (["model.py:build", *NUMBERS, "--ignore", "x"], "has no parameter x"),
       "word": (["model.py:build", *NUMBERS, "--plan", "x.json", "--parameterization", "up"],
                "must be one of mssp mup sp"),
       "limit": (["model.py:build", *NUMBERS, "--limit", "nowhere.ini"], "nowhere.ini"),
       "no example": (["model.py:build", "--example", ""], "must be \"tokens"),
       "huge example": (["model.py:build", "--example", "numbers 99999999999 7"],
                        "the inputs only show"),
       "no size": (["model.py:build", "--example", "numbers 48 7", "--base", "N=0"],
                   "whole numbers of at least 2"),
       "no folder": (["model.py:build", *NUMBERS, "--plan", "nowhere/x.json"],
                     "folder nowhere: No such file"),
       "same size": (["model.py:build", "--example", "numbers 48 7", "--base", "N=64,N=32"],
                     "--base N=64,N=32: N is given twice"),
       "no optimizer": (["model.py:build", *NUMBERS, "--check", "model.py:letters"],
                        "optimizer: the function of the module that gives it ends with")}


def test_the_manual_page_has_all_options(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(folder, "docs", "man", "dmft-torch.1"), encoding="utf-8") as page:
        described = re.findall(r"^\.It Fl -([a-z-]+)", page.read(), re.MULTILINE)
    assert options - {"--help"} == {"--" + one for one in described} and "--plan" in options


def test_an_interrupt_is_130_and_one_line(file, capsys):
    assert main([f"{file}:waits", *NUMBERS]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "dmft-torch: interrupted"


def test_what_cannot_be_written_is_said_before_the_module_is_read(file, capsys):
    for words in (["--plan", "nowhere/x.json"], ["--plan", "x.json", "--parameterization", "up"]):
        assert main([f"{file}:fails", *NUMBERS, *words]) == 2
        said = capsys.readouterr().err
        assert "folder nowhere: No such file" in said or "must be one of mssp mup sp" in said


def test_files_that_are_there_stay_without_force(file, capsys):
    with open("plan.json", "w", encoding="utf-8") as mine:
        mine.write("mine")
    for words in (["--plan", "plan.json"], ["--limit", "x.ini", "--limit-to", "plan.json"]):
        assert main([f"{file}:build", *NUMBERS, *words]) == 2
        assert capsys.readouterr().err == "dmft-torch: output plan.json: exists already; choose " \
            "another name or add --force\n"
    assert main([f"{file}:build", *NUMBERS, "--plan", "plan.json", "--force"]) == 0
    with pytest.raises(dmft.InputError, match="plan.json: exists already; .* force=True"):
        dmft.torch.Plan.load("plan.json").save("plan.json")


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(file, capsys, name):
    words, sentence = BAD[name]
    with open("broken.py", "w", encoding="utf-8") as broken:
        broken.write("def build(:\n")
    assert main(words) == 2 and os.path.exists(file)
    said = capsys.readouterr().err
    assert sentence in said and said.startswith("dmft-torch: ") and "Traceback" not in said

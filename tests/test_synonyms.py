"""Names that other libraries have: the sentence that refuses them names ours."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = pathlib.Path(os.environ.get("DMFT_HOME", ROOT)).resolve()
TABLES = [re.findall(r'\{"([^"]+)",\s*"([^"]+)"\}', part) for part in
          (ROOT / "solver/settings/synonyms.c").read_text().split("choices[] =")]


def said(*words):
    done = subprocess.run([HOME / "dmft-solve", *words], text=True, capture_output=True,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def test_keys_of_others_are_told_with_ours():
    """And ours exist."""
    _, keys = said("--help")
    assert len(TABLES[0]) > 20
    for others, ours in TABLES[0]:
        for section, key in re.findall(r"\[(\w+)\] (\w+)", ours):
            assert re.search(rf"^  {section}\.{key} ", keys, re.M), ours
        for other in others.split():
            section = "network" if f"  training.{other} " in keys else "training"
            code, text = said(str(ROOT / "data/dense.ini"), f"--{section}.{other}=1")
            owner = re.search(rf"^  (\w+)\.{other} ", keys, re.M)
            wanted = f"it belongs to [{owner[1]}]" if owner else f"unknown key; here it is {ours}"
            assert code == 2 and wanted in text, text


def test_choices_of_others_are_told_with_ours():
    keys = {"linear": "network.activation", "silu": "network.activation",
            "gelu": "network.activation", "gd": "training.optimizer", "mse": "training.loss",
            "cross_entropy": "training.loss", "logistic": "training.loss",
            "huber": "training.loss", "double": "reference.precision",
            "single": "reference.precision", "cuda": "solver.backend"}
    for others, ours in TABLES[1]:
        for other in others.split():
            code, text = said(str(ROOT / "data/dense.ini"), f"--{keys[ours]}={other}")
            assert code == 2 and f"here it is called {ours}" in text, text


def test_keys_without_effect_are_told_at_once():
    code, text = said(str(ROOT / "data/transformer.ini"), "--network.many_experts=regime2",
                      "--network.shared_experts=1", "--network.gated_experts=yes")
    assert code == 2 and text.count("\n") == 1
    assert "shared_experts" in text and "gated_experts" in text

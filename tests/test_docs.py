"""dmft.docs: pages, keys and words, where the package and its pages lie apart."""
import os
import shutil
import subprocess
import sys

import pytest

import dmft
from dmft import program
from dmft.examples import main
from texts import text_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def test_pages_are_listed_and_shown():
    shown = dmft.docs()
    for name in os.listdir(os.path.join(ROOT, "docs")):
        assert not name.endswith(".md") or f"`{name[:-3]}`" in shown
    assert dmft.docs("output") == text_of("docs/output.md")
    assert dmft.docs("theory/regime2") == dmft.docs("regime2") == text_of("docs/theory/regime2.md")
    assert dmft.docs("") == shown
    with pytest.raises(dmft.InputError, match="a page, a key or a word, not int"):
        dmft.docs(3)
    assert dmft.docs("output")._repr_markdown_().startswith("# The output file")


def test_keys_are_explained():
    page = dmft.docs("training.eta0")
    assert "Learning rate eta0 of every optimizer" in page and "eta0 = 0.3" in page
    assert "**training.eta0**" in dmft.docs("training") and "gamma0" in dmft.docs("training")
    assert "gamma0 =" not in page


def test_words_are_found_and_others_refused():
    assert "`output`" in dmft.docs("valid_until")
    with pytest.raises(dmft.InputError, match="has 'outputt'; did you mean output"):
        dmft.docs("outputt")


def test_pages_lie_beside_installed_programs(tmp_path):
    """As make install and pip install put them, far from a checkout."""
    shutil.copytree(os.path.join(ROOT, "python", "dmft"), tmp_path / "site" / "dmft")
    (tmp_path / "bin").mkdir()
    shutil.copy(program.find("dmft-solve"), tmp_path / "bin")
    there = tmp_path / "share" / "doc" / "dmft-solve" / "docs"
    there.mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if key != "DMFT_HOME"}
    environment |= {"PYTHONPATH": str(tmp_path / "site"),
                    "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}

    def said():
        return subprocess.run([sys.executable, "-c", "import dmft; print(dmft.docs('output'))"],
                              env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert "the files of docs/ are not here" in said().stderr
    (there / "output.md").write_text("# Of this installation\n")
    assert said().stdout == "# Of this installation\n\n"


def test_examples_are_put_into_a_folder(tmp_path, capsys):
    """What the documents start from runs there; a file that was changed stays as it is."""
    assert main([str(tmp_path)]) == 0
    for name in ("data/regime2.ini", "data/fashion_7x7.h5", "examples/shared_experts.lua",
                 "studies/fig1_regime2.ini"):
        with open(os.path.join(ROOT, name), "rb") as file:
            assert (tmp_path / name).read_bytes() == file.read()
    run = dmft.solve(str(tmp_path / "data" / "program.ini"), progress=False, **{
        "training.steps": 1, "reference.widths": [], "solver.replicates": 1})
    assert run.complete
    (tmp_path / "data" / "regime2.ini").write_text("mine")
    capsys.readouterr()
    assert dmft.examples(tmp_path) == str(tmp_path)
    assert (tmp_path / "data" / "regime2.ini").read_text() == "mine"
    assert capsys.readouterr().err.split() == ["left", "as", "they", "are,", "since", "they",
                                               "differ:", str(tmp_path / "data" / "regime2.ini")]
    with pytest.raises(dmft.SystemFailure, match="cannot write"):
        dmft.examples("/dev/null/x")

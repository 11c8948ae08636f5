"""dmft.docs: pages, keys and words, where the package and its pages lie apart."""
import os
import shutil
import subprocess
import sys

import pytest

import dmft
from dmft import program

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def text_of(*parts):
    with open(os.path.join(ROOT, "docs", *parts), encoding="utf-8") as file:
        return file.read()


def test_pages_are_listed_and_shown():
    shown = dmft.docs()
    for name in os.listdir(os.path.join(ROOT, "docs")):
        assert not name.endswith(".md") or f"`{name[:-3]}`" in shown
    assert dmft.docs("output") == text_of("output.md")
    assert dmft.docs("theory/regime2") == dmft.docs("regime2") == text_of("theory", "regime2.md")
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
    assert "the pages of docs/ are not here" in said().stderr
    (there / "output.md").write_text("# Of this installation\n")
    assert said().stdout == "# Of this installation\n\n"

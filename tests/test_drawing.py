"""Networks as pictures: what the boxes and arrows are, and that the kept pictures are of today."""
import glob
import html
import os
import re
import subprocess
import sys

import dmft
import pytest
from dmft.drawing import main

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def boxes(source: str) -> set[str]:
    return set(re.findall(r'^"[^"]*" \[label="([^"]*)"', source, re.MULTILINE))


def arrows(source: str) -> set[tuple]:
    return {(start, end, (re.search(r'label=" ([^"]*)"', rest) or ["", ""])[1]) for start, end, rest
            in re.findall(r'^"([^"]*)" -> "([^"]*)" \[(.*)\];$', source, re.MULTILINE)}


def test_boxes_and_arrows_of_a_mixture():
    source = dmft.draw(f"{ROOT}/data/regime2_softmax.ini").source
    assert boxes(source) == {"f", "bottom  (N)\\ntanh", "experts  (N)\\nsoftmax",
                             "units  (2 N, 2 for each of experts)\\ntanh", "top  (N)"}
    assert arrows(source) == {("x", "bottom", "W1"), ("bottom", "experts", "Q"),
                              ("bottom", "units", "W_in"), ("experts", "units", ""),
                              ("units", "top", "W_out"), ("top", "f", "w")}


def test_blocks_and_experts_are_folded():
    source = dmft.draw(f"{ROOT}/data/residual.ini", **{"network.depth": 5}).source
    assert "units  (N², N for each of experts)  × 5\\ntanh" in boxes(source)
    assert ("stream", "units", "W1 × 5") in arrows(source)
    assert len(arrows(source)) == 6


def test_layers_of_other_sizes_are_not_folded():
    net = dmft.Network()
    x = net.read_in(net.population("h_1"), "W_1")
    x = net.map(net.tanh(x), net.population("h_2", size=0.5), "W_2")
    net.read_out(net.map(x, net.population("h_3", size=0.5), "W_3"), "w")
    source = dmft.draw("\n", network=net).source
    assert boxes(source) == {"f", "h_1  (N)\\ntanh", "h_2  (N/2)", "h_3  (N/2)"}
    assert ("h_1", "h_2", "W") in arrows(source)


def test_what_divides_rows_has_its_own_word():
    """x/sqrt<x x> is a norm and x/<x> a softmax; x/<x x> is neither."""
    def drawn(divide):
        net = dmft.Network()
        net.read_out(divide(net, net.read_in(net.population("a"), "W")), "w")
        return boxes(dmft.draw("\n", network=net).source) - {"f"}
    assert drawn(lambda net, x: net.norm(x)) == {"a  (N)\\nnorm"}
    assert drawn(lambda net, x: x / net.mean(x)) == {"a  (N)\\nsoftmax"}
    assert drawn(lambda net, x: x / net.average(x, x)) == {"a  (N)"}


def test_sizes_are_those_of_a_width_where_one_is_given():
    drawing = dmft.draw(f"{ROOT}/data/regime2.ini", width=64)
    assert "units  (64, 2 for each of experts)\\ntanh" in boxes(drawing.source)


@pytest.mark.parametrize("picture", sorted(glob.glob(f"{ROOT}/docs/theory/*.svg")))
def test_pictures_of_theory_pages_are_of_the_networks_of_today(picture):
    name = os.path.basename(picture).removesuffix(".svg")
    drawing = dmft.draw(f"{ROOT}/data/{name}.ini")
    with open(picture, encoding="utf-8") as file:
        texts = re.findall(r"<text[^>]*>(.*?)</text>", file.read())
    shown = {html.unescape(text).replace("\u00a0", " ").strip() for text in texts}
    labels = [label.strip() for label in re.findall(r'label="([^"]*)"', drawing.source)]
    assert shown == {line for label in labels for line in label.split("\\n")}


def test_a_script_is_drawn_and_wrong_input_is_one_sentence(tmp_path, capsys):
    subprocess.run([sys.executable, "-m", "dmft", "draw", f"{ROOT}/examples/swiglu.ini", "-o",
                    "x.dot"], cwd=tmp_path, check=True)
    assert "V_in" in (tmp_path / "x.dot").read_text()
    for words, sentence in (([f"{ROOT}/data/dense.ini", "-o", "x.gif"], "x.gif: a picture of"),
                            ([f"{ROOT}/data/dense.ini", "--network.modl=2"], "unknown key"),
                            ([f"{ROOT}/data/dense.ini", "--bogus"], "--bogus: is neither")):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and sentence in said


def test_a_picture_that_is_there_stays_without_force(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dense.svg").write_text("mine")     # where it goes without -o
    words = [f"{ROOT}/data/dense.ini"]
    assert main(words) == 2 and (tmp_path / "dense.svg").read_text() == "mine"
    assert capsys.readouterr().err == \
        "dmft-draw: output dense.svg: exists already; choose another name or add --force\n"
    (tmp_path / "x.dot").write_text("mine")
    picture = dmft.draw(words[0])
    with pytest.raises(dmft.InputError, match="x.dot: exists already; .* or give force=True"):
        picture.save("x.dot")
    assert (tmp_path / "x.dot").read_text() == "mine"
    assert main([*words, "-o", "x.dot", "--force"]) == 0
    assert (tmp_path / "x.dot").read_text() == picture.source
    with pytest.raises(dmft.InputError, match="folder nowhere: No such file"):
        picture.save("nowhere/x.dot")

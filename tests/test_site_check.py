"""install/site_check.py finds what is wrong with a page, and nothing in one that is right."""
import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, f"{ROOT}/install")
import site_check  # noqa: E402

GOOD = """<html><head><title>$</title></head><body><h2 id="one">One</h2>
<p>Averages <code>&lt;x y&gt;</code> and <code>$5</code>, a formula
<span class="arithmatex">\\(\\langle x\\,y\\rangle\\)</span>,
<a href="#one">here</a>, <a href="b.html#two">there</a>, <a href="https://x.org">elsewhere</a></p>
<div class="arithmatex">\\[\\begin{aligned} a &= b \\\\ c &= d \\end{aligned}\\]</div>
</body></html>"""
OTHER = "<html><body><h2 id='two'>Two</h2></body></html>"


def check(folder, text: str) -> tuple[int, str]:
    (folder / "a.html").write_text(text)
    (folder / "b.html").write_text(OTHER)
    ran = subprocess.run([sys.executable, site_check.__file__, str(folder)], text=True,
                         capture_output=True, check=False)
    return ran.returncode, ran.stderr


def test_a_page_that_is_right(tmp_path):
    assert check(tmp_path, GOOD) == (0, "")
    page = site_check.Page(str(tmp_path / "a.html"))
    assert [display for _, _, display in page.formulas] == [False, True]


@pytest.mark.parametrize("wrong, said", [
    ("<p>the mean <x> of rows</p>", "<x> is no tag"),
    ("<p>the mean <u v> of rows</p>", "<u v> is no tag"),
    ("<p>costs $x_1$</p>", "starts no formula"),
    ("<p>```text x ```</p>", "a fence of no code"),
    ("<p>It ends here. ## The next section</p>", "a heading within a paragraph"),
    ("<p>It says:\n- <b>one</b>\n</p>", "a list that no blank line"),
    ("<p>In this order:\n1. one</p>", "a list that no blank line"),
    ('<a href="c.html">c</a>', "c.html is not there"),
    ('<a href="b.html#three">c</a>', "b.html#three names no heading"),
    ('<a href="#three">c</a>', "#three names no heading"),
    ('<img src="c.png">', "c.png is not there")])
def test_what_is_wrong_is_found(tmp_path, wrong, said):
    code, text = check(tmp_path, GOOD.replace("</p>", "</p>" + wrong, 1))
    assert code == 1 and said in text and text.count("\n") == 1, text


@pytest.mark.skipif(not shutil.which("node") or not os.path.exists(site_check.KATEX),
                    reason="no node with KaTeX here")
def test_a_formula_that_katex_does_not_take(tmp_path):
    code, text = check(tmp_path, GOOD.replace(r"\langle x", r"\langel x"))
    assert code == 1 and "langel" in text


def test_no_pages(tmp_path):
    ran = subprocess.run([sys.executable, site_check.__file__, str(tmp_path)], text=True,
                         capture_output=True, check=False)
    assert ran.returncode == 1 and "no pages" in ran.stderr

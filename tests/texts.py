"""The text of a file of the checkout, or of any other by its whole path."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def text_of(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")

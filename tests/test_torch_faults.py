"""The list of deliberate faults fits the sources."""
import pathlib

from torch_faults import FAULTS

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_each_fault_has_its_place():
    for fault in FAULTS:
        text = (ROOT / fault.source).read_text(encoding="utf-8")
        assert text.count(fault.right) == 1 and fault.wrong != fault.right, fault.what

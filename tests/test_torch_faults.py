"""The table of deliberate faults stands in the documentation and fits the sources."""
import pathlib

from torch_faults import FAULTS

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_each_fault_has_its_place():
    for fault in FAULTS:
        text = (ROOT / fault.source).read_text(encoding="utf-8")
        assert text.count(fault.right) == 1 and fault.wrong != fault.right, fault.what


def test_each_fault_is_in_the_table():
    lines = (ROOT / "docs" / "testing_log.md").read_text(encoding="utf-8").splitlines()
    for k, fault in enumerate(FAULTS, 1):
        begin = f"| {k} | {fault.what} | `{fault.source}` | test_"
        assert [line for line in lines if line.startswith(begin)], begin

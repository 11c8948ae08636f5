"""Lines that tests/run.sh counts; and pictures that are drawn fast: coarse, and but for a few tests
without laying out their panels, which takes half of the time."""
import re

from dmft.plot import STYLE

STYLE |= {"savefig.dpi": 50, "figure.constrained_layout.use": False}


def pytest_report_teststatus(report):
    if report.passed or report.skipped:
        return report.outcome if report.when == "call" or report.skipped else "", "", ""
    return None


def pytest_runtest_logreport(report):
    name = re.sub("[^a-z0-9_]+", "_", report.nodeid.split("::")[-1].lower()).strip("_")
    if report.failed:
        print(f"\n[  FAILED  ] {name}")
    elif report.skipped:
        print(f"[  SKIPPED ] {name}: {report.longrepr[-1]}")
    elif report.when == "call":
        print(f"[       OK ] {name}")

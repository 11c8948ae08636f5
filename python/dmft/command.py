"""dmft-plot as it is installed: one sentence where matplotlib is missing."""
import sys


def main() -> int:
    """The command; returns its exit code."""
    try:
        from dmft.plot.command import main as draw
    except ImportError as error:
        print(f"dmft-plot: {error}", file=sys.stderr)
        return 1
    return draw()

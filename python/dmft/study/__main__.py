"""python -m dmft.study: the command dmft-sweep."""
import sys

from dmft.study.command import main

if __name__ == "__main__":
    sys.exit(main())

"""python -m dmft.theory is dmft-equations."""
import sys

from dmft.theory.command import main

sys.exit(main())

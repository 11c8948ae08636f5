import sys

from dmft.plot.command import main

sys.exit(main())

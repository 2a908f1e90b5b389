"""``python -m dpoco``: the command line, as ``dpoco``."""

import sys

from dpoco.cli import main

if __name__ == "__main__":
    sys.exit(main())

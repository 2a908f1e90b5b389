"""``python -m dpoco.cli``."""

import sys

from dpoco.cli import main

if __name__ == "__main__":
    sys.exit(main())

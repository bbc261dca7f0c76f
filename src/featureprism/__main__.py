"""`python -m featureprism`: the command line where the command itself is not on the path."""

import sys

from featureprism.cli import main

if __name__ == "__main__":
    sys.exit(main())

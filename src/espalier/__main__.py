"""`python -m espalier`, as torchrun starts it."""

import sys

from espalier.cli import main

sys.exit(main())

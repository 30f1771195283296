"""Runs the stages that standard input names, one command a line, in one process.

Small stages cost what starting Python costs; here it is paid once. EspalierError ends it as it ends
the command.
"""

import shlex
import sys

from espalier.cli import main

for line in sys.stdin:
    name, *arguments = shlex.split(line)
    assert name == "espalier", line
    if status := main(arguments):
        sys.exit(f"{line}\nended with {status}")

"""`assay` and `python -m assay`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    from assay.cli.main import run
    from assay.cli.process import Streams, hear_signals

    streams = Streams()
    hear_signals()
    return streams.code(run(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())

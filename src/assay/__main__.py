"""`assay` and `python -m assay`."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    from assay.cli.process import INTERRUPTED, Streams, end_interrupted, hear_signals, tell

    try:
        streams = Streams()
        hear_signals()
        from assay.cli.main import run

        code = streams.code(run(sys.argv[1:]))
    except KeyboardInterrupt:  # before the verb began or after it ended
        tell("")
        code = INTERRUPTED
    finally:
        if "duckdb" not in sys.modules:  # it would report all that is frozen as leaked
            gc.freeze()  # the process ends: at its exit the collector would walk every module twice
    if code == INTERRUPTED:
        end_interrupted()
    return code


if __name__ == "__main__":
    sys.exit(main())

"""An importer: a table of tickets, one on each line, with tabs between id, answer and stars."""

from __future__ import annotations

from typing import Any

from assay.plugins import Importer, NameVersion, ResultOrigin, file_id, open_input, sample_run

HEADER = "ticket\tanswer\tstars"


def fits(head: Any) -> bool:
    """Whether a file that begins so is such a table."""
    return head.first_line == HEADER


def read(paths: Any, wanted: Any, tally: Any) -> Any:
    """Each line as a run. What is left out is counted."""
    for path in paths:
        name = NameVersion("tickets", "1")
        origin = ResultOrigin("assay_example.tickets", name, name, file_id(path))
        with open_input(path) as stream:
            for number, line in enumerate(stream, 1):
                cells = line.decode().rstrip("\r\n").split("\t")
                if number == 1:
                    continue
                tally.read["lines"] += 1
                if len(cells) != 3:
                    tally.dropped["lines_without_three_cells"] += 1
                    continue
                ticket, answer, stars = cells
                yield sample_run(
                    origin,
                    wanted,
                    tally,
                    sample_id=ticket,
                    outputs={"answer": answer or None},
                    scores={"helpfulness": int(stars) if stars else None},
                )


TICKETS = Importer("assay_example.tickets", "Tickets with answers and stars", fits, read)

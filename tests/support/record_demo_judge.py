"""Records the demo's judge anew: a real small model answers, its replies go into the journal that
the demo replays. Run it when the questions change, and set the moment of the card in `cli/demo.py`
to a later one than the recording.

    .venv/bin/python tests/support/record_demo_judge.py      (about five minutes on an idle machine)

The journal knows a judge by its address, so the model's own port stands behind a fixed one.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

from checkout import ROOT
from local_model import local_model

FOLDER = ROOT / "src" / "assay" / "cli" / "examples" / "judge"
PORT = 8099


async def forward(target: int, ready: threading.Event) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    ready.set()
    async with server:
        await server.serve_forever()


def main() -> int:
    with local_model() as model:
        ready = threading.Event()
        threading.Thread(
            target=lambda: asyncio.run(forward(int(model.url.split(":")[2].split("/")[0]), ready)),
            daemon=True,
        ).start()
        ready.wait(10)
        journal = FOLDER / "smollm2.journal"
        journal.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "assay",
            "judge",
            "audit",
            "--first",
            "12",
            "--probe",
            "position",
            "--probe",
            "padding",
        ]
        return subprocess.run(
            [*command, "--judge", str(FOLDER / "smollm2.yaml"), "--journal", str(journal)],
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())

"""What reading one file may cost. Each limit is far above what an honest schema needs and far below
what hurts the machine.
"""

from __future__ import annotations

MAX_SOURCE = 2 * 1024 * 1024
"""Bytes of one module. The largest public schemas are near 110 KB; a larger file is refused before
it is read.
"""
MAX_DATA = 16 * 1024 * 1024
"""Bytes of one JSON file: a snapshot of a server with hundreds of tools holds all their schemas.
YAML has its own limit in `assay.files.yaml_files`.
"""
WALL_S = 60.0
"""Seconds from handing a module over to its answer. Computing ends long before; this is for a
machine so busy that nothing moves.
"""
CPU_S = 6
"""Seconds of computing for one module, the syntax tree included. Honest modules take milliseconds;
time that others use does not count.
"""
RUN_S = 4
"""Seconds of computing that the engine allows itself, so that its own error comes first."""
START_S = 30.0
"""Seconds for the worker to start: a cold disk, a busy machine. No module runs yet."""
MEMORY = 128 * 1024 * 1024
"""Bytes the engine may hold for one module."""
PROCESS_MEMORY = 768 * 1024 * 1024
"""Bytes of address space of the worker: the engine, the syntax tree of the largest module (near 250
MB) and the interpreter around them.
"""
STACK = 512 * 1024
"""Bytes of the engine's stack, well inside the 8 MiB a process has: recursion ends in an error of
the engine, not in a crash.
"""
MAX_DEPTH = 100
"""Nesting of the exported object. A JSON Schema inside a tool reaches 20; parsers of JSON give up
at 200.
"""
MAX_NODES = 200_000
"""Values in the exported object, each place counted: a list that holds one object a thousand times
has a thousand of it.
"""
MAX_TEXT = 8 * 1024 * 1024
"""UTF-16 units of all keys and strings of the exported object."""
MAX_NOTES = 10_000
"""Places without data that are listed. Beyond it the object is not a description of tools."""
MAX_JOBS = 10_000
"""Promise reactions that run after the module: an honest one has none."""
FILES_PER_WORKER = 500
"""Modules that one worker reads before a fresh one takes over, so that nothing that leaks adds
up.
"""
MAX_FILES = 5_000
"""Schema files of one folder; the public collection has fewer than 1,000."""
MAX_ENTRIES = 200_000
"""Names examined in one folder tree, so that passing `/` by mistake ends soon."""

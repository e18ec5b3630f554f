"""Reading a type for the first time from many threads at once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from assay.records import typed

SRC = Path(typed.__file__).parents[1]
MANY = """
import sys, threading, time, types
import msgspec
from assay.records.typed import convert

def slowly(number):
    time.sleep(0.002)
    return int | None

module = types.ModuleType("module")
module.__dict__.update(msgspec=msgspec, slowly=slowly)
sys.modules["module"] = module
fields = "".join(f"    field_{number}: 'slowly({number})' = None\\n" for number in range(5))
exec("class Within(msgspec.Struct):\\n" + fields + "class Around(msgspec.Struct):\\n    one: Within\\n    two: Within | None = None\\n", module.__dict__)
tree = {"one": {"field_1": 2}}
found = []

def read(number):
    time.sleep(number * 0.001)
    found.append(convert(tree, module.Around).one.field_1)

threads = [threading.Thread(target=read, args=(number,)) for number in range(20)]
[one.start() for one in threads]
[one.join() for one in threads]
print(found == [2] * 20)
"""


def test_threads_that_read_a_type_for_the_first_time_wait_for_one_another() -> None:
    """With msgspec's own `convert` the process dies nearly every time."""
    done = subprocess.run(
        [sys.executable, "-c", MANY], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_records_are_read_in_no_other_way() -> None:
    found = {
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*.py")
        if re.search(r"msgspec\.convert\(|from msgspec import .*\bconvert\b", path.read_text())
    }
    assert found == {"records/typed.py"}

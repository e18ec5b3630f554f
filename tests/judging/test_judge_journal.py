"""The journal: what was paid for is kept through kills, full disks and second jobs, and nothing
that was changed is used.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError, UsageError
from assay.judging.client import Entry, Journal

TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner, max_size=3)
    ),
    max_leaves=8,
)


def entry(number: int, text: str = "fine\nand \u2028 odd") -> Entry:
    return Entry(f"k-{number}", {"body": {"messages": [text]}}, {"text": f"reply {number}"})


def written(path: Path, count: int = 3) -> bytes:
    with Journal(str(path)) as journal:
        for number in range(count):
            journal.put(entry(number))
    return path.read_bytes()


def test_what_is_put_is_there_at_once_and_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "judge.journal"
    with Journal(str(path)) as journal:
        journal.put(entry(1))
        assert journal.get("k-1") == entry(1)
        assert journal.get("k-2") is None
        salt = journal.salt
    with Journal(str(path)) as journal:
        assert journal.get("k-1") == entry(1)
        assert (len(journal), journal.salt, journal.cut) == (1, salt, 0)


@given(TREES, TREES)
def test_any_exchange_comes_back_as_it_was(request: Any, reply: Any) -> None:
    with Journal() as memory:
        memory.put(Entry("k", {"r": request}, {"r": reply}))
        assert memory.get("k") == Entry("k", {"r": request}, {"r": reply})


def test_any_text_stays_on_its_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    texts = ["a\nb", "a\r\nb", "\u2028", "\x85", '"}\n{"crc":"', "\x00", "🙂", "x" * 3_000_000]
    with Journal(str(path)) as journal:
        for number, text in enumerate(texts):
            journal.put(entry(number, text))
    assert path.read_bytes().count(b"\n") == len(texts) + 1
    with Journal(str(path)) as journal:
        assert [journal.get(f"k-{number}") for number in range(len(texts))] == [
            entry(number, text) for number, text in enumerate(texts)
        ]


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    written(tmp_path / "j")
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o600


def test_two_journals_have_two_salts(tmp_path: Path) -> None:
    with Journal(str(tmp_path / "a")) as one, Journal(str(tmp_path / "b")) as other:
        assert one.salt != other.salt


# --- torn and changed


def test_a_line_torn_at_any_byte_is_cut_off_and_all_others_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = written(path)
    start = data.rindex(b"\n", 0, len(data) - 1) + 1
    for end in range(start, len(data)):
        path.write_bytes(data[:end])
        with Journal(str(path)) as journal:
            assert (len(journal), journal.cut) == (2, end - start)
            journal.put(entry(9))
        with Journal(str(path)) as journal:
            assert (len(journal), journal.cut) == (3, 0)
            assert journal.get("k-9") == entry(9)


def test_a_journal_torn_in_its_first_line_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = written(path, 0)
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with Journal(str(path)) as journal:
            assert len(journal) == 0
            journal.put(entry(1))
        with Journal(str(path)) as journal:
            assert journal.get("k-1") == entry(1)


def test_zeros_that_a_power_cut_left_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = written(path)
    path.write_bytes(data + b"\0" * 4096)
    with Journal(str(path)) as journal:
        assert (len(journal), journal.cut) == (3, 4096)
    assert path.read_bytes() == data


def test_a_byte_changed_anywhere_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = written(path)
    for at in range(0, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 0x01
        if changed[at] == ord("\n") or data[at] == ord("\n"):
            continue
        path.write_bytes(changed)
        with pytest.raises(InputError) as caught, Journal(str(path)):
            pass
        assert caught.value.code == "JDG-004"
        line = data.count(b"\n", 0, at) + 1
        assert f"line {line} is" in str(caught.value)
        assert path.read_bytes() == bytes(changed)


def test_a_line_taken_out_of_the_middle_is_only_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    with Journal(str(path)) as journal:
        assert journal.get("k-1") is None
        assert journal.get("k-2") == entry(2)


def test_an_entry_that_changes_while_the_job_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(str(path)) as journal:
        journal.put(entry(1))
        data = path.read_bytes()
        path.write_bytes(data.replace(b"reply 1", b"reply 2"))
        with pytest.raises(InputError, match="changed while"):
            journal.get("k-1")


@pytest.mark.parametrize(
    "content",
    [b"\n", b'{"id": 1}\n', b'{"id": 1}', b"PK\x03\x04", b"x", b'{"crc":"00000000","entry":{}}\n'],
)
def test_a_file_of_somebody_elses_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught, Journal(str(path)):
        pass
    assert caught.value.code == "JDG-004"
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "head",
    [
        {"journal": "assay.judge-journal/2", "salt": "00" * 16},
        {"journal": "assay.judge-journal/1"},
        {"journal": "assay.judge-journal/1", "salt": "zz"},
    ]
    + [{"journal": "assay.judge-journal/1", "salt": value} for value in (5, "", "00" * 65)],
)
def test_a_first_line_of_another_kind_is_refused(tmp_path: Path, head: dict[str, Any]) -> None:
    from assay.files.line_log import line_of

    (tmp_path / "j").write_bytes(line_of(head))
    with pytest.raises(InputError, match="first line"), Journal(str(tmp_path / "j")):
        pass


def test_a_line_that_is_no_exchange_is_refused(tmp_path: Path) -> None:
    from assay.files.line_log import line_of

    path = tmp_path / "j"
    path.write_bytes(written(path, 1) + line_of({"key": "k", "reply": "text"}))
    with pytest.raises(InputError, match="line 3 contains no exchange"), Journal(str(path)):
        pass


# --- where it cannot be


def test_a_second_job_on_one_journal_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(str(path)) as first:
        first.put(entry(1))
        with pytest.raises(UsageError, match="another job") as caught, Journal(str(path)):
            pass
        assert caught.value.code == "JDG-004"
        first.put(entry(2))
    with Journal(str(path)) as after:
        assert len(after) == 2


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null", "/dev/zero"])
def test_a_device_is_no_journal(device: str) -> None:
    if not os.path.exists(device):
        pytest.skip(f"there is no {device} here")
    with pytest.raises(UsageError) as caught, Journal(device):
        pass
    assert caught.value.code == "JDG-004"


def test_a_pipe_a_folder_and_a_path_below_a_file_are_no_journal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "file" / "below", ""):
        with pytest.raises(UsageError) as caught, Journal(str(path)):
            pass
        assert caught.value.code == "JDG-004"


FULL = """
import resource, sys
from assay.errors import AssayError
from assay.judging.client import Entry, Journal
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
kept = 0
try:
    with Journal(sys.argv[1]) as journal:
        for number in range(100):
            journal.put(Entry(f"k-{number}", {"body": "x" * 700}, {"text": "y"}))
            kept += 1
except AssayError as error:
    print(kept, error.code, int(error.exit_code))
"""


def test_a_full_disk_ends_the_job_and_keeps_every_reply_before(tmp_path: Path) -> None:
    path = tmp_path / "j"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    kept, code, exit_code = done.stdout.split()
    assert (code, exit_code) == ("JDG-004", "2")
    assert 20 < int(kept) < 30
    assert path.read_bytes().endswith(b"}\n")
    with Journal(str(path)) as journal:
        assert (len(journal), journal.cut) == (int(kept), 0)
        journal.put(entry(1))


def put_many(journal: Journal) -> None:
    for number in range(100):
        journal.put(entry(number, "x" * 700))


def test_a_real_disk_that_is_full_keeps_every_reply_before(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = (
        os.geteuid() == 0
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(disk)],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    if not mounted:
        pytest.skip(
            "a small disk cannot be mounted here; the limit on file sizes above does the same"
        )
    try:
        with Journal(str(disk / "j")) as journal, pytest.raises(UsageError, match="No space left"):
            put_many(journal)
        kept = len(journal)
        with Journal(str(disk / "j")) as journal:
            assert len(journal) == kept > 5
    finally:
        subprocess.run(["umount", str(disk)], check=True)

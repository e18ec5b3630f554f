"""What `/proc` shows of the processes of a run."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Job = Mapping[str, Any]

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def others(job: Job) -> list[int]:
    """The processes of the tree; an empty list only if three looks agree, because a single look
    misses a process that forks and ends between listing and reading.
    """
    for _ in range(3):
        pids = look(job)[0]
        if pids:
            return pids
    return []


def look(job: Job) -> tuple[list[int], int, float, int]:
    """The processes of the tree at this moment, its tasks, its computing time in seconds and its
    memory in KB.
    """
    pids, parents = [], {}
    tasks, ticks, pages = 0, 0, 0
    own = os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        try:
            if job["user"] and not job["namespaced"] and _user_of(name) != job["user"]:
                continue
            with open(f"/proc/{name}/stat", "rb", 0) as file:
                fields = file.read().rpartition(b")")[2].split()
            with open(f"/proc/{name}/statm", "rb", 0) as file:
                memory = file.read().split()
        except OSError:  # it ended between two looks
            continue
        if job["namespaced"] and name == "1":
            ticks += int(fields[13]) + int(fields[14])  # what the reaper has waited for
            continue
        parents[int(name)] = (int(fields[1]), fields, memory)
    for pid, (_, fields, memory) in parents.items():
        if not (job["namespaced"] or job["user"]) and not _descends(pid, own, parents):
            continue
        ticks += sum(int(field) for field in fields[11:15])
        if fields[0] in (b"Z", b"X"):
            continue
        pids.append(pid)
        tasks += int(fields[17])
        pages += max(0, int(memory[1]) - int(memory[2]))
    return pids, tasks, ticks / _TICK, pages * _PAGE_KB


def _user_of(name: str) -> int:
    """The user of a process. The owner of its folder isn't reliable: it is root for a process that
    changed its user.
    """
    with open(f"/proc/{name}/status", "rb", 0) as file:
        return int(file.read(4096).partition(b"Uid:")[2].split(None, 1)[0])


def _descends(
    pid: int, own: int, parents: Mapping[int, tuple[int, list[bytes], list[bytes]]]
) -> bool:
    for _ in range(len(parents) + 1):
        if pid == own:
            return True
        if pid not in parents:
            return False
        pid = parents[pid][0]
    return False


def refused_routes() -> int:
    """How often the kernel found no route to an address: this namespace has only a loopback
    interface.
    """
    total = 0
    try:
        with open("/proc/net/snmp") as file:
            rows = [line.split() for line in file if line.startswith("Ip:")]
        total += int(dict(zip(rows[0], rows[1], strict=True)).get("OutNoRoutes", 0))
        with open("/proc/net/snmp6") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Ip6OutNoRoutes"))
    except (OSError, IndexError, ValueError):
        return total
    return total

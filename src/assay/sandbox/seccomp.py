"""A kernel filter that refuses system calls that no solution and no test needs.

Namespaces isolate the code; this filter removes what could be used to attack them: mounting,
tracing, new namespaces, kernel keyrings, BPF, io_uring, and sockets other than local, IP and
netlink (vsock and the kernel's crypto sockets ignore network namespaces). It also refuses memory
that no limit counts (memfd, System V). The filter exists for x86-64 and arm64 (aarch64) only.
"""

from __future__ import annotations

import errno
import platform
import struct
from typing import NamedTuple

_NEW_NAMESPACES = 0x7E020000
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK (which lists the interfaces)."""


class Machine(NamedTuple):
    """The numbers of one kind of machine; the test suite compares them with the kernel's header."""

    architecture: int
    """The kernel's audit number of the architecture. A system call of another architecture, such as
    from 32-bit code, ends the process.
    """
    clone: int
    clone3: int
    socket: int
    refused: dict[str, int]
    """Calls that fail with EPERM."""
    beyond: int = 0
    """From this number on, the same calls have second numbers (x32); 0 if they don't."""


MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        56,
        435,
        41,
        {
            "shmget": 29,
            "shmat": 30,
            "ptrace": 101,
            "syslog": 103,
            "uselib": 134,
            "personality": 135,
            "modify_ldt": 154,
            "pivot_root": 155,
            "_sysctl": 156,
            "adjtimex": 159,
            "chroot": 161,
            "acct": 163,
            "settimeofday": 164,
            "mount": 165,
            "umount2": 166,
            "swapon": 167,
            "swapoff": 168,
            "reboot": 169,
            "sethostname": 170,
            "setdomainname": 171,
            "iopl": 172,
            "ioperm": 173,
            "init_module": 175,
            "delete_module": 176,
            "quotactl": 179,
            "clock_settime": 227,
            "kexec_load": 246,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "unshare": 272,
            "vmsplice": 278,
            "move_pages": 279,
            "perf_event_open": 298,
            "fanotify_init": 300,
            "name_to_handle_at": 303,
            "open_by_handle_at": 304,
            "clock_adjtime": 305,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "finit_module": 313,
            "memfd_create": 319,
            "kexec_file_load": 320,
            "bpf": 321,
            "userfaultfd": 323,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "open_tree": 428,
            "move_mount": 429,
            "fsopen": 430,
            "fsconfig": 431,
            "fsmount": 432,
            "fspick": 433,
            "pidfd_getfd": 438,
            "process_madvise": 440,
            "mount_setattr": 442,
            "memfd_secret": 447,
        },
        beyond=0x40000000,
    ),
    "aarch64": Machine(
        0xC00000B7,
        220,
        435,
        198,
        {
            "shmget": 194,
            "shmat": 196,
            "ptrace": 117,
            "syslog": 116,
            "personality": 92,
            "pivot_root": 41,
            "adjtimex": 171,
            "chroot": 51,
            "acct": 89,
            "settimeofday": 170,
            "mount": 40,
            "umount2": 39,
            "swapon": 224,
            "swapoff": 225,
            "reboot": 142,
            "sethostname": 161,
            "setdomainname": 162,
            "init_module": 105,
            "delete_module": 106,
            "quotactl": 60,
            "clock_settime": 112,
            "kexec_load": 104,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "unshare": 97,
            "vmsplice": 75,
            "move_pages": 239,
            "perf_event_open": 241,
            "fanotify_init": 262,
            "name_to_handle_at": 264,
            "open_by_handle_at": 265,
            "clock_adjtime": 266,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "finit_module": 273,
            "memfd_create": 279,
            "kexec_file_load": 294,
            "bpf": 280,
            "userfaultfd": 282,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "open_tree": 428,
            "move_mount": 429,
            "fsopen": 430,
            "fsconfig": 431,
            "fsmount": 432,
            "fspick": 433,
            "pidfd_getfd": 438,
            "process_madvise": 440,
            "mount_setattr": 442,
            "memfd_secret": 447,
        },
    ),
}

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16


def program(machine: str = "") -> bytes:
    """The filter as the kernel reads it: eight bytes per instruction. Empty for a machine that is
    not in `MACHINES`.
    """
    numbers = MACHINES.get(machine or platform.machine())
    if numbers is None:
        return b""
    steps = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, numbers.architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    # The second numbers, and clone3, whose flags a filter can't read, fail as if they did not
    # exist.
    if numbers.beyond:
        steps += [(_AT_LEAST, 0, 1, numbers.beyond), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    steps += [(_EQUAL, 0, 1, numbers.clone3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for number in numbers.refused.values():
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    steps += [
        (_EQUAL, 0, 4, numbers.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    steps += [
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 1, 0, numbers.socket),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
    ]
    for family in _FAMILIES:
        steps += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    steps.append((_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)

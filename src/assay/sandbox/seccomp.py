"""System calls that no solution and no test needs, refused by a filter in the kernel.

The namespaces are the wall; this takes away the tools to work on it: mounting, tracing, new namespaces, kernel keyrings, BPF, io_uring, and sockets
other than local, IP and netlink (vsock and the kernel's crypto sockets know no network namespace). Memory that no limit counts is refused too
(memfd, System V). The filter is written for x86-64; on other machines there is none.
"""

from __future__ import annotations

import errno
import platform
import struct

_ARCHITECTURE = 0xC000003E
_X32 = 0x40000000
_CLONE, _CLONE3, _SOCKET = 56, 435, 41
_NEW_NAMESPACES = 0x7E020000
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK (which lists the interfaces)."""

REFUSED = {
    "shmget": 29, "shmat": 30, "ptrace": 101, "syslog": 103, "uselib": 134, "personality": 135, "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156,
    "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169,
    "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179,
    "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "vmsplice": 278, "move_pages": 279,
    "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308,
    "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321,
    "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip
"""Name and number on x86-64; the test suite compares them with the kernel's header."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16


def program() -> bytes:
    """The filter as the kernel reads it: eight bytes per instruction. Empty where this machine is not x86-64."""
    if platform.machine() != "x86_64":
        return b""
    steps = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, _ARCHITECTURE), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    # The same calls under numbers of their own (x32), and clone3, whose flags a filter cannot read: both answer as if they did not exist.
    steps += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS), (_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for number in REFUSED.values():
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    steps += [(_EQUAL, 0, 4, _CLONE), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_EQUAL, 1, 0, _SOCKET), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    for family in _FAMILIES:
        steps += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    steps.append((_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)

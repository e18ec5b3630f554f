"""Attacks on the sandbox, each with real bubblewrap: what is held, what is seen, and what a run
leaves behind.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from assay.errors import AssayError, InputError, NotEnoughEvidence
from assay.sandbox import isolation as walls
from assay.sandbox import seccomp
from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.inside import values
from assay.sandbox.isolation import available, require
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import SandboxOutcome, Stream, Violation, verdict
from assay.sandbox.running import REPORT, run, run_command
from assay.sandbox.solutions import check_solution
from assay.sandbox.trees import check_paths, read_tree
from checkout import ROOT

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
WHY_NOT = available()["bubblewrap"]
walled = pytest.mark.skipif(
    bool(WHY_NOT) and os.environ.get("CI") != "true", reason=f"{WHY_NOT}. {walls.INSTALL}"
)
QUICK = SandboxLimits(wall_s=0.6)
BOMB = SandboxLimits(wall_s=1.2)
FORK_BOMB = """
import os, time
while True:
    try: os.fork()
    except OSError: time.sleep(0.05)  # no more for now: computing in a loop would prove no more
"""


def python(code: str, **options: object) -> SandboxOutcome:
    return run([PYTHON, "-I", "-c", code], **options)


def alive(marker: str) -> list[str]:
    """Processes of this machine whose command line holds the marker."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line and b"pytest" not in line:
                found.append(folder.name)
    return found


# --- endings


@walled
def test_a_command_that_ends_with_0_passes_and_its_output_is_kept() -> None:
    outcome = python(
        "import sys; print('né'); print('err', file=sys.stderr); print(sys.stdin.read())",
        stdin="größe".encode(),
    )
    assert outcome.status == "passed"
    assert outcome.exit_code == 0
    assert outcome.stdout.text == "né\ngröße\n"
    assert outcome.stderr.text == "err\n"
    assert outcome.violations == ()
    assert outcome.isolation == "bubblewrap"
    assert outcome.peak_kb > 1000
    assert 0 < outcome.cpu_s < outcome.wall_s + 1


@walled
@pytest.mark.parametrize(
    ("code", "status", "exit_code", "signal"),
    [
        ("raise SystemExit(3)", "failed", 3, None),
        ("import os; os.kill(os.getpid(), 11)", "killed", None, 11),
        ("1/0", "failed", 1, None),
        ("import os; os.abort()", "killed", None, 6),
    ],
)
def test_an_ending_is_told_as_it_was(
    code: str, status: str, exit_code: int | None, signal: int | None
) -> None:
    outcome = python(code)
    assert (outcome.status, outcome.exit_code, outcome.signal) == (status, exit_code, signal)


@walled
def test_a_printed_pass_is_not_a_pass() -> None:
    assert python("print('===== 5 passed in 0.1s ====='); raise SystemExit(1)").status == "failed"


@walled
def test_a_command_that_does_not_exist_is_an_error_with_its_name() -> None:
    outcome = run(["no-such-program"])
    assert outcome.status == "error"
    assert "no-such-program cannot be run: No such file or directory" in outcome.reason


@walled
def test_our_own_interpreter_can_be_run_wherever_it_lies() -> None:
    outcome = run([sys.executable, "-c", "import sys; print(sys.version_info[:3])"])
    assert outcome.stdout.text.strip() == str(sys.version_info[:3])


# --- limits


@walled
@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(99)",
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(9)",
        "import os, time\nos.setsid() if os.fork() == 0 else None\ntime.sleep(99)",
    ],
)
def test_what_does_not_end_is_ended(code: str) -> None:
    outcome = python(f"{code}  # marker-{os.getpid()}-clock", limits=QUICK)
    assert outcome.status == "timeout"
    assert [one.kind for one in outcome.violations] == ["timeout"]
    assert not alive(f"marker-{os.getpid()}-clock")


@walled
def test_computing_time_is_limited() -> None:
    outcome = python("while True: pass", limits=SandboxLimits(cpu_s=1))
    assert outcome.status == "timeout"
    assert outcome.violations[0].kind == "cpu"


@walled
def test_computing_time_of_many_processes_is_counted_together() -> None:
    outcome = python(
        "import os\nfor _ in range(3): os.fork()\nwhile True: pass",
        limits=SandboxLimits(cpu_s=1, wall_s=20, processes=80),
    )
    assert outcome.status == "timeout"
    assert [one.kind for one in outcome.violations] == ["cpu"]


@walled
def test_a_memory_bomb_is_held() -> None:
    outcome = python("x = bytearray(10 ** 10)", limits=SandboxLimits(memory_mb=200))
    assert outcome.status == "memory"
    assert outcome.violations[0].kind == "memory"


@walled
def test_memory_in_private_folders_is_limited() -> None:
    code = (
        "n = 0\ntry:\n    for i in range(100):\n        for d in ('/tmp', '/dev/shm', '.'):\n"
        "            open(f'{d}/{i}', 'wb').write(b'x' * 2 ** 20); n += 1\nexcept OSError as e:\n    print(n, e.strerror)\n"
    )
    outcome = python(code, limits=SandboxLimits(file_mb=4))
    assert outcome.stdout.text.split(" ", 1)[1] == "No space left on device\n"
    assert int(outcome.stdout.text.split()[0]) <= 15


@walled
def test_a_huge_file_is_held_and_a_program_that_does_not_care_is_seen() -> None:
    assert (
        "File too large"
        in python(
            "open('big', 'wb').write(b'x' * (5 * 2 ** 20))", limits=SandboxLimits(file_mb=4)
        ).stderr.text
    )
    outcome = run(
        ["/bin/sh", "-c", "head -c 6000000 /dev/zero > /dev/shm/big"],
        limits=SandboxLimits(file_mb=4),
    )
    assert outcome.exit_code != 0 or outcome.violations


@walled
def test_a_fork_bomb_is_held_and_seen() -> None:
    outcome = python(
        f"{FORK_BOMB}\n# marker-{os.getpid()}-bomb",
        limits=BOMB,
    )
    assert outcome.status == "timeout"
    assert "processes" in {one.kind for one in outcome.violations}
    assert not alive(f"marker-{os.getpid()}-bomb")


@walled
def test_threads_count_as_processes() -> None:
    code = (
        "import threading, time\nn = 0\ntry:\n    for n in range(200): threading.Thread(target=time.sleep, args=(0.5,)).start()\n"
        "except RuntimeError: print('held', n)\n"
    )
    assert "held" in python(code, limits=SandboxLimits(processes=20)).stdout.text


@walled
def test_output_beyond_the_limit_is_counted_and_not_kept() -> None:
    outcome = python("print('x' * 100_000)", limits=SandboxLimits(output_kb=4))
    assert outcome.status == "passed"
    assert (len(outcome.stdout.data), outcome.stdout.total, outcome.stdout.dropped) == (
        4096,
        100_001,
        95_905,
    )


@walled
def test_output_without_end_is_ended() -> None:
    outcome = run(["/usr/bin/yes"], limits=SandboxLimits(output_kb=16, wall_s=10))
    assert outcome.status == "output"
    assert len(outcome.stdout.data) == 16 * 1024


@walled
def test_a_daemon_is_killed_and_seen() -> None:
    marker = f"marker-{os.getpid()}-daemon"
    outcome = run(
        ["/bin/sh", "-c", f"setsid nohup sh -c 'sleep 300; : {marker}' >/dev/null 2>&1 & exit 0"]
    )
    assert outcome.exit_code == 0
    assert outcome.status == "violation"
    assert [one.kind for one in outcome.violations] == ["leftover"]
    assert not alive(marker)


# --- walls


@walled
def test_nothing_outside_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    places = [
        "/etc/passwd",
        "/etc/x",
        "/usr/bin/x",
        "/x",
        "/dev/x",
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
        "/sandbox/x",
        "/" + "root/x",
        "/home/x",
        str(target),
        str(ROOT / "x"),
        str(Path(__file__)),
    ]
    code = (
        f"for p in {places!r}:\n    try:\n        open(p, 'a').write('broken')\n       "
        " print('WROTE', p)\n    except OSError: pass\nprint('done')"
    )
    outcome = python(code)
    assert outcome.stdout.text == "done\n"
    assert target.read_text() == "mine"


@walled
def test_no_secret_of_the_machine_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_TEST_SECRET", "sesame-open")
    (tmp_path / "secret").write_text("sesame-open")
    at_home = [
        os.path.expanduser(name) for name in ("~/.ssh", "~/.bashrc", "~/.netrc", "~/.profile")
    ]
    places = [
        "/etc/shadow",
        "/etc/ssh",
        "/etc/machine-id",
        "/var/log",
        "/run",
        "/mnt",
        "/srv",
        "/sys",
        "/boot",
        "/var/lib",
        "/proc/kcore",
        "/proc/1/environ",
    ]
    places += [
        *at_home,
        str(tmp_path / "secret"),
        str(ROOT / "pyproject.toml"),
        "/proc/1/mem",
        f"/proc/{os.getpid()}/environ",
    ]
    code = (
        f"import os\nfor p in {places!r}:\n    try:\n        d = open(p, 'rb').read(4096) if not os.path.isdir(p) else os.listdir(p)\n"
        "        print('READ', p, d[:80]) if d and b'sandbox' not in bytes(str(d), 'utf8') else None\n    except OSError: pass\n"
        "print(sorted(os.environ)); print(open('/proc/self/environ').read().count('sesame'))\n"
        "print([d for d in os.listdir('/etc')]); print(os.listdir('/home') if os.path.exists('/home') else [])\n"
    )
    outcome = python(code)
    assert "READ" not in outcome.stdout.text, outcome.stdout.text
    assert "sesame" not in outcome.stdout.text
    shown = outcome.stdout.text.splitlines()
    assert (
        shown[-4]
        == "['HOME', 'LANG', 'MALLOC_ARENA_MAX', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'TMPDIR', 'TZ']"
    )
    assert set(eval(shown[-2])) <= {
        "passwd",
        "group",
        "hosts",
        "resolv.conf",
        "nsswitch.conf",
        "ld.so.cache",
        "alternatives",
    }


@walled
def test_the_process_list_shows_nothing_of_the_machine() -> None:
    outcome = python(
        "import os; print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()));"
        " print(os.uname().nodename, os.getuid(), os.getgroups())"
    )
    pids, rest = outcome.stdout.text.splitlines()
    assert pids in ("[1, 2, 3]",)
    name, user, groups = rest.split()
    assert name == "sandbox"
    assert int(user) >= 65534
    assert groups == "[]"


@walled
def test_the_code_has_no_rights_and_cannot_get_any() -> None:
    code = (
        "import os\nfor line in open('/proc/self/status'):\n"
        "    if line.startswith(('CapEff', 'CapPrm', 'CapAmb', 'NoNewPrivs', 'Seccomp:')): print(*line.split())\n"
        "for f in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgroups([0]), lambda: os.chroot('/'),\n"
        "          lambda: os.mknod('/tmp/d', 0o60666, 0x800)):\n"
        "    try:\n        f(); print('GOT IT')\n    except OSError: pass\n"
    )
    lines = python(code).stdout.text.splitlines()
    assert [
        line for line in lines if line.startswith("Cap") and not line.endswith("0000000000000000")
    ] == []
    assert "NoNewPrivs: 1" in lines
    assert "GOT IT" not in lines


@walled
def test_setuid_programs_give_nothing() -> None:
    outcome = run(
        [
            "/bin/sh",
            "-c",
            "cp /bin/sh ./s; chmod 4755 ./s; ./s -p -c id; su -c id root </dev/null; echo done",
        ]
    )
    assert "uid=0" not in outcome.stdout.text
    assert outcome.stdout.text.endswith("done\n")


@walled
@pytest.mark.skipif(
    os.uname().machine not in seccomp.MACHINES,
    reason="the filter knows no numbers for this machine",
)
def test_the_filter_refuses_what_it_names_and_lets_programs_work() -> None:
    machine = seccomp.MACHINES[os.uname().machine]
    code = (
        "import ctypes, errno, socket, threading, subprocess, multiprocessing\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"for name, number in {machine.refused!r}.items():\n    ctypes.set_errno(0)\n"
        "    if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM: print('LET', name, ctypes.get_errno())\n"
        f"ctypes.set_errno(0)\nprint(libc.syscall({machine.clone3}, 0, 0), errno.errorcode[ctypes.get_errno()])\n"
        f"ctypes.set_errno(0)\nprint(libc.syscall({machine.clone}, 0x10000000 | 17, 0, 0, 0, 0), errno.errorcode[ctypes.get_errno()])\n"
        "for family in (17, 38, 40, 44):\n    try:\n        socket.socket(family, socket.SOCK_DGRAM if family != 38 else 5); print('OPENED', family)\n"
        "    except OSError as e: assert e.errno == errno.EAFNOSUPPORT, e\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())\n"
        "if __name__ == '__main__':\n    with multiprocessing.Pool(2) as p: print(p.map(abs, [-1]))\n"
    )
    outcome = python(code)
    assert outcome.stdout.text.splitlines() == [
        "-1 ENOSYS",
        "-1 EPERM",
        "thread",
        "child",
        "[1]",
    ], outcome


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_the_numbers_of_the_filter_are_those_of_the_kernel(name: str, header: str) -> None:
    if not os.path.exists(header):
        pytest.skip("the kernel's header is not installed")
    numbers = {
        call: int(number)
        for call, number in reversed(
            re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", Path(header).read_text())
        )
    }
    machine = seccomp.MACHINES[name]
    assert {call: numbers[call] for call in machine.refused} == machine.refused
    assert (numbers["clone"], numbers["clone3"], numbers["socket"]) == (
        machine.clone,
        machine.clone3,
        machine.socket,
    )
    assert seccomp.MACHINES["x86_64"].refused.keys() - machine.refused.keys() == {
        call for call in seccomp.MACHINES["x86_64"].refused if call not in numbers
    }


@pytest.mark.parametrize("name", seccomp.MACHINES)
def test_every_jump_of_the_filter_lands_inside_it(name: str) -> None:
    steps = list(struct.iter_unpack("=HBBI", seccomp.program(name)))
    assert steps
    for place, (_, yes, no, _) in enumerate(steps):
        assert place + 1 + max(yes, no) < len(steps) or steps[place][0] == 0x06


def test_a_machine_without_numbers_has_no_filter() -> None:
    assert seccomp.program("riscv64") == b""


@walled
def test_there_is_no_network_and_an_attempt_is_seen() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.1)
    code = (
        "import socket\ndef t(f):\n    try: f(); print('REACHED')\n    except OSError as e: print(type(e).__name__)\n"
        f"t(lambda: socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=1))\n"
        "t(lambda: socket.create_connection(('203.0.113.7', 80), timeout=1))\n"
        "t(lambda: socket.create_connection(('2001:db8::1', 80), timeout=1))\n"
        "t(lambda: socket.getaddrinfo('example.com', 80))\n"
        "t(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('203.0.113.7', 53)))\n"
    )
    outcome = python(code)
    assert _accept(server) is None, "a connection would wait here"
    server.close()
    assert "REACHED" not in outcome.stdout.text
    assert outcome.status == "violation"
    assert [one.kind for one in outcome.violations] == ["network"]


def _accept(server: socket.socket) -> object:
    try:
        return server.accept()
    except TimeoutError:
        return None


@walled
def test_talking_to_oneself_is_no_violation() -> None:
    code = (
        "import socket\n"
        "s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); a, _ = s.accept(); c.send(b'hi')\n"
        "print(a.recv(2)); print(socket.gethostbyname('localhost'))"
    )
    outcome = python(code)
    assert outcome.stdout.text == "b'hi'\n127.0.0.1\n"
    assert outcome.status == "passed"


@walled
def test_unix_sockets_of_the_machine_are_out_of_reach(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
        named.bind(path)
        named.listen()
        abstract.bind(f"\0assay-{os.getpid()}")
        abstract.listen()
        code = (
            f"import socket\nfor p in ({path!r}, '\\0assay-{os.getpid()}', '/run/docker.sock', '/var/run/dbus/system_bus_socket'):\n"
            f"    try: socket.socket(socket.AF_UNIX).connect(p); print('REACHED', p)\n    except OSError: pass\nprint('done')"
        )
        assert python(code).stdout.text == "done\n"


@walled
@pytest.mark.parametrize(
    "call",
    [
        "os.kill(os.getppid(), 9)",
        "os.kill(1, 9)",
        "os.kill(-1, 9)",
        "os.killpg(0, 9)",
        "[os.kill(p, 9) for p in range(1, 300) if p != os.getpid()]",
    ],
)
def test_killing_around_helps_nothing(call: str) -> None:
    marker = subprocess.Popen(["sleep", "60"])
    try:
        outcome = python(
            f"import os\ntry: {call}\nexcept OSError as e: print(type(e).__name__)\nos._exit(1)"
        )
        assert outcome.status in ("failed", "killed")
        assert marker.poll() is None
    finally:
        marker.kill()
        marker.wait()


@walled
def test_the_supervisor_cannot_be_inspected_or_written_to() -> None:
    code = (
        "import os\nme = os.getpid()\nfor pid in (1, os.getppid()):\n    for name in ('mem', 'environ', 'maps'):\n        try:\n"
        "            open(f'/proc/{pid}/{name}', 'rb').read(1)\n"
        "            print('READ', pid, name)\n        except OSError: pass\n    try:\n        for fd in os.listdir(f'/proc/{pid}/fd'):\n"
        "            try:\n                f = os.open(f'/proc/{pid}/fd/{fd}', os.O_WRONLY | os.O_NONBLOCK)\n"
        "                os.write(f, b'exit 0\\nend\\n'); print('WROTE', pid, fd)\n            except OSError: pass\n    except OSError: pass\n"
        "for fd in range(3, 512):\n    try: os.write(fd, b'exit 0\\nend\\n'); print('OWN', fd)\n    except OSError: pass\nraise SystemExit(7)\n"
    )
    outcome = python(code)
    assert outcome.exit_code == 7
    assert outcome.status == "failed"
    assert "OWN" not in outcome.stdout.text, outcome
    assert not [
        line for line in outcome.stdout.text.splitlines() if line.startswith(("READ 2", "WROTE 2"))
    ]


@walled
def test_deleting_everything_in_reach_harms_only_the_copy(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f.txt").write_text("mine")
    outcome = run(
        ["/bin/sh", "-c", "rm -rf ./* /tmp/* / --no-preserve-root 2>/dev/null; ls"],
        entries=read_tree(str(tmp_path)),
    )
    assert outcome.stdout.text == ""
    assert (tmp_path / "a" / "f.txt").read_text() == "mine"


# --- trees


@walled
def test_a_run_works_on_a_copy_with_modes_links_and_strange_names(tmp_path: Path) -> None:
    (tmp_path / "größe dir").mkdir()
    (tmp_path / "größe dir" / "x.sh").write_text("#!/bin/sh\necho ran; echo new > made\n")
    (tmp_path / "größe dir" / "x.sh").chmod(0o755)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("größe dir/x.sh")
    (tmp_path / "out").symlink_to("/etc/shadow")
    (tmp_path / "private").write_text("p")
    (tmp_path / "private").chmod(0o600)
    outcome = run(
        ["/bin/sh", "-c", "./link; cat private given/a made; ls -d empty; cat out; true"],
        entries=[
            *read_tree(str(tmp_path)),
            TreeEntry("given/a", 0o644, b"A"),
            TreeEntry("private", 0o644, b"q"),
        ],
    )
    assert outcome.stdout.text == "ran\nqAnew\nempty\n"
    assert "No such file" in outcome.stderr.text
    assert not (tmp_path / "made").exists()


@walled
def test_a_file_is_not_written_through_a_link_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/tmp")
    outcome = run(["/bin/true"], entries=[*read_tree(str(tmp_path)), TreeEntry("a/b", 0o644, b"x")])
    assert outcome.status == "error"
    assert "leads through the symbolic link a" in outcome.reason


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "", "a//b", "./a", "a\0b", "x" * 300])
def test_paths_that_lead_out_are_refused(path: str) -> None:
    with pytest.raises(InputError) as refused:
        check_paths([path])
    assert refused.value.code == "SBX-003"


def test_a_tree_with_paths_that_the_system_cannot_open_is_refused(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):  # longer together than a path may be
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        read_tree(str(tmp_path))


def test_a_tree_that_cannot_be_taken_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        read_tree(str(tmp_path / "no"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a device, a socket or a pipe"):
        read_tree(str(tmp_path))
    (tmp_path / "pipe").unlink()
    with (tmp_path / "big").open("wb") as file:
        file.truncate(300 * 2**20)
    with pytest.raises(InputError, match="has more than 256 MB") as refused:
        read_tree(str(tmp_path))
    assert refused.value.code == "SBX-003"
    monkeypatch.setattr("assay.sandbox.trees.MAX_TREE_FILES", 3)
    (tmp_path / "big").unlink()
    for name in "abcd":
        (tmp_path / name).write_text("")
    with pytest.raises(InputError, match="files and folders"):
        read_tree(str(tmp_path))


@pytest.mark.parametrize(
    "options",
    [
        {"readable": ["/"]},
        {"readable": ["relative"]},
        {"readable": ["/no/such"]},
        {"report": "/etc/x"},
    ],
)
def test_options_that_would_open_the_sandbox_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError) as refused:
        run(["/bin/true"], **options)
    assert refused.value.code == "SBX-003"
    with pytest.raises(InputError):
        run([])


# --- a command against a tree


@walled
def test_a_command_that_passes_and_leaves_something_running_passes_its_tests_and_fails_the_gate() -> (
    None
):
    result = run_command([], ["/bin/sh", "-c", "setsid sleep 300 & exit 0"])
    assert result.passed is True
    assert verdict([result.outcome])["passed"] is False


@walled
@pytest.mark.parametrize(
    "trick",
    ["ln -s /etc/passwd $R", "mkfifo $R", "mkdir $R", "head -c 9000000 /dev/zero > $R", "true"],
)
def test_a_report_that_is_no_plain_file_is_no_report(trick: str) -> None:
    result = run_command([], ["/bin/sh", "-c", trick.replace("$R", REPORT)], report=REPORT)
    assert result.passed is False
    assert result.outcome.report is None
    assert "wrote no report" in result.reason


# --- which walls there are


def test_without_bubblewrap_nothing_runs_and_the_line_to_install_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert available()["bubblewrap"] == "there is no `bwrap` on the path"
    for refused_by in (
        lambda: require("bubblewrap"),
        lambda: run(["/bin/true"]),
        lambda: check_solution("def f(): pass", "f()", "f"),
    ):
        with pytest.raises(NotEnoughEvidence, match="apt-get install bubblewrap") as refused:
            refused_by()
        assert refused.value.code == "SBX-001"
        assert "--sandbox=process" in str(refused.value)


def test_an_isolation_of_another_name_is_refused() -> None:
    with pytest.raises(InputError, match="Use bubblewrap or process"):
        require("docker")


def test_a_sandbox_that_does_not_start_says_so_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(AssayError, match="setting up uid map: Permission denied") as refused:
        run(["/bin/true"])
    assert refused.value.code == "SBX-002"
    assert "Permission denied" in available()["bubblewrap"]
    with pytest.raises(NotEnoughEvidence) as again:
        require("bubblewrap")
    assert again.value.code == "SBX-001"


def test_a_forged_word_of_a_false_supervisor_needs_the_pipe_it_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho ready; echo exit 0; echo end\nexit 0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(AssayError) as refused:
        run(["/bin/true"])
    assert refused.value.code == "SBX-002"


@pytest.fixture
def room() -> Iterator[Path]:
    """An empty folder for what is temporary, because others may be at work in the one of the
    machine. Everybody may enter it, as that one.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@walled
def test_no_descriptor_process_or_folder_is_left_behind(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    before, unused = set(os.listdir("/proc/self/fd")), room.stat().st_mtime_ns
    for _ in range(3):
        run(["/bin/true"])
        run(["/bin/true"], isolation="process")
        check_solution("def f(x): return x", "def check(f): assert f(1) == 1", "f")
    assert set(os.listdir("/proc/self/fd")) == before
    assert room.stat().st_mtime_ns > unused, "it was used"
    assert os.listdir(room) == []
    assert not [
        pid
        for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if "bwrap" in Path(f"/proc/{pid}/cmdline").read_text()
    ]


@walled
def test_a_caller_with_many_open_files_gives_none_of_them_away() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    opened = [os.open("/dev/null", os.O_WRONLY) for _ in range(1500)]
    try:
        code = (
            "import os\nfor fd in range(3, 8192):\n    try: os.write(fd, b'exit 0'); print('OWN',"
            " fd)\n    except OSError: pass\nraise SystemExit(7)"
        )
        outcome = python(code)
        assert (outcome.exit_code, outcome.stdout.text) == (7, "")
        assert (
            check_solution("def f(x): return x", "def check(f): assert f(1) == 1", "f").passed
            is True
        )
    finally:
        for one in opened:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@walled
@pytest.mark.parametrize("isolation", ["bubblewrap", "process"])
def test_when_the_caller_is_killed_nothing_goes_on(isolation: str, room: Path) -> None:
    marker = f"marker-{os.getpid()}-{isolation}-orphan"
    shell = f"setsid sleep 300 & sleep 300; : {marker}"
    code = (
        "from assay.sandbox.limits import SandboxLimits\nfrom assay.sandbox.running import run\n"
        f"run(['/bin/sh', '-c', {shell!r}],"
        f" isolation={isolation!r}, limits=SandboxLimits(wall_s=300))"
    )
    caller = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(room)})
    try:
        deadline = time.monotonic() + 20
        while (
            not [pid for pid in alive(marker) if pid != str(caller.pid) and _name(pid) == "sh"]
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        assert alive(marker)
        assert isolation == "bubblewrap" or glob(f"{room}/assay-sandbox-*")
    finally:
        caller.kill()
        caller.wait()
    while (alive(marker) or os.listdir(room)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(marker)
    assert os.listdir(room) == []


def _name(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@walled
def test_several_threads_can_run_at_once() -> None:
    results: list[bool | None] = []
    code = "def f(x): return x + {n}"
    threads = [
        threading.Thread(
            target=lambda n=n: results.append(
                check_solution(
                    code.format(n=n), f"def check(f): assert f(1) == {n + 1}", "f"
                ).passed
            )
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


# --- as an ordinary user

AS_USER = """
import sys
from assay.sandbox.isolation import require
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.running import run
from assay.sandbox.solutions import check_solution
require("bubblewrap")
P = "/usr/bin/python3"
square = "def check(c):\\n    assert c(2) == 4\\n    assert c(3) == 9\\n"
assert check_solution("def f(x): return x * x", square, "f").passed is True
for bad in ("def f(x): return 1",
            "import os\\ndef f(x): os._exit(0)", "import os\\ndef f(x):\\n    os.kill(os.getppid(), 9)\\n    return 1", "import os\\ndef f(x): os.kill(-1, 9)",
            "class A(int):\\n    def __eq__(s, o): return True\\ndef f(x): return A(1)"):
    assert check_solution(bad, square, "f", limits=SandboxLimits(wall_s=4)).passed is False, bad
killed = run([P, "-c", "import os, time; os.kill(os.getppid(), 9); time.sleep(1); print('alive')"])
assert killed.status == "killed" and killed.violations[0].kind == "supervisor", killed
bomb = run([P, "-c", "import os\\nwhile True:\\n    try: os.fork()\\n    except OSError: pass"], limits=SandboxLimits(wall_s=1.5))
assert bomb.status == "timeout" and "processes" in {v.kind for v in bomb.violations}, bomb
proc = run([P, "-c", "import os\\nfor n in ('mem', 'environ', 'maps', 'fd/3'):\\n"
            "    try: open(f'/proc/{os.getppid()}/{n}', 'rb').read(1); print('READ', n)\\n    except OSError: pass\\n"
            "for p in ('/x', '/dev/x', '/etc/x', '/sandbox/x', '/usr/x'):\\n"
            "    try: open(p, 'w'); print('WROTE', p)\\n    except OSError: pass\\nprint(os.getuid())"])
assert proc.stdout.text == "65534\\n", proc
away = run([P, "-c", "import socket; socket.create_connection(('203.0.113.7', 80), timeout=1)"])
assert away.violations[0].kind == "network", away
limits = run([P, "-c", "import time; time.sleep(60)"], isolation="process", limits=SandboxLimits(wall_s=1))
assert limits.status == "timeout" and limits.isolation == "process", limits
left = run(["/bin/sh", "-c", "setsid sleep 300 & exit 0"], isolation="process")
assert [v.kind for v in left.violations] == ["leftover"], left
bomb = run([P, "-c", "import os\\nwhile True:\\n    try: os.fork()\\n    except OSError: pass"], isolation="process", limits=SandboxLimits(wall_s=3))
assert "processes" in {v.kind for v in bomb.violations}, bomb
print("held")
"""


@walled
@pytest.mark.skipif(
    os.geteuid() != 0 or sys.executable == PYTHON,
    reason="needs root, to become somebody else, and an interpreter under /usr",
)
def test_the_same_walls_stand_for_an_ordinary_user(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = Path(f"/tmp/assay-as-user-{os.getpid()}")
    try:
        for path in [
            *(ROOT / "src/assay/sandbox").rglob("*.py"),
            *(ROOT / "src/assay/errors").rglob("*.py"),
        ]:
            target = folder / path.relative_to(ROOT / "src")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        (folder / "assay" / "__init__.py").write_text("")
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
        done = subprocess.run(
            [PYTHON, "-c", AS_USER],
            cwd="/",
            env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
            user=54321,
            group=54321,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout == "held\n", done
    finally:
        shutil.rmtree(folder)


# --- limits without walls


def test_limits_without_walls_must_be_asked_for_by_name_and_mark_the_result() -> None:
    outcome = run(["/bin/sh", "-c", "echo here; id -u"], isolation="process")
    assert outcome.status == "passed"
    assert outcome.isolation == "process"
    assert outcome.stdout.text.splitlines()[1] != "0"
    entry = verdict([outcome])
    assert entry["passed"] is None
    assert "limits only" in entry["reason"]


@pytest.mark.parametrize(
    ("argv", "limits", "kind"),
    [
        (["/bin/sh", "-c", "sleep 60 & sleep 60"], QUICK, "timeout"),
        (["/bin/sh", "-c", "setsid setsid sleep 300 & exit 0"], SandboxLimits(), "leftover"),
        (["/usr/bin/yes"], SandboxLimits(output_kb=16), "output"),
        (["/bin/sh", "-c", "while :; do :; done"], SandboxLimits(cpu_s=1), "cpu"),
        (["/bin/sh", "-c", "head -c 9000000 /dev/zero > big"], SandboxLimits(file_mb=4), ""),
        (
            [PYTHON, "-c", FORK_BOMB],
            BOMB,
            "processes",
        ),
    ],
)
def test_limits_hold_without_walls(argv: list[str], limits: SandboxLimits, kind: str) -> None:
    outcome = run(argv, isolation="process", limits=limits)
    assert outcome.status != "passed", outcome
    assert kind in {one.kind for one in outcome.violations} or not kind


def test_a_solution_is_checked_without_walls_where_its_interpreter_is_in_reach() -> None:
    good = check_solution(
        "def f(x): return x + 1",
        "def check(f): assert f(1) == 2",
        "f",
        isolation="process",
        python=PYTHON,
    )
    assert good.passed is True
    assert good.outcome.isolation == "process"
    bad = check_solution(
        "import os\ndef f(x): os._exit(0)",
        "def check(f): assert f(1) == 2",
        "f",
        isolation="process",
        python=PYTHON,
    )
    assert bad.passed is False


# --- the gate


def outcome(
    *violations: Violation, isolation: str = "bubblewrap", status: str = "passed"
) -> SandboxOutcome:
    return SandboxOutcome(
        status,
        0,
        None,
        1.0,
        1.0,
        1,
        Stream(b"", 0),
        Stream(b"", 0),
        violations,
        isolation,
        "",
        None,
    )


@pytest.mark.req("W-058")
def test_the_gate_is_open_without_a_run_false_with_a_violation_and_true_only_behind_walls() -> None:
    seen = Violation("network", "2 attempts to reach a network")
    assert verdict([])["passed"] is None
    assert verdict([outcome()]) == {"passed": True, "reason": "the sandbox saw nothing in 1 run"}
    assert verdict([outcome(), outcome(seen)])["passed"] is False
    assert "network: 2 attempts" in verdict([outcome(seen)])["reason"]
    assert verdict([outcome(), outcome(isolation="process")])["passed"] is None
    assert verdict([outcome(seen, isolation="process")])["passed"] is False
    assert verdict([outcome(status="error")])["passed"] is None


def test_adding_an_outcome_never_turns_a_failed_gate_into_a_passed_one() -> None:
    worse = [
        outcome(Violation("leftover", "x")),
        outcome(isolation="process"),
        outcome(status="error"),
    ]
    for one in worse:
        for others in ([], [outcome()], [outcome(), outcome()]):
            assert verdict([one, *others])["passed"] is not True


# --- the pipe between solution and tests


@pytest.mark.parametrize(
    "nasty",
    [
        b"",
        b"l9999999999:",
        b"s-1:",
        b"i;",
        b"l1:" * 5000 + b"N",
        b"S1:l0:",
        b"d1:N",
        b"R3:NNN",
        b"h3:NNN",
        b"NN",
        b"c1;",
        b"R3:i0;i1;i0;",
    ],
)
def test_bytes_that_are_no_value_are_refused_and_make_nothing(nasty: Any) -> None:
    import random

    draw = random.Random(7)
    whole = values.encode(
        [1, "é", {"a": (2.5, None)}, {3}, b"x", range(3)], lambda _: values.Handle("o", 0, "")
    )
    for _ in range(3000):
        broken = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        try:
            made = values.decode(bytes(broken[: draw.randint(0, len(broken))]), lambda handle: None)
        except (ValueError, TypeError, IndexError):
            continue
        assert type(made) in (
            list,
            tuple,
            dict,
            set,
            frozenset,
            int,
            float,
            str,
            bytes,
            bytearray,
            type(None),
            bool,
            range,
            complex,
        )
    with pytest.raises((ValueError, TypeError)):
        values.decode(nasty, lambda handle: None)

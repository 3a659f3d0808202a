"""A seccomp filter for workers, as the BPF program that bubblewrap loads (`--seccomp`).

What a worker has no use for is refused (EPERM): every kind of socket and shared memory, new processes (threads are
allowed), tracing, mounts, namespaces, keys, io_uring, BPF, performance counters, modules, clocks. A system call of
another architecture, or of the x32 interface, ends the process. See seccomp(2) and linux/bpf_common.h.
"""

from __future__ import annotations

import platform
import struct
from typing import Final

KILL: Final = 0x8000_0000
ALLOW: Final = 0x7FFF_0000
EPERM: Final = 0x0005_0001
ENOSYS: Final = 0x0005_0026

CLONE_THREAD: Final = 0x0001_0000
X32: Final = 0x4000_0000

_LOAD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST = 0, 4, 16

ARCHITECTURES: Final = {"x86_64": (0xC000_003E, 0), "aarch64": (0xC000_00B7, 1)}
"""Machine -> its AUDIT_ARCH number and its column in the tables below."""

CLONE: Final = (56, 220)
CLONE3: Final = (435, 435)
REFUSED: Final[dict[str, tuple[int | None, int | None]]] = {
    # sockets
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    # other processes
    "fork": (57, None),
    "vfork": (58, None),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    # mounts, namespaces, files of other kinds
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "lookup_dcookie": (212, 18),
    # the kernel's own interfaces
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "personality": (135, 92),
    "vmsplice": (278, 75),
    "vhangup": (153, 58),
    "uselib": (134, None),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def program(machine: str | None = None) -> bytes | None:
    """Return the filter for a machine (this one by default), None for one whose numbers aren't known here."""
    known = ARCHITECTURES.get(machine or platform.machine())
    if known is None:
        return None
    arch, column = known
    steps = [
        _step(_LOAD, _ARCH),
        _step(_JEQ, arch, 1, 0),
        _step(_RETURN, KILL),
        _step(_LOAD, _NUMBER),
    ]
    if column == 0:
        steps += [_step(_JGE, X32, 0, 1), _step(_RETURN, KILL)]
    # clone3 takes its flags from memory, which a filter can't read: without it the C library uses clone.
    steps += [_step(_JEQ, CLONE3[column], 0, 1), _step(_RETURN, ENOSYS)]
    for numbers in REFUSED.values():
        number = numbers[column]
        if number is not None:
            steps += [_step(_JEQ, number, 0, 1), _step(_RETURN, EPERM)]
    steps += [
        _step(_JEQ, CLONE[column], 0, 3),
        _step(_LOAD, _FIRST),  # the low half of clone's flags
        _step(_JSET, CLONE_THREAD, 1, 0),
        _step(_RETURN, EPERM),
        _step(_RETURN, ALLOW),
    ]
    return b"".join(steps)

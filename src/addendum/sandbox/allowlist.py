"""The seccomp profile of a container, as the JSON that Docker and Podman take (`--security-opt seccomp=FILE`).

An allowlist: what a Python interpreter that computes, reads its library and talks over pipes needs, and nothing else.
No sockets, no tracing, no namespaces, no mounts, no keys, no io_uring. What a kernel learns in future is refused, too.
The worker itself gets seccomp.py's filter on top, under which it can't start a process either.
"""

from __future__ import annotations

import json
from typing import Final

ALLOWED: Final = {
    "files": (
        "access chdir chmod close close_range creat dup dup2 dup3 faccessat faccessat2 fchdir fchmod fchmodat fcntl "
        "fdatasync flock fstat fstatfs fsync ftruncate getcwd getdents getdents64 ioctl lseek lstat mkdir mkdirat "
        "newfstatat open openat pread64 preadv pwrite64 pwritev read readlink readlinkat readv rename renameat "
        "renameat2 rmdir stat statfs statx truncate umask unlink unlinkat utimensat write writev"
    ),
    "pipes": "epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 pipe pipe2 poll ppoll pselect6 select",
    "memory": "brk madvise mmap mprotect mremap munmap",
    "signals": (
        "alarm getitimer kill pause restart_syscall rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo "
        "rt_sigreturn rt_sigsuspend rt_sigtimedwait setitimer sigaltstack tgkill tkill"
    ),
    "time": "clock_getres clock_gettime clock_nanosleep gettimeofday nanosleep time times",
    "processes": (
        "arch_prctl capget execve exit exit_group fork futex get_robust_list getcpu getegid geteuid getgid getgroups "
        "getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid gettid "
        "getuid membarrier prctl prlimit64 rseq sched_get_priority_max sched_get_priority_min sched_getaffinity "
        "sched_getparam sched_getscheduler sched_yield seccomp set_robust_list set_tid_address setpgid setrlimit "
        "setsid sysinfo uname vfork wait4 waitid"
    ),
}
NAMESPACES: Final = 0x7E02_0000
"""clone's flags for new namespaces."""
MACHINES: Final = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
"""Machine as the kernel names it -> its name in a profile. No 32-bit interface of either."""


def profile(machine: str) -> bytes:
    """Return the profile for a machine of `MACHINES`."""
    value = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": [MACHINES[machine]],
        "syscalls": [
            {"names": sorted(" ".join(ALLOWED.values()).split()), "action": "SCMP_ACT_ALLOW"},
            {
                "names": ["clone"],
                "action": "SCMP_ACT_ALLOW",
                "args": [{"index": 0, "value": NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
            },
            # Its flags are in memory, where a filter can't read them; the C library then takes clone.
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        ],
    }
    return json.dumps(value, separators=(",", ":")).encode()

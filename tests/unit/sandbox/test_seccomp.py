"""The seccomp filter, run by a small interpreter of its BPF program."""

from __future__ import annotations

import struct

import pytest

from addendum.sandbox.seccomp import ALLOW, ARCHITECTURES, CLONE, CLONE3, ENOSYS, EPERM, KILL, REFUSED, program


def verdict(code: bytes, number: int, arch: int, flags: int = 0) -> int:
    """Return what the kernel would do about a system call."""
    data = struct.pack("=IIQ6Q", number, arch, 0, flags, 0, 0, 0, 0, 0)
    steps = list(struct.iter_unpack("=HBBI", code))
    at, value = 0, 0
    while True:
        operation, yes, no, k = steps[at]
        at += 1
        if operation == 0x20:
            value = int.from_bytes(data[k : k + 4], "little")
        elif operation == 0x06:
            return int(k)
        else:
            holds = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[operation]
            at += yes if holds else no


@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
def test_what_a_worker_has_no_use_for_is_refused(machine: str) -> None:
    """Each named call gets EPERM, clone3 ENOSYS, clone without CLONE_THREAD EPERM; the rest is allowed."""
    code = program(machine)
    assert code is not None
    arch, column = ARCHITECTURES[machine]
    refused = {numbers[column] for numbers in REFUSED.values()}
    for number in range(512):
        if number in (CLONE[column], CLONE3[column]):
            continue
        assert verdict(code, number, arch) == (EPERM if number in refused else ALLOW), number
    assert verdict(code, CLONE3[column], arch) == ENOSYS
    assert verdict(code, CLONE[column], arch, flags=0x11) == EPERM
    assert verdict(code, CLONE[column], arch, flags=0x1000_0000) == EPERM
    assert verdict(code, CLONE[column], arch, flags=0x003D_0F00) == ALLOW


def test_calls_of_another_interface_end_the_process() -> None:
    """A 32-bit call, and one of the x32 interface, could bypass the numbers."""
    code = program("x86_64")
    assert code is not None
    assert verdict(code, 41, 0x4000_0003) == KILL
    assert verdict(code, 0x4000_0000 + 41, ARCHITECTURES["x86_64"][0]) == KILL


def test_an_unknown_machine_has_no_filter() -> None:
    """Nothing is guessed."""
    assert program("riscv64") is None

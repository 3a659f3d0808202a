# ruff: noqa
# mypy: ignore-errors
# Run by worker.py in front of body.py, in a namespace of its own; `_wf_gather`, `_wf_host` and
# `_wf_spent` are the worker's.
import json

_wf_loads = json.loads
_wf_sorted = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False).encode


class CapabilityError(Exception):
    def __init__(self, code, message="", retryable=False):
        self.code = str(code)
        self.message = str(message)
        self.retryable = bool(retryable)
        self._wf_identity = ""
        super().__init__(f"{self.code}: {self.message}")

    def __repr__(self):
        return f"CapabilityError({self.code!r}, {self.message!r})"


_wf_err = CapabilityError


def _wf_failure(code, message, retryable, identity):
    error = CapabilityError(code, message, retryable)
    error._wf_identity = identity
    return error


def _wf_cap(error):
    _wf_spent(error)  # running out of memory ends the script here too, as soon as it is looked at
    return error


def _wf_exc(error):
    if isinstance(error, BaseException):
        error.__traceback__ = None  # an error that is raised again starts there, as on Monty
    return error


def _wf_unsound(text):
    return not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)


def _wf_dumps(value):
    return json.dumps(value, ensure_ascii=True, check_circular=False)

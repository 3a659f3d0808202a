# ruff: noqa
# mypy: ignore-errors
# Read as text and fed to Monty in front of body.py. A script shares Monty's one global namespace with this, so that
# everything which is used later has a name that no script may use; prelude.py gives the builtins such names, too.
import asyncio
import csv
import json

_wf_gather = asyncio.gather
_wf_dumps = json.dumps
_wf_loads = json.loads
_wf_err = csv.Error  # carries a CapabilityError: a direct subclass of Exception that no script can name


class CapabilityError:
    # What a script sees. Monty can neither subclass Exception nor set attributes on one.
    def __init__(self, code, message="", retryable=False):
        self.code = str(code)
        self.message = str(message)
        self.retryable = bool(retryable)
        self.args = (f"{self.code}: {self.message}",)
        self._wf_identity = ""

    def __str__(self):
        return f"{self.code}: {self.message}"

    def __repr__(self):
        return f"CapabilityError({self.code!r}, {self.message!r})"


def isinstance(value, kinds):
    # What a script calls (the guest itself has the builtin): on CPython a CapabilityError is an Exception, here it is
    # only a stand-in for one.
    if type(value) is CapabilityError:
        if kinds is Exception:
            return True
        if type(kinds) is tuple and Exception in kinds:
            return True
    return isinstance(value, kinds)


def _wf_failure(code, message, retryable, identity):
    return _wf_err(_wf_dumps([code, message, retryable, identity]))


def _wf_cap(error):
    if isinstance(error, _wf_err):
        said = _wf_loads(str(error))
        error = CapabilityError(said[0], said[1], said[2])
        error._wf_identity = said[3]
    return error


def _wf_exc(error):
    if isinstance(error, CapabilityError):
        return _wf_failure(error.code, error.message, error.retryable, error._wf_identity)
    return error


def _wf_sorted(payload):
    return _wf_dumps(payload, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


_wf_unsound = None  # Monty's text is UTF-8: it has no lone surrogates

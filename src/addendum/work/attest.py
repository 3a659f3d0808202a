"""What is signed: in-toto statements about a candidate, in DSSE envelopes.

One statement for each validator's result (test-result v0.1), and one for each candidate (SLSA provenance v1). The
subject is the git tree *and* its manifest by SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from addendum import canon
from addendum.canon import Digest, Json
from addendum.work.contract import Contract, Slice
from addendum.work.validate import Checked

STATEMENT: Final = "https://in-toto.io/Statement/v1"
TEST_RESULT: Final = "https://in-toto.io/attestation/test-result/v0.1"
PROVENANCE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "urn:addendum:slice-run:v1"
APPROVAL: Final = "application/vnd.addendum.approval+json"
CORRECTION: Final = "application/vnd.addendum.correction+json"
_RESULT: Final = {"green": "PASSED", "red": "FAILED", "error": "FAILED", "timeout": "FAILED"}


def subject(tree: str, manifest: Digest) -> list[Json]:
    """Return a candidate as a statement's subject."""
    return [{"name": "candidate", "digest": {"gitTree": tree, "sha256": manifest}}]


def _resources(contract: Contract, slice_: Slice | None, validator: str) -> list[Json]:
    snapshot = contract.snapshot["validators"].get(validator)
    found: list[Json] = [
        {"name": "contract", "digest": {"sha256": contract.id}},
        {"name": "snapshot", "digest": {"sha256": canon.digest(dict(contract.snapshot))}},
        {"name": "base", "digest": contract.base.to_json()},
        {"name": f"validator:{validator}", "digest": {"sha256": canon.digest(snapshot)}},
    ]
    if slice_ is not None:
        found.insert(1, {"name": f"slice:{slice_.name}", "digest": {"sha256": slice_.id}})
    return found


def test_result(
    contract: Contract, slice_: Slice | None, attempt: int, about: list[Json], validator: str, checked: Checked
) -> dict[str, Json]:
    """Return the statement on one validator's result. `attempt` is the attempt's number, 0 for a union."""
    return {
        "_type": STATEMENT,
        "subject": about,
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": _RESULT[checked.colour],
            "configuration": _resources(contract, slice_, validator),
            "passedTests": [*sorted(name for name, good in checked.checks.items() if good)],
            "failedTests": [*sorted(name for name, good in checked.checks.items() if not good)],
            "warnedTests": [],
            "annotations": {"attempt": attempt, "colour": checked.colour},
        },
    }


def provenance(
    contract: Contract, slice_: Slice, attempt: int, about: list[Json], facts: Mapping[str, Json], signer: str
) -> dict[str, Json]:
    """Return the statement on where a candidate came from. `facts` say who executed it, and on which tree."""
    return {
        "_type": STATEMENT,
        "subject": about,
        "predicateType": PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"contract": contract.id, "slice": slice_.id, "attempt": attempt},
                "internalParameters": dict(facts),
                "resolvedDependencies": [
                    {"name": "base", "digest": contract.base.to_json()},
                    {"name": "snapshot", "digest": {"sha256": canon.digest(dict(contract.snapshot))}},
                    {"name": "spec", "digest": {"sha256": contract.spec}},
                    {"name": "plan", "digest": {"sha256": contract.plan}},
                    {"name": "policy", "digest": {"sha256": contract.policy}},
                ],
            },
            "runDetails": {
                "builder": {"id": f"urn:addendum:runner:{signer}", "version": {"addendum": contract.runner}},
                "metadata": {"invocationId": f"{contract.id}/{attempt}"},
            },
        },
    }


def described(statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a statement binds: the digests by name, for whoever holds it against the originals."""
    found: dict[str, Any] = {"candidate": statement["subject"][0]["digest"]}
    predicate = statement["predicate"]
    if statement["predicateType"] == PROVENANCE:
        definition = predicate["buildDefinition"]
        found.update({item["name"]: item["digest"] for item in definition["resolvedDependencies"]})
        found["contract"] = {"sha256": definition["externalParameters"]["contract"]}
        found["attempt"] = definition["externalParameters"]["attempt"]
        return found
    found.update({item["name"]: item["digest"] for item in predicate["configuration"]})
    found["attempt"] = predicate["annotations"]["attempt"]
    found["colour"] = predicate["annotations"]["colour"]
    return found

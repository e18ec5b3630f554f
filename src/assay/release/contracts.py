"""Scoring what one side did under what the other was asked.

Both sides are scored under the baseline's contract, which can reject. Where the candidate's own
contract differs, both are scored under that one too, which can only turn a promotion into a hold:
what is judged never sets the bar.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.canon import digest
from assay.records.evidence import Run
from assay.records.run_contract import EMPTY, RunContract, contract_of, under
from assay.records.scorecard import Scorecard


class CardContract(NamedTuple):
    """What a scorecard asks of itself: its passing score, and the role and floor of each
    criterion.
    """

    threshold: Any
    criteria: tuple[tuple[str, Any, Any, Any], ...]

    def digest(self) -> bytes:
        """A digest of all of it."""
        return digest(list(self)).encode()

    def words(self, other: CardContract) -> list[str]:
        """In which parts it differs from another one."""
        found = ["passing score"] if self.threshold != other.threshold else []
        return found + (["floors and roles"] if self.criteria != other.criteria else [])


Contract = RunContract | CardContract
EMPTIES = frozenset((EMPTY, CardContract(None, ()).digest()))
"""The digests of contracts that ask nothing."""


def contract_of_evidence(evidence: Run | Scorecard) -> Contract:
    """The contract of a run or a scorecard."""
    if isinstance(evidence, Run):
        return contract_of(evidence)
    return CardContract(
        evidence.pass_threshold,
        tuple(
            (item.name, item.role, item.critical_floor, item.floor_override)
            for item in sorted(evidence.criteria, key=lambda item: item.name)
            if (item.role, item.critical_floor, item.floor_override) != (None, None, None)
        ),
    )


def asked(evidence: Run | Scorecard, contract: Contract) -> Run | Scorecard:
    """The same evidence under another contract of its kind."""
    if isinstance(evidence, Run):
        assert isinstance(contract, RunContract)
        return under(evidence, contract)
    assert isinstance(contract, CardContract)
    terms = {name: rest for name, *rest in contract.criteria}
    return replace(
        evidence,
        pass_threshold=contract.threshold,
        criteria=[
            replace(item, role=role, critical_floor=floor, floor_override=override)
            for item in evidence.criteria
            for role, floor, override in [terms.get(item.name, (None, None, None))]
        ],
    )


def are_comparable(ours: Contract, theirs: Contract) -> bool:
    """Whether one can be put in place of the other: both are of one kind, and nothing that can't be
    asked again differs.
    """
    if isinstance(ours, RunContract) and isinstance(theirs, RunContract):
        return ours.fixed == theirs.fixed
    return type(ours) is type(theirs)


def with_expected(contract: Contract, other: Contract) -> Contract:
    """A contract with the expected value of another one."""
    if isinstance(contract, RunContract) and isinstance(other, RunContract):
        return contract._replace(expected=other.expected)
    return contract


def words_of(ours: Contract, theirs: Contract) -> list[str]:
    """In which parts two contracts of one kind differ, in words."""
    if isinstance(ours, RunContract) and isinstance(theirs, RunContract):
        return ours.words(theirs)
    if isinstance(ours, CardContract) and isinstance(theirs, CardContract):
        return ours.words(theirs)
    return []

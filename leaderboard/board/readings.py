"""The evaluation settings of the pages: standard, all relation ids, pessimistic ties, and the paper's own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One evaluation setting of every figure; ``key`` stands in ids and classes."""

    key: str
    label: str
    note: str


STANDARD = Reading("standard", "Standard", "Realistic rank (ties averaged), among relation types that are present.")
SLOTS = Reading(
    "slots",
    "All relation ids",
    "Realistic rank (ties averaged), relation candidates from all ids of the dictionary, unused ones included.",
)
PESSIMISTIC = Reading(
    "pessimistic",
    "Pessimistic",
    "Pessimistic rank: every tie counts against the true triple; relation types are present.",
)
OPTIMISTIC = Reading(
    "optimistic", "Optimistic", "Optimistic rank: every tie counts for the true triple; relation types are present."
)
PAPER = Reading(
    "paper",
    "The paper's",
    "Each row in the evaluation setting of its row in the paper: as reported, and re-evaluated here.",
)
READINGS = (STANDARD, SLOTS, PESSIMISTIC, PAPER)
"""Those a page offers."""

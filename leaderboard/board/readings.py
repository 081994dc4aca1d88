"""How a figure can be read: as the standard has it, from all slots, at the worst order of ties, or as the paper did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One way to read every figure; ``key`` stands in ids and classes."""

    key: str
    label: str
    note: str


STANDARD = Reading(
    "standard", "Standard", "Expected value over the order of ties, ranked among relation types that are present."
)
SLOTS = Reading(
    "slots",
    "Slots",
    "Expected value over ties, candidates drawn from all slots of the relation dictionary, empty ones included.",
)
PESSIMISTIC = Reading("pessimistic", "Pessimistic", "Every tie counts against the target; relation types are present.")
OPTIMISTIC = Reading("optimistic", "Optimistic", "Every tie counts for the target; relation types are present.")
PAPER = Reading(
    "paper",
    "The paper's",
    "Each row under the convention its row of the paper was made by: as reported, and re-evaluated here.",
)
READINGS = (STANDARD, SLOTS, PESSIMISTIC, PAPER)
"""Those a page offers."""

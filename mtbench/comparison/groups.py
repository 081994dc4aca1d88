"""From p-values to statements: Holm's correction, ranks that remain possible, and groups that are tied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_lowercase


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, in the same order (Holm 1979).

    Calling those below alpha different is wrong in any place at all with a probability of at most alpha.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        corrected[index] = largest
    return corrected


def rank_intervals(number: int, worse: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the best and the worst rank each model can have; ``worse`` pairs a better model with a worse one.

    One plus the models shown to be better, and the number less the models shown to be worse: with
    corrected comparisons all intervals hold at once (Mogstad et al. 2024).
    """
    best, worst = [1] * number, [number] * number
    for upper, lower in worse:
        worst[upper] -= 1
        best[lower] += 1
    return list(zip(best, worst, strict=True))


def letters(number: int, different: Iterable[tuple[int, int]]) -> list[str]:
    """Return letters per model, best model first: two models share one exactly if they do not differ.

    The compact letter display of Piepho 2004: start with one group, split every group that holds a
    different pair, and drop groups that lie within another.
    """
    groups = [frozenset(range(number))]
    for first, second in sorted(different):
        split = [
            part
            for group in groups
            for part in ((group - {first}, group - {second}) if {first, second} <= group else (group,))
        ]
        distinct = list(dict.fromkeys(split))
        groups = [group for group in distinct if not any(group < other for other in distinct)]
    groups.sort(key=sorted)
    return ["".join(_letter(index) for index, group in enumerate(groups) if model in group) for model in range(number)]


def _letter(index: int) -> str:
    rounds, rest = divmod(index, len(ascii_lowercase))
    return ascii_lowercase[rest] + (str(rounds) if rounds else "")

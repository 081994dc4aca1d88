"""The shape of ``result.json`` and of the files beside it: which keys, what kind of values, which numbers are possible.

What has this shape can be loaded and shown; whether it is true is for `leaderboard.entries.run_checks` to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from leaderboard.entries.cards import is_address, quote
from mtbench.conventions.reading import CONVENTIONS, STANDARD
from mtbench.names import METRICS
from mtbench.ranking.candidates import SAMPLED
from mtbench.results.rescoring import REPLACED
from mtbench.results.result import KEYS, TOLERANCE
from mtbench.results.runs import REGIMES, STATUSES

Kind = tuple[Callable[[object], bool], str]
SHA256 = re.compile(r"[0-9a-f]{64}")
EMPTY_SLOT = re.compile(r"<empty slot [0-9]+>")
"""What the package calls a relation that has no name; the one text with angle brackets that is its own."""


def is_number(value: object) -> bool:
    """Tell whether a value read as JSON is a number: True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Tell whether a value read as JSON is a whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_figures(value: object) -> bool:
    """Tell whether a value read as JSON is what a scorer may reach: every metric, within its bounds."""
    if not isinstance(value, dict) or set(value) != set(METRICS) or not all(map(is_number, value.values())):
        return False
    shares = [number for name, number in value.items() if name != "mr"]
    return value["mr"] >= 1 - TOLERANCE and all(-TOLERANCE <= share <= 1 + TOLERANCE for share in shares)


def _maybe(kind: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or kind(value)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _mapping(kind: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(map(kind, value.values()))


def _scalar(value: object) -> bool:
    return isinstance(value, str | int | float)


def _hash(value: object) -> bool:
    return isinstance(value, str) and bool(SHA256.fullmatch(value))


def _maybe_figures(value: object) -> bool:
    return value == {} or is_figures(value)


TEXT: Kind = (_text, "a text")
WHOLE: Kind = (is_whole, "a whole number from 0")
HASH: Kind = (_hash, "a SHA-256 in hexadecimal")
FIGURES: Kind = (_maybe_figures, f"{', '.join(METRICS)}, MR from 1 and the others from 0 to 1")
AMOUNT: Kind = (_maybe(lambda value: is_number(value) and 0 <= value < 1e15), "a number from 0, or null")  # type: ignore[operator]
SHAPES: Mapping[str, Kind] = {
    **dict.fromkeys(("dataset", "dataset_version", "split", "protocol", "vocabulary"), TEXT),
    **dict.fromkeys(("evaluator_version", "model", "commit", "device"), TEXT),
    **dict.fromkeys(("content_sha256", "candidates_sha256"), HASH),
    **dict.fromkeys(("schema", "candidate_seed", "candidates_version", "targets", "seed"), WHOLE),
    **dict.fromkeys(("metrics", "optimistic", "pessimistic", "chance"), FIGURES),
    **dict.fromkeys(("wall_seconds", "peak_memory_bytes"), AMOUNT),
    "tie_rate": (_maybe(lambda value: is_number(value) and 0 <= value <= 1), "from 0 to 1, or null"),  # type: ignore[operator]
    "floors": (_mapping(is_figures), f"by name {FIGURES[1]}"),
    "warnings": (_texts, "a list of texts"),
    "pretraining_graphs": (_texts, "a list of texts"),
    "regime": (lambda value: value in REGIMES, f"one of {', '.join(REGIMES)}"),
    "status": (lambda value: value in STATUSES, f"one of {', '.join(STATUSES)}"),
    "hyperparameters": (_mapping(_scalar), "names with texts, numbers, true or false"),
    "environment": (_mapping(_text), "names with texts"),
    "url": (lambda value: value == "" or (isinstance(value, str) and is_address(value)), "empty or https://..."),
    "ranks_sha256": (_maybe(_hash), f"{HASH[1]}, or null"),
}


def result_shape(payload: object) -> Iterator[str]:
    """Say what of ``result.json`` is not as every run has it: keys, kinds of values, bounds."""
    if not isinstance(payload, dict):
        yield "holds no object"
        return
    if missing := [name for name in KEYS if name not in payload]:
        yield f"the keys {', '.join(missing)} are missing"
        return
    if extra := [name for name in payload if name not in KEYS and name != REPLACED]:
        yield f"the key {quote(extra[0])} is none of a result"
    for name, (good, wanted) in SHAPES.items():
        if not good(payload[name]):
            yield f"{name} must be {wanted}, not {quote(payload[name])}"


def bounds(payload: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Say which metrics lie outside their own bounds over the orders of ties; the shape must be right."""
    best, found, worst = payload["optimistic"], payload["metrics"], payload["pessimistic"]
    if not set(best) == set(found) == set(worst):
        yield "metrics, optimistic and pessimistic must have the same figures"
        return
    for name in found:
        low, high = (best[name], worst[name]) if name == "mr" else (worst[name], best[name])
        if not low - TOLERANCE <= found[name] <= high + TOLERANCE:
            yield f"{name} is {found[name]}, outside of its own bounds from {low} to {high}"


def history_shape(payload: object) -> str | None:
    """Return what is wrong with ``history.json``: stages, each a list of records of numbers and short texts."""
    if not isinstance(payload, dict):
        return "holds no object"
    for stage, records in payload.items():
        if not isinstance(records, list) or not all(map(_mapping(_maybe(_scalar)), records)):
            return f"the stage {quote(stage)} must be a list of records of numbers"
    return None


def tasks_shape(payload: object) -> str | None:
    """Return what is wrong with ``tasks.json``: for each graph how many tasks, and the task of each relation."""
    if not isinstance(payload, dict) or set(payload) != {"dataset", "model", "graphs"}:
        return "must hold dataset, model and graphs"
    graphs = payload["graphs"]
    if not isinstance(graphs, dict) or not set(graphs) <= {"train", "test"}:
        return "graphs must hold train or test"
    for name, told in graphs.items():
        if not isinstance(told, dict) or set(told) != _TOLD:
            return f"{name} must hold {', '.join(sorted(_TOLD))}"
        if not all(is_whole(told[key]) for key in ("tasks", "tasks_used", "patterns", "compared")):
            return f"{name}: tasks, tasks_used, patterns and compared must be whole numbers"
        agreement = [told["hard"], told["soft"]]
        if not all(one is None or (_mapping(is_number)(one) and set(one) == {"ari", "nmi"}) for one in agreement):
            return f"{name}: hard and soft must hold ari and nmi, or be null"
        if not _texts(told["without_truth"]) or not _mapping(_is_relation)(told["relations"]):
            return f"{name}: every relation must have truth, task and alpha"
    return None


_TOLD = {"tasks", "tasks_used", "patterns", "compared", "without_truth", "hard", "soft", "relations"}


def _is_relation(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"truth", "task", "alpha"}:
        return False
    shares = value["alpha"]
    good = isinstance(shares, list) and all(is_number(share) and 0 <= share <= 1 for share in shares)
    return good and _maybe(_text)(value["truth"]) and is_whole(value["task"])


def conventions_shape(payload: object) -> str | None:
    """Return what is wrong with ``conventions.json``, None where it is as `mtbench run --paper` writes it."""
    if not isinstance(payload, dict) or set(payload) != HEADER | {"protocols"}:
        return f"must hold {', '.join(sorted(HEADER))} and protocols"
    protocols = payload["protocols"]
    if not isinstance(protocols, dict) or not set(protocols) <= set(SAMPLED):
        return f"protocols must be some of {', '.join(SAMPLED)}"
    for protocol, found in protocols.items():
        if not isinstance(found, list) or not all(isinstance(one, dict) and set(one) == _READ for one in found):
            return f"{protocol} must be a list with {', '.join(sorted(_READ))}"
        names = [one["convention"] for one in found]
        if names != [name for name in (STANDARD.name, *CONVENTIONS) if name in names] or STANDARD.name not in names:
            return f"{protocol} must have each convention once, the standard first"
        for one in found:
            if not is_figures(one["metrics"]) or not is_figures(one["expected"]):
                return f"{protocol}: metrics of {one['convention']} are not within their bounds"
            if one["protocol"] != protocol or one["seed"] != 0 or not is_number(one["candidates"]):
                return f"{protocol}: {one['convention']} is of another protocol or seed"
    return None


HEADER = {"dataset", "dataset_version", "split", "content_sha256", "model", "seed"}
_READ = {"convention", "rows", "source", "differs", "protocol", "seed", "candidates_sha256", "candidates"}
_READ |= {"metrics", "expected"}


def without_slots(value: object) -> object:
    """Return a value without the names the package itself gives to empty slots, which are no markup."""
    if isinstance(value, str):
        return EMPTY_SLOT.sub("empty slot", value) if EMPTY_SLOT.fullmatch(value) else value
    if isinstance(value, list):
        return [without_slots(inner) for inner in value]
    if isinstance(value, dict):
        return {str(without_slots(key)): without_slots(inner) for key, inner in value.items()}
    return value

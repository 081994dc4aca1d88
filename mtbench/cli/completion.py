"""What a shell proposes after Tab: names of datasets, models, protocols and vocabularies."""

from __future__ import annotations

from collections.abc import Iterable


def datasets(incomplete: str) -> list[str]:
    """Return the datasets of the catalogue whose names begin so."""
    from mtbench.data import catalog

    return _beginning(incomplete, catalog.names())


def models(incomplete: str) -> list[str]:
    """Return the installed models whose names begin so."""
    from importlib.metadata import entry_points

    from mtbench.experiments.models import GROUP

    return _beginning(incomplete, sorted(point.name for point in entry_points(group=GROUP)))


def protocols(incomplete: str) -> list[str]:
    """Return the protocols, and the names of several at once, that begin so."""
    from mtbench.experiments.run import GROUPS
    from mtbench.ranking.candidates import PROTOCOLS

    return _beginning(incomplete, [*PROTOCOLS, *GROUPS])


def vocabularies(incomplete: str) -> list[str]:
    """Return the relation vocabularies that begin so."""
    from mtbench.ranking.candidates import VOCABULARIES

    return _beginning(incomplete, [*VOCABULARIES, "all"])


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

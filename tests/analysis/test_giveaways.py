"""What one statistic alone gives away: the AUC of each, counted candidate by candidate."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from ranking_toys import random_split

from mtbench.analysis.giveaways import AGAINST, giveaways
from mtbench.errors import UsageError
from mtbench.names import COLUMN
from mtbench.ranking.candidates import PROTOCOLS, draw
from mtbench.statistics.features import NAMES, Statistics


def literal(split, value, against, side, column):
    """The AUC of one statistic and the number of targets, one candidate after the other."""
    ids, valid = draw(split, AGAINST[against]).side(side)
    place, found = COLUMN[side], []
    for target, row, there in zip(split.targets, ids, valid, strict=True):
        wins = []
        for other in row[there].tolist():
            candidate = target.copy()
            candidate[place] = other
            seen = (split.graph[:, 1] == target[1]) & (split.graph[:, place] == other)
            if against == "same type" and not seen.any():
                continue
            own, its = (value(*triple.tolist())[column] for triple in (target, candidate))
            wins.append((own > its) + (own == its) / 2)
        if wins:
            found.append(sum(wins) / len(wins))
    return math.fsum(found) / len(found), len(found)


def test_an_auc_is_what_a_loop_counts():
    split = random_split(3, entities=20, relations=4, slots=5, graph=60, targets=5)
    rows, statistics = giveaways(split), Statistics(split.observable())
    value = cache(lambda *triple: statistics.of(np.array([triple]))[0].tolist())
    assert [row.gain for row in rows] == sorted((row.gain for row in rows), reverse=True)
    for against, protocol in AGAINST.items():
        for side in PROTOCOLS[protocol].sides:
            some = {(row.family, row.statistic): row for row in rows if (row.against, row.side) == (against, side)}
            assert set(some) == set(NAMES)
            for column in (0, 37):
                row = some[NAMES[column]]
                auc, targets = literal(split, value, against, side, column)
                assert (row.auc, row.targets) == (pytest.approx(auc), targets)


def test_a_graph_without_targets_is_refused():
    with pytest.raises(UsageError, match="there are no triples to rank"):
        giveaways(random_split(3).observable())

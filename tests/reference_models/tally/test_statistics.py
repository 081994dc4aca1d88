"""Every family of statistics against a plain loop over the triples of a small graph."""

from collections import Counter
from functools import cache, cached_property
from math import ceil, floor, log, log1p, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import random_split, splits

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import counted_rows
from reference_models.tally import ends
from reference_models.tally import rules as counted_rules
from reference_models.tally.statistics import FAMILIES, WIDTH, Statistics, Walks


class Plain:
    """The same statistics, read off sets of edges."""

    def __init__(self, split):
        self.entities, self.relations = split.num_entities, split.relation_slots
        self.triples = {tuple(row) for row in split.graph.tolist()}
        self.edges = {(h, r, t) for h, r, t in self.triples} | {(t, r + self.relations, h) for h, r, t in self.triples}
        self.slots = range(2 * self.relations)
        self.c = Counter((e, q) for e, q, _ in self.edges)
        self.has = {e: sorted({q for (x, q) in self.c if x == e}) for e in range(self.entities)}
        self.size = Counter(q for _, q, _ in self.edges)
        self.owners = Counter(q for _, q in self.c)
        self.base = {q: (self.owners[q] + 0.5) / (self.entities + 1) for q in self.slots}
        self.having, self.features, self.both = cache(self.having), cache(self.features), cache(self.both)
        self.between = {}
        for e, q, x in self.edges:
            self.between.setdefault((e, x), set()).add(q)

    def inverse(self, q):
        return q + self.relations if q < self.relations else q - self.relations

    def rate(self, e, q):
        c = self.c[e, q]
        counts = Counter(self.c[x, q] for x in range(self.entities))
        window = range(ceil(c / 1.4), floor(1.4 * c) + 1)
        prior = c or self.owners[q] / (2 * self.entities)
        found = sum((k + 1) * counts[k + 1] for k in window) + 2 * prior
        return log(max(found / (sum(counts[k] for k in window) + 2), 1e-6))

    def half(self, h, r, t):
        back = r + self.relations
        ends = ((h, r), (t, back))
        counts, rates = [log1p(self.c[end]) for end in ends], [self.rate(*end) for end in ends]
        size = log1p(self.size[r])
        degrees = [sum(x == h for x, _, _ in self.triples), sum(x == t for _, _, x in self.triples)]
        shares = [self.c[end] / (1 + degree) for end, degree in zip(ends, degrees, strict=True)]
        return [*counts, *rates, sum(rates) - size, *(count - size for count in counts), *shares]

    def rel(self, h, r, t):
        size, heads, tails = self.size[r], self.owners[r], self.owners[r + self.relations]
        everyone = log(self.entities)
        logs = (log1p(size), log1p(heads) - everyone, log1p(tails) - everyone)
        return [log1p(size) - log(len(self.triples)), heads / max(size, 1), tails / max(size, 1), *logs]

    def deg(self, h, r, t):
        found = []
        for e in (h, t):
            found += [sum(x == e for x, _, _ in self.triples), sum(x == e for _, _, x in self.triples)]
        return [log1p(number) for number in (*found, len(self.has[h]), len(self.has[t]))]

    def both(self, q, s):
        return sum(q in slots and s in slots for slots in self.has.values())

    def regression(self, e, q):
        """Ridge regression of slot q on all other slots, one column at a time (EASE's objective)."""
        table = np.array([[float(s in self.has[x]) for s in self.slots] for x in range(self.entities)])
        others = [s for s in self.slots if s != q]
        penalty = (5 + 0.002 * self.entities) * np.eye(len(others))
        weights = np.linalg.solve(table[:, others].T @ table[:, others] + penalty, table[:, others].T @ table[:, q])
        return float(table[e, others] @ weights)

    def type(self, h, r, t):
        back, found = r + self.relations, []
        for e, q in ((h, r), (t, back)):
            others = [s for s in self.has[e] if s != q]
            raw = self.regression(e, q)
            lifts = [log((self.both(s, q) + 1) / (self.owners[s] * self.base[q] + 1)) for s in others]
            shares = [self.both(s, q) / (self.owners[s] + 3) for s in others]
            lift = log(max(raw, 0) + 1e-3) - log(self.base[q])
            bayes = sum(lifts) / sqrt(1 + len(self.has[e]))
            found.append((raw, lift, bayes, max(shares, default=0), min(shares, default=1)))
        turned = [self.regression(h, back), log1p(self.c[h, back]), self.regression(t, r), log1p(self.c[t, r])]
        return [*(value for pair in zip(*found, strict=True) for value in pair), *turned]

    def pair(self, h, r, t):
        there = self.between.get((h, t), set()) - {r}
        both = {q: sum(q in slots and r in slots for slots in self.between.values()) for q in there}
        sure = [both[q] / (self.size[q] + 3) for q in there]
        return [
            max(sure, default=0),
            noisy_or(sure),
            log((max(sure, default=0) + 1e-3) / (self.size[r] / len(self.triples) + 1e-3)),
            max((both[q] / (self.size[r] + 3) for q in there), default=0),
            log1p(sum(q < self.relations for q in there)),
            log1p(sum(q >= self.relations for q in there)),
        ]

    @cached_property
    def steps(self):
        return [
            (e, q, x, p, z)
            for e, q, x in self.edges
            for y, p, z in self.edges
            if e != x == y != z and not (z == e and p == self.inverse(q))
        ]

    @cached_property
    def everywhere(self):
        return Counter((q, p) for _, q, _, p, _ in self.steps), {(e, q, p, z) for e, q, _, p, z in self.steps}

    def path(self, h, r, t):
        found = Counter((q, p) for e, q, _, p, z in self.steps if (e, z) == (h, t))
        everywhere, joined = self.everywhere
        closed = {
            body: sum(s == r and a != b and (a, *body, b) in joined for a, s, b in self.triples) for body in found
        }
        sure = [closed[body] / (everywhere[body] + 5) for body in found]
        cover = [closed[body] / (self.size[r] + 5) for body in found]
        most = max(sure, default=0)
        return [
            most,
            log(most + 1e-3),
            noisy_or(sure),
            log((most + 1e-3) / (self.size[r] / len(self.triples) + 1e-3)),
            max(cover, default=0),
            sum(cover),
            log1p(sum(found.values())),
            log1p(len(found)),
        ]

    def having(self, q, x):
        return {e for e, s, y in self.edges if (s, y) == (q, x)}

    def features(self, e):
        found = [(s, y) for z, s, y in self.edges if z == e and len(self.having(s, y)) > 1]
        rarity = [len(self.having(*feature)) for feature in found]
        return [
            f for f, n in zip(found, rarity, strict=True) if sum(m <= n for m in rarity) <= counted_rules.MOST_FEATURES
        ]

    def assoc(self, h, r, t):
        found = []
        for e, q, x in ((h, r, t), (t, r + self.relations, h)):
            kept, goal = self.features(e), self.having(q, x)
            both = [0 if f == (q, x) else sum(f in self.features(member) for member in goal) for f in kept]
            counts = [(c, len(self.having(*f))) for c, f in zip(both, kept, strict=True)]
            lifts = [log((c + 0.5) / ((n - 1) * len(goal) / self.entities + 0.5)) for c, n in counts]
            found += [
                max((c / (n + 1) for c, n in counts), default=0),
                noisy_or([c / (n + 1) for c, n in counts]),
                sum(lifts) / sqrt(1 + len(kept)),
                max((c / sqrt(n * len(goal)) for c, n in counts if c), default=0),
                log1p(sum(c > 0 for c, _ in counts)),
                log1p(len(kept)),
            ]
        return found

    def walk(self, h, r, t):
        links = np.zeros((self.entities, self.entities))
        for e, _, x in self.edges:
            links[e, x] = e != x
        degree = np.maximum(links.sum(axis=1), 1)
        place, found = np.eye(self.entities)[h], []
        for length in range(1, 6):
            place = place @ (links / degree[:, None])
            if length > 1:
                found.append(log(place[t] / degree[t] * degree.sum() + 1e-3))
        return found


def noisy_or(confidences):
    return sum(-log1p(-min(confidence, 0.99)) for confidence in confidences)


PLACES = dict(
    zip(FAMILIES, np.split(np.arange(WIDTH), np.cumsum([len(names) for names in FAMILIES.values()])), strict=False)
)
TOLERANCE = {"walk": 0.5 / 256 + 1e-5}


def some(split, seed, number=15):
    rng = np.random.default_rng(seed)
    sizes = split.num_entities, split.relation_slots, split.num_entities
    random = np.stack([rng.integers(size, size=number) for size in sizes], axis=1)
    return np.concatenate((split.graph[:10], split.targets[:10], random))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=12)
@given(split=splits(), seed=st.integers(0, 99))
def test_statistics_are_those_of_a_plain_loop(family, split, seed):
    triples, plain = some(split, seed), Plain(split)
    expected = np.array([getattr(plain, family)(*row) for row in triples.tolist()])
    found = Statistics(split.observable()).of(triples)[:, PLACES[family]]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=TOLERANCE.get(family, 1e-5))


@settings(max_examples=5)
@given(split=splits(), seed=st.integers(0, 99))
def test_statistics_do_not_depend_on_the_batch(split, seed):
    triples, statistics = some(split, seed), Statistics(split.observable())
    whole = statistics.of(triples)
    rows = [triples[row : row + 1] for row in range(len(triples))]
    apart = np.concatenate([Statistics(split.observable()).of(row) for row in rows])
    np.testing.assert_allclose(apart, whole, rtol=1e-5, atol=1 / 256 + 1e-5)
    in_turn = Statistics(split.observable())
    np.testing.assert_array_equal(np.concatenate([in_turn.of(row) for row in rows]), apart)
    assert statistics.of(triples[:0]).shape == (0, WIDTH)


def test_targets_are_never_looked_at():
    split = random_split(3)
    triples = some(split, 0)
    np.testing.assert_array_equal(Statistics(split).of(triples), Statistics(split.observable()).of(triples))


def test_of_too_many_features_the_rarest_count(monkeypatch):
    monkeypatch.setattr(counted_rules, "MOST_FEATURES", 2)
    for seed in range(8):
        split = random_split(seed)
        triples, plain = some(split, seed), Plain(split)
        expected = np.array([plain.assoc(*row) for row in triples.tolist()])
        found = Statistics(split.observable()).of(triples)[:, PLACES["assoc"]]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("limit", "to"), [("statistics.BATCH", 7), ("rules.AT_ONCE", 3), ("ends.KEPT", 0), ("statistics.PLACES", 80)]
)
def test_large_graphs_are_counted_piece_by_piece(limit, to, monkeypatch):
    split = random_split(1)
    triples = some(split, 0)
    whole = Statistics(split).of(triples)
    monkeypatch.setattr(f"reference_models.tally.{limit}", to)
    np.testing.assert_allclose(Statistics(split).of(triples), whole, rtol=1e-5, atol=1 / 256 + 1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_whole_rows_of_candidates_have_the_same_bits_when_what_they_share_is_computed_once(seed, monkeypatch):
    split = random_split(seed)
    every = np.arange(split.num_entities)
    rows = []
    for head, relation, tail in np.concatenate([split.targets[:4], split.graph[:4]]).tolist():
        relations = np.full_like(every, relation)
        rows += [np.stack((np.full_like(every, head), relations, every), axis=1)]
        rows += [np.stack((every, relations, np.full_like(every, tail)), axis=1)]
    one_by_one = Statistics(split).of(np.concatenate(rows))
    for module in (ends, counted_rules):
        monkeypatch.setattr(module, "MANY", 0)
    together = Statistics(split)
    np.testing.assert_array_equal(np.concatenate([together.of(row) for row in rows]), one_by_one)


LARGEST = {
    ("type", "head"): "largest conditional of head",
    ("type", "tail"): "largest conditional of tail",
    ("pair", ""): "confidence",
    ("path", ""): "confidence",
    ("assoc", "head"): "confidence of head",
    ("assoc", "tail"): "confidence of tail",
}


def confidence(family, hits, cases):
    return hits / (cases + {"type": 3, "pair": 3, "path": 5, "assoc": 1}[family])


def listed(plain, h, r, t):
    """Return the rules behind a triple by a plain loop, as (family, end, body, hits, cases)."""
    back = r + plain.relations
    for end, e, q in (("head", h, r), ("tail", t, back)):
        for s in plain.has[e]:
            if s != q:
                yield "type", end, (s,), plain.both(s, q), plain.owners[s]
    for q in plain.between.get((h, t), set()) - {r}:
        yield "pair", "", (q,), sum({q, r} <= slots for slots in plain.between.values()), plain.size[q]
    everywhere, joined = plain.everywhere
    for body in {(q, p) for e, q, _, p, z in plain.steps if (e, z) == (h, t)}:
        closed = sum(s == r and a != b and (a, *body, b) in joined for a, s, b in plain.triples)
        yield "path", "", body, closed, everywhere[body]
    for end, e, goal in (("head", h, (r, t)), ("tail", t, (back, h))):
        for feature in plain.features(e):
            both = len(plain.having(*feature) & plain.having(*goal)) if feature != goal else 0
            yield "assoc", end, feature, both, len(plain.having(*feature))


@settings(max_examples=12)
@given(split=splits(), seed=st.integers(0, 99))
def test_rules_are_those_of_a_plain_loop_and_the_first_has_the_largest_confidence(split, seed):
    statistics, plain = Statistics(split.observable()), Plain(split)
    triples = some(split, seed, number=4)
    for triple, values in zip(triples, statistics.of(triples), strict=True):
        rules = statistics.rules(triple)
        found = [(rule.family, rule.end, rule.body, rule.hits, rule.cases) for rule in rules]
        assert sorted(found) == sorted(listed(plain, *triple.tolist()))
        for (family, end), name in LARGEST.items():
            own = [rule.confidence for rule in rules if (rule.family, rule.end) == (family, end)]
            assert own == sorted(own, reverse=True)
            place = PLACES[family][FAMILIES[family].index(name)]
            assert np.float32(max(own, default=0)) == values[place]
            if family == "type":
                assert np.float32(min(own, default=1)) == pytest.approx(values[place + 2])
        assert all(rule.confidence == confidence(rule.family, rule.hits, rule.cases) for rule in rules)


@settings(max_examples=5)
@given(split=splits())
def test_half_links_of_a_triple_are_counted(split):
    statistics, plain = Statistics(split.observable()), Plain(split)
    for h, r, t in some(split, 0, number=4).tolist():
        expected = plain.c[h, r], plain.c[t, r + plain.relations], plain.size[r]
        assert statistics.half_links(np.array((h, r, t))) == expected


def test_walks_are_the_same_to_the_last_bit_from_whichever_end_they_begin():
    walks = Walks(Doubled.of(random_split(5, entities=300, relations=3, graph=1500).observable()))
    ends = np.random.default_rng(0).integers(300, size=(4000, 2))
    triples = np.insert(ends, 1, 0, axis=1)
    by_head = np.concatenate([walks.walks(triples[triples[:, 0] == head]) for head in range(300)])
    by_tail = np.concatenate([walks.walks(triples[triples[:, 2] == tail]) for tail in range(300)])
    heads, tails = (np.argsort(triples[:, end], kind="stable") for end in (0, 2))
    assert np.array_equal(by_head[np.argsort(heads)], by_tail[np.argsort(tails)])


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_rows_are_told_apart_as_numpy_does(rows):
    columns = list(np.random.default_rng(0).integers(-2, 3, (3, rows)))
    found = counted_rows(columns)
    expected = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)

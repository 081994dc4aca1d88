"""Pictures of runs: right values, words that say what is drawn, files that are always the same."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import toys
from hypothesis import given
from hypothesis import strategies as st
from ranking_toys import hashed, random_split

import mtbench
from mtbench.analysis import pictures as plots
from mtbench.errors import MissingExtraError, MtbenchError, UnknownNameError, UsageError
from mtbench.evaluation.tasks import evaluate, task
from mtbench.files import pictures
from mtbench.metrics import closed as metrics
from mtbench.names import QUESTIONS
from mtbench.runs.origin import RunInfo
from mtbench.runs.result import MtbenchWarning

matplotlib = pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
SPLIT = random_split(1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", MtbenchWarning)
    FIRST = replace(evaluate(hashed, SPLIT), run=RunInfo(model="my_$model$"))
SECOND = replace(evaluate(lambda triples: hashed(triples, 10**6), SPLIT), run=RunInfo(model="other"))
STRATA = FIRST.by("half_link", split=SPLIT)
AUDIT = mtbench.audit(toys.dataset(info=toys.record()))

DRAWINGS = {
    "ranks": lambda path: plots.draw_ranks([FIRST, SECOND], path),
    "strata": lambda path: plots.draw_strata(STRATA, path),
    "models": lambda path: plots.draw_models(FIRST, SECOND, path),
    "audit": lambda path: plots.draw_audit(AUDIT, path),
}
WORDS = {
    "ranks": ("my_$model$: MRR", " by ties)", "other: MRR", "chance: MRR", "Rank k (1 is best", "Ranks of k or better"),
    "strata": ("neither  (", "half_link (triples)", "range by ties", "chance", "whole: ", "my_$model$ on random"),
    "models": ("Rank, my_$model$", "Rank, other", "MRR of 8 relation types", "better under other", "area of a dot"),
    "audit": ("toy 2.0.0", "Degree k", "most frequent first", "train: 3 entities, 4 triples", "missing ones included"),
}
TITLE = "random test, protocol dual, present relations"


# All are written by one function: how it writes the other kind of file, the quickest shows.
@pytest.mark.parametrize(
    ("name", "suffix", "start"), [*((name, ".SVG", b"<?xml") for name in DRAWINGS), ("strata", ".png", b"\x89PNG\r\n")]
)
def test_a_picture_is_written_and_always_the_same(tmp_path, name, suffix, start):
    path = tmp_path / "deep" / f"a{suffix}"
    before = dict(matplotlib.rcParams)
    DRAWINGS[name](path)
    first = path.read_bytes()
    assert first.startswith(start)
    DRAWINGS[name](path)
    assert path.read_bytes() == first
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_says_what_it_shows(tmp_path, monkeypatch, name):
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    DRAWINGS[name](tmp_path / "a.svg")
    # Comments hold the source of a text, also where a formula was made of it.
    text = re.sub("<!--.*?-->", "", (tmp_path / "a.svg").read_text(encoding="utf-8"))
    for words in (*WORDS[name], TITLE if name != "audit" else ""):
        assert words in text, words


def test_a_single_run_is_drawn_in_both_directions(tmp_path, monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    plots.draw_ranks([FIRST], tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for way, metrics_ in FIRST.by_direction().items():
        assert f"{way}s, {QUESTIONS[way]}: MRR {metrics_['mrr']:.3f}" in text


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=30))
def test_the_curve_is_the_expected_share_of_targets_of_a_rank_or_better(counts):
    greater, equal = np.array(counts).T
    curve = plots._cumulated(greater, equal, 41)
    expected = metrics.expected(greater, equal)
    assert curve[0] == 0
    assert curve[41] == pytest.approx(1)
    for k in metrics.HITS:
        assert curve[k] == pytest.approx(expected[f"hits@{k}"])


@pytest.mark.parametrize("name", DRAWINGS)
def test_another_suffix_is_refused_and_without_matplotlib_the_message_is_the_remedy(tmp_path, monkeypatch, name):
    with pytest.raises(UsageError, match=r"must end in \.png or \.svg"):
        DRAWINGS[name](tmp_path / "a.pdf")
    monkeypatch.setattr("mtbench.files.pictures.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"mtbench-kg\[plots\]"):
        DRAWINGS[name](tmp_path / "a.png")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MtbenchError, match=r"cannot write .*file/a\.png"):
        DRAWINGS["audit"](tmp_path / "file" / "a.png")


def test_runs_of_different_tasks_share_no_picture(tmp_path):
    other = evaluate(hashed, SPLIT, seed=1)
    message = r"cannot be compared with result 1: different candidate seed \(1, not 0\), candidates hash"
    with pytest.raises(UsageError, match=message):
        plots.draw_models(FIRST, other, tmp_path / "a.png")
    with pytest.raises(UsageError, match=message):
        plots.draw_ranks([FIRST, other], tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_ranks_too_many_runs_and_an_unknown_metric_are_refused(tmp_path):
    failed = task(SPLIT).unfinished("oom")
    with pytest.raises(UsageError, match="the run is oom and has no ranks"):
        plots.draw_ranks([failed], tmp_path / "a.png")
    with pytest.raises(UsageError, match="7 runs make too many curves to tell apart: draw at most 6"):
        plots.draw_ranks([FIRST] * 7, tmp_path / "a.png")
    with pytest.raises(UnknownNameError, match="unknown metric 'hits@2'"):
        plots.draw_strata(STRATA, tmp_path / "a.png", "hits@2")


def test_of_many_strata_those_with_most_targets_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    monkeypatch.setattr(plots, "MOST_BARS", 3)
    found = FIRST.by("relation", split=SPLIT)
    plots.draw_strata(found, tmp_path / "a.svg", "mr")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "the 3 of 8 strata with most test triples" in text
    assert [f"{row.label}  (" in text for row in found] == [True] * 3 + [False] * 5
    assert "MR, lower is better" in text


def test_models_are_compared_target_by_target_whatever_their_order(tmp_path):
    order = np.random.default_rng(0).permutation(len(SPLIT.targets))
    shuffled = replace(evaluate(hashed, replace(SPLIT, targets=SPLIT.targets[order])), run=FIRST.run)
    assert shuffled.candidates_sha256 == FIRST.candidates_sha256
    for name, values in plots._in_order(FIRST).items():
        np.testing.assert_array_equal(values, plots._in_order(shuffled)[name])
    plots.draw_models(FIRST, SECOND, tmp_path / "a.svg")
    plots.draw_models(shuffled, SECOND, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_long_rankings_have_logarithmic_axes(tmp_path):
    parts = FIRST.ranks.parts.items()
    counts = {side: replace(part, greater=part.greater + 1000, count=part.count + 2000) for side, part in parts}
    long = replace(FIRST, ranks=replace(FIRST.ranks, parts=counts))
    plots.draw_ranks([long], tmp_path / "ranks.png")
    plots.draw_models(long, long, tmp_path / "models.png")
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(("most", "scale"), [(99, "linear"), (100, "log")])
def test_axes_are_logarithmic_from_more_than_a_hundred_ranks_on(tmp_path, monkeypatch, most, scale):
    drawn, plain = [], pictures.plain
    monkeypatch.setattr(pictures, "plain", lambda axes, *words: drawn.append(axes) or plain(axes, *words))
    parts = {"tail": replace(tails := FIRST.ranks.parts["tail"], count=np.full_like(tails.count, most))}
    found = replace(FIRST, protocol="entity-tail", ranks=replace(FIRST.ranks, parts=parts))
    plots.draw_ranks([found], tmp_path / "ranks.png")
    assert [axes.get_xscale() for axes in drawn] == [scale]


@given(st.lists(st.text(alphabet="ab/", max_size=60), unique=True, max_size=20), st.integers(8, 40))
def test_shortened_names_stay_apart(names, longest):
    short = pictures.shorten(names, longest)
    assert len(set(short)) == len(names)
    for name, shown in zip(names, short, strict=True):
        first, dots, last = shown.partition("...")
        assert name == shown or (dots and name.startswith(first) and name.endswith(last))


def test_a_name_is_cut_in_its_middle():
    short = pictures.shorten(["/award/award_winner/awards_won", "/tv/genre"], 20)
    assert short == ["/awar...r/awards_won", "/tv/genre"]

from dataclasses import asdict, fields
from importlib import resources

import pytest

from mtbench.data import catalog
from mtbench.errors import UnknownNameError, UsageError
from mtbench.training.models import Context
from reference_models import ingram, isdea, isdea_homo, mtdea, nbfnet
from reference_models.tally import model as tally
from reference_models.training.recipe import Recipe, read

MODELS = sorted(path.name.removesuffix(".toml") for path in (resources.files("reference_models") / "recipes").iterdir())
RECIPES = {
    "ingram": ingram.Recipe,
    "nbfnet-homo": nbfnet.Recipe,
    "tally": tally.Recipe,
    "tally-adapted": tally.Recipe,
}
KINDS = {"int": int, "float": float, "str": str, "bool": bool}


@pytest.mark.parametrize("dataset", catalog.names())
@pytest.mark.parametrize("model", MODELS)
def test_every_recipe_loads_for_every_dataset_with_values_of_the_declared_types(model, dataset):
    kind = RECIPES.get(model, Recipe)
    loaded = read(kind, model, dataset, {})
    for declared in fields(kind):
        assert type(getattr(loaded, declared.name)) is KINDS[declared.type], declared.name
    unsaid = {"recipe", "chosen_by", "loops"}  # their defaults, which results older than they are do not have
    assert loaded.as_parameters() == {key: value for key, value in asdict(loaded).items() if key not in unsaid}
    assert read(kind, model, f"{dataset}[seed=3]", {}) == loaded


def test_a_recipe_of_another_name_is_laid_over_the_default_one_and_is_named():
    plain, fast = (
        read(Recipe, "mtdea", "fbnell", {}),
        read(Recipe, "mtdea", "fbnell", {"recipe": "fast"}),
    )
    assert (plain.recipe, fast.recipe) == ("default", "fast")
    assert (fast.slots, fast.statistics, fast.width) == ("present", "batch", plain.width)
    assert fast.epochs != read(Recipe, "mtdea", "wikitopics-mt1/health", {"recipe": "fast"}).epochs
    assert fast.as_parameters()["recipe"] == "fast"
    assert read(Recipe, "mtdea", "fbnell", {"recipe": "fast", "epochs": "5"}).epochs == 5
    as_run = read(Recipe, "isdea", "fbnell", {"recipe": "as-run"}).as_parameters()
    plain = read(Recipe, "isdea", "fbnell", {}).as_parameters()
    assert as_run == plain | {"recipe": "as-run", "mask": "none", "chosen_by": "hits"}
    for model, name in (("mtdea", "quick"), ("tally", "fast")):
        with pytest.raises(UnknownNameError, match=f"unknown recipe '{name}'"):
            read(RECIPES.get(model, Recipe), model, "fbnell", {"recipe": name})


def test_a_table_named_like_a_pair_holds_for_both_of_its_test_graphs_and_for_no_other_pair():
    for settings in ({}, {"recipe": "fast"}):
        first, second = (
            read(ingram.Recipe, "ingram", f"wikitopics-mt4/{name}", settings) for name in ("health", "science")
        )
        assert first == second
        assert (first.relation_layers, first.learning_rate) == (3, 0.0005)
    fast = [
        read(Recipe, "mtdea", f"wikitopics-{name}", {"recipe": "fast"})
        for name in ("mt2/location", "mt2/science", "mt1/health")
    ]
    assert fast[0] == fast[1] != fast[2]
    assert (fast[0].batch, fast[0].epochs) == (512, 3)


def test_a_dataset_without_a_table_has_the_defaults():
    assert read(Recipe, "mtdea", "somebody's own", {}).epochs == 10
    assert read(Recipe, "mtdea", "somebody's own", {}).learning_rate == 0.001
    assert read(Recipe, "mtdea", "metafam", {}).epochs == 50


def test_the_papers_model_does_not_search_its_assignment():
    assert not any(read(Recipe, "mtdea", name, {}).reassign for name in catalog.names())


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("epochs", "7", 7),
        ("learning_rate", "1e-2", 0.01),
        ("clip", "2", 2.0),
        ("inverses", "FALSE", False),
        ("inverses", "true", True),
        ("mask", "none", "none"),
        ("positives", "graph", "graph"),
        ("loss", "joint", "joint"),
        ("adaptation_epochs", "0", 0),
        ("hops", "0", 0),
    ],
)
def test_settings_are_read_by_type_and_laid_over_the_recipe(key, text, value):
    before, after = (asdict(read(Recipe, "mtdea", "metafam", settings)) for settings in ({}, {key: text}))
    assert after == before | {key: value}
    assert type(after[key]) is type(value)


BAD = """
    epochs=7.5 epochs=many epochs= epochs=0 epochs=-1 tasks=0 width=0 gin_layers=0 batch=0 patience=0
    inverses=yes inverses=1 learning_rate=fast mask=all positives=Graph loss=bce holdout=0 holdout=1 holdout=nan
    adjacency=pairwise mean=sum assignment=soft linear_layers=double learn_epsilon=maybe checkpointing=1
    decay_attention=no reassign=sometimes tail_negatives=0 relation_negatives=-1 hops=-1
    adaptation_epochs=-1 anneal_epochs=-1 learning_rate=0 learning_rate=nan learning_rate=inf weight_decay=-1
    clip=0 clip=nan one_hot=nan concentration=inf anneal=0
"""


@pytest.mark.parametrize("setting", BAD.split())
def test_a_bad_value_is_refused_by_name(setting):
    key, _, text = setting.partition("=")
    with pytest.raises(UsageError, match=rf"^{key} must"):
        read(Recipe, "mtdea", "metafam", {key: text})


@pytest.mark.parametrize(
    ("key", "nearest"), [("epoch", "epochs"), ("lerning_rate", "learning_rate"), ("task", "tasks")]
)
def test_an_unknown_hyperparameter_is_answered_with_the_nearest(key, nearest):
    with pytest.raises(UnknownNameError, match=f"unknown hyper-parameter '{key}': did you mean .*{nearest}"):
        read(Recipe, "isdea", "metafam", {key: "1"})


def test_the_regularisers_grow_by_a_tenth_after_each_epoch_until_they_are_capped():
    loaded = read(Recipe, "mtdea", "metafam", {"anneal": "1.1", "anneal_epochs": "3"})
    assert [loaded.penalty_scale(epoch) for epoch in (1, 2, 3, 4, 5, 50)] == pytest.approx(
        [1, 1.1, 1.21, 1.331, 1.331, 1.331]
    )


@pytest.mark.parametrize(
    ("build", "settings", "message"),
    [
        (isdea.build, {"tasks": "2"}, "^isdea has tasks=1 only: for other values run mtdea$"),
        (isdea_homo.build, {"tasks": "2"}, "^isdea-homo has tasks=1 only"),
        (isdea.build, {"statistics": "batch"}, "^isdea has statistics=graph only"),
        (nbfnet.build, {"positives": "targets"}, "^positives must be graph, not 'targets'$"),
        (isdea.build, {"adjacency": "tasks"}, "^isdea has adjacency=others only: for other values run mtdea$"),
        (isdea_homo.build, {"mean": "normalised"}, "^isdea-homo has mean=literal only"),
        (isdea_homo.build, {"linear_layers": "perceptron"}, "^isdea-homo has linear_layers=single only"),
        (mtdea.build_search, {"reassign": "false"}, "^mtdea-search has reassign=true only"),
    ],
)
def test_a_model_refuses_what_it_has_no_use_for(build, settings, message):
    with pytest.raises(UsageError, match=message):
        build(Context("metafam", device="cpu", settings=settings))

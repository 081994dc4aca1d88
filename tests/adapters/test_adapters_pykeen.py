"""PyKEEN's real models behind our evaluator: the same ids, the same scores on every side, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from ranking_toys import random_split

from mtbench.adapters import pykeen as adapter
from mtbench.adapters import requirements as modules
from mtbench.errors import MissingExtraError, UsageError
from mtbench.evaluation.tasks import evaluate, task

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


def model_of(factory, name="DistMult", **options):
    from pykeen.models import model_resolver

    return model_resolver.make(name, triples_factory=factory, embedding_dim=8, random_seed=3, **options)


def train(model, factory, epochs):
    from pykeen.training import SLCWATrainingLoop

    loop = SLCWATrainingLoop(model=model, triples_factory=factory, optimizer="adam", optimizer_kwargs={"lr": 0.05})
    loop.train(triples_factory=factory, num_epochs=epochs, batch_size=1024, use_tqdm=False)
    return model


@pytest.fixture(params=[False, True], ids=["plain", "inverses"])
def inverses(request):
    return request.param


def test_the_factory_has_our_ids(split, pykeen, inverses):
    factory = adapter.triples_factory(split, create_inverse_triples=inverses)
    np.testing.assert_array_equal(factory.mapped_triples.numpy(), split.graph)
    assert [factory.entity_id_to_label[number] for number in range(split.num_entities)] == split.entities.tolist()
    assert [factory.relation_id_to_label[number] for number in range(split.num_relations)] == split.relations.tolist()
    assert (factory.num_entities, factory.real_num_relations) == (split.num_entities, split.num_relations)
    assert factory.num_relations == split.num_relations * (2 if inverses else 1)
    factory.mapped_triples.zero_()
    assert split.graph.any()


def test_a_model_trained_for_a_few_epochs_beats_an_untrained_one(metafam, pykeen, inverses):
    factory = adapter.triples_factory(metafam, create_inverse_triples=inverses)
    model = model_of(factory)
    before = evaluate(adapter.scorer(model, metafam, factory=factory), metafam, "entity")
    train(model, factory, 6)
    after = evaluate(adapter.scorer(model, metafam, factory=factory), metafam, "entity")
    assert after.metrics["mrr"] > 1.5 * before.metrics["mrr"]
    assert len(after.ranks) == 184


@pytest.mark.parametrize("name", ["DistMult", "TransE", "ComplEx"])
def test_scores_are_those_of_predict_hrt_on_every_side(name, split, torch, pykeen, inverses):
    factory = adapter.triples_factory(split, create_inverse_triples=inverses)
    model = train(model_of(factory, name), factory, 1)
    scorer, triples = adapter.scorer(model, split, batch_size=7), split.targets
    expected = model.predict_hrt(torch.from_numpy(triples)).reshape(-1).detach().numpy()
    heads, relations, tails = triples.T
    rows = np.arange(len(triples))
    found = {
        "triples": scorer.score(triples),
        "tails": scorer.score_tails(heads, relations)[rows, tails],
        "relations": scorer.score_relations(heads, tails)[rows, relations],
        "heads": scorer.score_heads(relations, tails)[rows, heads],
    }
    for side, scores in found.items():
        np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-4, atol=1e-5, err_msg=side)
    assert scorer.score_tails(heads, relations).shape == (len(triples), split.num_entities)
    assert scorer.score_heads(relations, tails).shape == (len(triples), split.num_entities)
    assert scorer.score_relations(heads, tails).shape == (len(triples), split.num_relations)


def test_the_head_scores_of_pykeen_itself_differ_with_inverses(split, torch, pykeen):
    """The reason why ``score_heads`` does not use them."""
    factory = adapter.triples_factory(split, create_inverse_triples=True)
    model = train(model_of(factory), factory, 1)
    theirs = model.predict_h(torch.from_numpy(split.targets[:, 1:])).detach().numpy()
    ours = adapter.scorer(model, split).score_heads(split.targets[:, 1], split.targets[:, 2]).numpy()
    assert not np.allclose(theirs, ours, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("name", "options"), [("TransE", {}), ("ComplEx", {"predict_with_sigmoid": True})])
def test_heads_are_asked_for_through_inverses_as_pykeen_does(name, options, split, torch, pykeen):
    factory = adapter.triples_factory(split, create_inverse_triples=True)
    model = train(model_of(factory, name, **options), factory, 1)
    scorer, (heads, relations, tails) = adapter.scorer(model, split, inverses=True), split.targets.T
    theirs = model.predict_h(torch.from_numpy(split.targets[:, 1:])).detach()
    torch.testing.assert_close(scorer.score_heads(relations, tails), theirs)
    own = theirs[np.arange(len(heads)), heads]
    torch.testing.assert_close(scorer.score_inverses(split.targets), own, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(scorer.score(split.targets), adapter.scorer(model, split).score(split.targets))
    asked = {protocol: evaluate(scorer, split, protocol).asked["head"] for protocol in ("dual", "full")}
    rows, triples = "score_heads(relations, tails)", "score_inverses(triples)"
    assert asked == {"dual": triples, "full": rows}
    with pytest.raises(UsageError, match="no inverse relations: train it with create_inverse_triples=True"):
        adapter.scorer(model_of(adapter.triples_factory(split)), split, inverses=True)


def test_scoring_leaves_no_gradient_and_the_model_as_it_was(split, pykeen):
    model = model_of(adapter.triples_factory(split))
    for mode in (True, False):
        model.train(mode)
        scores = adapter.scorer(model, split).score(split.targets)
        assert not scores.requires_grad
        assert {part.training for part in model.modules()} == {mode}


def test_empty_slots_are_refused_unless_the_model_has_them(split, pykeen):
    message = r"random test: \d+ of \d+ triples have a relation from an empty slot \(ids 8 to"
    with pytest.raises(UsageError, match=message):
        evaluate(adapter.scorer(model_of(adapter.triples_factory(split)), split), split, "dual", "slots")
    factory = adapter.triples_factory(split, empty_slots=True)
    scorer = adapter.scorer(model_of(factory), split, factory=factory)
    assert len(evaluate(scorer, split, "dual", "slots").ranks) == 40
    assert scorer.score_relations(split.targets[:, 0], split.targets[:, 2]).shape == (40, split.relation_slots)


def test_models_and_factories_that_do_not_fit(split, pykeen):
    from pykeen.triples import TriplesFactory

    other = adapter.triples_factory(random_split(1, entities=50))
    message = "the model has 50 entities and 8 relations, expected 60 and 8 or 20: train it"
    with pytest.raises(UsageError, match=message):
        adapter.scorer(model_of(other), split)
    with pytest.raises(UsageError, match="the model has 60 entities and 5 relations"):
        adapter.scorer(model_of(adapter.triples_factory(random_split(1, relations=5))), split)
    ours = adapter.triples_factory(split)
    turned = {name: split.num_entities - 1 - number for name, number in ours.entity_to_id.items()}
    theirs = TriplesFactory(ours.mapped_triples, turned, ours.relation_to_id)
    message = "60 of 60 entities have another id in the factory, first 'e0000' with 59 instead"
    with pytest.raises(UsageError, match=message):
        adapter.scorer(model_of(theirs), split, factory=theirs)
    renamed = replace(split, relations=np.array([*split.relations[:-1], "r999"]))
    with pytest.raises(UsageError, match="1 of 8 relations have another id in the factory, first 'r999' with none"):
        adapter.scorer(model_of(ours), renamed, factory=ours)
    with pytest.raises(UsageError, match="batch_size must be at least 1, not 0"):
        adapter.scorer(model_of(ours), split, batch_size=0)


def test_without_pykeen_the_message_is_the_remedy(split, monkeypatch):
    monkeypatch.setattr(modules, "find_spec", lambda name: None if name == "pykeen" else name)
    for use in (lambda: adapter.triples_factory(split), lambda: adapter.scorer(object(), split)):
        with pytest.raises(MissingExtraError, match=r'PyKEEN needs the extra .*pip install "mtbench-kg\[adapters\]"'):
            use()


def test_the_evaluator_asks_for_each_triple_once(split, pykeen, monkeypatch):
    model = model_of(adapter.triples_factory(split))
    asked, predict = [], model.predict_hrt
    monkeypatch.setattr(model, "predict_hrt", lambda batch: (asked.append(len(batch)), predict(batch))[1])
    evaluate(adapter.scorer(model, split, batch_size=100), split, ask_again=False)
    assert sum(asked) == len(task(split).triples)
    assert max(asked) == 100

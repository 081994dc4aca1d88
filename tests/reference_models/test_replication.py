"""Models that show what stands behind the paper's rows: a product of two counts, and ties that rounding breaks."""

import numpy as np
import pytest
import torch
from ranking_toys import random_split

from mtbench.evaluation import paper
from mtbench.evaluation.tasks import evaluate
from mtbench.heuristics import baselines
from mtbench.settings.table import setting_in
from mtbench.training.models import Context
from reference_models.replication import Moved, NoTraining
from reference_models.training.fitting import BothWays


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_no_training_is_the_half_link_baseline_and_can_be_read_in_the_settings_of_the_paper():
    split = random_split(3)
    model = NoTraining(Context("toy"))
    scorer = model.scorer(split.observable())
    assert evaluate(scorer, split).metrics == evaluate(baselines.half_link_memory(split), split).metrics
    assert paper.read(scorer, split, setting_in("isdea-doubled")).setting.inverses
    assert model.info.pretraining_graphs == ()


def test_rounding_moves_a_score_by_a_unit_in_the_last_place_and_each_triple_always_alike():
    split = random_split(3)
    triples = np.argwhere(np.ones((split.num_entities, split.relation_slots, split.num_entities)))
    tied = Moved(BothWays(lambda asked: torch.full((len(asked),), -0.3), split.relation_slots), baselines.random(split))
    for ask in (tied, tied.score_inverses):
        units = (ask(triples).numpy() - np.float32(-0.3)) / np.spacing(np.float32(0.3))
        shares = [(units == unit).mean() for unit in (-1, 0, 1)]
        assert shares == pytest.approx([1 / 3] * 3, abs=0.03)
        assert torch.equal(ask(triples[::7]), ask(triples)[::7])

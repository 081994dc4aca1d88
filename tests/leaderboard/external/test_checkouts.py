"""What the recipes of published models refuse: settings they do not know, and folders that are no checkout."""

import pytest

from leaderboard.external import kgicl, motif, trix, ultra
from mtbench.errors import UsageError
from mtbench.training.models import Context

RECIPES = {
    "ULTRA": (ultra, {"heads": "both"}, "checkpoint=ultra_3g.pth|", "ultra.models"),
    "TRIX": (trix, {"relations": "both"}, "relations=relation_prediction.pth|", "trix.models_entity"),
    "MOTIF": (motif, {"checkpoint": "motif_4g.pth"}, "checkpoint=motif_3g.pth", "motif.models"),
    "KG-ICL": (kgicl, {"checkpoint": "7L"}, "checkpoint=KG-ICL-6L|", "encoder.EntityEncoder"),
}


@pytest.mark.parametrize("name", RECIPES)
def test_settings_it_does_not_know_are_refused(name):
    recipe, wrong, known, _ = RECIPES[name]
    for settings in (wrong, {"batch": "1"}, {}):
        with pytest.raises(UsageError) as refused:
            recipe.build(Context("toy", settings=settings and {"checkout": "x", **settings}))
        assert str(refused.value).startswith(f"{name} takes --set checkout=DIR, {known}")
        why = "not " + " ".join(map("=".join, settings.items())) if settings else "checkout is missing"
        assert str(refused.value).endswith(f": {why}")


@pytest.mark.parametrize("name", RECIPES)
def test_a_folder_that_is_no_checkout_is_refused_with_what_to_type(name, tmp_path):
    recipe, *_, module = RECIPES[name]
    with pytest.raises(UsageError, match=f"has no {module}: git clone {recipe.ADDRESS}, and name its folder"):
        recipe.build(Context("toy", settings={"checkout": str(tmp_path)}))

"""The table of settings: names that are unique, what each has, and how settings are chosen by name."""

import pytest

from mtbench.errors import UnknownNameError
from mtbench.names import PARTS
from mtbench.settings.table import (
    ALL,
    CODES,
    HEADLINE,
    MAIN,
    OURS,
    PROTOCOLS,
    SAMPLED,
    SETTINGS,
    VOCABULARIES,
    setting_in,
    setting_of,
    settings_of,
)


def test_the_table_has_every_protocol_in_both_vocabularies_and_three_of_each_code_base():
    assert len(OURS) == len(PROTOCOLS) * len(VOCABULARIES) == 24
    assert len(SETTINGS) == len(OURS) + 3 * (len(CODES) - 1)
    assert (MAIN, VOCABULARIES) == (("dual", "entity", "relation"), ("present", "slots"))
    assert set(PROTOCOLS) - set(SAMPLED) == {"full", "full-tail", "full-head", "full-relation", "full-ultra"}
    assert HEADLINE is setting_of() is setting_of("dual", "present") is setting_in("standard")
    assert HEADLINE.key("test", 0) == "test/dual/present/0"


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_lists_of_a_setting_have_what_it_has_candidates_for(setting):
    assert {PARTS[part][1] for part in setting.parts} == set(setting.sides)
    assert setting.parts == tuple(part for parts in setting.lists for part in parts)
    assert set(setting.repeated) <= {"head", "relation", "tail"}
    assert SETTINGS[setting.name] is setting


@pytest.mark.parametrize("setting", OURS, ids=[setting.name for setting in OURS])
def test_a_list_of_ours_is_of_one_direction(setting):
    assert [{PARTS[part][0] for part in parts} for parts in setting.lists] == [{way} for way in setting.directions]
    other = setting_of(setting.protocol, "present" if setting.empty_slots else "slots")
    assert (other.parts, other.sides, other.full) == (setting.parts, setting.sides, setting.full)


def test_settings_are_chosen_by_protocol_and_vocabulary_each_once():
    names = [setting.name for setting in settings_of(["entity", "dual", "entity"], ["slots", "slots"])]
    assert names == ["entity-slots", "dual-slots"]
    assert [one.name for one in settings_of([ALL], [ALL])] == [
        f"{name}-{pool}" for name in MAIN for pool in VOCABULARIES
    ]
    assert settings_of([ALL], [ALL], PROTOCOLS) == tuple(setting_of(*pair) for pair in pairs())


def pairs():
    return [(protocol, vocabulary) for protocol in PROTOCOLS for vocabulary in VOCABULARIES]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: setting_of("full_tail"), "unknown protocol 'full_tail': did you mean full-tail"),
        (lambda: setting_of("duel"), "unknown protocol 'duel': did you mean dual"),
        (lambda: setting_of("dual", "slot"), "unknown vocabulary 'slot': did you mean slots"),
        (lambda: settings_of(["duel"], [ALL]), "unknown protocol 'duel': did you mean dual"),
        (lambda: settings_of([ALL], ["slot"]), "unknown vocabulary 'slot': did you mean slots"),
        (lambda: setting_in("isde"), "unknown evaluation setting 'isde': did you mean isdea"),
        (lambda: setting_in("isdea", "full"), "unknown protocol 'full'"),
    ],
)
def test_names_that_do_not_exist(call, message):
    with pytest.raises(UnknownNameError, match=message):
        call()

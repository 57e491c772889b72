"""What is reproduced: rows, the paper's figures, and how each row is trained."""

from __future__ import annotations

from typing import Any

import pytest

import gaifman
from gaifman.errors import GaifmanError, InputError, KnowledgeBaseError
from gaifman.experiments.paper import (
    DATASET_NAMES,
    PAPER_RESULTS,
    PATH_FEATURES,
    ROWS,
    Experiment,
    TrainingProtocol,
    TrainingSetting,
    add_constant_features,
    paper_result,
    protocol_for,
    select_rows,
)
from gaifman.features.feature_sets import named_feature_set, parse_phi
from gaifman.features.templates import Hop, Pair, Path, Walk, match_template
from gaifman.jobs.train import SourceText
from gaifman.training import TrainingConfig


def test_the_rows_are_the_papers() -> None:
    labels = ["[1, ∞, 1, 5]", "[1, 20, 1, 2]", "[1, 20, 5, 25]", "[2, 20, 5, 25]", "[3, 20, 5, 25]"]
    assert [row.label for row in ROWS] == labels
    assert [row.number for row in ROWS] == [1, 2, 3, 4, 5]
    assert set(PAPER_RESULTS) == set(DATASET_NAMES) == {"wn18", "fb15k"}
    assert all(len(rows) == len(ROWS) for rows in PAPER_RESULTS.values())


def test_the_papers_figures_are_those_of_the_table() -> None:
    wn18 = [(row.mean_rank, row.hits_10, row.hits_1) for row in PAPER_RESULTS["wn18"]]
    fb15k = [(row.mean_rank, row.hits_10, row.hits_1) for row in PAPER_RESULTS["fb15k"]]
    assert wn18 == [(298, 93.9, 75.8), (357, 88.1, 66.8), (392, 93.6, 76.4), (378, 93.9, 76.7), (352, 93.9, 76.7)]
    assert fb15k == [(124, 78.1, 59.8), (114, 79.2, 60.1), (97, 82.1, 65.6), (84, 83.4, 68.5), (75, 84.2, 69.2)]
    assert paper_result("fb15k", ROWS[4]).mean_rank == 75


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [((), [1, 2, 3, 4, 5]), (("1,3",), [1, 3]), (("5", "3,4"), [3, 4, 5]), (("2, 1", "1"), [1, 2])],
)
def test_rows_are_chosen_by_number(texts: tuple[str, ...], numbers: list[int]) -> None:
    assert [row.number for row in select_rows(texts)] == numbers


@pytest.mark.parametrize("text", ["0", "6", "1,x", "", "1,,2", "1-3"])
def test_an_unknown_row_is_an_error_that_lists_the_rows(text: str) -> None:
    with pytest.raises(InputError, match="the table has no row") as caught:
        select_rows([text])
    assert "4 is [2, 20, 5, 25]" in caught.value.hint


def test_rows_that_differ_in_draws_alone_share_a_setting() -> None:
    study = Experiment("wn18")
    assert study.settings == [TrainingSetting(None, 1, 5), TrainingSetting(20, 1, 2), TrainingSetting(20, 5, 25)]
    assert [study.draws(setting) for setting in study.settings] == [[1], [1], [1, 2, 3]]
    some = Experiment("wn18", select_rows(["5,1"]))
    assert [some.draws(setting) for setting in some.settings] == [[1], [3]]
    assert [setting.name for setting in study.settings] == ["kall-w1-5", "k20-w1-2", "k20-w5-25"]


def learning(study: Experiment, setting: TrainingSetting) -> TrainingConfig:
    return TrainingConfig.from_settings(study.training_job(setting).config)


def test_a_training_is_the_papers() -> None:
    found = learning(Experiment("wn18"), TrainingSetting(20, 5, 25))
    assert (found.radius, found.size, found.positives, found.negatives) == (1, 20, 5, 25)
    assert (found.phi, found.base, found.draws, found.seed) == ("paper", "mlp", 3, 0)
    assert found.options == {"activation": "sigmoid", "batch_size": 128}
    assert learning(Experiment("wn18"), TrainingSetting(None, 1, 5)).size is None


def test_a_training_does_not_depend_on_the_chosen_rows() -> None:
    one, all_of_them = Experiment("wn18", select_rows(["3"])), Experiment("wn18")
    assert one.training_job(TrainingSetting(20, 5, 25)) == all_of_them.training_job(TrainingSetting(20, 5, 25))


def test_options_are_of_the_network_or_of_learning() -> None:
    found = learning(
        Experiment("wn18", options={"activation": "relu", "epochs": 5, "holdout": 0.0}), TrainingSetting(20, 5, 25)
    )
    assert found.options == {"activation": "relu", "batch_size": 128, "epochs": 5}
    assert found.holdout == 0.0


def test_protocols() -> None:
    assert protocol_for("paper", "wn18") == protocol_for("paper", "fb15k") == TrainingProtocol()
    ours = protocol_for("ours", "wn18")
    found = learning(Experiment("wn18", phi=ours.phi, file=ours.file, options=ours.options), TrainingSetting(20, 5, 25))
    assert found.hard_negative_fraction > 0
    assert found.options["activation"] == "relu"
    with pytest.raises(InputError, match="one of ours, paper"):
        protocol_for("theirs", "wn18")


def test_common_constants_are_those_of_the_facts() -> None:
    kb = gaifman.demo()
    study, ours = Experiment("fb15k"), protocol_for("ours", "fb15k")
    assert add_constant_features(study, TrainingProtocol(), kb) is study
    found = add_constant_features(study, ours, kb)
    found.check()
    assert found.file is not None
    texts = found.file.text.splitlines()
    asked = [text for text in texts if "'" in text]
    plain = named_feature_set("default", 2, {name: relation.arity for name, relation in kb.relations.items()})
    assert texts == [*map(str, plain.features), *asked]
    assert asked
    for text in asked:
        relation, name = text.split("(")[0], text.split("'")[1]
        assert sum(name in fact.objects for fact in kb.facts(relation)) >= 100
    assert len(asked) == 2 * len({text.replace("s1", "s2") for text in asked})


def test_the_paths_of_ours_are_of_up_to_three_steps() -> None:
    templates = {type(match_template(feature)) for feature in parse_phi(PATH_FEATURES).expand({"r": 2, "q": 2}, 2)}
    assert templates == {Pair, Hop, Path, Walk}


def test_a_file_of_features() -> None:
    study = Experiment("wn18", phi="mine", file=SourceText("mine.phi", "each r. r(s1, s2)\n"))
    study.check()
    assert study.training_job(TrainingSetting(20, 5, 25)).phi == (study.file,)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "size": ({"options": {"size": 5}}, "size is set by the row"),
    "seed": ({"options": {"seed": 5}}, "seed is set by the row"),
    "unknown": ({"options": {"epoch": 5}}, "unknown setting epoch"),
    "value": ({"options": {"epochs": "many"}}, "epochs must be an integer"),
    "fraction": ({"fraction": 0.0}, "above 0 and at most 1"),
    "facts": ({"visible_facts": "valid"}, "train, train\\+valid, not 'valid'"),
    "phi": ({"phi": "papers"}, "there is no feature set or file papers"),
    "text": ({"phi": "x", "file": SourceText("x.phi", "knows(s1")}, "x.phi, line 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_errors_before_any_work(name: str) -> None:
    settings, message = WRONG[name]
    with pytest.raises(GaifmanError, match=message):
        Experiment("wn18", **settings).check()


def test_an_unknown_setting_has_near_names() -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        Experiment("wn18", options={"epoch": 5}).check()
    assert "epochs" in caught.value.suggestions

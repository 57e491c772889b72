"""The commands that look at the graph: `gaifman graph` and `gaifman neighbourhood`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gaifman
from cli_runner import output, run
from gaifman.kb.gaifman_graph import build_graph
from gaifman.sampling.neighbourhoods import named_neighbourhoods

DEMO = gaifman.demo()


def test_graph_counts_edges_and_degrees_as_the_graph_has_them() -> None:
    body = json.loads(output("graph", "demo", "--json"))
    graph = build_graph(DEMO)
    assert body["objects"] == len(DEMO.objects)
    assert body["edges"] == len(graph.neighbours) // 2
    assert sum(count for _, count in body["degrees"]) == len(DEMO.objects)
    assert sum(degree * count for degree, count in body["degrees"]) == 2 * body["edges"]
    assert body["largest_degree"] == len(graph.neighbours_of(body["most_connected"]))


def test_graph_shows_ranges_of_degrees_or_every_degree() -> None:
    assert "128–255" in output("graph", "demo")
    every = output("graph", "demo", "--all")
    assert "128–255" not in every
    assert "\n   194 " in every


@pytest.mark.parametrize("end", ["svg", "png", "pdf"])
def test_graph_draws_the_distribution_the_same_each_time(end: str, tmp_path: Path) -> None:
    path = tmp_path / f"degrees.{end}"
    output("graph", "demo", "--plot", str(path))
    first = path.read_bytes()
    assert len(first) > 1000
    output("graph", "demo", "--plot", str(path), "--force")
    assert path.read_bytes() == first


def test_graph_replaces_no_picture_and_writes_none_of_an_unknown_kind(tmp_path: Path) -> None:
    (tmp_path / "here.svg").write_text("precious")
    refused = run("graph", "demo", "--plot", "here.svg", folder=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "here.svg already exists" in refused.stderr
    assert (tmp_path / "here.svg").read_text() == "precious"
    unknown = run("graph", "demo", "--plot", "degrees.jpeg2", folder=tmp_path)
    assert unknown.returncode == 1
    assert "end the name with .svg, .png, .pdf" in unknown.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["here.svg"]


def test_a_graph_with_isolated_objects_has_a_degree_of_none(tmp_path: Path) -> None:
    path = tmp_path / "lonely.facts"
    path.write_text("person(ann). likes(bob, cleo).")
    text = output("graph", str(path))
    assert "isolated objects  1\n" in text
    assert "\n     0         1   33.3%" in text


def test_neighbourhood_is_the_one_the_library_draws() -> None:
    words = ["neighbourhood", "demo", "france", "spain", "--size", "7", "--draws", "3", "--seed", "5", "--json"]
    body = json.loads(output(*words))
    drawn = named_neighbourhoods(DEMO, ("france", "spain"), size=7, draws=3, seed=5)
    assert [[m["name"] for m in one["members"]] for one in body["draws"]] == [
        [n for n, _ in one.members] for one in drawn
    ]
    assert [len(one["facts"]) for one in body["draws"]] == [len(one.facts) for one in drawn]


def test_neighbourhood_shows_members_by_distance_facts_and_what_was_left_out() -> None:
    text = output("neighbourhood", "demo", "france", "spain", "--size", "5")
    assert "tuple       france, spain\n" in text
    assert "not drawn)" in text
    assert "borders(france, spain)." in text


def test_neighbourhood_of_everything_leaves_nothing_out() -> None:
    text = output("neighbourhood", "demo", "andorra", "--size", "all", "--all")
    assert "not drawn" not in text
    assert "--all" not in text


def test_neighbourhood_lists_each_draw() -> None:
    assert "Draw 2 of 2" in output("neighbourhood", "demo", "france", "--draws", "2")


def test_a_repeated_object_is_explained() -> None:
    done = run("neighbourhood", "demo", "france", "france", "--size", "4")
    assert "note: france is 2 times in the tuple: one member" in done.stderr
    assert "tuple       france\n" in done.stdout


def test_an_isolated_object_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "lonely.facts"
    path.write_text("person(ann). likes(bob, cleo).")
    done = run("neighbourhood", str(path), "ann")
    assert "the neighbourhood is the tuple itself" in done.stderr
    assert "person(ann)." in done.stdout


def test_a_second_file_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "one.facts").write_text("likes(ann, bob).")
    (tmp_path / "two.facts").write_text("likes(bob, cleo).")
    text = output("neighbourhood", str(tmp_path / "one.facts"), "bob", "--with", str(tmp_path / "two.facts"))
    assert "ann, cleo" in text


BAD = [
    (["neighbourhood", "demo", "frnace"], 1, "did you mean: france"),
    (["neighbourhood", "demo", "france", "--size", "0"], 1, "size must be an integer"),
    (["neighbourhood", "demo", "france", "--radius", "-1"], 1, "radius must be an integer of at least 0"),
    (["neighbourhood", "demo", "france", "--draws", "0"], 1, "draws must be an integer"),
    (["neighbourhood", "demo", "france", "--draws", "1000000000000"], 1, "draws must be an integer from"),
    (["neighbourhood", "demo", "france", "--seed", "-1"], 1, "seed must be an integer"),
    (["neighbourhood", "demo", "france", "--size", "many"], 2, "neither an integer nor all"),
    (["neighbourhood", "demo"], 2, "Missing argument"),
    (["graph", "nope.tsv"], 1, "there is no file"),
]


@pytest.mark.parametrize(("words", "code", "message"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input_is_one_message(words: list[str], code: int, message: str) -> None:
    done = run(*words)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stdout == ""

"""Tables that can be read in several ways are refused, with readings that work."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_runner import run
from gaifman.errors import InputError
from gaifman.io import read
from gaifman.io.readings import find_doubt

UNSURE = {
    "employee,boss\nann,bob\nbob,cleo\n": ["boss(ann, bob)", "related(employee, boss)", "boss(employee)"],
    "employee,dept\nann,hr\nbob,hr\n": ["dept(ann, hr)", "hr(ann)", "dept(employee)"],
    "name,dept,age\nann,sales,34\nbob,hr,41\n": [
        "dept(ann, sales), age(ann) = 34",
        "dept(ann, sales)",
        "t(ann, sales, 'age/34')",
    ],
    "user_id,item_id,rating\n7,7,5\n8,7,3\n": [
        "rating('user/7', 'item/7')",
        "t('user/7', 'item/7', 'rating/5')",
        "item('user/7', 'item/7'), rating('user/7') = 5",
    ],
    "h,r,t\na,r,b\nc,q,d\n": ["r(a, b)", "r(h, t)", "r(a, r), t(a, b)"],
    "h,r,t\n": ["r(h, t)"],
    "employee,dept,city\nann,sales,rome\nbob,sales,oslo\n": [
        "city(ann, rome), dept(ann, sales)",
        "dept(ann, sales)",
        "dept(employee, city)",
    ],
    "Name,Dept,City,Land\nann,a,x,e\nbob,a,y,f\n": [
        "City(ann, x), Dept(ann, a)",
        "Dept(ann, a)",
        "Name(Dept, City, Land)",
    ],
    "id,name,a,b,c,d\n1,ann,x,y,3,4\n2,bob,x,z,3,4\n": ["a('t/1', x), b('t/1', y), c('t/1') = 3", "name('t/1', ann)"],
    "ann,sales,34\nbob,hr,41\n": ["sales(ann) = 34", "sales(ann, 34)", "related(ann, sales)"],
    "france,paris\ngermany,berlin\n": ["paris(germany, berlin)", "related(france, paris)", "paris(france)"],
    "0\t1\n0\t2\n1\t2\n": ["related('node/0', 'node/1')", "value('node/0') = 1"],
    "196\t242\t3\n186\t302\t3\n22\t377\t1\n": ["242(196, 3)", "related('a/196', 'b/242')", "3('a/196', 'b/242')"],
    "source,target\n1,2\n2,3\n": ["linked_to('node/1', 'node/2')"],
    "Source,Target,Weight\nann,bob,2\nann,cleo,3\n": [
        "Weight(ann, bob)",
        "t(ann, bob, 'Weight/2')",
        "Target(ann, bob), Weight(ann) = 2",
    ],
    "head,link,tail\nann,likes,bob\n": ["likes(ann, bob)", "link(ann, likes), tail(ann, bob)", "link(ann, likes)"],
    "Full Name,Job Title\nann,cook\nbob,cook\n": ["'Job Title'(ann, cook)", "cook(ann)", "'Job Title'('Full Name')"],
}


@pytest.mark.parametrize("text", UNSURE)
def test_each_reading_gives_what_it_says(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("t.tsv" if "\t" in text else "t.csv")
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    error = caught.value
    assert error.location
    assert error.location.line == 1
    lines = error.hint[error.hint.index("choose a reading:") :].split("\n")[1:]
    readings = lines[: lines.index("first rows:")]
    assert [line.strip().rpartition("  ")[2] for line in readings] == UNSURE[text]
    for line in readings:
        options, _, facts = line.strip().rpartition("  ")
        done = run("convert", str(path), str(tmp_path / "out.facts"), "--force", "--lossy", *shlex.split(options))
        assert done.returncode == 0, done.stderr
        written = (tmp_path / "out.facts").read_text()
        for fact in facts.replace("), ", ")\n").split("\n"):
            name, equals, value = fact.partition(" = ")
            assert f"{name} = {float(value)}." if equals else f"{name}." in written


@pytest.mark.parametrize("text", UNSURE)
def test_the_python_of_a_reading_runs(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("t.tsv" if "\t" in text else "t.csv")
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    call = caught.value.hint.rpartition("in Python: ")[2]
    kb = eval(call.replace("gaifman.read(…", "read(path"), {"read": read, "path": path})
    assert len(kb) or kb.attributes


CERTAIN = {
    "ann\tparent\tbob\nbob\tparent\tcleo\n": "triples",
    "ann\tparent\tbob\n": "triples",
    "ann\tlikes\tbob\nbob\tknows\tcleo\ncleo\thates\tann\n": "triples",
    "head,relation,tail\nann,parent,bob\n": "triples",
    "h,r,t\nann,parent,bob\n": "triples",
    "/m/1\t/people/born_in\t/m/2\n/m/3\t/film/genre\t/m/4\n": "triples",
    "1\t7\t2\n2\t7\t3\n4\t8\t5\n5\t7\t6\n": "triples",
    "ann\tperson\nbob\tperson\noslo\ttown\n": "types",
    "ann\tage\t80\nann\theight\t1.7\nbob\tage\t5\n": "attributes",
    "gave\tann\tbook\tbob\ngave\tann\tball\tcleo\n": "nary",
    "a,p,b,0.5\nb,p,c,0.7\n": "triples",
}


@pytest.mark.parametrize("text", CERTAIN)
def test_files_of_facts_are_read_as_before(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("t.tsv" if "\t" in text else "t.csv")
    path.write_text(text)
    assert f"files read as {CERTAIN[text]}" in [note.text for note in read(path).notes]


words = st.sampled_from(["", "a", "b", "7", "8.5", "1,5", "Full Name", 'x"y', "is", "user_id", "p:q", "$x", "é"])


@given(st.integers(1, 6).flatmap(lambda width: st.lists(st.tuples(*[words] * width), min_size=1, max_size=5)))
def test_hints_can_always_be_made(rows: list[tuple[str, ...]]) -> None:
    for header in (None, True, False):
        doubt = find_doubt(rows, header)
        if doubt:
            assert len(doubt.hint()) < 1500
            assert len(doubt.readings()) <= 3

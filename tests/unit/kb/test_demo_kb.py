"""The bundled knowledge base of countries agrees with itself and with the atlas."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files

import pytest

import gaifman

KB = gaifman.demo()

TYPES = (
    "city continent country currency games lake language language_family mountain_range organisation region river sea "
    "side strait year"
)

PLACES = {
    "landlocked": ("country",),
    "monarchy": ("country",),
    "borders": ("country", "country"),
    "capital": ("country", "city"),
    "city_in": ("city", "country"),
    "coast_on": ("country", "sea"),
    "drives_on": ("country", "side"),
    "flows_through": ("river", "country"),
    "in_family": ("language", "language_family"),
    "largest_city": ("country", "city"),
    "located_in": ("country", "region"),
    "member_of": ("country", "organisation"),
    "official_language": ("country", "language"),
    "part_of": ("region", "continent"),
    "shore_on": ("country", "lake"),
    "uses_currency": ("country", "currency"),
    "hosted_games": ("city", "games", "year"),
    "independent_from": ("country", "country", "year"),
    "separates": ("lake mountain_range river strait", "country", "country"),
}
"""What stands in each place of a relation: one type, or one of several."""

SIZES = {
    "african_union": 54,  # of 55: Western Sahara is not listed
    "andean_community": 4,
    "apec": 20,  # of 21: Hong Kong is not listed
    "arab_league": 22,
    "asean": 10,
    "benelux": 3,
    "brics": 10,
    "caricom": 14,  # of 15: Montserrat is not listed
    "central_african_economic_and_monetary_community": 6,
    "central_american_integration_system": 8,
    "commonwealth_of_independent_states": 9,
    "commonwealth_of_nations": 56,
    "community_of_portuguese_language_countries": 9,
    "council_of_europe": 46,
    "east_african_community": 8,
    "ecowas": 12,  # Burkina Faso, Mali and Niger left on 29 January 2025
    "efta": 4,
    "eurasian_economic_union": 5,
    "european_union": 27,
    "eurozone": 20,
    "g20": 19,  # the European Union and the African Union are no countries
    "g7": 7,
    "gulf_cooperation_council": 6,
    "mercosur": 6,
    "nato": 32,
    "nordic_council": 5,
    "oecd": 38,
    "opec": 12,
    "organisation_of_islamic_cooperation": 57,
    "organization_of_american_states": 34,
    "pacific_islands_forum": 14,  # of 18: four members are not sovereign
    "saarc": 8,
    "schengen_area": 29,
    "shanghai_cooperation_organisation": 10,
    "southern_african_development_community": 16,
    "united_nations": 193,
    "visegrad_group": 4,
    "west_african_economic_and_monetary_union": 8,
}

EURO_OUTSIDE_EUROZONE = "andorra kosovo monaco montenegro san_marino vatican_city"

NO_BORDER = (
    "antigua_and_barbuda australia bahamas bahrain barbados cabo_verde comoros cuba cyprus dominica "
    "federated_states_of_micronesia fiji grenada iceland jamaica japan kiribati madagascar maldives malta "
    "marshall_islands mauritius nauru new_zealand palau philippines saint_kitts_and_nevis saint_lucia "
    "saint_vincent_and_the_grenadines samoa sao_tome_and_principe seychelles singapore solomon_islands sri_lanka "
    "taiwan tonga trinidad_and_tobago tuvalu vanuatu"
)

KNOWN = [
    ("borders", "france spain"),
    ("borders", "morocco spain"),
    ("borders", "haiti dominican_republic"),
    ("capital", "australia canberra"),
    ("capital", "brazil brasilia"),
    ("capital", "kazakhstan astana"),
    ("coast_on", "bosnia_and_herzegovina adriatic_sea"),
    ("drives_on", "japan left"),
    ("drives_on", "samoa left"),
    ("flows_through", "danube serbia"),
    ("hosted_games", "sarajevo winter_olympics 1984"),
    ("independent_from", "south_sudan sudan 2011"),
    ("landlocked", "ethiopia"),
    ("largest_city", "turkey istanbul"),
    ("located_in", "cyprus western_asia"),
    ("member_of", "finland nato"),
    ("official_language", "suriname dutch"),
    ("separates", "pyrenees france spain"),
    ("separates", "rio_grande mexico united_states"),
    ("uses_currency", "ecuador us_dollar"),
]

KNOWN_FALSE = [
    ("borders", "chile ecuador"),
    ("borders", "india sri_lanka"),
    ("borders", "north_macedonia turkey"),
    ("capital", "turkey istanbul"),
    ("coast_on", "serbia adriatic_sea"),
    ("member_of", "norway european_union"),
    ("member_of", "switzerland nato"),
    ("uses_currency", "denmark euro"),
]


def rows(relation: str) -> set[tuple[str, ...]]:
    return {tuple(fact.objects) for fact in KB.facts(relation)}


def place(relation: str, at: int) -> set[str]:
    return {row[at] for row in rows(relation)}


def of(kinds: str) -> set[str]:
    """The objects of any of these types."""
    return {name for kind in kinds.split() for name in place(kind, 0)}


def having(relation: str, last: str) -> set[str]:
    """What stands first in the facts that end in `last`."""
    return {row[0] for row in rows(relation) if row[-1] == last}


def values(attribute: str) -> dict[str, float]:
    found = {country: KB.value(attribute, country) for country in of("country")}
    return {country: value for country, value in found.items() if value is not None}


def swapped(relation: str) -> set[tuple[str, ...]]:
    return {(*row[:-2], row[-1], row[-2]) for row in rows(relation)}


def separated_by(kind: str) -> set[tuple[str, ...]]:
    return {row for row in rows("separates") if row[0] in of(kind)}


def years(games: str) -> list[int]:
    return sorted(int(year) for _, which, year in rows("hosted_games") if which == games)


def test_file_is_small() -> None:
    assert len((files("gaifman") / "data" / "countries.facts").read_bytes()) <= 300_000


def test_table_of_positions_is_complete() -> None:
    assert set(KB.relations) == {*TYPES.split(), *PLACES}


@pytest.mark.parametrize("relation", sorted(PLACES))
def test_arity(relation: str) -> None:
    assert KB.relations[relation].arity == len(PLACES[relation])


@pytest.mark.parametrize("relation", sorted(PLACES))
def test_types_of_positions(relation: str) -> None:
    strangers = {kinds: place(relation, at) - of(kinds) for at, kinds in enumerate(PLACES[relation])}
    assert not any(strangers.values()), strangers


def test_every_object_has_exactly_one_type() -> None:
    assert Counter(name for kind in TYPES.split() for name in of(kind)) == dict.fromkeys(KB.objects, 1)


def test_every_object_occurs_in_a_relation() -> None:
    assert {name for relation in PLACES for row in rows(relation) for name in row} == set(KB.objects)


def test_number_of_countries() -> None:
    assert of("country") - having("member_of", "united_nations") == {"kosovo", "palestine", "taiwan", "vatican_city"}


@pytest.mark.parametrize(
    ("relation", "kind"),
    [
        ("capital", "country"),
        ("city_in", "city"),
        ("drives_on", "country"),
        ("in_family", "language"),
        ("located_in", "country"),
        ("part_of", "region"),
    ],
)
def test_each_has_exactly_one(relation: str, kind: str) -> None:
    assert Counter(row[0] for row in rows(relation)) == dict.fromkeys(of(kind), 1)


@pytest.mark.parametrize("relation", ["official_language", "uses_currency"])
def test_each_country_has_one_or_more(relation: str) -> None:
    assert place(relation, 0) == of("country")


@pytest.mark.parametrize(("relation", "at"), [("capital", 1), ("largest_city", 0), ("largest_city", 1)])
def test_none_occurs_twice(relation: str, at: int) -> None:
    assert len(place(relation, at)) == len(rows(relation))


@pytest.mark.parametrize("relation", ["capital", "largest_city"])
def test_cities_of_a_country_lie_in_it(relation: str) -> None:
    assert swapped(relation) <= rows("city_in")


@pytest.mark.parametrize("relation", ["borders", "separates"])
def test_symmetric(relation: str) -> None:
    assert rows(relation) == swapped(relation)


@pytest.mark.parametrize("relation", ["borders", "independent_from", "separates"])
def test_no_country_is_related_to_itself(relation: str) -> None:
    assert all(len(set(row)) == len(row) for row in rows(relation))


def test_countries_without_a_border() -> None:
    assert of("country") - place("borders", 0) == set(NO_BORDER.split())


def test_rivers_lakes_and_ranges_separate_countries_that_border() -> None:
    assert {row[1:] for row in separated_by("lake mountain_range river")} <= rows("borders")


def test_straits_separate_countries_with_a_coast() -> None:
    assert {row[1] for row in separated_by("strait")} <= place("coast_on", 0)


def test_rivers_flow_through_the_countries_they_separate() -> None:
    assert {row[:2] for row in separated_by("river")} <= rows("flows_through")


def test_countries_have_a_shore_on_the_lakes_that_separate_them() -> None:
    assert {row[:2] for row in separated_by("lake")} <= swapped("shore_on")


def test_landlocked_countries_are_those_without_a_coast() -> None:
    assert of("landlocked") == of("country") - place("coast_on", 0)


def test_number_of_landlocked_countries() -> None:
    assert len(of("landlocked")) == 45


def test_number_of_monarchies() -> None:
    assert len(of("monarchy")) == 43


def test_every_organisation_has_its_size() -> None:
    assert Counter(organisation for _, organisation in rows("member_of")) == SIZES


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("benelux", "eurozone"),
        ("european_union", "council_of_europe"),
        ("eurasian_economic_union", "commonwealth_of_independent_states"),
        ("eurozone", "european_union"),
        ("g7", "g20"),
        ("g7", "oecd"),
        ("gulf_cooperation_council", "arab_league"),
        ("visegrad_group", "schengen_area"),
    ],
)
def test_members_of_one_are_members_of_the_other(part: str, whole: str) -> None:
    assert having("member_of", part) <= having("member_of", whole)


def test_african_union_is_africa() -> None:
    regions = having("part_of", "africa")
    assert having("member_of", "african_union") == {row[0] for row in rows("located_in") if row[1] in regions}


@pytest.mark.parametrize(
    ("currency", "union", "others"),
    [
        ("central_african_cfa_franc", "central_african_economic_and_monetary_community", ""),
        ("euro", "eurozone", EURO_OUTSIDE_EUROZONE),
        ("west_african_cfa_franc", "west_african_economic_and_monetary_union", ""),
    ],
)
def test_users_of_a_common_currency(currency: str, union: str, others: str) -> None:
    assert having("uses_currency", currency) == having("member_of", union) | set(others.split())


def test_years_of_the_summer_olympics() -> None:
    assert years("summer_olympics") == [year for year in range(1896, 2025, 4) if year not in {1916, 1940, 1944}]


def test_years_of_the_winter_olympics() -> None:
    before = [year for year in range(1924, 1993, 4) if year not in {1940, 1944}]
    assert years("winter_olympics") == [*before, *range(1994, 2023, 4)]


def test_years_of_independence() -> None:
    assert all(1900 <= int(year) <= 2025 for year in place("independent_from", 2))


def test_a_country_became_independent_in_one_year() -> None:
    assert len({(row[0], row[2]) for row in rows("independent_from")}) == len(place("independent_from", 0))


def test_attributes() -> None:
    assert set(KB.attributes) == {"area", "population"}


@pytest.mark.parametrize("attribute", ["area", "population"])
def test_attribute_of_every_country_is_positive(attribute: str) -> None:
    assert {country for country, value in values(attribute).items() if value > 0} == of("country")


@pytest.mark.parametrize(("attribute", "least", "most"), [("area", 1.3e8, 1.5e8), ("population", 7.9e9, 8.2e9)])
def test_total_of_the_world(attribute: str, least: float, most: float) -> None:
    assert least <= sum(values(attribute).values()) <= most


@pytest.mark.parametrize(
    ("attribute", "greatest"), [("area", "russia canada china"), ("population", "india china united_states")]
)
def test_greatest_countries(attribute: str, greatest: str) -> None:
    found = values(attribute)
    assert sorted(found, key=found.__getitem__, reverse=True)[:3] == greatest.split()


@pytest.mark.parametrize(("relation", "objects"), KNOWN)
def test_known_fact(relation: str, objects: str) -> None:
    assert tuple(objects.split()) in rows(relation)


@pytest.mark.parametrize(("relation", "objects"), KNOWN_FALSE)
def test_known_falsehood(relation: str, objects: str) -> None:
    assert tuple(objects.split()) not in rows(relation)

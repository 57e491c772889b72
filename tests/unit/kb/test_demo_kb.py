"""The bundled knowledge base of countries agrees with itself and with the atlas."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files

import pytest

import gaifman

KB = gaifman.demo()

TYPES = (
    "city confederation continent country currency former_state games lake landscape language language_family "
    "mountain_range organisation region religion river script sea side strait time_zone year"
)

PLACES = {
    "landlocked": ("country",),
    "monarchy": ("country",),
    "arm_of": ("sea", "sea"),
    "borders": ("country", "country"),
    "capital": ("country", "city"),
    "city_in": ("city", "country"),
    "city_on": ("city", "lake river sea"),
    "coast_on": ("country", "sea"),
    "drives_on": ("country", "side"),
    "flows_through": ("river", "country"),
    "former_colony_of": ("country", "country"),
    "in_family": ("language", "language_family"),
    "in_time_zone": ("country", "time_zone"),
    "landscape_in": ("landscape mountain_range", "country"),
    "largest_city": ("country", "city"),
    "located_in": ("country", "region"),
    "majority_religion": ("country", "religion"),
    "member_of": ("country", "organisation"),
    "native_to": ("language", "country"),
    "official_language": ("country", "language"),
    "part_of": ("region", "continent"),
    "plays_football_in": ("country", "confederation"),
    "seat_in": ("organisation", "city"),
    "shore_on": ("country", "lake"),
    "uses_currency": ("country", "currency"),
    "was_part_of": ("country", "former_state"),
    "written_in": ("language", "script"),
    "hosted_games": ("city", "games", "year"),
    "independent_from": ("country", "country", "year"),
    "separates": ("lake mountain_range river strait", "country", "country"),
}
"""What stands in each place of a relation: one type, or one of several."""

SIZES = {
    "african_union": 54,  # of 55: Western Sahara is not listed
    "alliance_of_sahel_states": 3,
    "amazon_cooperation_treaty_organization": 8,
    "andean_community": 4,
    "apec": 20,  # of 21: Hong Kong is not listed
    "arab_league": 22,
    "arab_maghreb_union": 5,
    "arctic_council": 8,
    "asean": 10,
    "association_of_caribbean_states": 25,
    "baltic_assembly": 3,
    "benelux": 3,
    "bimstec": 7,
    "black_sea_economic_cooperation": 13,
    "brics": 10,
    "caricom": 14,  # of 15: Montserrat is not listed
    "cefta": 7,
    "celac": 33,
    "central_african_economic_and_monetary_community": 6,
    "central_american_integration_system": 8,
    "collective_security_treaty_organization": 6,
    "comesa": 21,
    "commonwealth_of_independent_states": 9,
    "commonwealth_of_nations": 56,
    "community_of_portuguese_language_countries": 9,
    "council_of_europe": 46,
    "council_of_the_baltic_sea_states": 10,  # of 11: the European Union is no country
    "cptpp": 12,
    "east_african_community": 8,
    "eccas": 11,
    "economic_cooperation_organization": 10,
    "ecowas": 12,  # Burkina Faso, Mali and Niger left on 29 January 2025
    "efta": 4,
    "eurasian_economic_union": 5,
    "european_union": 27,
    "eurozone": 20,
    "five_eyes": 5,
    "g20": 19,  # the European Union and the African Union are no countries
    "g7": 7,
    "gulf_cooperation_council": 6,
    "igad": 8,
    "la_francophonie": 53,  # of 56: Quebec, New Brunswick and Wallonia-Brussels are no countries
    "mano_river_union": 4,
    "mekong_river_commission": 4,
    "mercosur": 6,
    "nato": 32,
    "nile_basin_initiative": 10,
    "nordic_council": 5,
    "oecd": 38,
    "opec": 12,
    "organisation_of_eastern_caribbean_states": 6,  # of 7: Montserrat is not listed
    "organisation_of_islamic_cooperation": 57,
    "organization_of_american_states": 34,
    "organization_of_turkic_states": 5,
    "osce": 57,
    "pacific_alliance": 4,
    "pacific_islands_forum": 14,  # of 18: four members are not sovereign
    "quad": 4,
    "saarc": 8,
    "schengen_area": 29,
    "shanghai_cooperation_organisation": 10,
    "southern_african_customs_union": 5,
    "southern_african_development_community": 16,
    "three_seas_initiative": 13,
    "united_nations": 193,
    "visegrad_group": 4,
    "west_african_economic_and_monetary_union": 8,
    "world_trade_organization": 163,  # of 166: Hong Kong, Macau and the European Union are not listed
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
    ("arm_of", "black_sea mediterranean_sea"),
    ("borders", "haiti dominican_republic"),
    ("capital", "australia canberra"),
    ("capital", "brazil brasilia"),
    ("capital", "kazakhstan astana"),
    ("city_on", "cologne rhine"),
    ("coast_on", "bosnia_and_herzegovina adriatic_sea"),
    ("drives_on", "japan left"),
    ("drives_on", "samoa left"),
    ("flows_through", "danube serbia"),
    ("former_colony_of", "indonesia netherlands"),
    ("hosted_games", "sarajevo winter_olympics 1984"),
    ("independent_from", "south_sudan sudan 2011"),
    ("in_time_zone", "nepal utc_plus_5_45"),
    ("landlocked", "ethiopia"),
    ("landscape_in", "patagonia chile"),
    ("largest_city", "turkey istanbul"),
    ("located_in", "cyprus western_asia"),
    ("majority_religion", "senegal islam"),
    ("member_of", "finland nato"),
    ("member_of", "rwanda la_francophonie"),
    ("native_to", "catalan spain"),
    ("official_language", "suriname dutch"),
    ("plays_football_in", "kazakhstan uefa"),
    ("seat_in", "nato brussels"),
    ("separates", "pyrenees france spain"),
    ("separates", "rio_grande mexico united_states"),
    ("uses_currency", "ecuador us_dollar"),
    ("was_part_of", "estonia soviet_union"),
    ("written_in", "serbian cyrillic_script"),
]

KNOWN_FALSE = [
    ("borders", "chile ecuador"),
    ("borders", "india sri_lanka"),
    ("borders", "north_macedonia turkey"),
    ("capital", "turkey istanbul"),
    ("coast_on", "serbia adriatic_sea"),
    ("former_colony_of", "ethiopia italy"),
    ("in_time_zone", "spain utc_0"),
    ("member_of", "algeria la_francophonie"),
    ("member_of", "norway european_union"),
    ("member_of", "switzerland nato"),
    ("plays_football_in", "israel afc"),
    ("uses_currency", "denmark euro"),
    ("was_part_of", "finland soviet_union"),
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
    assert len((files("gaifman") / "data" / "countries.facts").read_bytes()) <= 350_000


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
        ("in_time_zone", "country"),
        ("located_in", "country"),
        ("part_of", "region"),
    ],
)
def test_each_has_exactly_one(relation: str, kind: str) -> None:
    assert Counter(row[0] for row in rows(relation)) == dict.fromkeys(of(kind), 1)


@pytest.mark.parametrize("relation", ["official_language", "uses_currency"])
def test_each_country_has_one_or_more(relation: str) -> None:
    assert place(relation, 0) == of("country")


@pytest.mark.parametrize("relation", ["majority_religion", "plays_football_in"])
def test_each_country_has_one_at_most(relation: str) -> None:
    assert len(place(relation, 0)) == len(rows(relation))


def test_countries_without_a_fifa_member() -> None:
    small = "federated_states_of_micronesia kiribati marshall_islands monaco nauru palau tuvalu vatican_city"
    assert of("country") - place("plays_football_in", 0) == {*small.split(), "united_kingdom"}


def test_confederations_have_their_members() -> None:
    """Of 211 associations 23 are of territories, and of the four parts of the United Kingdom."""
    sizes = {"afc": 43, "caf": 54, "concacaf": 25, "conmebol": 10, "ofc": 7, "uefa": 49}
    assert Counter(confederation for _, confederation in rows("plays_football_in")) == sizes


def test_every_living_language_has_a_home_and_a_script() -> None:
    assert of("language") - place("native_to", 0) == {"latin"}
    assert of("language") - place("written_in", 0) == {"fiji_hindi"}


@pytest.mark.parametrize(("relation", "at"), [("capital", 1), ("largest_city", 0), ("largest_city", 1)])
def test_none_occurs_twice(relation: str, at: int) -> None:
    assert len(place(relation, at)) == len(rows(relation))


@pytest.mark.parametrize("relation", ["capital", "largest_city"])
def test_cities_of_a_country_lie_in_it(relation: str) -> None:
    assert swapped(relation) <= rows("city_in")


def test_cities_lie_on_waters_of_their_country() -> None:
    country = {fact.objects[0]: fact.objects[1] for fact in KB.facts("city_in")}
    near = rows("flows_through") | swapped("coast_on") | swapped("shore_on")
    assert {(water, country[city]) for city, water in rows("city_on")} <= near


def test_an_organisation_has_one_seat() -> None:
    assert len(place("seat_in", 0)) == len(rows("seat_in"))


@pytest.mark.parametrize("relation", ["borders", "separates"])
def test_symmetric(relation: str) -> None:
    assert rows(relation) == swapped(relation)


def test_former_colonies_and_years_of_independence_agree() -> None:
    """The others became independent of a neighbour, or of one of two rulers."""
    rest = {(row[0], row[1]) for row in rows("independent_from")} - rows("former_colony_of")
    others = "bangladesh eritrea finland norway panama singapore south_sudan sudan"
    assert {one for one, _ in rest} == {*others.split()}


def test_separated_by_a_range_lies_in_both() -> None:
    assert {row[:2] for row in separated_by("mountain_range")} <= rows("landscape_in")


def test_a_sea_is_an_arm_of_one_other() -> None:
    assert len(place("arm_of", 0)) == len(rows("arm_of"))
    assert of("sea") - place("arm_of", 0) == {
        "arafura_sea",
        "arctic_ocean",
        "atlantic_ocean",
        "indian_ocean",
        "norwegian_sea",
        "pacific_ocean",
    }


@pytest.mark.parametrize("relation", ["arm_of", "borders", "former_colony_of", "independent_from", "separates"])
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
        ("baltic_assembly", "three_seas_initiative"),
        ("benelux", "eurozone"),
        ("council_of_europe", "osce"),
        ("european_union", "council_of_europe"),
        ("european_union", "world_trade_organization"),
        ("eurasian_economic_union", "commonwealth_of_independent_states"),
        ("eurozone", "european_union"),
        ("g7", "g20"),
        ("g7", "oecd"),
        ("gulf_cooperation_council", "arab_league"),
        ("organisation_of_eastern_caribbean_states", "caricom"),
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

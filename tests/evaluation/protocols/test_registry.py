"""All named protocols: the names that papers and scripts rely on, and what every one of them must say."""

from importlib import import_module
from pathlib import Path

import pytest

from samespot.errors import InputError
from samespot.evaluation import protocols
from samespot.evaluation.protocols import list_protocols, protocol_named
from samespot.places.catalogue import DATA_SETS

PROMISED = [
    *(
        "msls-val",
        "msls-val-740",
        "msls-val-40deg",
        "msls-test",
        "pitts30k-test",
        "pitts250k-test",
        "tokyo247",
    ),
    *("tokyotm-val", "robotcar-seasons-v2", "cmu-seasons-extended", "cmu-seasons", "tb-places-w17-w18"),
    *("tb-places-w18", "7scenes", "campus-east"),
]

PROTOCOLS = {protocol.name: protocol for protocol in list_protocols()}


@pytest.mark.parametrize("name", PROMISED)
def test_every_promised_protocol_is_there(name):
    assert protocol_named(name).name == name


def test_every_file_is_a_family_and_no_name_is_taken_twice():
    """A file that no record of a data set names would be forgotten."""
    files = {path.stem for path in Path(protocols.__file__).parent.glob("*.py")} - {"__init__", "tables"}
    names = [
        protocol.name
        for file in files
        for protocol in import_module(f"{protocols.__name__}.{file}").PROTOCOLS
    ]
    assert sorted(names) == sorted(PROTOCOLS)


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_each_default_of_an_option_is_said(name):
    defaults = PROTOCOLS[name].option_defaults()
    assert list(defaults) == list(PROTOCOLS[name].options)
    for words in defaults.values():
        assert words.strip() not in ("", "None")


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_each_says_all_that_a_number_depends_on(name):
    protocol = PROTOCOLS[name]
    for words in (
        protocol.title,
        protocol.queries,
        protocol.positive,
        protocol.exclusions,
        protocol.citation,
    ):
        assert words.strip()
        assert "\n" not in words
    assert protocol.data_set in {"places", "town", *(known.name for known in DATA_SETS)}
    assert protocol.ks == tuple(sorted(protocol.ks))
    assert bool(protocol.limits) == (protocol.truth == "pose")


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_an_empty_folder_is_told_in_one_line(name, tmp_path):
    with pytest.raises(InputError) as error:
        PROTOCOLS[name].cases(tmp_path)
    assert "\n" not in str(error.value)


def test_an_unknown_protocol_is_answered_with_those_there_are():
    with pytest.raises(
        InputError, match="protocol 'msls' is unknown; choose one of msls-val, msls-val-40deg"
    ):
        protocol_named("msls")

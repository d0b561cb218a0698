"""Bilingual dictionaries: translation of names, file formats."""

import gzip
import json

import pytest

from sparseleaf.data import Dictionary, LabelInfo

WORDS = Dictionary({
    "Arbeit": ["work", "labour", "job"],
    "Markt": "market",
    "Marktplatz": ["marketplace"],
    "Platz": ("place", "square"),
    "sozial": "social",
    "erneuerbare Energie": "renewable energy",
    "und": ["and"],
})  # fmt: skip

DING = """# a comment :: not an entry
Arbeit {f}; Tätigkeit {f} [adm.] | Arbeiten {pl} :: work (at a place); activity | works
arbeiten {v} :: to work
Markt {m} | Märkte {pl} :: market; fair | markets

Arbeit {f} :: labour [Br.]; labor [Am.] /ˈleɪbə/
"""


def written(folder, name, text):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "translations"),
    [
        ("Arbeit", ["work", "labour", "job"]),
        ("ARBEIT (Physik)", ["work", "labour", "job"]),
        ("Markt <Leipzig>", ["market"]),
        ("Erneuerbare Energien", ["renewable energy"]),  # a phrase without its ending
        ("Soziale Arbeit", ["social work", "social labour"]),  # at most two translations of a word
        ("Arbeitsmarkt", ["work market", "labour market"]),
        ("Marktplatz", ["marketplace"]),  # as a whole rather than by its parts
        ("Arbeitsmarktplatz", ["work marketplace", "labour marketplace"]),
        ("Arbeitsplatz", ["work place", "work square"]),
        ("Arbeit und Markt", ["work and market", "labour and market"]),
        ("Arbeitslosigkeit", []),  # an unknown part
        ("Soziale Politik", []),  # an unknown word
        ("Arbeit, Sozial", []),  # an inverted name
        ("Arbeit Arbeit Arbeit Arbeit Arbeit Arbeit", []),  # too many words
        ("", []),
        ("1900-1950", []),
        ("(Physik)", []),
    ],
)
def test_names_are_translated(name, translations):
    assert WORDS.translate(name) == translations


def test_composed_words_have_the_fewest_linking_characters_and_the_longest_shorter_part():
    words = Dictionary(
        {"raum": "space", "raumf": "1", "fahrt": "travel", "raumfa": "2", "fahrtziel": "3", "ziel": "4"}
    )
    assert words.translate("raumfahrt") == ["space travel"]
    assert words.translate("raumfahrtziel") == ["space 3"]


def test_translations_are_names_of_the_same_labels():
    info = LabelInfo({"a": ["Markt", "market"], "b": "Unbekanntes", 3: "Sozialarbeit"}, {"a": "b"})
    assert info.translated(WORDS) == LabelInfo(
        {"a": ["Markt", "market"], "b": "Unbekanntes", 3: ["Sozialarbeit", "social work", "social labour"]},
        {"a": "b"},
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("d.tsv", "word\ttranslation\n# comment\nArbeit {f}\twork [of art]\nArbeit\tlabour\tnoun\n\nMarkt\tmarket\n"),
        ("d.txt.gz", "Arbeit\twork\r\nArbeit\tlabour\r\nMarkt\tmarket\r\n"),
        ("d.csv", "Arbeit,work\nArbeit,labour\nMarkt,market\n"),
        ("d.json", json.dumps({"Arbeit": ["work", "labour"], "Markt": "market"})),
    ],
)  # fmt: skip
def test_dictionaries_are_read_from_files(tmp_path, name, text):
    words = Dictionary.read(written(tmp_path, name, text))
    assert [words.translate(word) for word in ("Arbeit", "Markt", "Word")] == [
        ["work", "labour"],
        ["market"],
        [],
    ]


@pytest.mark.parametrize("name", ["de-en", "de-en.txt", "de-en.gz"])
def test_dings_format(tmp_path, name):
    words = Dictionary.read(written(tmp_path, name, DING))
    # first places before others; a form of a word has the form of the translation
    assert words.translate("Arbeit") == ["work", "labour", "activity", "labor"]
    assert words.translate("Tätigkeit") == ["work", "activity"]
    assert words.translate("Märkte") == ["markets"]
    assert words.translate("arbeiten") == ["work", "works"]
    assert words.translate("not an entry") == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("d.tsv", "Arbeit\twork\n# no\nMarkt\n", "line 3: expected a word and a translation in two columns"),
        ("d.tsv", "\n# nothing\n", "the file has no translations"),
        ("d.tsv", "{f}\t[x]\n", "the file has no translations"),
        ("d.json", "[]", "expected a JSON object"),
        ("d.json", '{"a": [{}]}', "expected text, or a list of texts"),
    ],
)
def test_bad_files(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        Dictionary.read(written(tmp_path, name, text))


def test_bad_encodings(tmp_path):
    (tmp_path / "d.tsv").write_bytes(b"Arbeit\t\xff\n")
    with pytest.raises(ValueError, match="not valid UTF-8"):
        Dictionary.read(tmp_path / "d.tsv")


@pytest.mark.parametrize(
    ("translations", "message"),
    [
        (["a"], "must be a mapping by word"),
        ({"a": 1}, "must have str or a list of str for each word. Got 1 for 'a'"),
        ({1: "a"}, "must have str or a list of str for each word"),
        ({"a": ["b", None]}, "translations of type str"),
    ],
)
def test_bad_values(translations, message):
    with pytest.raises(ValueError, match=message):
        Dictionary(translations)


def test_a_name_of_a_qualifier_alone_has_no_translation():
    dictionary = Dictionary({"Arbeit": ["work"], "": "nothing"})
    assert dictionary.translate("(Film)") == dictionary.translate("") == []

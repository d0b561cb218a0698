"""Names and hierarchies of labels: validation and file formats."""

import gzip
import json

import numpy as np
import pytest

from sparseleaf.data import LabelInfo, encode_targets
from sparseleaf.data.label_info import with_labels_of

SKOS = "http://www.w3.org/2004/02/skos/core#"
NT = f"""# a comment
<http://x.org/a> <{SKOS}prefLabel> "Fachwerk \\"alt\\" \\u00e4"@de .
<http://x.org/a> <{SKOS}altLabel> "timber frame"@en-GB .
<http://x.org/a> <{SKOS}broader> <http://x.org/b#c> .
<http://x.org/a> <{SKOS}notation> "A1"^^<http://x.org/type> .
<http://x.org/b#c> <{SKOS}prefLabel> "buildings" . # the end
<http://x.org/b#c> <{SKOS}narrower> <http://x.org/d> .
<http://x.org/b#c> <{SKOS}related> _:blank .
_:blank <{SKOS}prefLabel> "nothing" .

<http://x.org/d> <http://x.org/other> "no name" .
"""


def written(folder, name, text):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_values_become_tuples_without_repetitions():
    info = LabelInfo({"a": "x", "b": ["y", "z", "y"], 3: ()}, {"a": ["b", "c"], np.int64(3): np.int64(4)})
    assert info.names == {"a": ("x",), "b": ("y", "z"), 3: ()}
    assert info.broader == {"a": ("b", "c"), 3: (4,)}
    assert info.labels == {"a", "b", 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["a"]}, "The 'names' parameter must be a mapping by label"),
        ({"names": {"a": 1}}, "must have str or a list of str for 'a'. Got 1 instead"),
        ({"names": {"a": [None]}}, "must have str or a list of str"),
        ({"names": {1.5: "x"}}, "labels of type str or int. Got 1.5"),
        ({"names": {True: "x"}}, "labels of type str or int. Got True"),
        ({"broader": {"a": [2.0]}}, "a label or a list of labels"),
    ],
)
def test_bad_values_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        LabelInfo(**arguments)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.tsv", 'label\tname\na\tx\na\t"y"\n\nb\tz\tmore\n'),
        ("names.txt", '\ufeffa\tx\r\na\t"y"\r\nb\tz\r\n'),
        ("names.csv", 'Label,Name\na,x\na,"""y"""\nb,z\n'),
        ("names.json", json.dumps({"a": ["x", '"y"'], "b": "z"})),
        ("names.json.gz", json.dumps({"a": ["x", '"y"'], "b": "z"})),
        ("names.jsonl", '{"label": "a", "name": ["x", "\\"y\\""]}\n\n{"label": "b", "name": "z"}\n'),
    ],
)
def test_names_are_read_from_files(tmp_path, name, text):
    info = LabelInfo.read(written(tmp_path, name, text))
    assert info == LabelInfo({"a": ["x", '"y"'], "b": "z"})


def test_hierarchies_are_read_from_a_second_file_and_from_json_lines(tmp_path):
    names = written(tmp_path, "names.tsv", "1\tx\n2\ty\n")
    info = LabelInfo.read(names, written(tmp_path, "broader.csv", "1,2\n1,3\n"))
    assert info == LabelInfo({"1": "x", "2": "y"}, {"1": ["2", "3"]})
    lines = written(
        tmp_path, "names.ndjson", '{"label": 1, "name": "x", "broader": [2, 3]}\n{"label": 2, "name": "y"}'
    )
    assert LabelInfo.read(lines) == info
    assert info.of_type(int) == LabelInfo({1: "x", 2: "y"}, {1: [2, 3]})


def test_n_triples(tmp_path):
    path = written(tmp_path, "subjects.nt", NT)
    a, c, d = "http://x.org/a", "http://x.org/b#c", "http://x.org/d"
    names = {a: ['Fachwerk "alt" ä', "timber frame"], c: "buildings"}
    assert LabelInfo.read(path) == LabelInfo(names, {a: c, d: c})
    assert LabelInfo.read(path, key="last").broader == {"a": ("c",), "d": ("c",)}
    assert LabelInfo.read(path, key="notation").broader == {"A1": (c,), d: (c,)}
    with pytest.raises(ValueError, match=r"The 'key' parameter must be one of \{'uri', 'notation', 'last'\}"):
        LabelInfo.read(path, key="name")


def test_turtle_and_rdf_are_read_with_rdflib(tmp_path):
    rdflib = pytest.importorskip("rdflib")
    graph = rdflib.Graph().parse(data=NT, format="nt")
    wanted = LabelInfo.read(written(tmp_path, "subjects.nt", NT))
    for suffix, kind in ((".ttl", "turtle"), (".rdf", "xml")):
        path = written(tmp_path, f"subjects{suffix}", graph.serialize(format=kind))
        assert LabelInfo.read(path) == wanted
    with pytest.raises(ValueError, match="invalid RDF"):
        LabelInfo.read(written(tmp_path, "bad.ttl", "<a> <b"))


def test_without_rdflib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdflib", None)
    with pytest.raises(ImportError, match=r"sparseleaf\[skos\]"):
        LabelInfo.read(written(tmp_path, "subjects.ttl", ""))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "a\tx\nb\n", r"line 2: expected a label and a name"),
        ("a.tsv", "\tx\n", r"line 1: expected a label and a name"),
        ("a.tsv", "", "no label names"),
        ("a.csv", 'a,"x\n' + "y" * 200_000, "line"),
        ("a.json", "[1]", "expected a JSON object"),
        ("a.json", '{"a": 1.5}', "expected text, or a list of texts"),
        ("a.json", '{"a": ', "invalid JSON"),
        ("a.json", "[" * 100_000, "invalid JSON"),
        ("a.jsonl", '{"name": "x"}', "line 1: expected a JSON object with the fields"),
        ("a.jsonl", '{"label": "a", "name": {}}', "line 1: expected text"),
        ("a.nt", '<a> <b> "c .', "line 1: expected a statement"),
        ("a.nt", '<a> <b> "c" .', "no SKOS concepts"),
    ],
)
def test_bad_files_are_refused(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        LabelInfo.read(written(tmp_path, name, text))


def test_text_that_is_not_unicode_is_refused(tmp_path):
    for name in ("a.tsv", "a.nt"):
        (tmp_path / name).write_bytes(b"a\t\xff\n")
        with pytest.raises(ValueError, match="not valid UTF-8"):
            LabelInfo.read(tmp_path / name)


def test_lists_of_labels_get_the_labels_of_the_information():
    targets, info = with_labels_of(
        LabelInfo({"a": "x", "c": "y"}, {"d": "a"}), encode_targets([["b"], ["c", "b"]])
    )
    assert targets.names.tolist() == ["a", "b", "c", "d"]
    assert targets.matrix.toarray().tolist() == [[0, 1, 0, 0], [0, 1, 1, 0]]
    assert info.labels == {"a", "c", "d"}
    targets, info = with_labels_of(LabelInfo({"5": "x", "7": "y"}), encode_targets([[7], [9, 12]]))
    assert targets.names.tolist() == [5, 7, 9, 12]
    assert info.names == {5: ("x",), 7: ("y",)}


def test_columns_of_a_matrix_are_all_labels():
    given = encode_targets(np.array([[0, 1, 0], [1, 1, 0]]))
    targets, info = with_labels_of(LabelInfo({2: "x"}), given)
    assert targets is given
    assert info.names == {2: ("x",)}


def test_information_that_does_not_fit_the_targets_is_refused():
    lists = encode_targets([["b"], ["c", "b"]])
    with pytest.raises(ValueError, match=r"must have labels of y, such as 'b'\. Got 'x' and other labels"):
        with_labels_of(LabelInfo({"x": "b"}), lists)
    with pytest.raises(ValueError, match="must have labels of y"):
        with_labels_of(LabelInfo(), lists)
    with pytest.raises(ValueError, match="one class per row"):
        with_labels_of(LabelInfo({"b": "x"}), encode_targets(["b", "c"]))
    with pytest.raises(ValueError, match="labels of one type"):
        with_labels_of(LabelInfo({"b": "x", 4: "y"}), lists)
    with pytest.raises(ValueError, match="labels of type int"):
        with_labels_of(LabelInfo({"b": "x"}), encode_targets([[7], [9, 12]]))

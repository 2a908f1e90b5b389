from __future__ import annotations

import gzip
import io
import sys
import traceback
import zipfile

import numpy as np
import pytest

from dpoco.datasets import (
    Coding,
    FileFormat,
    PublicScaling,
    Schema,
    chunks,
    load_file,
    open_table,
    read_people,
)
from dpoco.evaluation import load_logged_bandit

GENERATOR = np.random.default_rng(11)
FEATURES = GENERATOR.normal(size=(40, 3))
LABELS = (GENERATOR.random(40) < 0.5).astype(float)


def write(path, features=FEATURES, labels=LABELS):
    names = ["a", "b", "y", "c"]
    table = np.column_stack([features[:, :2], labels, features[:, 2]])
    lines = [",".join(names)] + [",".join(repr(float(v)) for v in row) for row in table]
    text = "\n".join(lines) + "\n"
    name = path.name
    if name.endswith(".csv"):
        path.write_text(text)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    elif name.endswith(".parquet"):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.table(dict(zip(names, table.T, strict=True))), path)
    else:
        np.savez(path, **dict(zip(names, table.T, strict=True)))
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.npz", "T.CSV"])
def test_formats_round_trip_bit_for_bit(tmp_path, name):
    path = (
        write(tmp_path / name)
        if name != "T.CSV"
        else write(tmp_path / "t.csv").rename(tmp_path / name)
    )
    loaded = load_file(path, label="y")
    assert loaded.feature_names == ("a", "b", "c")
    assert np.array_equal(loaded.features, FEATURES)
    assert np.array_equal(loaded.labels, LABELS)
    assert loaded.task == "classification"


def test_columns_are_chosen_in_the_order_asked(tmp_path):
    loaded = load_file(write(tmp_path / "t.csv"), label="y", features=["c", "a"], task="regression")
    assert np.array_equal(loaded.features, FEATURES[:, [2, 0]])


def test_scalings_are_applied(tmp_path):
    loaded = load_file(
        write(tmp_path / "t.csv"),
        label="y",
        scaling=PublicScaling(-2.0, 2.0),
        label_scaling=PublicScaling(0.0, 1.0),
    )
    np.testing.assert_allclose(loaded.features[:, :3], np.clip(FEATURES / 2.0, -1, 1), atol=1e-15)
    assert loaded.feature_names[-1] == "constant"
    assert set(loaded.labels) == {-1.0, 1.0}
    assert "[-2, 2]" in loaded.scaling


def test_two_dimensional_arrays_become_columns(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=FEATURES, y=LABELS.astype(bool))
    loaded = load_file(path, label="y")
    assert loaded.feature_names == ("X0", "X1", "X2")
    assert np.array_equal(loaded.features, FEATURES)
    assert np.array_equal(loaded.labels, LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "a,y\n1,0\n,1\n3,1\n",  # an empty cell
        "a,y\n1,0\nnan,1\n3,1\n",
        '"a","y"\n"1","0"\n"",1\n3,1\n',
        "\ufeffa,y\r\n1,0\r\n,1\r\n3,1\r\n",
        "a,y\n1,0\n,1\n\n3,1",
    ],
)
def test_missing_cells_are_nan(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8", newline="")
    loaded = load_file(path, label="y")
    np.testing.assert_array_equal(loaded.features[:, 0], [1.0, np.nan, 3.0])
    assert loaded.labels.tolist() == [0.0, 1.0, 1.0]


def test_parquet_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    columns = {
        "i": pa.array([1, None, 3], pa.int32()),
        "f": pa.array([0.5, 1.5, 2.5], pa.float32()),
        "y": pa.array([True, False, True]),
        "s": pa.array(["u", "v", "w"]),
    }
    pq.write_table(pa.table(columns), path)
    loaded = load_file(path, label="y", features=["i", "f"])
    np.testing.assert_array_equal(loaded.features, [[1.0, 0.5], [np.nan, 1.5], [3.0, 2.5]])
    assert loaded.labels.tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="column 's' is not numeric"):
        load_file(path, label="y")


SPREADSHEETS = {  # the same four records: 1.5, missing; 1, 0, 1, missing
    "semicolons and decimal commas": "\ufeffa;y\n1,5;yes\nNA;no\n1,5;Yes\n;\n",
    "commas": "a,y\n1.5,true\nnan,FALSE\n1.5,True\n,?\n",
    "quoted": '"a","y"\r\n"1.5","Y"\r\n"n/a","n"\r\n"1.5","1"\r\n"-",null\r\n',
    "tabs": "a\ty\n1.5\t1\n\t0\n1.5\t1\n#N/A\tNone\n",
    "a number with a point": "a;y\n1.5;1.0\n?;0\n1,50;1,0\nNA;NA\n",
}


@pytest.mark.parametrize("text", SPREADSHEETS.values(), ids=SPREADSHEETS)
def test_files_of_spreadsheets(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    for given in (path, io.StringIO(text.lstrip("\ufeff"))):
        stream = load_file(given, label="y")
        np.testing.assert_array_equal(stream.features[:, 0], [1.5, np.nan, 1.5, np.nan])
        np.testing.assert_array_equal(stream.labels, [1.0, 0.0, 1.0, np.nan])
        kinds = open_table(given).kinds()
        assert kinds["a"] == "numbers"
        words = "yes" in text or "true" in text
        assert kinds["y"] == ("yes or no" if words else "0 or 1")


def test_kinds_of_columns_and_files_in_a_row(tmp_path):
    (tmp_path / "1.csv").write_text("who,a,gone,y\nann,1,NA,no\nbob,2,,yes\n")
    (tmp_path / "2.csv").write_text("y,gone,a,who\nno,?,3,cid\n")
    (tmp_path / "3.csv").write_text("y,a,who\nno,3,cid\n")
    both = [tmp_path / "1.csv", tmp_path / "2.csv"]
    kinds = {"who": "text", "a": "numbers", "gone": "nothing", "y": "yes or no"}
    assert open_table(both).kinds() == kinds
    stream = load_file(both, label="y", features=["a"])
    assert stream.features[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert stream.name == "1.csv and 1 more file"
    assert load_file(both[1], label="y", features=["a"], fewest=1).labels.tolist() == [0.0]
    with pytest.raises(ValueError, match=r"3.csv has other columns than 1.csv"):
        load_file([*both, tmp_path / "3.csv"], label="y", features=["a"])
    with pytest.raises(ValueError, match="at least one file"):
        open_table([])


BAD_CSV = {
    "empty file": ("", "is empty"),
    "header only": ("a,y\n", "0 rows"),
    "one row": ("a,y\n1,0\n", "1 rows"),
    "missing label": ("a,b\n1,0\n2,1\n", "no column 'y' among its 2: a, b$"),
    "only the label": ("y\n1\n0\n", "no feature column"),
    "text": ("a,y\n1,0\nsecret,1\n", "row 3: column 'a' is not numeric"),
    "text label": ("a,y\n1,0\n2,secret\n", "row 3: column 'y' is not numeric"),
    "short row": ("a,b,y\n1,2,0\nsecret,1\n", "row 3: expected 3 cells"),
    "long row": ("a,b,y\n1,2,0\n3,4,1,9\n", "row 3: expected 3 cells"),
    "twice": ("a,a,y\n1,2,0\n3,1,1\n", "several columns of the same name"),
    "twice among others": ("a,b,a,y\n1,5,2,0\n3,6,1,1\n", "several columns of the same name"),
    "a code, to Python a number": ("a,y\n1_2,0\n34,1\n", "row 2: column 'a' is not numeric"),
    "a scaling of other columns": ("a,b,y\n1,2,0\n3,4,1\n", "3 columns; got 2"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv_is_refused_without_showing_data(tmp_path, case):
    text, message = BAD_CSV[case]
    path = tmp_path / "t.csv"
    path.write_text(text)
    scaling = PublicScaling([0.0] * 3, [9.0] * 3) if "scaling" in case else None
    with pytest.raises(ValueError, match=message) as caught:
        load_file(path, label="y", scaling=scaling)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_cells_that_are_not_read_are_counted(tmp_path):
    path = tmp_path / "t.csv"
    for row, found in (("4,5,x,z", None), ("4,5", None), ('4,5,"x,z"', 5.0)):
        path.write_text(f"a,b,c\n1,2,x\n{row}\n")
        if found is None:
            with pytest.raises(ValueError, match="row 3: expected 3 cells"):
                load_file(path, label="b", features=["a"])
        else:
            assert load_file(path, label="b", features=["a"]).labels[1] == found


ODD = {  # files of the columns a and y, with the records 1, 0 and 2, 1
    "empty lines on top": b"\n \n\na,y\n1,0\n2,1\n",
    "a mark, and another encoding declared": "\ufeffa,y\n1,0\n2,1\n".encode(),
    "a quoted line for Excel": b'"sep=;"\na;y\n1;0\n2;1\n',
    "packed": gzip.compress("\ufeffa,y\n1,0\n2,1\n".encode()),
    "UTF-16": "a\ty\n1\t0\n2\t1\n".encode("utf-16"),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_odd_files_of_colleagues(tmp_path, data):
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    # What comes through a pipe is read alike.
    for given in (path, io.BytesIO(data)):
        stream = load_file(given, label="y", file_format=FileFormat(encoding="latin-1"))
        assert stream.feature_names == ("a",)
        assert stream.features[:, 0].tolist() == [1.0, 2.0]
        assert stream.labels.tolist() == [0.0, 1.0]
    (part,) = chunks(path, label="y", file_format=FileFormat(encoding="latin-1"))
    assert part.features.tolist() == [[1.0], [2.0]]


def test_a_quote_that_is_not_closed_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b,y\n1,"secret,0\n' + "2,x,1\n" * 30_000)
    with pytest.raises(ValueError, match="is a quote not closed") as caught:
        load_file(path, label="y", features=["a"])
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_a_text_that_begins_with_a_mark():
    assert open_table(io.StringIO("\ufeffa,y\n1,0\n")).names == ["a", "y"]


def test_an_archive_of_macos_holds_one_table(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("t.csv", "a,y\n1,0\n2,1\n")
        archive.writestr("__MACOSX/._t.csv", b"\0\5\x16\7")
    assert load_file(tmp_path / "t.csv.zip", label="y").features.tolist() == [[1.0], [2.0]]


def test_arrays_of_one_name(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones((2, 2)), X0=np.arange(2.0), y=np.arange(2.0))
    with pytest.raises(ValueError, match="2 times 'X0'"):
        load_file(tmp_path / "t.npz", label="y")


def test_long_codes_are_different_categories(tmp_path):
    codes = ["12345678901234567890", "12345678901234567891", "1_0"]
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{code},1\n" for code in codes) + "10,0\n2.0,0\n")
    stream = load_file(path, label="y", coding=Coding({"a": [*codes, "2"]}))
    rows = [*np.eye(4)[:3], np.zeros(4), np.eye(4)[3]]
    assert np.array_equal(stream.features, rows)


def test_numbers_of_people_are_those_of_files_with_gaps(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("who,y\n7.0,1\n,0\n7,1\n007,1\n7.5,0\n")
    gap, *_ = names = read_people(path, "who", alone=True)
    assert (gap, *names[2:]) == ("7", "7", "007", "7.5")


def test_one_row_of_categories_is_too_few(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\nlow,yes\n")
    with pytest.raises(ValueError, match="1 rows of data; at least 2"):
        load_file(path, label="y", coding=Coding({"a": ["low"]}, positive="yes"))


def test_texts_of_polars_are_numbers(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    if not hasattr(pa, "string_view"):
        pytest.skip("this pyarrow has no such type")
    pq.write_table(
        pa.table({"a": pa.array(["1", "NA"], pa.string_view()), "y": [0, 1]}), tmp_path / "t.pq"
    )
    stream = load_file(tmp_path / "t.pq", label="y")
    np.testing.assert_array_equal(stream.features, [[1.0], [np.nan]])


RECORDS = {  # first rows that may be records
    "integers": "1,2,0",
    "one number among texts": "secret,34,flu",
    "a missing cell": ",7,",
    "not a number": "nan,secret,NaN",
    "exponents": "secret,-1.5e-03,a",
    "a decimal comma": 'secret,"3,75",a',
    "a dot for thousands and a currency": 'secret,"€ 1.234,50",a',
    "a share": "secret,12 %,a",
    "a date": "secret,2024-02-29,a",
    "another date": "secret,29.02.2024,a",
    "a time": "secret,23:59:10,a",
    "a date and a time": "secret,2024-02-29T23:59:10.5+01:00,a",
    "a date and a time of Greenwich": "secret,2024-02-29T23:59:10Z,a",
    "digits of another script": "secret,\u0661\u0662,a",
}


@pytest.mark.parametrize("first", RECORDS.values(), ids=RECORDS)
def test_a_first_row_that_may_be_a_record_is_refused_unseen(tmp_path, first):
    path = tmp_path / "t.csv"
    path.write_text(first + "\n4,5,1\n6,7,0\n", encoding="utf-8")
    for call in (
        lambda: load_file(path, label="y"),
        lambda: open_table(path),
        lambda: load_logged_bandit(path, action="a", reward="y"),
    ):
        with pytest.raises(ValueError, match="may be a record") as caught:
            call()
        shown = "".join(traceback.format_exception(caught.value))
        assert not any(cell in shown for cell in first.replace('"', "").split(",") if len(cell) > 2)
        assert "--set header=false" in str(caught.value)


@pytest.mark.parametrize(
    "names", ["x1,_2,V3", "a b,c,2020-Q1", "1st,3D,t2m", "infant,nano,e", "rate [%],#,Σ"]
)
def test_names_with_digits_are_names(tmp_path, names):
    path = tmp_path / "t.csv"
    path.write_text(names + "\n4,5,1\n6,7,0\n", encoding="utf-8")
    assert open_table(path).names == names.split(",")


@pytest.mark.parametrize("text", ["1,2,0\n3,4,1\n", "1,2,0\n3,,1\n"])
def test_without_a_header_the_first_row_is_a_record(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    loaded = load_file(path, label="3", header=False)
    assert loaded.feature_names == ("1", "2")
    second = np.nan if ",," in text else 4.0
    np.testing.assert_array_equal(loaded.features, [[1.0, 2.0], [3.0, second]])
    assert loaded.labels.tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match=r"no column 'y' among its 3: 1, 2, 3$"):
        load_file(path, label="y", header=False)
    path.write_text("1,2,0\n")
    with pytest.raises(ValueError, match="1 rows"):
        load_file(path, label="3", header=False)


def test_years_are_names_where_the_caller_says_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("2019,2020,y\n1,2,0\n3,4,1\n")
    assert load_file(path, label="y", header=True).feature_names == ("2019", "2020")
    with pytest.raises(TypeError, match="header must be a bool or None; got str"):
        load_file(path, label="y", header="infer")
    with pytest.raises(ValueError, match="only a CSV file"):
        load_file(write(tmp_path / "t.npz"), label="y", header=False)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.npz"])
def test_garbage_is_refused(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\xff\xfe\x00garbage\x93NUMPY PK\x03\x04" * 20)
    with pytest.raises(ValueError, match=r"t\.(csv|npz|parquet)"):
        load_file(path, label="y")


def test_other_refusals(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_file(tmp_path / "none.csv", label="y")
    with pytest.raises(FileNotFoundError):
        load_file(tmp_path, label="y")
    (tmp_path / "t.xlsx").write_text("x")
    with pytest.raises(ValueError, match="format must be"):
        load_file(tmp_path / "t.xlsx", label="y")
    with pytest.raises(ValueError, match="cannot be a feature"):
        load_file(write(tmp_path / "t.csv"), label="y", features=["a", "y"])
    np.savez(tmp_path / "t.npz", a=np.ones(3), y=np.ones(4))
    with pytest.raises(ValueError, match="differ in length"):
        load_file(tmp_path / "t.npz", label="y")
    np.savez(tmp_path / "o.npz", a=np.array([None, {}]), y=np.ones(2))
    with pytest.raises(ValueError, match="plain arrays"):
        load_file(tmp_path / "o.npz", label="y")
    np.savez(tmp_path / "s.npz", a=np.array(["secret", "b"]), y=np.ones(2))
    with pytest.raises(ValueError, match="column 'a' is not numeric"):
        load_file(tmp_path / "s.npz", label="y")


def test_missing_pyarrow_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"dpoco\[files\]"):
        load_file(path, label="y")


def test_codings_of_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,fan,y\n1,low,good\n,mid,bad\n3,odd,?\n4,2.0,GOOD\n")
    coding = Coding({"fan": ["low", "2"]}, {"a": 7}, "good")
    stream = load_file(path, label="y", coding=coding)
    assert stream.feature_names == ("a", "fan=low", "fan=2")
    expected = [[1.0, 1.0, 0.0], [7.0, 0.0, 0.0], [3.0, 0.0, 0.0], [4.0, 0.0, 1.0]]
    np.testing.assert_array_equal(stream.features, expected)
    np.testing.assert_array_equal(stream.labels, [1.0, 0.0, np.nan, 0.0])
    flags = {name: values.tolist() for name, values in stream.nonprivate_flags.items()}
    assert flags == {
        "filled": [False, True, False, False], "unlisted_category": [False, True, True, False],
    }  # fmt: skip
    schema = stream.scaled(PublicScaling(-9.0, 9.0)).schema("y")
    assert schema.columns == ["a", "fan"]
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema.difference(schema) is None
    for wrong in (
        Coding({"fun": ["a"]}), Coding(missing={"b": 1.0}), Coding({"fan": ["low"]}, {"y": 1.0}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"no column '|constants of features alone"):
            load_file(path, label="y", coding=wrong)
    for categories, missing in (
        ({"a": []}, {}), ({"a": ["x", "x"]}, {}), ({"a": ["2", "2.0"]}, {}), ({"a": [""]}, {}),
        ({"a": ["x"]}, {"a": 1.0}), ({}, {"a": np.nan}), ({}, {"a": np.inf}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"categories|constant"):
            Coding(categories, missing)


def test_a_text_is_no_list_of_categories():
    with pytest.raises(TypeError, match="list of texts"):
        Coding({"fan": "low,high"})


def test_labels_of_classes_are_numbered(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,b\n2,a\n3,c\n4,\n")
    stream = load_file(path, label="y", coding=Coding({"y": ["a", "b"]}))
    np.testing.assert_array_equal(stream.labels, [1.0, 0.0, -1.0, np.nan])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "xls"}, "format must be one of"), ({"separator": ""}, "one character"),
        ({"separator": "ab"}, "one character"), ({"decimal": "."}, "decimal must be one of"),
        ({"encoding": "utf-99"}, "unknown encoding"), ({"skip_lines": -1}, "skip_lines must be"),
    ],
)  # fmt: skip
def test_formats_that_there_are_not(options, message):
    with pytest.raises(ValueError, match=message):
        FileFormat(**options)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_parts_of_files_in_other_formats(tmp_path, name):
    lines = ["a note", "a;b;y", *(f"{i},5;{i % 3};{i % 2}" for i in range(9))]
    data = "\n".join(lines).encode("utf-16")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    form = FileFormat(skip_lines=1)
    coding = Coding({"b": ["0", "2"]}, positive="1")
    whole = load_file(tmp_path / name, label="y", file_format=form, coding=coding)
    parts = list(chunks(tmp_path / name, label="y", file_format=form, coding=coding, rows=4))
    assert [len(part) for part in parts] == [4, 4, 1]
    np.testing.assert_array_equal(np.concatenate([p.features for p in parts]), whole.features)
    np.testing.assert_array_equal(np.concatenate([p.labels for p in parts]), whole.labels)
    assert whole.features[:, 0].tolist() == [i + 0.5 for i in range(9)]

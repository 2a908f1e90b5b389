"""Streams in parts: the same rounds as of the whole file, errors that name the part, recipes."""

from __future__ import annotations

import gzip
import tracemalloc

import numpy as np
import pytest

from dpoco.datasets import PublicScaling as Scaling
from dpoco.datasets import chunks, from_river, linear_regression_chunks, load_file, recipe

RANGES = {"scaling": Scaling([0.0, -1.0], [2.0, 3.0]), "label_scaling": Scaling(0, 9, False)}


def write(path, rows, header="a,b,y\n"):
    table = np.random.default_rng(5).uniform(-1.0, 4.0, size=(rows, 3)).round(3)
    lines = [",".join(map(str, row)) for row in table.tolist()]
    lines[3] = "NA,1,2"  # takes the slow way of a reader
    text = header + "\n".join(lines) + "\n\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".csv":
        path.write_text(text)
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        table[3] = np.nan, 1.0, 2.0
        columns = dict(zip("aby", table.T, strict=True))
        # Row groups that end inside parts, and a column that is not asked for.
        pq.write_table(pa.table({**columns, "text": ["x"] * rows}), path, row_group_size=17)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
def test_parts_are_the_whole(tmp_path, name, rows):
    path = write(tmp_path / name, 50)
    whole = load_file(path, label="y", features=["b", "a"], **RANGES)
    parts = list(chunks(path, label="y", features=["b", "a"], rows=rows, **RANGES))
    assert [len(part) for part in parts] == [min(rows, 50 - i) for i in range(0, 50, rows)]
    np.testing.assert_array_equal(np.concatenate([p.features for p in parts]), whole.features)
    np.testing.assert_array_equal(np.concatenate([p.labels for p in parts]), whole.labels)
    flags = [p.nonprivate_flags["out_of_range"] for p in parts]
    np.testing.assert_array_equal(np.concatenate(flags), whole.nonprivate_flags["out_of_range"])
    assert {p.name for p in parts} == {name}
    assert parts[-1].feature_names == whole.feature_names


def test_a_file_without_names_and_an_empty_one(tmp_path):
    path = write(tmp_path / "t.csv", 9, header="")
    parts = list(chunks(path, label="3", header=False, rows=4))
    assert [len(part) for part in parts] == [4, 4, 1]
    assert parts[0].feature_names == ("1", "2")
    (tmp_path / "e.csv").write_text("a,b,y\n")
    assert list(chunks(tmp_path / "e.csv", label="y")) == []


def test_errors_come_at_once_or_name_the_part(tmp_path):
    path = write(tmp_path / "t.csv", 12)
    for wrong, text in (
        ({"label": "z"}, "no column 'z'"),
        ({"label": "y", "rows": 0}, "rows must be"),
        ({"label": "y", "features": ["c"]}, "no column 'c'"),
        ({"label": "3", "header": False}, None),  # the names are then no numbers
    ):
        with pytest.raises(ValueError, match=text):
            list(chunks(path, **wrong)) if text is None else chunks(path, **wrong)
    with pytest.raises(ValueError, match=r"only \.csv"):
        chunks(tmp_path / "t.npz", label="y")
    with pytest.raises(FileNotFoundError):
        chunks(tmp_path / "none.csv", label="y")
    for bad, text in (("1,2,secret\n", "not numeric"), ("1,2\n", "expected 3 cells")):
        path.write_text("a,b,y\n" + "1,2,3\n" * 8 + bad)
        parts = chunks(path, label="y", features=["a", "b"], rows=5)
        assert len(next(parts)) == 5
        with pytest.raises(ValueError, match=r"t\.csv, row 10: ") as caught:
            next(parts)
        assert text in str(caught.value)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_memory_is_that_of_a_part(tmp_path, name):
    path = write(tmp_path / name, 8000)

    def most(read):
        tracemalloc.start()
        read()
        return tracemalloc.get_traced_memory()[1], tracemalloc.stop()

    def in_parts():
        parts = chunks(path, label="y", features=["a", "b"], rows=200)
        assert sum(len(part) for part in parts) == 8000

    whole, _ = most(lambda: load_file(path, label="y", features=["a", "b"]))
    assert most(in_parts)[0] < whole / 3.0


def test_simulated_parts():
    parts = list(linear_regression_chunks(100, 4, p=1.5, seed=3, rows=30))
    assert [len(part) for part in parts] == [30, 30, 30, 10]
    again = list(linear_regression_chunks(100, 4, p=1.5, seed=3, rows=30))
    for part, other in zip(parts, again, strict=True):
        np.testing.assert_array_equal(part.features, other.features)
        np.testing.assert_array_equal(part.target, parts[0].target)
        assert np.linalg.norm(part.target, 1.5) == pytest.approx(1.0)
        residual = part.labels - part.features @ part.target
        assert 0.02 < residual.std() < 0.1
    assert not np.isin(parts[0].features, parts[1].features).any()
    with pytest.raises(ValueError, match="rounds"):
        linear_regression_chunks(0, 4)


COPIES = {
    "Bikes": ("moment,station,clouds,humidity,pressure,temperature,wind,bikes",
              "2016-04-01 00:00:07,metro,75,81,1017.0,6.54,9.3,{y}", (0.0, 60.0)),
    "CreditCard": (",".join(["Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class"]),
                   ",".join(["0.0", *["-1.36"] * 28, "149.62", "{y}"]), None),
    "CriteoAds": (",".join(["click", *(f"I{i}" for i in range(1, 14)), "C1"]),
                  ",".join(["{y}", *["5", ""] * 6, "1", "68fd1e64"]), None),
    "HTTP": ("duration,src_bytes,dst_bytes,service", "-2.30,5.37,10.7,{y}", None),
    "Higgs": (None, ",".join(["{y}.000000000000000000e+00", *["8.692932128906e-01"] * 28]), None),
    "MovieLens100K": ("user\titem\ttimestamp\ttitle\trelease_date\tgenres\tage\tgender\trating",
                      "259\t255\t874731910000000000\tA, b\t866764800000000000\t-\t21.0\tM\t{y}",
                      (1.0, 5.0)),
    "Taxis": ("id,vendor_id,pickup_datetime,dropoff_datetime,passenger_count,pickup_longitude,"
              "pickup_latitude,dropoff_longitude,dropoff_latitude,store_and_fwd_flag,trip_duration",
              "id1,2,2016-01-01 00:00:17,2016-01-01 00:14:26,5,-73.98,40.73,-73.98,40.68,N,{y}",
              (0.0, 3600.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_recipes_read_a_copy(tmp_path, name):
    """Files made here in the layout that river's own loaders read."""
    head, line, labels = COPIES[name]
    path = tmp_path / ("copy.csv.gz" if name in ("CriteoAds", "Higgs") else "copy.csv")
    given = (0.0, 1.0, 1.0) if labels is None else (labels[0], labels[1], labels[1] + 9.0)
    rows = [line.format(y=f"{y:g}") for y in given]
    text = "\n".join(([head] if head else []) + rows) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    stream = from_river(name, path)
    options = recipe(name)
    assert stream.feature_names == (*options["features"], "constant")
    known = np.isfinite(stream.features)  # a missing count is a missing record
    assert np.all(np.abs(stream.features[known]) <= 1.0)
    assert known.all() == (name != "CriteoAds")
    expected = [0.0, 1.0, 1.0] if labels is None else [-1.0, 1.0, 1.0]
    np.testing.assert_array_equal(stream.labels, expected)
    assert stream.task == ("classification" if labels is None else "regression")
    (part,) = chunks(path, **options)
    np.testing.assert_array_equal(part.features, stream.features)


def test_the_recipes_are_of_river(tmp_path, monkeypatch):
    datasets = pytest.importorskip("river.datasets")
    with pytest.raises(ValueError, match="did you mean"):
        from_river("Bike")
    if not hasattr(datasets, "CriteoAds"):
        pytest.skip("this version of river has no such data")
    taken = []
    copy = tmp_path / "kdd99_http.csv"
    copy.write_text(f"{COPIES['HTTP'][0]}\n" + f"{COPIES['HTTP'][1].format(y=1)}\n" * 2)
    monkeypatch.setattr(datasets.HTTP, "download", lambda self, **_: taken.append(self))
    monkeypatch.setattr(datasets.HTTP, "path", copy)
    assert len(from_river("HTTP")) == 2
    assert len(taken) == 1
    for name in COPIES:
        assert hasattr(datasets, name), name

"""A damaged file is read, or raises a `ValueError` that quotes nothing of it."""

from __future__ import annotations

import gzip
import io
import warnings
import zipfile

import numpy as np
import pytest

from dpoco.datasets import load_file, open_table

ROWS = 20


def table():
    rng = np.random.default_rng(5)
    return {name: rng.uniform(size=ROWS) for name in "abcy"}


def text():
    rows = zip(*table().values(), strict=True)
    return "\n".join(["a,b,c,y", *(",".join(map(repr, map(float, row))) for row in rows)]).encode()


def archive(save):
    file = io.BytesIO()
    save(file, **table())
    return file.getvalue()


def parquet(compression):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(table()), sink, compression=compression)
    return bytes(sink.getvalue())


def zipped_text():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", text())
    return file.getvalue()


FORMATS = {
    "t.csv": text,
    "t.csv.zip": zipped_text,
    "t.tsv": lambda: text().replace(b",", b"\t").decode().encode("utf-16"),
    "t.csv.gz": lambda: gzip.compress(text(), mtime=0),
    "plain.npz": lambda: archive(np.savez),
    "small.npz": lambda: archive(np.savez_compressed),
    "none.parquet": lambda: parquet("none"),
    "zstd.parquet": lambda: parquet("zstd"),
}


def read(path):
    """Whether it could be read; anything but a `ValueError` about the file goes up."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stream = load_file(path, label="y")
    except ValueError as error:
        refusal = error
    else:
        assert stream.features.shape == (len(stream.labels), stream.features.shape[1])
        return True
    assert refusal.__context__ is None or refusal.__suppress_context__
    assert "0x" not in str(refusal)  # checksums of the contents
    return False


def damaged(data, rng):
    """The file cut short, or with bits, a byte or a stretch of bytes changed."""
    data, place = bytearray(data), int(rng.integers(len(data)))
    kind = rng.choice(["cut", "bits", "byte", "stretch"])
    if kind == "cut":
        del data[place:]
    elif kind == "bits":
        for _ in range(rng.integers(1, 4)):
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    elif kind == "byte":
        data[place] = int(rng.integers(256))
    else:
        length = min(len(data) - place, int(rng.integers(2, 40)))
        data[place : place + length] = rng.bytes(length)
    return bytes(data)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged(name, tmp_path):
    data, rng, path = FORMATS[name](), np.random.default_rng(7), tmp_path / name
    path.write_bytes(data)
    assert read(path)
    refused = 0
    for _ in range(150):
        path.write_bytes(damaged(data, rng))
        refused += not read(path)
    assert refused >= 30


def zipped(change):
    """An archive whose directory and entries are changed in place."""
    data = bytearray(archive(np.savez))
    for signature, offset in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = data.find(signature)
        while at >= 0:
            change(data, at + offset)
            at = data.find(signature, at + 1)
    return bytes(data)


def entry(header, body=b""):
    """An archive with one array of that header."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        size = len(header).to_bytes(2, "little")
        target.writestr("y.npy", b"\x93NUMPY\x01\x00" + size + header + body)
    return file.getvalue()


def encrypted(data, at):
    data[at + 6] |= 1


def patched(data, at):
    data[at + 6] |= 32


def unknown_method(data, at):
    data[at + 8] = 99


@pytest.mark.parametrize(
    "data",
    [
        zipped(encrypted),
        zipped(patched),
        zipped(unknown_method),
        entry(b"{'descr': '<f8', 'fortran_order': False, 'shape': (5"),
        entry(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}"),
        entry(b"[" * 5000),
        entry(b"\n'''"),
        b"\x93NUMPY\x01\x00",
        b"",
    ],
    ids=["encrypted", "patched", "method", "open", "vast", "deep", "token", "single", "empty"],
)
def test_odd_archives(data, tmp_path):
    path = tmp_path / "t.npz"
    path.write_bytes(data)
    assert not read(path)


def test_an_array_that_is_no_archive(tmp_path):
    np.save(tmp_path / "t.npy", np.arange(9.0))
    (tmp_path / "t.npy").rename(tmp_path / "t.npz")
    assert not read(tmp_path / "t.npz")


def test_compressed_text_that_ends_early(tmp_path):
    """The end is reached behind the header, when the columns are read."""
    rng = np.random.default_rng(1)
    rows = "\n".join(map(repr, rng.uniform(size=20_000).tolist()))
    whole = gzip.compress(f"y\n{rows}".encode(), mtime=0)
    path = tmp_path / "t.csv.gz"
    for size in (len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:size])
        assert not read(path)


def test_columns_that_cannot_be_stored(tmp_path):
    """Types that a reader knows and cannot convert; nested ones."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    column = pa.array([[1.0], [2.0]])
    pq.write_table(pa.table({"a": column, "y": [0.0, 1.0]}), tmp_path / "t.parquet")
    assert not read(tmp_path / "t.parquet")
    assert open_table(tmp_path / "t.parquet").names == ["a", "y"]

"""Signed certificates: whatever is changed, moved or cut short is found, and keys stay secret."""

from __future__ import annotations

import copy
import json
import os
import pickle
import stat

import pytest

import dpoco
from dpoco.accounting import Budget, Guarantee, sum_release
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.signatures import (
    PublicKey,
    SignatureError,
    SignedCertificate,
    SigningKey,
    is_signed,
)
from dpoco.errors import StateError

pytest.importorskip("cryptography")

BUDGET = Budget(1.0, 1e-6)
STATED = sum_release.guarantee(sum_release.calibrate(3, horizon=100, budget=BUDGET), budget=BUDGET)
ABOUT = {"title": "Offers, 2026", "operator": "Shop Ltd \u00e9", "data_set": "visits"}
# RFC 8032, section 7.1, test 1.
RFC_SECRET = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
RFC_PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
RFC_SIGNATURE = (
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
    "d25bf5f0595bbe24655141438e7a100b"
)


@pytest.fixture
def key(tmp_path):
    return SigningKey.create(tmp_path / "signer.key")


@pytest.fixture
def signed(key):
    return SignedCertificate.sign(STATED.to_dict(), key, date="2026-11-28", **ABOUT)


def test_the_signature_is_that_of_the_standard():
    key = SigningKey(bytes.fromhex(RFC_SECRET))
    assert key.public.raw.hex() == RFC_PUBLIC
    assert key.sign(b"").hex() == RFC_SIGNATURE


def test_what_was_signed_is_accepted_and_says_what_it_is_about(key, signed, tmp_path):
    again = SignedCertificate.from_json(signed.to_json())
    again.check(key.public)
    again.check()
    assert again == signed
    assert Guarantee.from_dict(again.certificate) == STATED
    assert again.library == f"dpoco {dpoco.__version__}"
    assert again.about()["Operator"] == ABOUT["operator"]
    # Spaces and the order of names are not signed.
    record = json.loads(signed.to_json())
    turned = dict(reversed(list(record["signed"].items())))
    SignedCertificate.from_json(json.dumps({**record, "signed": turned})).check(key.public)
    ledger = Ledger(BUDGET)
    ledger.charge(STATED, "a sum") if ledger.affordable(STATED) else None
    SignedCertificate.sign(ledger.to_dict(), key, **ABOUT).check(key.public)


def test_the_bytes_that_are_signed(signed):
    """Exactly those of the page: a second implementation needs no more."""
    record = json.loads(signed.to_json())["signed"]
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert signed.message() == b"dpoco signed certificate 1\n" + text.encode("ascii")
    assert set(record) == {"title", "operator", "data_set", "date", "library", "signer",
                           "certificate"}  # fmt: skip


def leaves(record, path=()):
    """Yield the paths of all numbers, texts and the like in a record of JSON."""
    if isinstance(record, (dict, list)):
        pairs = record.items() if isinstance(record, dict) else enumerate(record)
        for name, value in pairs:
            yield from leaves(value, (*path, name))
    else:
        yield path, record


def test_every_changed_value_is_found(key, signed):
    record = json.loads(signed.to_json())
    paths = list(leaves(record))
    assert len(paths) > 40
    for path, value in paths:
        other = copy.deepcopy(record)
        place = other
        for name in path[:-1]:
            place = place[name]
        if isinstance(value, bool) or value is None:
            place[path[-1]] = 1
        elif isinstance(value, str):
            place[path[-1]] = value[:-1] + ("0" if value[-1:] != "0" else "1")
        else:
            place[path[-1]] = value + 1
        with pytest.raises(StateError):
            SignedCertificate.from_json(json.dumps(other)).check(key.public)


def test_signatures_of_others_and_of_other_certificates(key, signed, tmp_path):
    thief = SigningKey.create(tmp_path / "thief.key")
    forged = SignedCertificate.sign(STATED.to_dict(), thief, **ABOUT)
    forged.check()  # it is what it says, of a key that nobody knows
    with pytest.raises(SignatureError, match=f"{thief.public.fingerprint}, and not by"):
        forged.check(key.public)
    renamed = json.loads(forged.to_json())
    renamed["signed"]["signer"] = str(key.public)
    with pytest.raises(SignatureError, match="does not fit"):
        SignedCertificate.from_json(json.dumps(renamed)).check(key.public)
    other = SignedCertificate.sign(STATED.for_person(3).to_dict(), key, **ABOUT)
    moved = {**json.loads(signed.to_json()), "signature": other.signature.hex()}
    with pytest.raises(SignatureError, match="another certificate"):
        SignedCertificate.from_json(json.dumps(moved)).check(key.public)


def test_what_is_no_signed_certificate_is_refused(signed):
    text = signed.to_json()
    for cut in range(0, len(text) - 1, 97):
        with pytest.raises(StateError):
            SignedCertificate.from_json(text[:cut])
    record = json.loads(text)
    for wrong in (
        {**record, "more": 1}, {**record, "version": 2}, {**record, "signature": "00"},
        {**record, "signature": record["signature"].upper()}, {**record, "signed": []},
        {**record, "signed": {**record["signed"], "more": 1}},
        {**record, "signed": {**record["signed"], "certificate": {"kind": "else"}}},
        {**record, "signed": {**record["signed"], "date": "2026-13-01"}}, {}, [], None,
    ):  # fmt: skip
        with pytest.raises(StateError):
            SignedCertificate.from_dict(wrong)
    doubled = text.replace('"title":', '"title": "x", "title":', 1)
    with pytest.raises(StateError):
        SignedCertificate.from_json(doubled)
    with pytest.raises(StateError):
        SignedCertificate.from_json(text.replace('"delta": 1e-06', '"delta": 1e999', 1))
    assert is_signed(record)
    assert not is_signed(STATED.to_dict())


@pytest.mark.parametrize("field", ["title", "operator", "data_set"])
@pytest.mark.parametrize("text", ["", " ", "a\nb", "a\u202eb", "a\x1b[2Kb", "x" * 201, 3, "\ud800"])
def test_texts_that_could_pass_for_others_are_refused(key, field, text):
    with pytest.raises(ValueError, match=field):
        SignedCertificate.sign(STATED.to_dict(), key, **{**ABOUT, field: text})


def test_keys_are_files_of_their_owner(key, tmp_path):
    path = tmp_path / "signer.key"
    again = SigningKey.from_file(path)
    assert again.public == key.public
    secret = path.read_text().strip()
    assert secret not in repr(key) + str(key.public)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(key)
    with pytest.raises(FileExistsError):
        SigningKey.create(path)
    assert path.read_text().strip() == secret
    (tmp_path / "bad.key").write_text("not a key")
    os.chmod(tmp_path / "bad.key", 0o600)
    with pytest.raises(ValueError, match="no signing key"):
        SigningKey.from_file(tmp_path / "bad.key")
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o640)
        with pytest.raises(StateError, match="chmod 600"):
            SigningKey.from_file(path)


def test_public_keys_are_texts(key, tmp_path):
    text = str(key.public)
    assert PublicKey.parse(f" {text}\n") == key.public
    (tmp_path / "signer.pub").write_text(text + "\n")
    assert PublicKey.from_file(tmp_path / "signer.pub") == key.public
    assert len(key.public.fingerprint) == 24
    for wrong in ("", "ed25519:", text[:-1], text + "0", text.upper(), "ed25519:" + "g" * 64):
        with pytest.raises(ValueError, match="public key"):
            PublicKey.parse(wrong)
    with pytest.raises(ValueError, match="32 bytes"):
        PublicKey(b"short")

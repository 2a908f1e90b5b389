"""``dpoco sign``, and what verify and explain say of signatures."""

from __future__ import annotations

import json

import pytest

import dpoco
from dpoco.accounting import Budget, sum_release
from dpoco.accounting.signatures import SigningKey

pytest.importorskip("cryptography")

BUDGET = Budget(1.0, 1e-6)
STATED = sum_release.guarantee(sum_release.calibrate(3, horizon=100, budget=BUDGET), budget=BUDGET)
ABOUT = ("--title", "Offers, 2026", "--operator", "Shop Ltd", "--data-set", "visits of 2026")


@pytest.fixture
def files(invoke, tmp_path):
    """Return a certificate, a key, the same signed, and the public key."""
    key, plain = tmp_path / "signer.key", tmp_path / "g.json"
    drawn = json.loads(invoke("sign", "--new-key", key, "--json").stdout)
    plain.write_text(STATED.to_json())
    invoke("sign", plain, "--key", key, *ABOUT, "--date", "2026-11-28")
    return plain, key, tmp_path / "g.signed.json", drawn["public_key"]


def test_a_key_is_drawn_once_and_shown_with_its_fingerprint(invoke, tmp_path):
    path = tmp_path / "signer.key"
    shown = invoke("sign", "--new-key", path).stdout
    public = SigningKey.from_file(path).public
    assert str(public) in shown
    assert public.fingerprint in shown
    assert path.read_text().strip() not in shown
    assert invoke("sign", "--new-key", path, code=2).stderr.startswith("error: ")


def test_signing_names_what_it_still_needs(invoke, files, tmp_path):
    plain, key, signed, _ = files
    assert "--title, --operator, --data-set" in invoke("sign", plain, "--key", key, code=2).stderr
    assert "takes nothing else" in invoke("sign", plain, "--new-key", "x", code=2).stderr
    before = signed.read_text()
    assert invoke("sign", plain, "--key", key, *ABOUT, code=2).stderr.startswith("error: ")
    assert signed.read_text() == before  # never overwritten
    assert "is signed" in invoke("sign", signed, "--key", key, *ABOUT, code=2).stderr
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"schema": "dpoco.plan/1", "guarantee": STATED.to_dict()}))
    other = tmp_path / "other.json"
    shown = invoke("sign", plan, "--key", key, *ABOUT, "--output", other, "--json").stdout
    assert json.loads(shown)["verdict"] == "protected"
    edited = json.loads(STATED.to_json()) | {"epsilon": 0.5}
    plan.write_text(json.dumps(edited))
    assert "contradicts" in invoke("sign", plan, "--key", key, *ABOUT, code=2).stderr


def test_a_signed_certificate_is_verified_with_who_signed(invoke, files, tmp_path):
    _, key, signed, public = files
    shown = invoke("verify", signed, "--signer", public).stdout
    assert "as asked for" in shown
    assert "Shop Ltd" in shown
    (tmp_path / "signer.pub").write_text(public)
    assert invoke("verify", signed, "--signer", tmp_path / "signer.pub").stdout == shown
    claimed = invoke("verify", signed).stdout
    fingerprint = SigningKey.from_file(key).public.fingerprint
    assert f"key {fingerprint} claims to have signed" in claimed
    assert "not checked whose key" in claimed
    assert "Offers, 2026" in claimed


def test_nobody_passes_for_the_signer(invoke, files, tmp_path):
    """Each in one line, with the exit code of signatures."""
    plain, _, signed, public = files
    thief = tmp_path / "thief.key"
    invoke("sign", "--new-key", thief)
    forged = tmp_path / "forged.json"
    invoke("sign", plain, "--key", thief, *ABOUT, "--output", forged)
    record = json.loads(signed.read_text())
    changed = {**record, "signed": {**record["signed"], "operator": "Other Ltd"}}
    moved = {**record, "signature": json.loads(forged.read_text())["signature"]}
    cases = {
        "forged.json": (None, "and not by"),
        "changed.json": (json.dumps(changed), "does not fit"),
        "moved.json": (json.dumps(moved), "another certificate"),
        "cut.json": (signed.read_text()[:900], "cut short"),
        "unsigned.json": (STATED.to_json(), "this file has no signature"),
    }
    for name, (text, words) in cases.items():
        if text is not None:
            (tmp_path / name).write_text(text)
        shown = invoke("verify", tmp_path / name, "--signer", public, code=7).stdout
        assert len(shown.splitlines()) == 1
        assert shown.startswith(f"{tmp_path / name}: signature refuted: ")
        assert words in shown
    invoke("verify", tmp_path / "changed.json", code=7)
    assert "anyone may have written this file" in invoke("verify", plain).stdout
    assert "ed25519" in invoke("verify", signed, "--signer", "somebody", code=2).stderr


def test_a_signed_but_false_certificate_is_refused(invoke, files, tmp_path):
    """The signature says who states it; the numbers are computed again."""
    from dpoco.accounting.signatures import SignedCertificate

    _, key, _, public = files
    false = {**STATED.to_dict(), "epsilon": 0.5}
    signed = SignedCertificate.sign(
        false, SigningKey.from_file(key), title="a", operator="b", data_set="c"
    )
    path = tmp_path / "false.json"
    path.write_text(signed.to_json())
    assert "refuted" in invoke("verify", path, "--signer", public, code=1).stdout


def test_explanations_show_the_signed_fields(invoke, files):
    plain, _, signed, _ = files
    shown = " ".join(invoke("explain", signed).stdout.split())
    for text in ("Offers, 2026", "Shop Ltd", "visits of 2026", "2026-11-28", "not checked here"):
        assert text in shown
    shown = invoke("explain", plain).stdout
    assert "File: g.json" in shown
    assert f"dpoco {dpoco.__version__}" in shown
    assert "anyone may have written this file" in shown
    assert "Generated on: 20" in shown

"""`espalier claims` on a ledger as the chain leaves it."""

import json
from pathlib import Path

import pytest
import yaml

from espalier.cli import main
from espalier.evaluation import ledger
from espalier.evaluation.findings import DIRECTION, NOT_REPRODUCED, REPRODUCED

ROOT = Path(__file__).parents[2]


def row(name: str, verdict: str) -> dict:
    return {
        "id": name, "paper": "best", "claim": f"Claim {name} is so", "verdict": verdict,
        "published": 0.5, "here": 0.25, "why": "as measured",
    }  # fmt: skip


ROWS = [row("one", REPRODUCED), row("two", NOT_REPRODUCED), row("three", REPRODUCED)]


@pytest.fixture
def claims(tmp_path, monkeypatch):
    """Runs the command on the rows given; its exit status."""
    monkeypatch.chdir(ROOT)
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(yaml.safe_dump({"results": str(tmp_path), "experiment": "x"}))

    def claims(*options: str, rows=ROWS) -> int:
        if rows is not None:
            (tmp_path / "x").mkdir(exist_ok=True)
            (tmp_path / "x" / "claims.json").write_text(ledger.as_json(rows))
        return main(["claims", "--config", str(overlay), *options])

    return claims


def test_json_and_text(claims, capsys) -> None:
    assert claims() == 0
    assert json.loads(capsys.readouterr().out) == ROWS
    assert claims("--format", "text") == 0
    assert capsys.readouterr().out == ledger.as_text(ROWS)


def test_the_exit_status_tells_of_chosen_verdicts(claims, capsys) -> None:
    assert claims("--fail-on", DIRECTION) == 0
    assert capsys.readouterr().err == ""
    assert claims("--fail-on", DIRECTION, "--fail-on", NOT_REPRODUCED) == 3
    captured = capsys.readouterr()
    assert captured.err == "two: not reproduced: as measured\n"
    assert json.loads(captured.out) == ROWS


def test_what_is_no_verdict_and_no_ledger_is_said(claims, caplog) -> None:
    assert claims(rows=None) == 1
    assert "claims.json: no ledger yet; run 'make reproduce'" in caplog.text
    assert claims("--fail-on", "bad") == 1
    assert "--fail-on 'bad' is no verdict; there are 'reproduced', 'direction" in caplog.text

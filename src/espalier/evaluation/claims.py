"""The claims that the papers make, and the judgment of each against an experiment's results."""

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from espalier.errors import EspalierError
from espalier.evaluation import findings, shapes
from espalier.evaluation.findings import NOT_TESTED, Finding, Rules
from espalier.evaluation.results import Absent, Results

SCHEMA = "claims.schema.json"

QUERIES = {
    "mean": findings.mean,
    "size": findings.size,
    "described": findings.described,
    "compare": findings.compare,
    "ratio": findings.ratio,
    "onset": shapes.onset,
    "rising": shapes.rising,
    "flattening": shapes.flattening,
    "above": shapes.above,
    "fewer-different": shapes.fewer_different,
    "together": shapes.together,
    "skew": shapes.skew,
    "untested": findings.untested,
}
"""What may stand under `here:`, and who answers it."""


def load(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Read claim files, in the order given; EspalierError names file, claim and what is wrong."""
    schema = json.loads(files("espalier.evaluation").joinpath(SCHEMA).read_text())
    validator = Draft202012Validator(schema)
    claims: list[dict[str, Any]] = []
    for path in paths:
        try:
            document = yaml.safe_load(path.read_text())
        except yaml.YAMLError as error:
            line = " ".join(str(error).split())
            raise EspalierError(f"{path}: not valid YAML: {line}") from error
        rows = document if isinstance(document, list) else [document]
        for number, row in enumerate(rows, start=1):
            name = row.get("id", number) if isinstance(row, Mapping) else number
            problem = next(iter(validator.iter_errors(row)), None)
            if problem:
                where = ".".join(map(str, problem.absolute_path)) or "claim"
                raise EspalierError(f"{path}: claim {name}: {where}: {problem.message}")
            if any(name == claim["id"] for claim in claims):
                raise EspalierError(f"{path}: claim id '{name}' occurs twice; choose another")
            claims.append(row)
    return claims


def judge(
    claims: Sequence[Mapping[str, Any]], results: Results, rules: Rules
) -> list[dict[str, Any]]:
    """One ledger row per claim, in order.

    What the experiment did not run makes a claim 'not tested at this scale', with that reason.
    """
    rows = []
    for claim in claims:
        ((name, query),) = claim["here"].items()
        try:
            require_collection(claim, results)
            finding = QUERIES[name](chosen(query, results), claim, results, rules)
        except Absent as reason:
            finding = Finding(NOT_TESTED, str(reason))
        rows.append(row(claim, finding))
    return rows


def require_collection(claim: Mapping[str, Any], results: Results) -> None:
    """Absent when a claim is about collections of one kind (`only`) and the run is on another."""
    patterns = claim["scale"].get("only")
    if not patterns or claim["paper"] not in results.summaries:
        return
    split = results.summaries[claim["paper"]]["collection"]["split"]
    if not any(fnmatchcase(split, pattern) for pattern in patterns):
        raise Absent(f"about {claim['scale']['name']}; this run is on {split}")


def chosen(query: Mapping[str, Any], results: Results) -> dict[str, Any]:
    """A query with one name wherever it offers several ('a|b'): the first that is among results.

    The last one where none is, so that the reason why it is not tested names it.
    """
    known = {
        *results.tables,
        *(s for paper in results.summaries.values() for s in paper.get("systems", ())),
    }

    def decided(value: Any) -> Any:
        if isinstance(value, list):
            return [decided(each) for each in value]
        if isinstance(value, str) and "|" in value:
            names = value.split("|")
            return next((name for name in names if name in known), names[-1])
        return value

    return {key: decided(value) for key, value in query.items()}


def row(claim: Mapping[str, Any], finding: Finding) -> dict[str, Any]:
    """A claim and its finding as one row of the ledger."""
    interval = None if finding.interval is None else [number(x) for x in finding.interval]
    return {
        "id": claim["id"],
        "paper": claim["paper"],
        "claim": claim["claim"],
        "kind": claim["kind"],
        "source": claim["source"],
        "scale": claim["scale"]["name"],
        "published": claim["published"],
        "tolerance": claim.get("tolerance"),
        "query": claim["here"],
        "here": number(finding.here),
        "interval": interval,
        "test": finding.test,
        "verdict": finding.verdict,
        "why": finding.why,
    }


def number(value: float | None) -> float | None:
    """Six significant digits, as many as anybody reads; infinities have no place in JSON."""
    if value is None or abs(value) == float("inf"):
        return None
    return float(f"{value:.6g}")

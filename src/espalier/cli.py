"""`espalier <room> <verb>`: finds the verb, runs it, prints errors in one line.

A room's module is imported only when one of its verbs is called, and heavy libraries only inside
the verbs, so that `espalier --help` answers at once.
"""

import argparse
import errno
import importlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from espalier import launch
from espalier.errors import EspalierError
from espalier.planning import plan
from espalier.stage import Room

ROOMS = {
    "collections": "collections and their BM25 candidates",
    "best": "segment selection for ranking long documents (BeST)",
    "colbert": "late interaction with query embedding pruning",
    "sparse": "dual-weight sparse retrieval (DTHS)",
    "evaluation": "measures, significance, claims ledger",
    "tracking": "records to MLflow",
    "report": "the HTML report",
}


def room_of(name: str) -> Room:
    """Import the verbs of one room."""
    room: Room = importlib.import_module(f"espalier.{name}.commands").room
    return room


def parser_for(arguments: list[str]) -> argparse.ArgumentParser:
    """Build the parser, with the verbs of that room alone which `arguments` name."""
    parser = argparse.ArgumentParser(prog="espalier", description="Run the chain or one stage.")
    rooms = parser.add_subparsers(dest="room", required=True, metavar="command")
    chain = rooms.add_parser("run", help="the whole chain for one config")
    launch.add_arguments(chain)
    chain.add_argument("--cores", default="all", help="cores for Snakemake (default: all)")
    launch.add_profile(chain)
    chain.add_argument("snakemake", nargs="*", help="after --: more options for Snakemake")
    ledger = rooms.add_parser("claims", help="the claims ledger, as JSON or text")
    launch.add_arguments(ledger)
    ledger.add_argument("--format", choices=("json", "text"), default="json")
    ledger.add_argument(
        "--fail-on", action="append", default=[], metavar="VERDICT",
        help=f"exit with {launch.FAILED_ON} when a claim has this verdict (may be repeated)",
    )  # fmt: skip
    plan.add_arguments(rooms.add_parser("plan", help="what a run will cost, before it is started"))
    reports = rooms.add_parser("pages", help="the report and Snakemake's own")
    launch.add_arguments(reports)
    reports.add_argument("--cores", default="all", help="cores for Snakemake (default: all)")
    server = rooms.add_parser("serve", help="the tracked runs in MLflow on 127.0.0.1")
    launch.add_arguments(server)
    server.add_argument("--port", type=int, default=5000)
    explained = rooms.add_parser(
        "explain", help="where a result comes from, and what changed since"
    )
    explained.add_argument("file", type=Path, help="a file or folder in a results folder")
    explained.add_argument("--json", action="store_true", help="as JSON")
    for name, purpose in ROOMS.items():
        room_parser = rooms.add_parser(name, help=purpose)
        if name in arguments[:1]:
            verbs = room_parser.add_subparsers(dest="verb", required=True, metavar="verb")
            for verb_name, verb in room_of(name).verbs.items():
                text = (verb.function.__doc__ or "").splitlines()[0]
                verb.add_arguments(verbs.add_parser(verb_name, help=text, description=text))
    return parser


def dispatch(given: argparse.Namespace) -> int:
    """Do what the parsed command line asks for; the exit status."""
    commands: dict[str, Callable[[], int]] = {
        "run": lambda: launch.run(given.config, given.cores, given.snakemake, given.profile),
        "plan": lambda: plan.plan(given),
        "pages": lambda: launch.pages(given.config, given.cores),
        "serve": lambda: launch.serve(given.config, given.port),
        "claims": lambda: launch.claims(given.config, given.format, given.fail_on),
        "explain": lambda: explain(given.file, as_json=given.json),
    }
    if given.room in commands:
        return commands[given.room]()
    room_of(given.room).verbs[given.verb].run(given)
    return 0


def explain(path: Path, *, as_json: bool) -> int:
    """Print the steps behind a result; 1 when an input of one of them changed or is gone."""
    from espalier.tracking import provenance

    found = provenance.explain(path)
    print(provenance.as_json(found) if as_json else provenance.as_text(found), end="")
    return 1 if found.problems else 0


def main(arguments: list[str] | None = None) -> int:
    """Entry point; the exit status is 0, or 1 after an EspalierError."""
    arguments = sys.argv[1:] if arguments is None else arguments
    given = parser_for(arguments).parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for chatty in ("bm25s", "httpx", "alembic", "matplotlib", "fontTools", "faiss"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        return dispatch(given)
    except EspalierError as error:
        logging.getLogger("espalier").error("espalier: error: %s", error)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = error.filename or "results folder"
        logging.getLogger("espalier").error(
            "espalier: error: %s: the disk is full; free some space and run again: "
            "what is finished is kept",
            where,
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())

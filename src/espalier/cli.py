"""`espalier <room> <verb>`: finds the verb, runs it, prints errors in one line.

A room's module is imported only when one of its verbs is called, and heavy libraries only inside
the verbs, so that `espalier --help` answers at once.
"""

import argparse
import importlib
import logging
import sys

from espalier.errors import EspalierError
from espalier.stage import Room

ROOMS = {
    "collection": "collections and their BM25 candidates",
    "best": "segment selection for ranking long documents (BeST)",
    "colbert": "late interaction with query embedding pruning",
    "sparse": "dual-weight sparse retrieval (DTHS)",
    "evaluation": "measures, significance, claims ledger",
    "tracking": "records to MLflow",
    "report": "the HTML report",
}
MODULES = {"collection": "collections"}


def room_of(name: str) -> Room:
    """Import the verbs of one room."""
    room: Room = importlib.import_module(f"espalier.{MODULES.get(name, name)}.commands").room
    return room


def main(arguments: list[str] | None = None) -> int:
    """Entry point; the exit status is 0, or 1 after an EspalierError."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="espalier", description=__doc__.splitlines()[0])
    rooms = parser.add_subparsers(dest="room", required=True, metavar="room")
    for name, text in ROOMS.items():
        room_parser = rooms.add_parser(name, help=text)
        if name not in arguments[:1]:
            continue
        verbs = room_parser.add_subparsers(dest="verb", required=True, metavar="verb")
        for verb_name, verb in room_of(name).verbs.items():
            text = (verb.function.__doc__ or "").splitlines()[0]
            verb.add_arguments(verbs.add_parser(verb_name, help=text, description=text))
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for chatty in ("bm25s", "httpx", "alembic", "matplotlib", "faiss"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        room_of(given.room).verbs[given.verb].run(given)
    except EspalierError as error:
        logging.getLogger("espalier").error("espalier: error: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Small collections in the files, formats and places where ir_datasets expects the real ones.

Texts are made of numbered words, so that what stands where is known without reading it.
"""

import gzip
from pathlib import Path

DOCUMENTS = 40
SENTENCES = 12
TOPICS = {
    "fold1": ["302", "303", "309"],
    "fold2": ["301", "308", "312"],
    "fold3": ["306", "307", "313"],
    "fold4": ["320", "325", "330"],
    "fold5": ["304", "305", "310"],
}
"""Some of the topics in each fold of TREC Robust 2004."""

FILES = {
    "FBIS/FB{:06}": 500,
    "FR94/01/FR94{:04}": 600,
    "FT/FT911/FT911_{}": 600,
    "LATIMES/LA{:06}": 595,
}
"""As many files as disks 4 and 5 without the Congressional Record have: ir_datasets counts them."""


def sentence(document: int, number: int) -> str:
    """A sentence with a word that no other document has, and one that no other sentence has."""
    return f"Subject{document} is treated with method{document}x{number} in due course."


def body(document: int) -> str:
    """The text of a document."""
    return "\n".join(sentence(document, number) for number in range(SENTENCES))


def write(path: Path, text: str) -> None:
    """Write a file, gzip where its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as stream:
        stream.write(text)


def msmarco(home: Path) -> None:
    """MS MARCO's documents, with the passages that were judged for the same queries.

    Query i asks for document i, and its passage p<i> is sentence 7 of it, set with other white
    space; every fourth passage says something else and cannot be found. The official run has the
    relevant document third.
    """
    docs = "".join(
        f"<DOC>\n<DOCNO>D{d}</DOCNO>\n<TEXT>\nhttp://example.org/{d}\nTitle {d}\n"
        f"{body(d)}\n</TEXT>\n</DOC>\n"
        for d in range(DOCUMENTS)
    )
    write(home / "msmarco-document/collection.tsv.gz", docs)
    passages = {
        d: sentence(d, 7).replace(" ", "  ") if d % 4 else f"Nothing on {d}."
        for d in range(DOCUMENTS)
    }
    collection = "".join(f"{d}\t{text}\n" for d, text in passages.items())
    write(home / "msmarco-passage/collection.tsv", collection)
    write(home / "msmarco-passage/irds_version.txt", "v2")
    parts = {"train": range(24), "dev": range(24, 32), "trec-dl-2019": range(32, DOCUMENTS)}
    for part, ids in parts.items():
        queries = "".join(f"{1000 + i}\twhat is method{i}x7 of subject{i}\n" for i in ids)
        qrels = "".join(f"{1000 + i} 0 D{i} 1\n" for i in ids)
        run = "".join(
            f"{1000 + i} Q0 D{d} {rank} {-rank / 4} IndriQueryLikelihood\n"
            for i in ids
            for rank, d in enumerate(official(i), start=1)
        )
        folder = home / "msmarco-document" / part
        write(folder / "queries.tsv.gz", queries)
        write(folder / ("qrels" if part.startswith("trec") else "qrels.gz"), qrels)
        write(folder / "ms.run.gz", run)
        graded = "".join(f"{1000 + i} 0 {i} 2\n{1000 + i} 0 {(i + 1) % DOCUMENTS} 1\n" for i in ids)
        judged = graded if part.startswith("trec") else qrels.replace(" D", " ")
        write(home / "msmarco-passage" / part / "qrels", judged)


def official(query: int) -> list[int]:
    """The documents of the official run for a query, best first."""
    others = [(query + step) % DOCUMENTS for step in range(1, 10)]
    return [*others[:2], query, *others[2:]]


def robust04(home: Path) -> None:
    """Disks 4 and 5, topics and judgments of TREC Robust 2004.

    The title of a topic asks for one document's subject, in words that all documents have, its
    description for another word of that document, also beside words that all have.
    """
    topics = [topic for fold in TOPICS.values() for topic in fold]
    paths = [name.format(place) for name, count in FILES.items() for place in range(count)]
    texts = dict.fromkeys(paths, "")
    for number, path in enumerate(paths[:: len(paths) // DOCUMENTS][:DOCUMENTS]):
        texts[path] = (
            f"<DOC>\n<DOCNO> DOC-{number} </DOCNO>\n<HEADLINE>\nTitle {number}\n</HEADLINE>\n"
            f"<TEXT>\n{body(number)}\n</TEXT>\n</DOC>\n"
        )
    for path, text in texts.items():
        write(home / "disks45/corpus" / path, text)
    asked = "".join(
        f"<top>\n\n<num> Number: {topic} \n<title> course of subject{i} \n\n<desc> Description: \n"
        f"What is treated with method{i}x3 in due course?\n\n"
        "<narr> Narrative: \nAnything on it.\n\n</top>\n\n\n"
        for i, topic in enumerate(topics)
    )
    write(home / "disks45/04.testset.gz", asked)
    qrels = "".join(
        f"{topic} 0 DOC-{i} 1\n{topic} 0 DOC-{i + 1} 0\n" for i, topic in enumerate(topics)
    )
    write(home / "disks45/qrels.robust2004.txt", qrels)

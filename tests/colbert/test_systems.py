import pytest

from espalier.colbert.systems import System, parsed, wanted
from espalier.errors import EspalierError


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("icf-p03", System("icf", p=3)),
        ("icf-code-p32", System("icf-code", p=32)),
        ("icf-unseen-p03", System("icf-unseen", p=3)),
        ("icf-s0.5", System("icf", share=0.5)),
        ("icf-p03-d0.25", System("icf", p=3, kept=0.25)),
        ("icf-s1-d0.5", System("icf", share=1.0, kept=0.5)),
    ],
)
def test_a_name_says_what_a_system_does(name, system):
    assert parsed(name) == system
    assert system.name == name


@pytest.mark.parametrize("name", ["bm25", "icf", "icf-p3", "best-p03", "icf-p03-s0.5", "icf-p03-d"])
def test_other_names_are_refused(name):
    with pytest.raises(EspalierError, match=f"'{name}' is no pruned system"):
        parsed(name)


def test_all_systems_of_a_config():
    systems = wanted(["first", "icf"], 2, [0.5, 0.9], ["icf-p01", "icf-s0.9"], [0.5])
    assert [system.name for system in systems] == [
        "first-p01", "first-p02", "icf-p01", "icf-p02", "icf-s0.5", "icf-s0.9",
        "icf-p01-d0.5", "icf-s0.9-d0.5",
    ]  # fmt: skip

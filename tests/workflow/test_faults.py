"""A chain that is killed, damaged, crowded and starved of disk; `make faults` is the long form."""

import pytest

from tests.faults import damage, kills, places
from tests.faults.chain import Chain, contents, differences

pytestmark = pytest.mark.workflow

SEED = 7


@pytest.fixture(scope="module")
def reference(undisturbed):
    return contents(undisturbed[0].results)


@pytest.fixture(scope="module")
def chain(undisturbed, tmp_path_factory):
    """A chain that was killed twice, and has not gone on."""
    chain, jobs = Chain(tmp_path_factory.mktemp("killed")), ["colbert-train", "colbert-sweep"]
    hit = kills.killed(chain, undisturbed[0].results, jobs, SEED)
    # One needs what the other makes, so that neither is missed.
    assert [moment.job for moment in hit] == jobs
    return chain


def test_kills_are_spread_over_all_stages(undisturbed):
    records = kills.recorded(undisturbed[0].results)
    stages = {record["stage"] for record in records.values()}

    def met(count):
        return {records[job]["stage"] for job in kills.drawn(undisturbed[0].results, count, SEED)}

    assert len(met(20)) == 20
    assert met(len(stages)) == stages
    assert len(kills.drawn(undisturbed[0].results, 1000, SEED)) == len(records)


def test_a_killed_chain_ends_with_the_same_results(chain, reference):
    assert damage.completed(chain) == []
    assert differences(reference, contents(chain.results)) == []


def test_lost_and_truncated_outputs_are_made_again_whatever_locks_are_left(chain, reference):
    places.leave_locks(chain)
    damage.remove(chain.results / "bm25" / "passages")
    assert damage.truncated(chain, SEED) == []
    assert differences(reference, contents(chain.results)) == []


@pytest.mark.long
def test_corrupted_outputs_are_refused_and_one_of_two_chains_mends_them(chain, reference):
    assert damage.corrupted(chain, damage.LISTS, SEED) == []
    assert damage.completed(chain) == []
    assert damage.corrupted(chain, damage.INDEXES, SEED) == []
    assert places.two_at_once(chain) == []
    assert differences(reference, contents(chain.results)) == []


@pytest.mark.long
def test_a_full_disk_is_one_line_and_more_room_ends_the_chain(chain, reference):
    try:
        wrong = places.full_disk(chain, ["colbert/indexes"], reference)
    except PermissionError as reason:
        pytest.skip(str(reason))
    assert wrong == []


def test_a_difference_would_be_found(undisturbed, reference):
    lost = {name: value for name, value in reference.items() if not name.startswith("best/s1/runs")}
    assert {name.split("/")[0] for name in differences(reference, lost)} == {"best"}
    assert differences(reference, {**reference, "record colbert-train": {}}) == [
        "record colbert-train"
    ]

"""A few cuts of the campaigns beside a log cleaner, on the broker of the tests."""

from __future__ import annotations

from tests.spark.compaction_campaign import campaign, growth


def test_cuts_of_a_compacted_log_are_read_as_they_were_or_refused_for_a_loss(
    bootstrap: str,
) -> None:
    outcome = campaign(bootstrap, cuts=3, seed=4, passes=3)

    assert outcome["cuts"] == 3
    assert outcome["wrong"] == outcome["refused_without_a_loss"] == 0, outcome
    assert outcome["equal"] > 0


def test_the_newest_commit_is_read_while_only_new_keys_come_and_stays_readable(
    bootstrap: str,
) -> None:
    outcome = growth(bootstrap, cuts=2, keys_per_s=50, again_after_s=0)

    assert outcome == {"cuts": 2, "equal": 4}

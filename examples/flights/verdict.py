"""What one run of the demo measured, and whether that is what it should be."""

from __future__ import annotations

import msgspec


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Printed as the demo's last line. Every figure was measured in this run.

    ``records`` lie on the flights topic; the outputs are counted by the flight that each names as
    its source; ``restored_records`` were replayed from changelogs by the takeover and the restart;
    ``null_tailnums`` and ``unmatched_planes`` are what the store model-totals says about them.
    """

    records: int
    kills: int
    open_transaction_at_kill: bool
    aborted_records_on_log: int
    restored_records: int
    outputs_expected: int
    outputs_lost: int
    outputs_duplicated: int
    null_tailnums: int
    unmatched_planes: int
    dropped: int
    stores_equal_reference: bool
    spark_equals_reference: bool
    parquet_view_equals_reference: bool
    seed: int
    seconds: float

    def failures(self, *, records: int, null_tailnums: int, unmatched_planes: int) -> list[str]:
        """The fields that are not as they must be, given what the CSV files hold."""
        holds = {
            "records": self.records == records,
            "kills": self.kills == 1,
            "open_transaction_at_kill": self.open_transaction_at_kill,
            "aborted_records_on_log": self.aborted_records_on_log > 0,
            "restored_records": self.restored_records > 0,
            "outputs_expected": self.outputs_expected == 2 * records,
            "outputs_lost": self.outputs_lost == 0,
            "outputs_duplicated": self.outputs_duplicated == 0,
            "null_tailnums": self.null_tailnums == null_tailnums,
            "unmatched_planes": self.unmatched_planes == unmatched_planes,
            "dropped": self.dropped == 0,
            "stores_equal_reference": self.stores_equal_reference,
            "spark_equals_reference": self.spark_equals_reference,
            "parquet_view_equals_reference": self.parquet_view_equals_reference,
        }
        return [name for name, is_right in holds.items() if not is_right]

"""Which sensors have fallen silent? A processor of one's own, with a store and a schedule.

    readings (by sensor) ── SilenceAlarm (store: last-heard) ── alarms

Once a minute of wall-clock time the processor looks through its store. Absence is the one thing
that no record tells, so this cannot be had from event time alone.
"""

from __future__ import annotations

from datetime import timedelta

from logstate import Processor, ProcessorContext, Record, StreamsBuilder, Topology, key_value_store

SILENCE_MS = 5 * 60_000
LOOK_EVERY = timedelta(minutes=1)
LAST_HEARD = key_value_store("last-heard", key=str, value=int)
SILENT = key_value_store("silent", key=str, value=int)


class SilenceAlarm(Processor[str, float, str, str]):
    """Remembers when each sensor was heard; forwards "silent" and "back"."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        # What is in a store survives a crash or a move. Attributes do not.
        self.last_heard = context.store(LAST_HEARD)
        self.silent = context.store(SILENT)
        context.schedule(LOOK_EVERY, "wall_clock", self.check)

    def process(self, record: Record[str, float]) -> None:
        now = self.context.current_system_time_ms()
        self.last_heard.put(record.key, now)
        if self.silent.delete(record.key) is not None:
            self.context.forward(Record(record.key, "back", record.timestamp))

    def check(self, now: int) -> None:
        """Called with the wall clock. A scan shows the store as it was when the scan began."""
        for sensor, heard in self.last_heard.all():
            if now - heard >= SILENCE_MS:
                self.last_heard.delete(sensor)
                self.silent.put(sensor, heard)
                self.context.forward(Record(sensor, "silent", now))


def topology() -> Topology:
    builder = StreamsBuilder()
    readings = builder.stream("readings", key=str, value=float)
    # The key stays what it was, so nothing below has to be repartitioned.
    alarms = readings.process_values(
        SilenceAlarm, stores=(LAST_HEARD, SILENT), value=str, name="silence-alarm"
    )
    alarms.to("alarms")
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="silence")

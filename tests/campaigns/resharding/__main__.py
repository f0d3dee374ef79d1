"""Move 100,000 keys from 4 to 6 partitions with kills at 20 points.

Run ``python -m tests.campaigns.resharding``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import uuid
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.resharding.story import Story, tell

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    arguments = parser.parse_args()
    with LocalBroker.start() as broker, tempfile.TemporaryDirectory() as folder:
        story = Story(
            broker.bootstrap, f"moved{uuid.uuid4().hex[:6]}", Path(folder), arguments.keys
        )
        print(json.dumps(tell(story, records=arguments.records, kills=arguments.kills)))

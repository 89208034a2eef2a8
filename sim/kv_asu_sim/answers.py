"""What one operation of a port is answered: the payload pins of that port, as numpy records."""

from __future__ import annotations

import numpy as np

from kv_asu_sim.pins import OUTPUTS


def _payload(*prefixes: str) -> np.dtype:
    assert OUTPUTS.names is not None
    valid = ("tag_valid", "answer_valid", "victim_valid")
    names = [name for name in OUTPUTS.names if name.startswith(prefixes) and name not in valid]
    return np.dtype([(name, OUTPUTS[name]) for name in names])


#: Answer to a request: ``tag_*`` and ``spill_*``.
TAG = _payload("tag_", "spill_")
#: Answer to a query: ``answer_*``.
ANSWER = _payload("answer_")
#: Answer to an evict command: ``victim_*``.
VICTIM = _payload("victim_")

"""The golden model behind its registers, as the driver's `CoreBus`: the ports in bulk, one operation a clock."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kv_asu.params import Params
from kv_asu_firmware.config_space import ConfigSpaceModel
from kv_asu_firmware.golden import Query

TAG = np.dtype([("tag_line", "u8"), ("tag_before", "u1"), ("tag_after", "u1"), ("tag_count", "u2")])
ANSWER = np.dtype([("answer_tracked", "u1"), ("answer_tlevel", "u1"), ("answer_hit", "u1")])
VICTIM = np.dtype([("victim_status", "u1"), ("victim_line", "u8")])


class GoldenBus:
    """A core that becomes active at once. Operations take n + L clocks, as in the compiled core."""

    def __init__(self, params: Params | None = None, **settings: int) -> None:
        self.params = params or Params()
        self.model = ConfigSpaceModel(self.params)
        for name, value in settings.items():
            setattr(self.model.golden.settings, name, value)
        self.clock = 0
        self.touches: list[int] = []
        self.enable(True)

    def enable(self, value: bool) -> None:
        self.model.write(self.params.config_base + 8, int(value), 4)
        self.idle(2 + (1 << self.params.log2_entries) // self.params.window + self.params.latency + 8)

    @property
    def active(self) -> bool:
        return self.model.golden.active

    def query_lines(
        self, addresses: npt.NDArray[np.uint64], *, min_tlevel: int = 0, boost: bool = False
    ) -> npt.NDArray[np.void]:
        self.idle(self.params.latency)
        answers = [self._step(query=Query(address, min_tlevel, boost)).answer for address in addresses.tolist()]
        return np.array([answer[:3] for answer in answers if answer], ANSWER)

    def observe(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.void]:
        self.touches += (addresses >> np.uint64(8)).tolist()
        self.idle(self.params.latency)
        tags = [self._step(request=address).tag for address in addresses.tolist()]
        return np.array([(tag.line, tag.before, tag.after, tag.count) for tag in tags if tag], TAG)

    def evict_lines(self, count: int) -> npt.NDArray[np.void]:
        self.idle(self.params.latency)
        return np.array([self._step(evict=True).victim for _ in range(count)], VICTIM)

    def idle(self, clocks: int) -> None:
        self.model.idle(clocks)
        self.clock += clocks

    def _step(self, request: int | None = None, query: Query | None = None, evict: bool = False):  # type: ignore[no-untyped-def]
        self.clock += 1
        return self.model.clock(request, query, evict)

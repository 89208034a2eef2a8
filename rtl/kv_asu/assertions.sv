// What the KV-ASU's contract says of its pins, as assertions. They watch the pins only, know nothing of the inside, and
// hold in every clock after the first reset. Each is named and says in its message what was promised.
//
// A simulator with concurrent assertions checks `assert property`; Icarus Verilog, which has none, checks the same
// conditions as immediate assertions at the clock edge.

`ifdef __ICARUS__
`define KV_ASU_ASSERT(NAME, CONDITION, PROMISE) \
  always @(posedge clk) if (watching && !rst) begin \
    if ((CONDITION) !== 1'b1) $error("Assertion failed in %m.%s: %s", `"NAME`", PROMISE); \
  end
`else
`define KV_ASU_ASSERT(NAME, CONDITION, PROMISE) \
  NAME: assert property (@(posedge clk) disable iff (rst || !watching) CONDITION) else $error(PROMISE);
`endif

// Icarus Verilog 11 takes anything in $isunknown for unknown.
`define KV_ASU_KNOWN(PINS) (^(PINS) !== 1'bx)

module kv_asu_assertions #(
  parameter int ADDR_WIDTH = 64,
  parameter int LOG2_ENTRIES = 11,
  parameter int STAMP_WIDTH = 8,
  parameter int LATENCY = 1,
  // The DWORDs of config space that are answered, and the function they belong to.
  parameter logic [9:0] CONFIG_FIRST = 10'h1fe,
  parameter logic [9:0] CONFIG_LAST = 10'h21d,
  parameter logic [7:0] CONFIG_FUNCTION = 8'h00,
  localparam int LINE_WIDTH = ADDR_WIDTH - 8
) (
  input wire clk,
  input wire rst,
  input wire req_valid,
  input wire [ADDR_WIDTH-1:0] req_addr,
  input wire tag_valid,
  input wire [LINE_WIDTH-1:0] tag_line,
  input wire tag_tracked,
  input wire tag_hit,
  input wire [1:0] tag_before,
  input wire [1:0] tag_after,
  input wire [15:0] tag_count,
  input wire [LOG2_ENTRIES-1:0] tag_slot,
  input wire [STAMP_WIDTH-1:0] tag_stamp,
  input wire spill_valid,
  input wire [LINE_WIDTH-1:0] spill_line,
  input wire query_valid,
  input wire [ADDR_WIDTH-1:0] query_addr,
  input wire [1:0] query_min_tlevel,
  input wire query_boost,
  input wire answer_valid,
  input wire answer_tracked,
  input wire [1:0] answer_tlevel,
  input wire answer_hit,
  input wire evict_valid,
  input wire victim_valid,
  input wire [1:0] victim_status,
  input wire [LINE_WIDTH-1:0] victim_line,
  input wire power_good,
  input wire irq,
  input wire cfg_ext_read_received,
  input wire cfg_ext_write_received,
  input wire [9:0] cfg_ext_register_number,
  input wire [7:0] cfg_ext_function_number,
  input wire [31:0] cfg_ext_write_data,
  input wire [3:0] cfg_ext_write_byte_enable,
  input wire [31:0] cfg_ext_read_data,
  input wire cfg_ext_read_data_valid
);

  localparam logic [1:0] EMPTY = 2'd0, FOUND = 2'd1, RETRY = 2'd2;
  localparam logic [15:0] COUNT_MAX = 16'hffff;
  // Clocks of evict commands without a request after which nothing but fetching the next tail can delay a victim.
  localparam int QUIET = LATENCY + 16;
  // RETRY answers in a row that a build may then still give.
  localparam int FETCHES = LATENCY > 1 ? 1 : 0;

  // ---- what was asked L clocks ago -----------------------------------------------------------------------------------

  reg watching = 1'b0;  // from the first reset on

  reg [LATENCY-1:0] requested, queried, evicted, boosted;
  reg [LATENCY*LINE_WIDTH-1:0] requested_line;
  reg [LATENCY*2-1:0] queried_min;

  wire request_due = requested[LATENCY-1];
  wire query_due = queried[LATENCY-1];
  wire evict_due = evicted[LATENCY-1];
  wire boost = boosted[LATENCY-1];
  wire [LINE_WIDTH-1:0] line_due = requested_line[LATENCY*LINE_WIDTH-1 -: LINE_WIDTH];
  wire [1:0] min_tlevel = queried_min[LATENCY*2-1 -: 2];

  always @(posedge clk) begin
    if (rst) watching <= 1'b1;
    requested <= rst ? '0 : LATENCY'({requested, req_valid});
    queried <= rst ? '0 : LATENCY'({queried, query_valid});
    evicted <= rst ? '0 : LATENCY'({evicted, evict_valid});
    boosted <= LATENCY'({boosted, query_boost});
    requested_line <= (LATENCY * LINE_WIDTH)'({requested_line, req_addr[ADDR_WIDTH-1:8]});
    queried_min <= (LATENCY * 2)'({queried_min, query_min_tlevel});
  end

  // ---- one answer per operation, L clocks later ----------------------------------------------------------------------

  `KV_ASU_ASSERT(a_request_answered, tag_valid == request_due, "one tag for each request, L clocks later")
  `KV_ASU_ASSERT(a_query_answered, answer_valid == query_due, "one answer for each query, L clocks later")
  `KV_ASU_ASSERT(a_evict_answered, victim_valid == evict_due, "one victim for each evict, L clocks later")

  // ---- requests ------------------------------------------------------------------------------------------------------

  // A line number is the address above its low 8 bits; a granule of up to 2^24 bytes clears up to 16 bits of that.
  wire [LINE_WIDTH-1:0] cleared = tag_line ^ line_due;
  wire [15:0] granule = {cleared[15], |cleared[15:14], |cleared[15:13], |cleared[15:12], |cleared[15:11],
                         |cleared[15:10], |cleared[15:9], |cleared[15:8], |cleared[15:7], |cleared[15:6],
                         |cleared[15:5], |cleared[15:4], |cleared[15:3], |cleared[15:2], |cleared[15:1],
                         |cleared[15:0]};
  wire line_right = ~|(cleared >> 16) && ~|(tag_line[15:0] & granule);

  wire slot_given = tag_valid && tag_tracked;
  wire slot_new = slot_given && !tag_hit;
  wire spilled = tag_valid && spill_valid;

  `KV_ASU_ASSERT(a_tag_line, !tag_valid || line_right, "tag_line is the request's line number")
  `KV_ASU_ASSERT(a_untracked_zero,
    !tag_valid || tag_tracked || {tag_hit, tag_before, tag_after, tag_count, tag_slot, spill_valid} == '0,
    "of a line without a slot hit, levels, count and slot are 0, and it spills none")
  `KV_ASU_ASSERT(a_new_line, !slot_new || (tag_before == 2'd0 && tag_count == 16'd1),
    "a line that had no slot was at T-level 0 and is counted once")
  `KV_ASU_ASSERT(a_count, !slot_given || tag_count != 16'd0, "a line just touched is counted at least once")
  `KV_ASU_ASSERT(a_after, !slot_given || tag_after != 2'd0, "a line just touched is at T-level 1 at least")
  `KV_ASU_ASSERT(a_level_rises, !slot_given || tag_after >= tag_before, "a touch never lowers a T-level")
  `KV_ASU_ASSERT(a_spill, !spilled || slot_new, "only a line that takes a new slot spills another")
  `KV_ASU_ASSERT(a_spill_other, !spilled || spill_line != tag_line, "the line spilled is another one")
  `KV_ASU_ASSERT(a_no_spill_zero, !tag_valid || spill_valid || spill_line == '0,
    "where nothing is spilled, spill_line is 0")

  // ---- queries -------------------------------------------------------------------------------------------------------

  `KV_ASU_ASSERT(a_answer_zero, !answer_valid || answer_tracked || {answer_tlevel, answer_hit} == '0,
    "of a line without a slot T-level and hit are 0")
  `KV_ASU_ASSERT(a_answer_hit, !answer_valid || !answer_tracked || answer_hit == (answer_tlevel >= min_tlevel),
    "a tracked line is a hit exactly when its T-level is at least the one asked for")
  `KV_ASU_ASSERT(a_answer_boost, !answer_valid || !answer_tracked || !boost || answer_tlevel != 2'd0,
    "with boost a tracked line is at T-level 1 at least")

  // ---- evictions -----------------------------------------------------------------------------------------------------

  wire found = victim_valid && victim_status == FOUND;

  `KV_ASU_ASSERT(a_victim_status,
    !victim_valid || victim_status == EMPTY || victim_status == FOUND || victim_status == RETRY,
    "victim_status is EMPTY, FOUND or RETRY")
  `KV_ASU_ASSERT(a_no_victim_zero, !victim_valid || found || victim_line == '0,
    "where no victim is found, victim_line is 0")
  `KV_ASU_ASSERT(a_victim_cold, !found || !slot_given || victim_line != tag_line,
    "a line requested in the clock of an evict is not its victim")
  `KV_ASU_ASSERT(a_victim_not_spilled, !found || !spilled || victim_line != spill_line,
    "a line spilled in the clock of an evict is not its victim")

  // Evict commands in every clock and no request for a while.
  reg [7:0] drained, retries;
  wire [7:0] drained_next = !evict_due || request_due ? 8'd0 : drained == '1 ? drained : drained + 8'd1;
  wire [7:0] retries_next =
    victim_valid && victim_status == RETRY && drained_next > 8'(QUIET) ? retries + 8'd1 : 8'd0;
  always @(posedge clk) begin
    drained <= rst ? 8'd0 : drained_next;
    retries <= rst ? 8'd0 : retries_next;
  end
  `KV_ASU_ASSERT(a_retry_rate, retries_next <= 8'(FETCHES),
    "while nothing is touched, evict commands given every clock are not kept at RETRY")

  // ---- order ---------------------------------------------------------------------------------------------------------

  // The line touched in the clock before: still there, in its slot, counted once more.
  reg touched, touched_full;
  reg [LINE_WIDTH-1:0] touched_line;
  reg [LOG2_ENTRIES-1:0] touched_slot;
  reg [15:0] touched_count;
  always @(posedge clk) begin
    touched <= !rst && slot_given;
    touched_full <= tag_count == COUNT_MAX;
    touched_line <= tag_line;
    touched_slot <= tag_slot;
    touched_count <= tag_count;
  end
  wire again = touched && slot_given && tag_line == touched_line;
  `KV_ASU_ASSERT(a_touch_again_hits, !again || (tag_hit && tag_slot == touched_slot),
    "a line touched in the clock before has its slot still")
  `KV_ASU_ASSERT(a_touch_again_counts, !again || tag_count == (touched_full ? COUNT_MAX : touched_count + 16'd1),
    "a line touched in the clock before is counted once more, up to 65535")

  // The last victim: without a slot until it is requested again.
  reg gone;
  reg [LINE_WIDTH-1:0] gone_line;
  wire back = slot_given && tag_line == gone_line;
  always @(posedge clk) begin
    if (rst) gone <= 1'b0;
    else if (found) gone <= 1'b1;
    else if (back) gone <= 1'b0;
    if (found) gone_line <= victim_line;
  end
  `KV_ASU_ASSERT(a_victim_is_gone, !gone || !back || !tag_hit, "a victim has lost its slot")
  `KV_ASU_ASSERT(a_victim_once, !gone || !found || victim_line != gone_line,
    "a victim is not found again before it has been requested again")

  // ---- config space --------------------------------------------------------------------------------------------------

  // A read that is held until it is answered counts once.
  reg reading;
  reg [9:0] reading_number;
  wire read = cfg_ext_read_received && cfg_ext_function_number == CONFIG_FUNCTION
    && cfg_ext_register_number >= CONFIG_FIRST && cfg_ext_register_number <= CONFIG_LAST
    && !(reading && cfg_ext_register_number == reading_number);
  always @(posedge clk) begin
    reading <= !rst && read;
    reading_number <= cfg_ext_register_number;
  end
  `KV_ASU_ASSERT(a_read_answered, cfg_ext_read_data_valid == reading,
    "a read of the window is answered one clock later, and nothing else is")

  // ---- no X ----------------------------------------------------------------------------------------------------------

  `KV_ASU_ASSERT(a_tag_known, `KV_ASU_KNOWN({tag_valid, tag_line, tag_tracked, tag_hit, tag_before, tag_after, tag_count,
    tag_slot, tag_stamp, spill_valid, spill_line}), "no tag or spill pin is ever X after reset")
  `KV_ASU_ASSERT(a_answer_known, `KV_ASU_KNOWN({answer_valid, answer_tracked, answer_tlevel, answer_hit}),
    "no answer pin is ever X after reset")
  `KV_ASU_ASSERT(a_victim_known, `KV_ASU_KNOWN({victim_valid, victim_status, victim_line}),
    "no victim pin is ever X after reset")
  `KV_ASU_ASSERT(a_config_known, `KV_ASU_KNOWN({cfg_ext_read_data_valid, cfg_ext_read_data}),
    "no config-space pin is ever X after reset")
  `KV_ASU_ASSERT(a_irq_known, `KV_ASU_KNOWN(irq), "irq is never X after reset")

  // ---- what the core may expect of its surroundings ------------------------------------------------------------------

  `KV_ASU_ASSERT(s_valids_known, `KV_ASU_KNOWN({req_valid, query_valid, evict_valid, power_good, cfg_ext_read_received,
    cfg_ext_write_received}), "valid pins and power_good are driven")
  `KV_ASU_ASSERT(s_request_known, !req_valid || `KV_ASU_KNOWN(req_addr), "with req_valid the address is driven")
  `KV_ASU_ASSERT(s_query_known, !query_valid || `KV_ASU_KNOWN({query_addr, query_min_tlevel, query_boost}),
    "with query_valid its operands are driven")
  `KV_ASU_ASSERT(s_access_known, !(cfg_ext_read_received || cfg_ext_write_received)
    || `KV_ASU_KNOWN({cfg_ext_register_number, cfg_ext_function_number}), "a config access names a register")
  `KV_ASU_ASSERT(s_write_known, !cfg_ext_write_received || `KV_ASU_KNOWN({cfg_ext_write_data, cfg_ext_write_byte_enable}),
    "with a config write its data are driven")

endmodule

`undef KV_ASU_ASSERT
`undef KV_ASU_KNOWN

// A memory controller's front: a read channel and a write channel, one of which goes through in a clock, and the KV-ASU
// that sees what goes through. Reads go first. Stands for a design of your own; nothing in it is needed by the core.

module snooper (
  input wire clk,
  input wire rst,

  input wire read_valid,
  input wire [63:0] read_address,
  input wire write_valid,
  input wire [63:0] write_address,
  output wire write_ready,

  // What the core's monitors and the scoreboard look for: the core's pins, under the core's names.
  input wire query_valid,
  input wire [63:0] query_addr,
  input wire [1:0] query_min_tlevel,
  input wire query_boost,
  input wire evict_valid,
  input wire cfg_ext_read_received,
  input wire cfg_ext_write_received,
  input wire [9:0] cfg_ext_register_number,
  input wire [7:0] cfg_ext_function_number,
  input wire [31:0] cfg_ext_write_data,
  input wire [3:0] cfg_ext_write_byte_enable
);

  wire req_valid = read_valid || write_valid;
  wire [63:0] req_addr = read_valid ? read_address : write_address;
  assign write_ready = !read_valid;

  wire tag_valid, tag_tracked, tag_hit, spill_valid, answer_valid, answer_tracked, answer_hit, victim_valid;
  wire irq, cfg_ext_read_data_valid;
  wire [55:0] tag_line, spill_line, victim_line;
  wire [1:0] tag_before, tag_after, answer_tlevel, victim_status;
  wire [15:0] tag_count;
  wire [3:0] tag_slot;
  wire [7:0] tag_stamp;
  wire [31:0] cfg_ext_read_data;
  wire power_good = 1'b1;

  kv_asu asu (.*);

endmodule

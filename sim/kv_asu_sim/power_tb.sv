// Three loads on a netlist of the core, one after the other; what toggles goes to LOAD.saif. Driven by kv_asu_sim.power.
`timescale 1ps / 1ps

module power_tb;
  localparam int WARM = 4096, WINDOW = 4096;
  localparam logic [9:0] CTRL = `CTRL;

  logic clk = 0, rst = 1;
  logic req_valid = 0, query_valid = 0, query_boost = 0, evict_valid = 0;
  logic [`ADDR_WIDTH-1:0] req_addr = 0, query_addr = 0;
  logic [1:0] query_min_tlevel = 2;
  logic power_good = 1, cfg_ext_read_received = 0, cfg_ext_write_received = 0;
  logic [9:0] cfg_ext_register_number = CTRL;
  logic [7:0] cfg_ext_function_number = 0;
  logic [31:0] cfg_ext_write_data = 1;
  logic [3:0] cfg_ext_write_byte_enable = 15;

  kv_asu_netlist core (
    .clk, .rst, .req_valid, .req_addr, .query_valid, .query_addr, .query_min_tlevel, .query_boost, .evict_valid, .power_good,
    .cfg_ext_read_received, .cfg_ext_write_received, .cfg_ext_register_number, .cfg_ext_function_number,
    .cfg_ext_write_data, .cfg_ext_write_byte_enable,
    .tag_valid(), .tag_line(), .tag_tracked(), .tag_hit(), .tag_before(), .tag_after(), .tag_count(), .tag_slot(), .tag_stamp(),
    .spill_valid(), .spill_line(), .answer_valid(), .answer_tracked(), .answer_tlevel(), .answer_hit(), .victim_valid(),
    .victim_status(), .victim_line(), .irq(), .cfg_ext_read_data(), .cfg_ext_read_data_valid()
  );

  always #1000 clk = !clk;

  // Runs through KV lines of a tile, and now and then a jump, over four times as many lines as the table has slots.
  task automatic step(input bit requests, input bit all);
    @(negedge clk);
    if ($urandom % 64 == 0) req_addr = `ADDR_WIDTH'(32'h8000_0000 + ($urandom % (4 * `ENTRIES)) * 256);
    else req_addr = req_addr + 256;
    query_addr = req_addr ^ `ADDR_WIDTH'(($urandom % 64) * 256);
    req_valid = requests;
    query_valid = all;
    evict_valid = all;
  endtask

  initial begin
    string load;
    bit requests, all;
    if (!$value$plusargs("load=%s", load)) $fatal(1, "no +load");
    requests = load != "idle";
    all = load == "all";
    repeat (4) @(negedge clk);
    rst = 0;
    @(negedge clk) cfg_ext_write_received = 1;
    @(negedge clk) cfg_ext_write_received = 0;
    repeat (`ENTRIES) @(negedge clk);
    repeat (WARM) step(requests, all);
    $dumpfile({load, ".saif"});
    $dumpvars(0, power_tb.core);
    repeat (WINDOW) step(requests, all);
    $finish;
  end
endmodule

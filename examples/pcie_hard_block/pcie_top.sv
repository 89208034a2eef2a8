// The KV-ASU behind a PCIe hard block's configuration-extend port (UltraScale+ PCIE4, Vivado's pcie4_uscale_plus IP), wire
// to wire: names and timing are the same on both sides. The hard block keeps its header; the core is one more capability.
//
// The IP's serial lanes, clocks and AXI streams are left out: they are your design's, and the core has no part in them.

module pcie_top (
  input logic        mem_valid,
  input logic [63:0] mem_addr
);

  logic        user_clk, user_reset;
  logic        read, write, read_data_valid;
  logic [9:0]  register;
  logic [7:0]  function_number;
  logic [31:0] write_data, read_data;
  logic [3:0]  byte_enable;

  pcie4_uscale_plus_0 pcie (
    .user_clk                  (user_clk),
    .user_reset                (user_reset),
    .cfg_ext_read_received     (read),
    .cfg_ext_write_received    (write),
    .cfg_ext_register_number   (register),
    .cfg_ext_function_number   (function_number),
    .cfg_ext_write_data        (write_data),
    .cfg_ext_write_byte_enable (byte_enable),
    .cfg_ext_read_data         (read_data),
    .cfg_ext_read_data_valid   (read_data_valid)
  );

  // `kv-asu verilog --profile fpga --config-base 0x480`: the PCIE4 hands user logic 0x480 to 0x4FF.
  kv_asu asu (
    .clk                       (user_clk),
    .rst                       (user_reset),
    .req_valid                 (mem_valid),
    .req_addr                  (mem_addr),
    .query_valid               (1'b0),
    .query_addr                (64'd0),
    .query_min_tlevel          (2'd0),
    .query_boost               (1'b0),
    .evict_valid               (1'b0),
    .power_good                (1'b1),
    .cfg_ext_read_received     (read),
    .cfg_ext_write_received    (write),
    .cfg_ext_register_number   (register),
    .cfg_ext_function_number   (function_number),
    .cfg_ext_write_data        (write_data),
    .cfg_ext_write_byte_enable (byte_enable),
    .cfg_ext_read_data         (read_data),
    .cfg_ext_read_data_valid   (read_data_valid),
    // The answers are for your design; the host takes victims through registers.
    .tag_valid(), .tag_line(), .tag_tracked(), .tag_hit(), .tag_before(), .tag_after(), .tag_count(), .tag_slot(),
    .tag_stamp(), .spill_valid(), .spill_line(), .answer_valid(), .answer_tracked(), .answer_tlevel(), .answer_hit(),
    .victim_valid(), .victim_status(), .victim_line(),
    .irq()  // to the IP's cfg_interrupt_int or cfg_interrupt_msi_int, as your interrupts are set up
  );

endmodule

// A host: walks the capability list, finds the core, enables it, and reads what traffic has done.

`timescale 1ns / 1ps

module tb;
  localparam logic [31:0] VENDOR_SPECIFIC = 32'h000B, ID_MAGIC = 32'h4B56;
  localparam logic [11:0] STATUS = 12'h04, ID = 12'h08, TRACKED = 12'h34;  // from CTRL

  logic mem_valid = 0;
  logic [63:0] mem_addr = 0;
  logic [11:0] capability, ctrl;
  logic [31:0] data;

  pcie_top dut (.*);

  initial begin
    @(negedge dut.user_reset);
    capability = 12'h100;
    ctrl = 0;
    while (capability != 0 && ctrl == 0) begin
      dut.pcie.config_read(capability, data);
      if (data[15:0] == VENDOR_SPECIFIC[15:0]) ctrl = capability + 12'd8;
      else capability = data[31:20];
    end
    if (ctrl != 12'h488) $fatal(1, "CTRL is at %h, expected 488", ctrl);
    dut.pcie.config_read(ctrl + ID, data);
    if (data[31:16] != ID_MAGIC[15:0]) $fatal(1, "ID is %h", data);

    dut.pcie.config_write(ctrl, 1);
    do dut.pcie.config_read(ctrl + STATUS, data); while (!data[0]);
    for (int number = 0; number < 12; number++)
      @(negedge dut.user_clk) begin
        mem_valid = 1;
        mem_addr = 64'd256 * 64'(number);
      end
    @(negedge dut.user_clk) mem_valid = 0;
    repeat (16) @(negedge dut.user_clk);
    dut.pcie.config_read(ctrl + TRACKED, data);
    if (data != 12) $fatal(1, "TRACKED is %0d, expected 12", data);
    $display("passed: the core was found at 0x%h, enabled, and tracks %0d lines", ctrl, data);
    $finish;
  end

  initial #100_000 $fatal(1, "no end after 25,000 clocks");
endmodule

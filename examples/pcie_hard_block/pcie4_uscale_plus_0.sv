// For simulation, in the place of the IP: one capability of the hard block's own at 0x100, whose next pointer is 0x480
// (the IP's option), and every configuration access on the extend port, as PG213 has it.

`timescale 1ns / 1ps

module pcie4_uscale_plus_0 (
  output logic        user_clk,
  output logic        user_reset,
  output logic        cfg_ext_read_received,
  output logic        cfg_ext_write_received,
  output logic [9:0]  cfg_ext_register_number,
  output logic [7:0]  cfg_ext_function_number,
  output logic [31:0] cfg_ext_write_data,
  output logic [3:0]  cfg_ext_write_byte_enable,
  input  logic [31:0] cfg_ext_read_data,
  input  logic        cfg_ext_read_data_valid
);

  initial begin
    user_clk = 0;
    forever #2 user_clk = !user_clk;  // 250 MHz
  end

  initial begin
    {cfg_ext_read_received, cfg_ext_write_received} = 0;
    user_reset = 1;
    repeat (8) @(posedge user_clk);
    user_reset <= 0;
  end

  // A configuration read of a DWORD. What nobody on the extend port answers is the hard block's: 0 but for its own.
  task automatic config_read(input logic [11:0] address, output logic [31:0] data);
    @(posedge user_clk) begin
      cfg_ext_read_received <= 1;
      cfg_ext_register_number <= address[11:2];
      cfg_ext_function_number <= 0;
    end
    @(posedge user_clk) cfg_ext_read_received <= 0;
    @(negedge user_clk) data = cfg_ext_read_data_valid ? cfg_ext_read_data : address == 12'h100 ? 32'h480_1_0003 : 0;
  endtask

  task automatic config_write(input logic [11:0] address, input logic [31:0] data);
    @(posedge user_clk) begin
      cfg_ext_write_received <= 1;
      cfg_ext_register_number <= address[11:2];
      cfg_ext_function_number <= 0;
      cfg_ext_write_data <= data;
      cfg_ext_write_byte_enable <= 4'b1111;
    end
    @(posedge user_clk) cfg_ext_write_received <= 0;
  endtask

endmodule

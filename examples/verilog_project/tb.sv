// Touches lines, lets them go cold, and wants room: the victims must come in the order of last touch, then none.

`timescale 1ns / 1ps

module tb;
  localparam int LINES = 8;
  localparam int COLD = 600;  // T1.AGE is 500 clocks by default; a tick and the list's own lag come on top

  logic clk = 0, rst = 1, mem_valid = 0, room_wanted = 0;
  logic [63:0] mem_addr = 0;
  wire victim, none, hot, ready;
  wire [63:0] victim_addr, hot_addr;
  int hots = 0;

  kv_asu_top dut (.*);

  always #1 clk = !clk;
  always @(posedge clk) if (hot) hots++;

  function automatic [63:0] line(input int number);
    return 64'h8000_0000 + 64'd256 * 64'(number);
  endfunction

  // Inputs change at the falling edge, well away from the rising one that the design samples them at.
  task automatic touch(input int number);
    @(negedge clk) begin
      mem_valid = 1;
      mem_addr = line(number) + 64'd64;
    end
    @(negedge clk) mem_valid = 0;
  endtask

  task automatic want_room(output logic found, output logic [63:0] address);
    @(negedge clk) room_wanted = 1;
    do @(negedge clk); while (!victim && !none);
    room_wanted = 0;
    found = victim;
    address = victim_addr;
  endtask

  initial begin
    logic found;
    logic [63:0] address;
    int expected;

    repeat (4) @(negedge clk);
    rst = 0;
    wait (ready);
    for (int number = 0; number < LINES; number++) touch(number);
    repeat (6) touch(2);  // with the one above seven accesses; T-level 3 from the fifth on
    repeat (16) @(negedge clk);
    if (hots != 3) $fatal(1, "%0d hot answers, expected 3", hots);

    want_room(found, address);
    if (found) $fatal(1, "%h is a victim, and no line is cold yet", address);
    repeat (COLD) @(negedge clk);
    for (int place = 0; place < LINES; place++) begin
      expected = place < 2 ? place : place < LINES - 1 ? place + 1 : 2;
      want_room(found, address);
      if (!found || address != line(expected)) $fatal(1, "victim %0d is %h, expected %h", place, address, line(expected));
    end
    want_room(found, address);
    if (found) $fatal(1, "%h is a victim of an empty table", address);
    $display("passed: %0d victims, coldest first", LINES);
    $finish;
  end

  initial #100_000 $fatal(1, "no end after 50,000 clocks");
endmodule

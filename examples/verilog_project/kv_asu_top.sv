// The KV-ASU in a plain Verilog design, without a PCIe host: it listens to a memory controller's requests, is switched on
// by a few lines of logic instead of a driver, and names the coldest line whenever fast memory wants room.

module kv_asu_top #(
  // CTRL's DWORD: 8 bytes above the build's config_base, which is 0x7F8 unless `kv-asu verilog --config-base` said else.
  parameter logic [9:0] CTRL = 10'h200
) (
  input  logic        clk,
  input  logic        rst,

  // What the memory controller takes: one request a clock at most; the core never answers back.
  input  logic        mem_valid,
  input  logic [63:0] mem_addr,

  // Fast memory wants room: held until a victim comes, or `none` says that no line is cold.
  input  logic        room_wanted,
  output logic        victim,
  output logic        none,
  output logic [63:0] victim_addr,

  // Requests to lines that are sure to come again, L clocks after the request.
  output logic        hot,
  output logic [63:0] hot_addr,
  output logic        ready
);

  localparam logic [1:0] EMPTY = 2'd0, FOUND = 2'd1;  // 2 is RETRY: ask again

  logic        read, write, read_valid;
  logic [9:0]  register;
  logic [31:0] read_data;
  logic        tag_valid, victim_valid;
  logic [1:0]  tag_after, victim_status;
  logic [55:0] tag_line, victim_line;

  // Bring-up: CTRL = 1 (ENABLE), then STATUS is read until ACTIVE (bit 0) while the table is emptied.
  enum logic [1:0] {ENABLE, ASK, WAIT, ON} state;

  assign write    = state == ENABLE;
  assign read     = state == ASK;
  assign register = state == ENABLE ? CTRL : CTRL + 10'd1;
  assign ready    = state == ON;

  always_ff @(posedge clk)
    if (rst) state <= ENABLE;
    else
      case (state)
        ENABLE:  state <= ASK;
        ASK:     state <= WAIT;                                // a read is answered exactly one clock later
        WAIT:    state <= read_valid && read_data[0] ? ON : ASK;
        default: state <= ON;
      endcase

  // One evict command at a time, L clocks each. The core takes one a clock; a design that wants that counts them.
  logic asking;
  wire evict = ready && room_wanted && !asking && !victim && !none;

  always_ff @(posedge clk)
    if (rst) asking <= 1'b0;
    else if (evict) asking <= 1'b1;
    else if (victim_valid) asking <= 1'b0;

  always_ff @(posedge clk) begin
    victim <= !rst && victim_valid && victim_status == FOUND;
    none   <= !rst && victim_valid && victim_status == EMPTY;
    victim_addr <= {victim_line, 8'd0};
  end

  wire unused = &{1'b0, read_data[31:1]};

  assign hot      = tag_valid && tag_after == 2'd3;
  assign hot_addr = {tag_line, 8'd0};

  // Outputs that this design has no use for are left open, inputs are tied.
  kv_asu asu (
    .clk                       (clk),
    .rst                       (rst),
    .req_valid                 (mem_valid),
    .req_addr                  (mem_addr),
    .tag_valid                 (tag_valid),
    .tag_line                  (tag_line),
    .tag_tracked               (),
    .tag_hit                   (),
    .tag_before                (),
    .tag_after                 (tag_after),
    .tag_count                 (),
    .tag_slot                  (),
    .tag_stamp                 (),
    .spill_valid               (),
    .spill_line                (),
    .query_valid               (1'b0),
    .query_addr                (64'd0),
    .query_min_tlevel          (2'd0),
    .query_boost               (1'b0),
    .answer_valid              (),
    .answer_tracked            (),
    .answer_tlevel             (),
    .answer_hit                (),
    .evict_valid               (evict),
    .victim_valid              (victim_valid),
    .victim_status             (victim_status),
    .victim_line               (victim_line),
    .power_good                (1'b1),
    .irq                       (),
    .cfg_ext_read_received     (read),
    .cfg_ext_write_received    (write),
    .cfg_ext_register_number   (register),
    .cfg_ext_function_number   (8'd0),
    .cfg_ext_write_data        (32'd1),
    .cfg_ext_write_byte_enable (4'b1111),
    .cfg_ext_read_data         (read_data),
    .cfg_ext_read_data_valid   (read_valid)
  );

endmodule

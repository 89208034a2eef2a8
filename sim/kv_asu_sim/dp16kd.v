// An ECP5 block RAM as far as yosys uses it: synchronous, no output register, either two ports of up to 18 bits or one write
// port of up to 36 and one read port (FPGA-TN-02204, memory usage guide). Bytes have nine bits; ports of 1, 2 and 4 bits see
// eight of them. A read that meets a write of the other port returns the old word, inverted: nothing may depend on it.
module DP16KD (
  input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
  input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
  input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
  output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
  input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
  input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
  input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
  output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
  parameter DATA_WIDTH_A = 18;
  parameter DATA_WIDTH_B = 18;
  parameter REGMODE_A = "NOREG";
  parameter REGMODE_B = "NOREG";
  parameter RESETMODE = "SYNC";
  parameter ASYNC_RESET_RELEASE = "SYNC";
  parameter CSDECODE_A = "0b000";
  parameter CSDECODE_B = "0b000";
  parameter WRITEMODE_A = "NORMAL";
  parameter WRITEMODE_B = "NORMAL";
  parameter CLKAMUX = "CLKA";
  parameter CLKBMUX = "CLKB";
  parameter GSR = "AUTO";
  parameter [319:0] INITVAL_00 = 0, INITVAL_01 = 0, INITVAL_02 = 0, INITVAL_03 = 0;
  parameter [319:0] INITVAL_04 = 0, INITVAL_05 = 0, INITVAL_06 = 0, INITVAL_07 = 0;
  parameter [319:0] INITVAL_08 = 0, INITVAL_09 = 0, INITVAL_0A = 0, INITVAL_0B = 0;
  parameter [319:0] INITVAL_0C = 0, INITVAL_0D = 0, INITVAL_0E = 0, INITVAL_0F = 0;
  parameter [319:0] INITVAL_10 = 0, INITVAL_11 = 0, INITVAL_12 = 0, INITVAL_13 = 0;
  parameter [319:0] INITVAL_14 = 0, INITVAL_15 = 0, INITVAL_16 = 0, INITVAL_17 = 0;
  parameter [319:0] INITVAL_18 = 0, INITVAL_19 = 0, INITVAL_1A = 0, INITVAL_1B = 0;
  parameter [319:0] INITVAL_1C = 0, INITVAL_1D = 0, INITVAL_1E = 0, INITVAL_1F = 0;
  parameter [319:0] INITVAL_20 = 0, INITVAL_21 = 0, INITVAL_22 = 0, INITVAL_23 = 0;
  parameter [319:0] INITVAL_24 = 0, INITVAL_25 = 0, INITVAL_26 = 0, INITVAL_27 = 0;
  parameter [319:0] INITVAL_28 = 0, INITVAL_29 = 0, INITVAL_2A = 0, INITVAL_2B = 0;
  parameter [319:0] INITVAL_2C = 0, INITVAL_2D = 0, INITVAL_2E = 0, INITVAL_2F = 0;
  parameter [319:0] INITVAL_30 = 0, INITVAL_31 = 0, INITVAL_32 = 0, INITVAL_33 = 0;
  parameter [319:0] INITVAL_34 = 0, INITVAL_35 = 0, INITVAL_36 = 0, INITVAL_37 = 0;
  parameter [319:0] INITVAL_38 = 0, INITVAL_39 = 0, INITVAL_3A = 0, INITVAL_3B = 0;
  parameter [319:0] INITVAL_3C = 0, INITVAL_3D = 0, INITVAL_3E = 0, INITVAL_3F = 0;
  localparam WIDE = DATA_WIDTH_A == 36 || DATA_WIDTH_B == 36;

  reg [8:0] bytes [0:2047];
  integer i;
  initial for (i = 0; i < 2048; i = i + 1) bytes[i] = 9'($urandom);

  wire [35:0] di = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
                    DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
  wire [13:0] a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
  wire [13:0] b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
  reg [17:0] qa;
  reg [35:0] qb;

  task automatic write(input [13:0] at, input integer width, input [35:0] data);
    case (width)
      1: bytes[at[13:3]][at[2:0]] = data[0];
      2: bytes[at[13:3]][{at[2:1], 1'b0} +: 2] = data[1:0];
      4: bytes[at[13:3]][{at[2], 2'b00} +: 4] = data[3:0];
      9: bytes[at[13:3]] = data[8:0];
      18: begin
        if (at[0]) bytes[{at[13:4], 1'b0}] = data[8:0];
        if (at[1]) bytes[{at[13:4], 1'b1}] = data[17:9];
      end
      default: begin
        if (at[0]) bytes[{at[13:5], 2'd0}] = data[8:0];
        if (at[1]) bytes[{at[13:5], 2'd1}] = data[17:9];
        if (at[2]) bytes[{at[13:5], 2'd2}] = data[26:18];
        if (at[3]) bytes[{at[13:5], 2'd3}] = data[35:27];
      end
    endcase
  endtask

  function automatic [35:0] read(input [13:0] at, input integer width);
    case (width)
      1: read = bytes[at[13:3]][at[2:0]];
      2: read = bytes[at[13:3]][{at[2:1], 1'b0} +: 2];
      4: read = bytes[at[13:3]][{at[2], 2'b00} +: 4];
      9: read = bytes[at[13:3]];
      18: read = {bytes[{at[13:4], 1'b1}], bytes[{at[13:4], 1'b0}]};
      default: read = {bytes[{at[13:5], 2'd3}], bytes[{at[13:5], 2'd2}], bytes[{at[13:5], 2'd1}], bytes[{at[13:5], 2'd0}]};
    endcase
  endfunction

  // Whether two accesses share a byte.
  function meet(input [13:0] one, input integer wide, input [13:0] other, input integer narrow);
    reg [13:0] mask;
    begin
      mask = wide == 36 || narrow == 36 ? 14'h3FE0 : wide == 18 || narrow == 18 ? 14'h3FF0 : 14'h3FF8;
      meet = (one & mask) == (other & mask);
    end
  endfunction

  wire writes_a = CEA && WEA, writes_b = CEB && WEB && !WIDE;

  always @(posedge CLKA) begin
    if (RSTA) qa <= 0;
    else if (CEA && OCEA && !WEA)
      qa <= read(a, DATA_WIDTH_A) ^ (writes_b && meet(a, DATA_WIDTH_A, b, DATA_WIDTH_B) ? '1 : '0);
    if (RSTB) qb <= 0;
    else if (CEB && OCEB && !writes_b)
      qb <= read(b, DATA_WIDTH_B) ^ (writes_a && meet(b, DATA_WIDTH_B, a, DATA_WIDTH_A) ? '1 : '0);
    if (writes_a) write(a, DATA_WIDTH_A, di);
    if (writes_b) write(b, DATA_WIDTH_B, di >> 18);
  end

  // The wide read port comes out at both sides, a narrow one beside a wide write port at side B.
  wire [17:0] doa = DATA_WIDTH_B == 36 ? qb[17:0] : qa;
  wire [17:0] dob = DATA_WIDTH_B == 36 ? qb[35:18] : qb[17:0];
  assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} = doa;
  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0} = dob;
endmodule

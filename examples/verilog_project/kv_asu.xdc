# Vivado: a 100 MHz clock. All of it is one clock domain, and the core has no exceptions to its paths. rst must be
# synchronous to clk.
create_clock -name clk -period 10.000 [get_ports clk]

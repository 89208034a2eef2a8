# For the core at its pins, as `kv-asu timing` has it: 2 ns, what drives it takes 0.2 ns, what it drives 0.5 ns.
create_clock -name clk -period 2.0 [get_ports clk]
set_input_delay 0.2 -clock clk [remove_from_collection [all_inputs] [get_ports clk]]
set_output_delay 0.5 -clock clk [all_outputs]

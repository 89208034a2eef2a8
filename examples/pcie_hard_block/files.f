build/kv_asu.sv
pcie_top.sv
pcie4_uscale_plus_0.sv
tb.sv

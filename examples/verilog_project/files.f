build/kv_asu.sv
kv_asu_top.sv
tb.sv

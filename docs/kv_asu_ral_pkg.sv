// Generated from registers.rdl by `python -m kv_asu.registers_gen`; do not edit.
package kv_asu_ral_pkg;
    `include "uvm_macros.svh"
    import uvm_pkg::*;
    
    // reg - kv_asu::CAPABILITY
    class kv_asu__CAPABILITY extends uvm_reg;
        rand uvm_reg_field CAPABILITY_ID;
        rand uvm_reg_field VERSION;
        rand uvm_reg_field NEXT;

        function new(string name = "kv_asu__CAPABILITY");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.CAPABILITY_ID = new("CAPABILITY_ID");
            this.CAPABILITY_ID.configure(this, 16, 0, "RO", 0, 'hb, 1, 1, 0);
            this.VERSION = new("VERSION");
            this.VERSION.configure(this, 4, 16, "RO", 0, 'h1, 1, 1, 0);
            this.NEXT = new("NEXT");
            this.NEXT.configure(this, 12, 20, "RO", 0, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu__CAPABILITY

    // reg - kv_asu::VSEC
    class kv_asu__VSEC extends uvm_reg;
        rand uvm_reg_field VSEC_ID;
        rand uvm_reg_field REVISION;
        rand uvm_reg_field LENGTH;

        function new(string name = "kv_asu__VSEC");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.VSEC_ID = new("VSEC_ID");
            this.VSEC_ID.configure(this, 16, 0, "RO", 0, 'h4b56, 1, 1, 0);
            this.REVISION = new("REVISION");
            this.REVISION.configure(this, 4, 16, "RO", 0, 'h1, 1, 1, 0);
            this.LENGTH = new("LENGTH");
            this.LENGTH.configure(this, 12, 20, "RO", 0, 'h80, 1, 1, 0);
        endfunction : build
    endclass : kv_asu__VSEC

    // reg - kv_asu_registers::CTRL
    class kv_asu_registers__CTRL extends uvm_reg;
        rand uvm_reg_field ENABLE;
        rand uvm_reg_field FLUSH;
        rand uvm_reg_field SNAPSHOT;
        rand uvm_reg_field CLEAR;
        rand uvm_reg_field DECAY;
        rand uvm_reg_field RECLAIM_OFF;

        function new(string name = "kv_asu_registers__CTRL");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.ENABLE = new("ENABLE");
            this.ENABLE.configure(this, 1, 0, "RW", 0, 'h0, 1, 1, 0);
            this.FLUSH = new("FLUSH");
            this.FLUSH.configure(this, 1, 1, "WO", 1, 'h0, 1, 1, 0);
            this.SNAPSHOT = new("SNAPSHOT");
            this.SNAPSHOT.configure(this, 1, 2, "WO", 1, 'h0, 1, 1, 0);
            this.CLEAR = new("CLEAR");
            this.CLEAR.configure(this, 1, 3, "WO", 1, 'h0, 1, 1, 0);
            this.DECAY = new("DECAY");
            this.DECAY.configure(this, 2, 4, "RW", 0, 'h0, 1, 1, 0);
            this.RECLAIM_OFF = new("RECLAIM_OFF");
            this.RECLAIM_OFF.configure(this, 1, 6, "RW", 0, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__CTRL

    // reg - kv_asu_registers::STATUS
    class kv_asu_registers__STATUS extends uvm_reg;
        rand uvm_reg_field ACTIVE;
        rand uvm_reg_field BUSY;
        rand uvm_reg_field COLD_AVAILABLE;
        rand uvm_reg_field POWERED;

        function new(string name = "kv_asu_registers__STATUS");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.ACTIVE = new("ACTIVE");
            this.ACTIVE.configure(this, 1, 0, "RO", 1, 'h0, 0, 1, 0);
            this.BUSY = new("BUSY");
            this.BUSY.configure(this, 1, 1, "RO", 1, 'h0, 0, 1, 0);
            this.COLD_AVAILABLE = new("COLD_AVAILABLE");
            this.COLD_AVAILABLE.configure(this, 1, 2, "RO", 1, 'h0, 0, 1, 0);
            this.POWERED = new("POWERED");
            this.POWERED.configure(this, 1, 3, "RO", 1, 'h0, 0, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__STATUS

    // reg - kv_asu_registers::ID
    class kv_asu_registers__ID extends uvm_reg;
        rand uvm_reg_field MINOR;
        rand uvm_reg_field MAJOR;
        rand uvm_reg_field MAGIC;

        function new(string name = "kv_asu_registers__ID");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.MINOR = new("MINOR");
            this.MINOR.configure(this, 8, 0, "RO", 0, 'h0, 1, 1, 0);
            this.MAJOR = new("MAJOR");
            this.MAJOR.configure(this, 8, 8, "RO", 0, 'h1, 1, 1, 0);
            this.MAGIC = new("MAGIC");
            this.MAGIC.configure(this, 16, 16, "RO", 0, 'h4b56, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__ID

    // reg - kv_asu_registers::PARAMS
    class kv_asu_registers__PARAMS extends uvm_reg;
        rand uvm_reg_field LOG2_ENTRIES;
        rand uvm_reg_field WINDOW;
        rand uvm_reg_field LATENCY;
        rand uvm_reg_field STAMP_WIDTH;
        rand uvm_reg_field ADDR_WIDTH;

        function new(string name = "kv_asu_registers__PARAMS");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.LOG2_ENTRIES = new("LOG2_ENTRIES");
            this.LOG2_ENTRIES.configure(this, 5, 0, "RO", 0, 'hb, 1, 1, 0);
            this.WINDOW = new("WINDOW");
            this.WINDOW.configure(this, 5, 5, "RO", 0, 'h8, 1, 1, 0);
            this.LATENCY = new("LATENCY");
            this.LATENCY.configure(this, 4, 10, "RO", 0, 'h1, 1, 1, 0);
            this.STAMP_WIDTH = new("STAMP_WIDTH");
            this.STAMP_WIDTH.configure(this, 5, 14, "RO", 0, 'h8, 1, 1, 0);
            this.ADDR_WIDTH = new("ADDR_WIDTH");
            this.ADDR_WIDTH.configure(this, 7, 19, "RO", 0, 'h40, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__PARAMS

    // reg - kv_asu_registers::GEOMETRY
    class kv_asu_registers__GEOMETRY extends uvm_reg;
        rand uvm_reg_field LOG2_ACTIVE;
        rand uvm_reg_field LINE_SHIFT;

        function new(string name = "kv_asu_registers__GEOMETRY");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.LOG2_ACTIVE = new("LOG2_ACTIVE");
            this.LOG2_ACTIVE.configure(this, 5, 0, "RW", 0, 'hb, 1, 1, 0);
            this.LINE_SHIFT = new("LINE_SHIFT");
            this.LINE_SHIFT.configure(this, 5, 8, "RW", 0, 'h8, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__GEOMETRY

    // reg - kv_asu_registers::TIMEBASE
    class kv_asu_registers__TIMEBASE extends uvm_reg;
        rand uvm_reg_field TICK_SHIFT;

        function new(string name = "kv_asu_registers__TIMEBASE");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.TICK_SHIFT = new("TICK_SHIFT");
            this.TICK_SHIFT.configure(this, 5, 0, "RW", 0, 'h2, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__TIMEBASE

    // reg - kv_asu_registers::T3_AGE_38986649
    class kv_asu_registers__T3_AGE_38986649 extends uvm_reg;
        rand uvm_reg_field COUNT;
        rand uvm_reg_field AGE;

        function new(string name = "kv_asu_registers__T3_AGE_38986649");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.COUNT = new("COUNT");
            this.COUNT.configure(this, 16, 0, "RW", 0, 'h5, 1, 1, 0);
            this.AGE = new("AGE");
            this.AGE.configure(this, 16, 16, "RW", 0, 'h19, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__T3_AGE_38986649

    // reg - kv_asu_registers::T2_AGE_7f654c95
    class kv_asu_registers__T2_AGE_7f654c95 extends uvm_reg;
        rand uvm_reg_field COUNT;
        rand uvm_reg_field AGE;

        function new(string name = "kv_asu_registers__T2_AGE_7f654c95");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.COUNT = new("COUNT");
            this.COUNT.configure(this, 16, 0, "RW", 0, 'h3, 1, 1, 0);
            this.AGE = new("AGE");
            this.AGE.configure(this, 16, 16, "RW", 0, 'h32, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__T2_AGE_7f654c95

    // reg - kv_asu_registers::T1_AGE_a4a25cea
    class kv_asu_registers__T1_AGE_a4a25cea extends uvm_reg;
        rand uvm_reg_field COUNT;
        rand uvm_reg_field AGE;

        function new(string name = "kv_asu_registers__T1_AGE_a4a25cea");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.COUNT = new("COUNT");
            this.COUNT.configure(this, 16, 0, "RO", 0, 'h1, 1, 1, 0);
            this.AGE = new("AGE");
            this.AGE.configure(this, 16, 16, "RW", 0, 'h7d, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__T1_AGE_a4a25cea

    // reg - kv_asu_registers::IRQ_STATUS
    class kv_asu_registers__IRQ_STATUS extends uvm_reg;
        rand uvm_reg_field UNTRACKED;
        rand uvm_reg_field COLD_HIGH;
        rand uvm_reg_field CONFIG_ERROR;

        function new(string name = "kv_asu_registers__IRQ_STATUS");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.UNTRACKED = new("UNTRACKED");
            this.UNTRACKED.configure(this, 1, 0, "W1C", 1, 'h0, 1, 1, 0);
            this.COLD_HIGH = new("COLD_HIGH");
            this.COLD_HIGH.configure(this, 1, 1, "W1C", 1, 'h0, 1, 1, 0);
            this.CONFIG_ERROR = new("CONFIG_ERROR");
            this.CONFIG_ERROR.configure(this, 1, 2, "W1C", 1, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__IRQ_STATUS

    // reg - kv_asu_registers::IRQ_ENABLE
    class kv_asu_registers__IRQ_ENABLE extends uvm_reg;
        rand uvm_reg_field UNTRACKED;
        rand uvm_reg_field COLD_HIGH;
        rand uvm_reg_field CONFIG_ERROR;

        function new(string name = "kv_asu_registers__IRQ_ENABLE");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.UNTRACKED = new("UNTRACKED");
            this.UNTRACKED.configure(this, 1, 0, "RW", 0, 'h0, 1, 1, 0);
            this.COLD_HIGH = new("COLD_HIGH");
            this.COLD_HIGH.configure(this, 1, 1, "RW", 0, 'h0, 1, 1, 0);
            this.CONFIG_ERROR = new("CONFIG_ERROR");
            this.CONFIG_ERROR.configure(this, 1, 2, "RW", 0, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__IRQ_ENABLE

    // reg - kv_asu_registers::COLD_WATERMARK
    class kv_asu_registers__COLD_WATERMARK extends uvm_reg;
        rand uvm_reg_field LINES;

        function new(string name = "kv_asu_registers__COLD_WATERMARK");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.LINES = new("LINES");
            this.LINES.configure(this, 32, 0, "RW", 0, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__COLD_WATERMARK

    // reg - kv_asu_registers::HASH_SEED
    class kv_asu_registers__HASH_SEED extends uvm_reg;
        rand uvm_reg_field SEED;

        function new(string name = "kv_asu_registers__HASH_SEED");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.SEED = new("SEED");
            this.SEED.configure(this, 32, 0, "RW", 0, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__HASH_SEED

    // reg - kv_asu_registers::TRACKED
    class kv_asu_registers__TRACKED extends uvm_reg;
        rand uvm_reg_field LINES;

        function new(string name = "kv_asu_registers__TRACKED");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.LINES = new("LINES");
            this.LINES.configure(this, 32, 0, "RO", 1, 'h0, 0, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__TRACKED

    // reg - kv_asu_registers::COLD
    class kv_asu_registers__COLD extends uvm_reg;
        rand uvm_reg_field LINES;

        function new(string name = "kv_asu_registers__COLD");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.LINES = new("LINES");
            this.LINES.configure(this, 32, 0, "RO", 1, 'h0, 0, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__COLD

    // reg - kv_asu_registers::QUERY_LO
    class kv_asu_registers__QUERY_LO extends uvm_reg;
        rand uvm_reg_field ADDRESS;

        function new(string name = "kv_asu_registers__QUERY_LO");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.ADDRESS = new("ADDRESS");
            this.ADDRESS.configure(this, 32, 0, "RW", 0, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__QUERY_LO

    // reg - kv_asu_registers::QUERY_HI
    class kv_asu_registers__QUERY_HI extends uvm_reg;
        rand uvm_reg_field ADDRESS;

        function new(string name = "kv_asu_registers__QUERY_HI");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.ADDRESS = new("ADDRESS");
            this.ADDRESS.configure(this, 32, 0, "RW", 0, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__QUERY_HI

    // reg - kv_asu_registers::QUERY
    class kv_asu_registers__QUERY extends uvm_reg;
        rand uvm_reg_field START;
        rand uvm_reg_field DONE;
        rand uvm_reg_field TRACKED;
        rand uvm_reg_field TLEVEL;
        rand uvm_reg_field COUNT;

        function new(string name = "kv_asu_registers__QUERY");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.START = new("START");
            this.START.configure(this, 1, 0, "WO", 1, 'h0, 1, 1, 0);
            this.DONE = new("DONE");
            this.DONE.configure(this, 1, 1, "RO", 1, 'h0, 1, 1, 0);
            this.TRACKED = new("TRACKED");
            this.TRACKED.configure(this, 1, 2, "RO", 1, 'h0, 1, 1, 0);
            this.TLEVEL = new("TLEVEL");
            this.TLEVEL.configure(this, 2, 4, "RO", 1, 'h0, 1, 1, 0);
            this.COUNT = new("COUNT");
            this.COUNT.configure(this, 16, 16, "RO", 1, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__QUERY

    // reg - kv_asu_registers::EVICT
    class kv_asu_registers__EVICT extends uvm_reg;
        rand uvm_reg_field START;
        rand uvm_reg_field DONE;
        rand uvm_reg_field STATUS;

        function new(string name = "kv_asu_registers__EVICT");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.START = new("START");
            this.START.configure(this, 1, 0, "WO", 1, 'h0, 1, 1, 0);
            this.DONE = new("DONE");
            this.DONE.configure(this, 1, 1, "RO", 1, 'h0, 1, 1, 0);
            this.STATUS = new("STATUS");
            this.STATUS.configure(this, 2, 2, "RO", 1, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__EVICT

    // reg - kv_asu_registers::VICTIM_LO
    class kv_asu_registers__VICTIM_LO extends uvm_reg;
        rand uvm_reg_field ADDRESS;

        function new(string name = "kv_asu_registers__VICTIM_LO");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.ADDRESS = new("ADDRESS");
            this.ADDRESS.configure(this, 32, 0, "RO", 1, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__VICTIM_LO

    // reg - kv_asu_registers::VICTIM_HI
    class kv_asu_registers__VICTIM_HI extends uvm_reg;
        rand uvm_reg_field ADDRESS;

        function new(string name = "kv_asu_registers__VICTIM_HI");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.ADDRESS = new("ADDRESS");
            this.ADDRESS.configure(this, 32, 0, "RO", 1, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__VICTIM_HI

    // reg - kv_asu_registers::COUNTER_SELECT
    class kv_asu_registers__COUNTER_SELECT extends uvm_reg;
        rand uvm_reg_field INDEX;

        function new(string name = "kv_asu_registers__COUNTER_SELECT");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.INDEX = new("INDEX");
            this.INDEX.configure(this, 32, 0, "RW", 0, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__COUNTER_SELECT

    // reg - kv_asu_registers::COUNTER_LO
    class kv_asu_registers__COUNTER_LO extends uvm_reg;
        rand uvm_reg_field VALUE;

        function new(string name = "kv_asu_registers__COUNTER_LO");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.VALUE = new("VALUE");
            this.VALUE.configure(this, 32, 0, "RO", 1, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__COUNTER_LO

    // reg - kv_asu_registers::COUNTER_HI
    class kv_asu_registers__COUNTER_HI extends uvm_reg;
        rand uvm_reg_field VALUE;

        function new(string name = "kv_asu_registers__COUNTER_HI");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.VALUE = new("VALUE");
            this.VALUE.configure(this, 32, 0, "RO", 1, 'h0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__COUNTER_HI

    // reg - kv_asu_registers::LIMITS
    class kv_asu_registers__LIMITS extends uvm_reg;
        rand uvm_reg_field T1_AGE;

        function new(string name = "kv_asu_registers__LIMITS");
            super.new(name, 32, UVM_NO_COVERAGE);
        endfunction : new

        virtual function void build();
            this.T1_AGE = new("T1_AGE");
            this.T1_AGE.configure(this, 16, 0, "RO", 0, 'hf0, 1, 1, 0);
        endfunction : build
    endclass : kv_asu_registers__LIMITS

    // addrmap - kv_asu_registers
    class kv_asu_registers extends uvm_reg_block;
        rand kv_asu_registers__CTRL CTRL;
        rand kv_asu_registers__STATUS STATUS;
        rand kv_asu_registers__ID ID;
        rand kv_asu_registers__PARAMS PARAMS;
        rand kv_asu_registers__GEOMETRY GEOMETRY;
        rand kv_asu_registers__TIMEBASE TIMEBASE;
        rand kv_asu_registers__T3_AGE_38986649 T3;
        rand kv_asu_registers__T2_AGE_7f654c95 T2;
        rand kv_asu_registers__T1_AGE_a4a25cea T1;
        rand kv_asu_registers__IRQ_STATUS IRQ_STATUS;
        rand kv_asu_registers__IRQ_ENABLE IRQ_ENABLE;
        rand kv_asu_registers__COLD_WATERMARK COLD_WATERMARK;
        rand kv_asu_registers__HASH_SEED HASH_SEED;
        rand kv_asu_registers__TRACKED TRACKED;
        rand kv_asu_registers__COLD COLD;
        rand kv_asu_registers__QUERY_LO QUERY_LO;
        rand kv_asu_registers__QUERY_HI QUERY_HI;
        rand kv_asu_registers__QUERY QUERY;
        rand kv_asu_registers__EVICT EVICT;
        rand kv_asu_registers__VICTIM_LO VICTIM_LO;
        rand kv_asu_registers__VICTIM_HI VICTIM_HI;
        rand kv_asu_registers__COUNTER_SELECT COUNTER_SELECT;
        rand kv_asu_registers__COUNTER_LO COUNTER_LO;
        rand kv_asu_registers__COUNTER_HI COUNTER_HI;
        rand kv_asu_registers__LIMITS LIMITS;

        function new(string name = "kv_asu_registers");
            super.new(name);
        endfunction : new

        virtual function void build();
            this.default_map = create_map("reg_map", 0, 4, UVM_NO_ENDIAN);
            this.CTRL = new("CTRL");
            this.CTRL.configure(this);

            this.CTRL.build();
            this.default_map.add_reg(this.CTRL, 'h0);
            this.STATUS = new("STATUS");
            this.STATUS.configure(this);

            this.STATUS.build();
            this.default_map.add_reg(this.STATUS, 'h4);
            this.ID = new("ID");
            this.ID.configure(this);

            this.ID.build();
            this.default_map.add_reg(this.ID, 'h8);
            this.PARAMS = new("PARAMS");
            this.PARAMS.configure(this);

            this.PARAMS.build();
            this.default_map.add_reg(this.PARAMS, 'hc);
            this.GEOMETRY = new("GEOMETRY");
            this.GEOMETRY.configure(this);

            this.GEOMETRY.build();
            this.default_map.add_reg(this.GEOMETRY, 'h10);
            this.TIMEBASE = new("TIMEBASE");
            this.TIMEBASE.configure(this);

            this.TIMEBASE.build();
            this.default_map.add_reg(this.TIMEBASE, 'h14);
            this.T3 = new("T3");
            this.T3.configure(this);

            this.T3.build();
            this.default_map.add_reg(this.T3, 'h18);
            this.T2 = new("T2");
            this.T2.configure(this);

            this.T2.build();
            this.default_map.add_reg(this.T2, 'h1c);
            this.T1 = new("T1");
            this.T1.configure(this);

            this.T1.build();
            this.default_map.add_reg(this.T1, 'h20);
            this.IRQ_STATUS = new("IRQ_STATUS");
            this.IRQ_STATUS.configure(this);

            this.IRQ_STATUS.build();
            this.default_map.add_reg(this.IRQ_STATUS, 'h24);
            this.IRQ_ENABLE = new("IRQ_ENABLE");
            this.IRQ_ENABLE.configure(this);

            this.IRQ_ENABLE.build();
            this.default_map.add_reg(this.IRQ_ENABLE, 'h28);
            this.COLD_WATERMARK = new("COLD_WATERMARK");
            this.COLD_WATERMARK.configure(this);

            this.COLD_WATERMARK.build();
            this.default_map.add_reg(this.COLD_WATERMARK, 'h2c);
            this.HASH_SEED = new("HASH_SEED");
            this.HASH_SEED.configure(this);

            this.HASH_SEED.build();
            this.default_map.add_reg(this.HASH_SEED, 'h30);
            this.TRACKED = new("TRACKED");
            this.TRACKED.configure(this);

            this.TRACKED.build();
            this.default_map.add_reg(this.TRACKED, 'h34);
            this.COLD = new("COLD");
            this.COLD.configure(this);

            this.COLD.build();
            this.default_map.add_reg(this.COLD, 'h38);
            this.QUERY_LO = new("QUERY_LO");
            this.QUERY_LO.configure(this);

            this.QUERY_LO.build();
            this.default_map.add_reg(this.QUERY_LO, 'h3c);
            this.QUERY_HI = new("QUERY_HI");
            this.QUERY_HI.configure(this);

            this.QUERY_HI.build();
            this.default_map.add_reg(this.QUERY_HI, 'h40);
            this.QUERY = new("QUERY");
            this.QUERY.configure(this);

            this.QUERY.build();
            this.default_map.add_reg(this.QUERY, 'h44);
            this.EVICT = new("EVICT");
            this.EVICT.configure(this);

            this.EVICT.build();
            this.default_map.add_reg(this.EVICT, 'h48);
            this.VICTIM_LO = new("VICTIM_LO");
            this.VICTIM_LO.configure(this);

            this.VICTIM_LO.build();
            this.default_map.add_reg(this.VICTIM_LO, 'h4c);
            this.VICTIM_HI = new("VICTIM_HI");
            this.VICTIM_HI.configure(this);

            this.VICTIM_HI.build();
            this.default_map.add_reg(this.VICTIM_HI, 'h50);
            this.COUNTER_SELECT = new("COUNTER_SELECT");
            this.COUNTER_SELECT.configure(this);

            this.COUNTER_SELECT.build();
            this.default_map.add_reg(this.COUNTER_SELECT, 'h54);
            this.COUNTER_LO = new("COUNTER_LO");
            this.COUNTER_LO.configure(this);

            this.COUNTER_LO.build();
            this.default_map.add_reg(this.COUNTER_LO, 'h58);
            this.COUNTER_HI = new("COUNTER_HI");
            this.COUNTER_HI.configure(this);

            this.COUNTER_HI.build();
            this.default_map.add_reg(this.COUNTER_HI, 'h5c);
            this.LIMITS = new("LIMITS");
            this.LIMITS.configure(this);

            this.LIMITS.build();
            this.default_map.add_reg(this.LIMITS, 'h60);
        endfunction : build
    endclass : kv_asu_registers

    // addrmap - kv_asu
    class kv_asu extends uvm_reg_block;
        rand kv_asu__CAPABILITY CAPABILITY;
        rand kv_asu__VSEC VSEC;
        rand kv_asu_registers REGISTERS;

        function new(string name = "kv_asu");
            super.new(name);
        endfunction : new

        virtual function void build();
            this.default_map = create_map("reg_map", 0, 4, UVM_NO_ENDIAN);
            this.CAPABILITY = new("CAPABILITY");
            this.CAPABILITY.configure(this);

            this.CAPABILITY.build();
            this.default_map.add_reg(this.CAPABILITY, 'h0);
            this.VSEC = new("VSEC");
            this.VSEC.configure(this);

            this.VSEC.build();
            this.default_map.add_reg(this.VSEC, 'h4);
            this.REGISTERS = new("REGISTERS");
            this.REGISTERS.configure(this);
            this.REGISTERS.build();
            this.default_map.add_submap(this.REGISTERS.default_map, 'h8);
        endfunction : build
    endclass : kv_asu

endpackage: kv_asu_ral_pkg

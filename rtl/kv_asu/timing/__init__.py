"""Static timing of a generated core: ASAP7 with OpenSTA (`asap7`) and ECP5 place and route (`ecp5`)."""

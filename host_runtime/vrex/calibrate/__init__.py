"""`vrex calibrate`: the core's thresholds from a clip's motion, its tick and granule from a trace's reuse."""

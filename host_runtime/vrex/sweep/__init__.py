"""`vrex sweep`: hit rates over a grid of settings, on this machine or on a cluster, kept point by point."""

"""`vrex run`: a stream through the whole runtime: cache, policy, driver, DMA engine, core."""

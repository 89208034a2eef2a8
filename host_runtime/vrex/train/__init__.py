"""`vrex train`: the weights of the LSTM, from traces."""

"""`vrex bench`: what the runtime reaches, beside what the best other policies reach on the very same accesses."""

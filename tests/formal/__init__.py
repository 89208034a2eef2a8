"""Proofs of the core's invariants by k-induction; docs/formal.md says what is proved, and under which assumptions."""

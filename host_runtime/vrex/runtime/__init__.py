"""The V-Rex Runtime: which KV lines stay near, which come ahead of their use, and what that did.

Each piece is imported from its own module, e.g. `vrex.runtime.policy`.
"""

"""The KV-ASU gateware. Importing the package costs nothing: Amaranth is loaded by the modules that need it."""

from kv_asu.params import PROFILES, Params

__version__ = "1.0.0"
__all__ = ["PROFILES", "Params", "__version__"]

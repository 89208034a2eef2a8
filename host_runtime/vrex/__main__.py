"""`vrex`, and `python -m vrex`: the command line of `vrex.cli`."""

import sys

from kv_asu.interrupts import start


def main() -> int:
    """Run it; console-script entry point."""
    return start("vrex", "vrex.cli")


if __name__ == "__main__":
    sys.exit(main())

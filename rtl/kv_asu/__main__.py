"""`kv-asu`, and `python -m kv_asu`: the command line of `kv_asu.cli`."""

import sys

from kv_asu.interrupts import start


def main() -> int:
    """Run it; console-script entry point."""
    return start("kv-asu", "kv_asu.cli")


if __name__ == "__main__":
    sys.exit(main())

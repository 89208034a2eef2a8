"""`python -m vrex`: the same as `vrex`."""

import sys

from vrex.cli import main

sys.exit(main())

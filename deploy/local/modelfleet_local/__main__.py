"""`python -m modelfleet_local`."""

import sys

from modelfleet_local.cli import main

sys.exit(main(sys.argv[1:]))

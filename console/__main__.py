"""`python -m console`: the same as `lunabox`."""

import sys

from console.cli import main

sys.exit(main())

"""`python -m console`: the same as `lunabox`."""

import sys

from console.quick_start import main

if __name__ == "__main__":
    sys.exit(main())

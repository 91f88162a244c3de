"""Runs `lunabox` as `python -m console`."""

from console.cli import main

if __name__ == "__main__":
    main()

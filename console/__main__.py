"""`python -m console`: the same as `lunabox`."""

from console.quick_start import main

if __name__ == "__main__":
    main()

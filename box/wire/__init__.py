"""Pure formats of everything that travels or is stored: they convert between bytes and values.

Nothing here has a clock, a file, a socket or a loop. The package imports only `box.data` and the error table.
"""

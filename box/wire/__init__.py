"""Pure formats of everything that travels and is stored: bytes in, values out, and back.

Nothing here has a clock, a file, a socket or a loop; `box.data` and the error table are all it imports.
"""

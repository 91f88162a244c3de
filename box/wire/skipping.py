"""Skips MessagePack values that are nested deeper than the C extension allows, in files and packets; see
`box.data.deep`.
"""

from box.data.deep import DeepUnpacker, StackError, skip_one

__all__ = ["DeepUnpacker", "StackError", "skip_one"]

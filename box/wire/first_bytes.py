"""The first bytes of MessagePack values, for files and packets; see `box.data.marks`."""

from box.data.marks import FIXMAP, FIXSTR, FLOAT64, UINT16, UINT32

__all__ = ["FIXMAP", "FIXSTR", "FLOAT64", "UINT16", "UINT32"]

"""Generates console programs of several classes; equal seeds give equal programs.

`python -m test.interop.lua_programs --kind fun --count 500` runs programs on Lunabox and on Tarantool
(`LUNABOX_TARANTOOL`, or `tarantool` on PATH), and prints different replies and the rate of equal ones.
"""

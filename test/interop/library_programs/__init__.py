"""Generates console programs that use the libraries of Lua, a class a module; equal seeds give equal programs.

`python -m test.interop.library_programs --kind fun --count 500` runs programs on Lunabox and on Tarantool
(`LUNABOX_TARANTOOL`, or `tarantool` on PATH), and prints different replies and the rate of equal ones.
"""

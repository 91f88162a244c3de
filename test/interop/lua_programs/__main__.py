"""`python -m test.interop.lua_programs`: compares classes of programs, and prints differences and rates."""

from test.interop.lua_programs.kinds import CLASSES
from test.interop.program_comparison import run_command

if __name__ == "__main__":
    run_command(CLASSES)

"""`python -m test.interop.library_programs`: compares classes of programs, and prints differences and rates."""

from test.interop.library_programs.classes import CLASSES
from test.interop.program_comparison import run_command

if __name__ == "__main__":
    run_command(CLASSES)

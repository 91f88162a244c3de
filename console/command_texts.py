"""Texts of the command about itself. This module imports next to nothing, so that they appear immediately."""

from __future__ import annotations

from box.version import VERSION

PACKAGE = "Tarantool 2.8.1-0-g0000000"
COMMANDS = ("completion", "connect", "init", "sql", "top")
"""The words that are commands, not scripts; a script of this name is run as `./connect`."""

HELP = """\
Lunabox - a database node and Lua application server

Usage: lunabox [OPTIONS] [SCRIPT [ARGS]]
       lunabox connect|top|sql|init|completion [--help] ...

Without SCRIPT and -e a terminal gets an interactive session; other input is run
as a script. The program stays up while an instance is configured, a console is
served, or fibers wait. Everything after SCRIPT is passed to it. Options:
  -h, --help       display this help and exit
  -v, --version    print program version and exit
  -e EXPR          execute string 'EXPR'
  -l NAME          require library 'NAME'
  -i               enter interactive mode after executing 'SCRIPT'
  --               stop handling options
  -                execute stdin and stop handling options

Commands (a script of such a name is ./connect):
  connect URI      a console on another instance
  top URI...       a live view of an instance or a replica set
  sql DIR QUERY    a query of SQL over the files of a directory, without a node
  init DIR         a directory to start an instance from
  completion       completion of this command line for bash or zsh

Examples:
  lunabox                                         an interactive session
  lunabox init.lua                                an instance
  lunabox -e "box.cfg{listen = 3301}" </dev/null  the same, without a script
  echo "print(1 + 1)" | lunabox
  lunabox connect admin@localhost:3301
  lunabox top --once localhost:3301 localhost:3302
  lunabox sql data 'SELECT COUNT(*) FROM "goods"'
"""


def version_text() -> str:
    """Return the text of --version. It contains `Debug`, by which suite runners know that error injections are
    available.
    """
    return f"{PACKAGE}\nTarget: Linux-x86_64-Debug\nLunabox {VERSION}\n"

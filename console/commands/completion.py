"""`lunabox completion bash|zsh`: completion of the command line, for a shell to evaluate."""

from __future__ import annotations

import argparse
from typing import Final

from console import streams

_BASH: Final = """\
# eval "$(lunabox completion bash)"
_lunabox() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}"
    local options=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        options="connect top sql init completion -h --help -v --version -e -l -i"
    else
        case "$command" in
            connect) options="-h --help -e --output" ;;
            top) options="-h --help --once --json --svg --fiber-times --interval" ;;
            sql) options="-h --help --format --log --skip-corrupt --master" ;;
            init) options="-h --help --listen" ;;
            completion) options="bash zsh" ;;
        esac
        [ "$before" = --output ] && options="yaml lua table"
        [ "$before" = --format ] && options="table csv json yaml"
    fi
    COMPREPLY=($(compgen -W "$options" -- "$word"))
    if [ "$command" != connect ] && [ "$command" != completion ]; then
        local path
        while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen -f -- "$word")
    fi
}
complete -o filenames -F _lunabox lunabox
"""

_ZSH: Final = """\
#compdef lunabox
# eval "$(lunabox completion zsh)", or this text as _lunabox in a directory of $fpath
_lunabox() {
    local -a commands
    commands=(
        'connect:a console on another instance'
        'top:a live view of instances'
        'sql:a query over the files of a directory'
        'init:a directory to start an instance from'
        'completion:completion for a shell'
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        _arguments '-h[help]' '--help[help]' '-v[version]' '--version[version]' '-e[expression]' '-l[library]' \\
            '-i[interactive]'
        _files
        return
    fi
    case "$words[2]" in
        connect) _arguments '*-e[carry out]:expression:' '--output[format]:format:(yaml lua table)' '--help[help]' ;;
        top) _arguments '--once[as text]' '--json[as JSON]' '--svg[draw]:file:_files' '--fiber-times[measure fibers]' \\
            '--interval[seconds]:seconds:' \\
            '--help[help]' ;;
        sql) _arguments '--format[form of the rows]:format:(table csv json yaml)' \\
            '--log[of the log]:directory:_files -/' \\
            '--skip-corrupt[leave damaged blocks out]' '--master[run with Spark]:url:' '--help[help]' \\
            '1:directory:_files' '2:statement:' ;;
        init) _arguments '--listen[address]:uri:' '--help[help]' '*:directory:_files -/' ;;
        completion) _values shell bash zsh ;;
        *) _files ;;
    esac
}
if [ "$funcstack[1]" = _lunabox ]; then _lunabox "$@"; else compdef _lunabox lunabox; fi
"""

_TEXTS: Final = {"bash": _BASH, "zsh": _ZSH}


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    options = argparse.ArgumentParser(
        prog="lunabox completion",
        description="Print what a shell needs to complete the command line of lunabox.",
        epilog='example:\n  eval "$(lunabox completion bash)"    # in ~/.bashrc',
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("shell", choices=tuple(_TEXTS))
    return options


def main(arguments: list[str]) -> int:
    """Run the command. Returns the exit code: 0, or 2 for a wrong command line."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:
        return 2 if end.code else 0
    streams.write(_TEXTS[options.shell])
    return 0

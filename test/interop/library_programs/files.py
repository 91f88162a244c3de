"""Programs with files, directories, processes, the environment, logs of rows, and users of the system."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = [
    "fio = require('fio')",
    "popen = require('popen')",
    "errno = require('errno')",
    "xlog = require('xlog')",
    "pwd = require('pwd')",
    "fiber = require('fiber') os.setenv('A', nil) os.setenv('LB_X', nil)",
    "for _, n in ipairs(fio.listdir('.')) do if not n:find('^node') and not n:find('sock$') and not n:find('%.%a+$') "
    "and n ~= 'output' then fio.rmtree(n) fio.unlink(n) end end",
    "function settled(p) for _ = 1, 30 do local ok, s = pcall(function() return p.status.state end) "
    "if not ok or s ~= 'alive' then return end fiber.sleep(0.005) end end",
    "fio.rmtree('w') fio.mkdir('w') h = fio.open('w/f', {'O_CREAT', 'O_WRONLY'}, 420) "
    "h:write('one\\ntwo\\nthree') h:close()",
]

FIO = (
    "abspath basename chdir chmod chown copyfile copytree cwd dirname glob link listdir lstat mkdir "
    "mktree open pathjoin readlink "
    "rename rmdir rmtree stat symlink truncate umask unlink utime nope"
).split()


def _path(source: RandomLua) -> str:
    return source.one(
        "'w/f'",
        "'w'",
        "'w/d'",
        "'w/d/e'",
        "'w/nope'",
        "'w/f/x'",
        "''",
        "'.'",
        "('x'):rep(300)",
        "'w/l'",
        "'w/*'",
        "'w/'",
        "'.//w'",
    )


def _fio(source: RandomLua) -> str:
    path, other = _path(source), _path(source)
    # Neither the working directory, which the node needs, nor a zero byte, at which Tarantool ends all paths of a tree.
    tree = source.one("'w'", "'w/d'", "'w/d/e'", "'w/nope'", "'w/f'", "'w/f/x'", "'w/'", "'./w'")
    name = source.random.choice(FIO)
    call = source.one(
        f"{source.word('basename dirname abspath listdir readlink rmdir unlink')}({source.arguments(path)})",
        f"basename({source.arguments(path, source.one(repr('f'), repr('.x')))})",
        f"pathjoin({source.arguments(path, other, source.text())})",
        f"pathjoin({source.values(3)})",
        f"mkdir({source.arguments(path, '511')})",
        f"mktree({source.one(tree, '5', 'nil')}, {source.one('511', 'nil', source.number())})",
        f"{source.word('rename link symlink copyfile')}({source.arguments(path, other)})",
        f"copytree({source.one(tree, '5', 'nil')}, {source.one(repr('w/t'), repr('w/d'), '{}')})",
        f"truncate({source.arguments(path, source.small())})",
        f"chmod({source.arguments(path, '420')})",
        f"utime({source.arguments(path, '1', '2')})",
        f"glob({source.arguments(path)})",
        f"rmtree({source.one(tree, '5', '', '{}')})",
        f"path.{source.word('exists is_dir is_file is_link lexists')}({source.arguments(path)})",
        f"{name}({source.values(2)})"
        if name not in ("rmtree", "mktree", "copytree", "chdir", "umask", "chown")
        else "umask('x')",
    )
    if source.chance(0.12):
        field = source.one("size", "mode", "is_reg and s:is_reg()", "is_dir and s:is_dir()", "nope")
        return f"s, e = fio.{source.one('stat', 'lstat')}({source.arguments(path)}) return s and s.{field}, e"
    return f"fio.{call}"


def _handle(source: RandomLua) -> list[str]:
    flags = source.one(
        "{'O_RDWR'}",
        "'O_RDONLY'",
        "{'O_CREAT', 'O_RDWR'}",
        "nil",
        "{'O_NOPE'}",
        "5",
        "2",
        "{'O_RDWR', 'O_TRUNC'}",
        "{}",
        "'x'",
        "{'O_EXCL', 'O_CREAT'}",
        "{'O_APPEND', 'O_WRONLY'}",
    )
    calls = [
        f"read({source.small(0)})",
        "read()",
        f"pread({source.small(0)}, {source.small(0)})",
        f"write({source.arguments(source.text())})",
        f"pwrite({source.arguments(source.text(), source.small())})",
        f"seek({source.arguments(source.small(), source.one(source.quoted('SEEK_SET SEEK_END SEEK_CUR x'), '0'))})",
        f"truncate({source.arguments(source.small())})",
        "stat().size",
        "fsync()",
        "fdatasync()",
        "close()",
        f"{source.word('write pwrite seek nope close')}({source.values(3)})",
    ]
    return [
        f"h, e = fio.open({source.arguments(_path(source), flags, '420')}) return type(h), e",
        *[f"h:{source.random.choice(calls)}" for _ in range(source.random.randint(1, 4))],
        source.one("tostring(h)", "h.fh and 1", "h"),
        "if type(h) == 'table' then h:close() end",
    ]


def _popen(source: RandomLua) -> list[str]:
    command = source.one(
        "'echo hi'", "'cat'", "'exit 3'", "'sleep 9'", "'echo e >&2'", "'printf abcdef'", "'kill -9 $$'", "nil", "''"
    )
    mode = source.one("'r'", "'w'", "'rw'", "'R'", "'rR'", "nil", "'x'", "'rwR'", "''")
    stream = source.one(
        "popen.opts.PIPE", "popen.opts.CLOSE", "popen.opts.INHERIT", "popen.opts.DEVNULL", "'pipe'", "'nope'", "5"
    )
    option = source.one(
        f"stdout = {stream}",
        f"stdin = {stream}",
        f"stderr = {source.one(stream, 'popen.opts.STDOUT')}",
        "shell = true",
        "shell = {v}",
        "env = {{A = 'b'}}",
        "env = {v}",
        "env = {{A = {v}}}",
        "setsid = {v}",
        "close_fds = {v}",
        "restore_signals = {v}",
        "group_signal = {v}",
        "keep_child = {v}",
        "nope = {v}",
        "inherit_fds = {v}",
    ).format(v=source.value())
    argv = source.one(
        "{'/bin/echo', 'a'}",
        "{'echo hi'}",
        "{'/nope'}",
        "{5}",
        "{'/bin/cat'}",
        "{'/bin/sh', '-c', 'exit 2'}",
        "{'/bin/echo', {v}}",
    )
    made = source.one(
        f"popen.shell({source.arguments(command, mode)})",
        f"popen.new("
        f"{source.arguments(argv.replace('{v}', source.value()), '{' + option + ', stdout = popen.opts.PIPE}')})",
        f"popen.new({source.arguments(source.one('{' + command + '}'), '{shell = true, ' + option + '}')})",
        f"popen.new({source.value()}, {source.value()})" if source.chance(0.5) else "popen.new()",
    )
    timeout = source.one("1", "0", "-1", "'x'", "{}")
    call = [
        "wait()",
        f"read({source.arguments('{timeout = ' + source.one('1', '0.05', timeout) + '}')})",
        f"read({{{source.word('stdout stderr nope')} = {source.one('true', 'false', source.value())}, timeout = 0.3}})",
        f"write({source.arguments(source.text(), '{timeout = ' + timeout + '}')})",
        f"shutdown({source.arguments('{' + source.word('stdin stdout stderr nope') + ' = true}')})",
        "terminate()",
        "kill()",
        f"signal({source.arguments(source.one('popen.signal.SIGTERM', '0', '15', '100', '-1'))})",
        "info().status",
        "info().opts",
        "info().command",
        f"{source.word('read write shutdown signal wait nope close')}({source.values(2)})",
    ]
    return [
        f"p, e = {made} return type(p), e and tostring(e), e and e.type",
        "settled(p)",
        *[
            statement
            for _ in range(source.random.randint(1, 3))
            for statement in (f"p:{source.random.choice(call)}", "settled(p)")
        ],
        source.one("p.pid and 1", "p.status", "p.command", "p.stdout", "p.stdin", "p.nope", "p.opts", "p:wait()"),
        "if p then pcall(p.kill, p) end",
        "p:close()",
        source.one("p:close()", "p:info()", "p:wait()", "p.status", "p:read()"),
    ]


def _system(source: RandomLua) -> list[str]:
    name = source.one("'A'", "'LB_X'", "'PATH_NOPE'")
    return [
        source.one(
            f"os.setenv({source.arguments(name, source.text())})",
            f"os.getenv({source.arguments(name)})",
            f"os.environ({source.values(1)}).LB_X",
            f"os.{source.one('rename', 'remove')}({source.arguments(_path(source), _path(source))})",
            f"os.date({source.arguments(source.quoted('%Y !%c !*t % %j !%x'), '86400')})",
            f"os.time({source.arguments('{year = 2020, month = ' + source.value() + ', day = 1}')})",
            f"os.difftime({source.arguments('5', '3')})",
            f"os.setlocale("
            f"{source.arguments(source.one(repr('C'), repr('nope'), 'nil'), source.quoted('all numeric x'))})",
            f"os.execute({source.one(repr('true'), repr('exit 3'), 'nil', '{}')})",
            f"os.nope({source.values(1)})",
            f"io.open({source.arguments(_path(source), source.quoted('r w x a+'))}) ~= nil",
            f"h = io.open('w/f') a, b = h:read("
            f"{source.arguments(source.one('3', repr('*l'), repr('*a'), repr('*n'), repr('x')))}) h:close() "
            f"return a, b",
            f"h = io.open('w/f', 'r+') a, b = "
            f"h:{source.word('write seek setvbuf lines nope')}({source.values(2)}) h:close() return tostring(b)",
            f"x = 0 for l in io.lines({source.one(repr('w/f'), repr('w/zz'), '5')}) do x = x + #l end return x",
            f"io.type({source.value()})",
            "h = io.open('w/f') h:close() return h:read()",
            f"errno.strerror({source.one(source.small(-1, 140), source.number())})",
            "errno(5) return errno(), errno.strerror()",
            f"errno.{source.word('ENOENT EINVAL NOPE EAGAIN')}",
            f"pwd.getpw({source.arguments(source.one('0', repr('root'), repr('nope'), '77777'))})",
            f"pwd.getgr({source.arguments(source.one('0', repr('root'), repr('nope'), '77777'))})",
            f"pwd.{source.word('getpwall getgrall nope')}({source.values(1)}) ~= nil",
            f"for l, r in xlog.pairs({source.arguments(_path(source))}) do x = r end",
            f"xlog.{source.word('pairs open nope')}({source.values(2)})",
        )
        for _ in range(3)
    ]


def files(source: RandomLua) -> list[str]:
    """Return a program with paths, with a file, with a process, or about the system."""
    if source.chance(0.4):
        return [_fio(source) for _ in range(3)]
    return source.random.choice([_handle, _popen, _system])(source)

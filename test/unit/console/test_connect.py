"""`lunabox connect` and `require('console').connect` reach another instance, by both protocols."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.support import refusing_address, wait_until
from test.unit.console.emulator import ENTER, PROMPT, Emulator

LUNABOX = [sys.executable, "-m", "console"]
ROOT = str(Path(__file__).parents[3])
SCRIPT = """
    box.cfg{listen = 'unix/:./i', log = 'node.log'}
    box.once('x', function()
        box.schema.space.create('goods', {format = {'id', 'name'}}):create_index('pk')
        box.space.goods:insert{1, 'pear'}
        box.schema.user.create('guido', {password = 'secret'})
        box.schema.user.grant('guido', 'super')
    end)
    require('console').listen('unix/:./c')
"""


class Server:
    """An instance in a directory with a short path, because paths of sockets may have 107 bytes."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="lb-"))
        (self.directory / "init.lua").write_text(SCRIPT)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*LUNABOX, "init.lua"],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": ROOT},
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: (self.directory / "c").exists(), "the console listens")

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait()
        (self.directory / "c").unlink(missing_ok=True)

    def uri(self, name: str = "i", user: str = "guido:secret@") -> str:
        return f"{user}unix/:{self.directory / name}"


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()
    shutil.rmtree(server.directory)


def run(server: Server, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LUNABOX, "connect", *arguments],
        cwd=server.directory,
        env={**os.environ, "PYTHONPATH": ROOT, "XDG_CONFIG_HOME": str(server.directory)},
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,  # nobody to ask for a password
    )


@pytest.mark.parametrize("socket", ["i", "c"])
def test_scripts(shared: Server, socket: str) -> None:
    """Statements of the input or of -e are run and their answers printed; the first error ends with 1."""
    uri = shared.uri(socket, "guido:secret@" if socket == "i" else "")
    done = run(shared, uri, text="x = {\n1,\n2}\n#x\nbox.space.goods:get(1)\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == "--- ... --- - 2 ... --- - [1, 'pear'] ...".split()
    done = run(shared, uri, "-e", "return 1, 2", "-e", "error('bad')", "-e", "return 3")
    assert done.stdout == "---\n- 1\n- 2\n...\n"
    assert (done.returncode, done.stderr.startswith("error: ")) == (1, True)
    done = run(shared, uri, text="nope()\n5\n")
    assert (done.returncode, "- 5" in done.stdout) == (1, False)


def test_tables(shared: Server) -> None:
    """Answers are shown as tables with names of columns; an error is one line and ends with 1."""
    done = run(shared, shared.uri(), "--output", "table", "-e", "box.space.goods:select()")
    assert done.stdout.splitlines()[0].split() in (["id", "│", "name"], ["id", "|", "name"])
    assert done.stdout.splitlines()[-1] == "1 row"
    assert run(shared, shared.uri(), "--output", "table", "-e", "error('x')").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["a b"], 2, "is no URI"),
        (["::"], 2, "is no URI"),
        (["guido:secret@localhost:99999"], 2, "connect: localhost:99999: ports are numbers from 1 to 65535"),
        (["localhost:0"], 2, "ports are numbers"),
        (["nobody.invalid:3301"], 3, "nobody.invalid:3301: "),
        (["localhost:nothing"], 3, "localhost:nothing: "),
        ([], 2, "the following arguments are required: URI"),
        (["--nope", "3301"], 2, "unrecognized arguments"),
        (["REFUSING"], 3, "refused"),
        (["unix/:/nowhere/at/all"], 3, "No such file"),
    ],
)
def test_what_is_wrong_is_one_line(shared: Server, arguments: list[str], code: int, text: str) -> None:
    with refusing_address() as address:
        done = run(shared, *[address if argument == "REFUSING" else argument for argument in arguments])
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "Input/output error" not in done.stderr  # of a name that nobody knows
    assert "secret" not in done.stderr


@pytest.mark.parametrize("user", ["guido:wrong@", "nobody:x@", "guido@", ""])
def test_wrong_users(shared: Server, user: str) -> None:
    """A wrong password, an unknown user, a missing password and a guest without rights end with 3."""
    done = run(shared, shared.uri(user=user), "-e", "1")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)


def test_help_has_examples(shared: Server) -> None:
    done = run(shared, "--help")
    assert (done.returncode, "examples:" in done.stdout) == (0, True)


def test_interactive(shared: Server, tmp_path: Path) -> None:
    """The password is read without echo, the prompt names the instance, and completion comes from it."""
    terminal = Emulator(tmp_path, [*LUNABOX, "connect", f"guido@unix/:{shared.directory}/i"], columns=160)
    prompt = f"unix/:{shared.directory}/i> "
    try:
        terminal.wait("Password of guido")
        terminal.type("secret\r")
        terminal.wait_prompt(prompt)
        assert "secret" not in terminal.text
        terminal.type("box.space.go")
        terminal.wait("goods  space")
        terminal.type("\t:get(1)" + ENTER)
        terminal.wait("- [1, 'pear']")
        terminal.wait_prompt(prompt)
        terminal.type("require('fiber').sleep(100)" + ENTER)
        terminal.wait("sleep(100)")
        for _ in range(20):
            terminal.process.sendintr()
            try:
                terminal.wait("interrupted", seconds=2)
                break
            except AssertionError:
                continue
        assert "interrupted" in terminal.text
        terminal.wait_prompt(prompt)
        assert terminal.answer("1 + 1", prompt) == "---\n- 2\n..."
        terminal.type("\x04")
        assert terminal.end() == 0
    finally:
        terminal.close()


@pytest.mark.parametrize("way", ["command", "binary", "text"])
def test_a_server_that_is_started_again(tmp_path: Path, way: str) -> None:
    """When the server goes away the console reports it in one line, and reconnects when the server is back."""
    server = Server()
    if way == "text":
        terminal = Emulator(tmp_path, [*LUNABOX, "connect", server.uri("c", "")], columns=160)
        prompt = f"unix/:{server.directory}/c> "
    elif way == "command":
        terminal = Emulator(tmp_path, [*LUNABOX, "connect", server.uri()], columns=160)
        prompt = f"unix/:{server.directory}/i> "
    else:
        terminal = Emulator(tmp_path, columns=160)
        terminal.enter(f"uri = '{server.uri()}'")
        prompt = f"unix/:{server.directory}/i> "
        terminal.type("require('console').connect(uri)" + ENTER)
    try:
        terminal.wait(lambda _: terminal.cursor_line.endswith("i>") or terminal.cursor_line.endswith("c>"))
        prompt = terminal.cursor_line + " "
        terminal.enter("x = 'before'", prompt)
        server.stop()
        server.start()
        for _ in range(20):
            terminal.type("tostring(x) .. ' ' .. 1 + 1" + ENTER)
            try:
                terminal.wait("- nil 2", seconds=3)
                break
            except AssertionError:
                continue
        terminal.wait("- nil 2")
    finally:
        terminal.close()
        server.stop()
        shutil.rmtree(server.directory)


def test_connect_from_a_session(shared: Server, tmp_path: Path) -> None:
    """After connect from a session the prompt names the instance, and completion asks it."""
    terminal = Emulator(tmp_path, columns=160)
    try:
        terminal.enter(f"uri = '{shared.uri()}'")
        terminal.type("require('console').connect(uri)" + ENTER)
        terminal.wait(lambda _: terminal.cursor_line.endswith("i>") and not terminal.cursor_line.startswith(PROMPT))
        terminal.type("box.space.go")
        terminal.wait("goods  space")
    finally:
        terminal.close()


def test_tables_of_a_text_console(shared: Server, tmp_path: Path) -> None:
    """Answers of a text console are shown as tables as soon as they are complete, without the end mark."""
    terminal = Emulator(tmp_path, columns=160, lines=60)
    prompt = f"unix/:{shared.directory}/c> "
    try:
        terminal.enter(f"uri = '{shared.uri('c', '')}'")
        terminal.type("require('console').connect(uri)" + ENTER)
        terminal.wait_prompt(prompt)
        terminal.enter("\\set output table", prompt)
        assert terminal.answer("1, 2", prompt).splitlines()[-3:] == ["    1", "    2", "2 rows"]
        assert terminal.answer("help", prompt).startswith("To get help")
        assert terminal.answer("x = 1", prompt) == ""
        terminal.enter("\\set output yaml", prompt)
        assert terminal.answer("x", prompt) == "---\n- 1\n..."
    finally:
        terminal.close()


def test_an_instance_that_ends_with_an_expression() -> None:
    server = Server()
    try:
        done = run(server, server.uri(), "-e", "os.exit(0)", "-e", "print('not reached')")
        assert done.returncode == 3
        assert "not reached" not in done.stdout
    finally:
        server.stop()
        shutil.rmtree(server.directory)


def test_the_answers_of_a_script_are_yaml(shared: Server) -> None:
    """The user's setting is for terminals."""
    config = shared.directory / "lunabox" / "config.toml"
    config.parent.mkdir()
    config.write_text('[console]\noutput = "lua"\n')
    try:
        assert run(shared, shared.uri(), text="return 1\n").stdout.endswith("---\n- 1\n...\n\n")
        assert "- 1" not in run(shared, shared.uri(), "--output", "lua", text="return 1\n").stdout
    finally:
        shutil.rmtree(config.parent)

"""box.cfg: names, types, ranges, and which options are dynamic."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.errors import BoxError, ErrorCode
from box.instance.config import Config
from box.instance.option_checks import prepare
from box.instance.option_registry import OPTIONS
from box.instance.quorum import synchro_quorum


def _start(options: dict[str, object]) -> None:
    config = Config()
    config.load(options, lambda text: None)
    config.check_start()


def message(**options: object) -> str:
    """Return the error text of a first box.cfg with these options."""
    with pytest.raises(BoxError) as caught:
        _start(options)
    assert caught.value.code == ErrorCode.CFG
    return caught.value.message


def loaded(**options: object) -> Config:
    config = Config()
    config.load(options, lambda text: None)
    return config


def test_defaults_are_those_of_tarantool() -> None:
    facts = Path(__file__).with_name("cfg-defaults.tsv").read_text().splitlines()
    shown = {name: (kind, text) for name, kind, text in (line.split("\t") for line in facts)}
    assert set(shown) <= set(OPTIONS)
    for name, (kind, text) in shown.items():
        default = OPTIONS[name].default
        if kind == "nil":
            assert default is None, name
        elif kind == "number":
            assert float(text) == default, name
        elif kind == "boolean":
            assert default is (text == "true"), name
        else:
            assert default == text, name


_LOG = "Incorrect value for option 'log': "


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sherlock": 1}, "Incorrect value for option 'sherlock': unexpected option"),
        ({"memtx_memory": "a"}, "Incorrect value for option 'memtx_memory': should be of type number"),
        ({"listen": {}}, "Incorrect value for option 'listen': should be one of types string, number"),
        (
            {"memtx_memory": -1},
            "Incorrect value for option 'memtx_memory': must be >= 0 and <= 4398046510080, but it is -1",
        ),
        ({"election_mode": 1}, "Incorrect value for option 'election_mode': should be of type string"),
        (
            {"election_timeout": -1},
            "Incorrect value for option 'election_timeout': the value must be a positive number",
        ),
        (
            {"replication_synchro_timeout": 0},
            "Incorrect value for option 'replication_synchro_timeout': the value must be greater than zero",
        ),
        (
            {"replication_synchro_quorum": 0},
            "Incorrect value for option 'replication_synchro_quorum': "
            "the value must be greater than zero and less than maximal number of replicas",
        ),
        (
            {"replication_synchro_quorum": "N + 1"},
            "Incorrect value for option 'replication_synchro_quorum': the formula is evaluated to the quorum 32 "
            "for replica number 31, which is out of range [1;31]",
        ),
        ({"wal_mode": "sometimes"}, "Incorrect value for option 'wal_mode': sometimes"),
        ({"listen": "//!"}, "Incorrect value for option 'listen': expected host:service or /unix.socket"),
        (
            {"replication": "host only"},
            "Incorrect value for option 'replication': expected host:service or /unix.socket",
        ),
        ({"log_format": "xml"}, "Incorrect value for option 'log_format': expected json,plain"),
        ({"instance_uuid": "no"}, "Incorrect value for option 'instance_uuid': no"),
        (
            {"replication_anon": True},
            "Incorrect value for option 'replication_anon': "
            "the value may be set to true only when the instance is read-only",
        ),
        ({"log": {}}, _LOG + "should be of type string"),
        (
            {"log": 5, "log_nonblock": 1},
            "Incorrect value for option 'log_nonblock': the option is incompatible with file/stderr logger",
        ),
        ({"rows_per_wal": 5}, "Incorrect value for option 'rows_per_wal': unexpected option"),
        ({"log": "nosuch:x"}, _LOG + "expecting a file name or a prefix, such as '|', 'pipe:', 'syslog:'"),
        ({"log": "syslog:bad=1"}, _LOG + "bad option 'bad=1'"),
        ({"log": "syslog:identity"}, _LOG + "bad option 'identity'"),
        ({"log": "syslog:facility=bad"}, _LOG + "bad syslog facility option 'bad'"),
        ({"log": "syslog:server=a,server=b"}, _LOG + "duplicate option 'server'"),
        (
            {"log": "syslog:", "log_format": "json"},
            "Incorrect value for option 'log_format': json can't be used with syslog logger",
        ),
        (
            {"sql_cache_size": -1, "vinyl_bloom_fpr": 0},
            "Incorrect value for option 'vinyl_bloom_fpr': must be greater than 0 and less than or equal to 1",
        ),
        (
            {"replication_synchro_quorum": "32"},
            "Incorrect value for option 'replication_synchro_quorum': "
            "the value must be greater than zero and less than maximal number of replicas",
        ),
        (
            {"replication_synchro_quorum": "N > 5"},
            "Incorrect value for option 'replication_synchro_quorum': "
            '[string "local expr = [[N > 5]]..."]:7: Expression should return a number',
        ),
    ],
)
def test_a_wrong_value_has_the_text_of_tarantool(options: dict[str, object], text: str) -> None:
    assert message(**options) == text


@pytest.mark.parametrize(
    ("address", "is_valid"),
    [
        ("3301", True), ("host:3301", True), ("h_o-s.t:http", True), ("[::1]:3301", True), ("user:pass@host:1", True),
        ("user@unix/:/tmp/x", True), ("unix/:./x", True), ("/tmp/x", True), ("/", True), ("user:p@/tmp/x", True),
        ("host", False), ("host:", False), (":3301", False), ("a:b:c", False), ("host:1svc", False), ("[::1]", False),
        ("unix/:x", False), ("unix/:..", False), ("unix/:", False), ("a b:1", False), ("u@v@h:1", False),
        ("h:1,i:2", False), ("", True), ("-1", False), ("1.5", False),
    ],
)  # fmt: skip
def test_addresses(address: str, is_valid: bool) -> None:
    """`listen` accepts the addresses that Tarantool does; the empty text means none."""
    name = "readahead" if is_valid else "listen"
    assert message(listen=address, readahead=0).startswith(f"Incorrect value for option '{name}': ")


def test_a_quorum_formula_may_choose() -> None:
    """A quorum formula may use `and`, `or` and comparisons as in Lua."""
    assert [synchro_quorum("N > 5 and 3 or 2", count) for count in (5, 6)] == [2, 3]
    assert synchro_quorum("5", 1) == 5


def test_nil_and_the_empty_string_stand_for_the_default() -> None:
    assert prepare({"listen": "", "memtx_memory": None}) == {"listen": None, "memtx_memory": 268435456}


def test_a_port_number_becomes_text_and_a_list_is_split() -> None:
    config = loaded(listen=3301, replication="a:1, b:2")
    assert config["listen"] == "3301"
    assert config["replication"] == ["a:1", "b:2"]


def test_deprecated_names_are_translated_with_a_warning() -> None:
    warnings: list[str] = []
    assert prepare({"snap_dir": "x", "slab_alloc_arena": 0.5}, warnings.append) == {
        "memtx_dir": "x",
        "memtx_memory": 2**29,
    }
    assert warnings[0] == "Deprecated option snap_dir, please use memtx_dir instead"


def test_changes_come_in_the_order_of_application() -> None:
    config = loaded()
    changes = config.changes({"replication": ["a:1"], "listen": 1, "replication_timeout": 2}, lambda text: None)
    assert [name for name, _ in changes] == ["listen", "replication_timeout", "replication"]


def test_a_static_option_cannot_change() -> None:
    config = loaded()
    with pytest.raises(BoxError, match="Can't set option 'wal_mode' dynamically"):
        config.changes({"wal_mode": "none"}, lambda text: None)
    assert config.changes({"wal_mode": "write"}, lambda text: None) == []


def test_memory_cannot_shrink() -> None:
    with pytest.raises(BoxError, match="cannot decrease memory size at runtime"):
        loaded().check_change("memtx_memory", 1)


def test_memory_is_granted_in_whole_kilobytes() -> None:
    """A value between the first one and the kilobytes granted for it would be a decrease; the same value is none."""
    config = loaded()
    config.values["memtx_memory"] = 107374182
    config.check_change("memtx_memory", 107374182)
    config.check_change("memtx_memory", 107374592)
    with pytest.raises(BoxError, match="cannot decrease memory size at runtime"):
        config.check_change("memtx_memory", 107374591)


@pytest.mark.parametrize(
    ("formula", "replicas", "quorum"),
    [
        ("N / 2 + 1", 3, 2),
        ("N/2+1", 4, 3),
        ("math.max(1, N - 1)", 1, 1),
        ("N", 5, 5),
        (3, 1, 3),
        ("2^1", 9, 2),
        ("2^1 + 1", 9, 3),
        ("1 + -2^2 + 4", 9, 1),
        ("math.fmod(N, 4)", 7, 3),
    ],
)
def test_the_quorum_may_be_a_formula(formula: object, replicas: int, quorum: int) -> None:
    assert synchro_quorum(formula, replicas) == quorum


def test_a_formula_that_is_no_number() -> None:
    text = r"""option 'replication_synchro_quorum': \[string "local expr = \[\[M\]\]..."\]:7: """
    with pytest.raises(BoxError, match=text + "Expression should return a number"):
        synchro_quorum("M", 3)


def test_a_big_quorum_is_not_cut_to_32_bits() -> None:
    assert "less than maximal number of replicas" in message(replication_synchro_quorum=2**32 + 1)


@pytest.mark.parametrize(
    ("formula", "quorum"),
    [("N / 0", -(2**63)), ("N % 0", -(2**63)), ("9^9^9", -(2**63)), ("(-8)^0.5", -(2**63)), ("-0.5", -1)],
)
def test_a_formula_computes_as_lua_does(formula: str, quorum: int) -> None:
    with pytest.raises(BoxError, match=f"the formula is evaluated to the quorum {quorum} for replica number 3"):
        synchro_quorum(formula, 3)


@pytest.mark.parametrize("formula", ["N +", "os.exit()", "__import__('os')", "M + 1", "N ** 2"])
def test_a_formula_is_arithmetic_only(formula: str) -> None:
    with pytest.raises(BoxError, match="failed to evaluate the formula"):
        synchro_quorum(formula, 3)

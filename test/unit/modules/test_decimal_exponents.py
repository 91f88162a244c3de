"""Decimals keep a positive exponent in calculations, texts and MessagePack, as in Tarantool 2.8.1."""

from __future__ import annotations

from decimal import Decimal

import pytest

from box.data.codec import pack, unpack
from box.data.show import tuple_str
from box.errors import BoxError

from .conftest import Lua

_VALUES = [  # an expression, its text, its MessagePack
    ("d.new('1.50') * 1e15", "1500000000000000", "c70301f3150c"),
    ("d.new('1.50') * 2^53", "13510798882111485.0", "c70b01010135107988821114850c"),
    ("d.new('1.50') / 1e15", "0.00000000000000150", "c7030111150c"),
    ("d.new('0e50')", "0" * 38, "c70301d0db0c"),
    ("d.new('-0') / 1.5", "-00", "d501ff0d"),
    ("-d.new('-0e3')", "0000", "d501fd0c"),
    ("d.new(0) * 1e15", "0" * 16, "d501f10c"),
    ("d.new('0e5') + d.new('0e2')", "000", "d501fe0c"),
    ("d.new('1e37')", "1" + "0" * 37, "c70301d0db1c"),
    ("d.new('-00012.0e3')", "-12000", "c70301fe120d"),
    ("d.new(1e15)", "1000000000000000", "d501f11c"),
    ("d.new(2^53)", "9007199254740990", "c70901ff900719925474099c"),
    ("d.new('1e15') / d.new('1e3')", "1000000000000", "d501f41c"),
    ("d.sqrt(d.new('0e20'))", "00000000000", "d501f60c"),
    ("d.trim(d.new('1500e13'))", "15000000000000000", "c70301f1015c"),
    ("d.trim(d.new('1500'))", "1500", "d6010001500c"),
    ("d.rescale(d.new('1e30'), 8)", "1" + "0" * 30, "d501e21c"),
    ("d.round(d.new('1e15'), 3)", "1000000000000000", "d501f11c"),
    ("d.round(d.new('9.99'), 1)", "10", "c7030100010c"),
    ("d.round(d.new('-0.00'), 1)", "0.0", "d501010c"),
    ("m.decode('\\xd5\\x01\\xff\\x0c')", "00", "d501ff0c"),
    ("m.decode('\\xc7\\x15\\x01\\xf0\\x09' .. ('\\x99'):rep(18) .. '\\x9c')", "9" * 38 + "0" * 16, None),
]


@pytest.mark.parametrize(("expression", "text", "packed"), _VALUES)
def test_a_positive_exponent_stays(shared_lua: Lua, expression: str, text: str, packed: str | None) -> None:
    shown, found = shared_lua(f"""
        local d, m = require('decimal'), require('msgpack')
        local value = {expression}
        return tostring(value), m.encode(value):hex()""")
    assert shown == text
    if packed is not None:
        assert found == packed


def test_an_exponent_counts_in_the_precision(shared_lua: Lua) -> None:
    assert shared_lua(
        "local d = require('decimal') return d.precision(d.new('0e15')), d.scale(d.new('1e15')), d.new('1e3') == 1000"
    ) == [16, 0, True]


def test_an_exponent_of_38_is_refused(shared_lua: Lua) -> None:
    with pytest.raises(BoxError, match=r"msgpack\.decode: invalid MsgPack"):
        shared_lua("return require('msgpack').decode('\\xc7\\x03\\x01\\xd0\\xda\\x1c')")


def test_a_zero_with_an_exponent_is_shown_with_its_zeros() -> None:
    assert tuple_str(pack([Decimal("0e5"), Decimal("2e5"), Decimal("-0.00")])) == "[000000, 200000, -0.00]"
    assert unpack(pack([Decimal("2e5")])) == [Decimal("2e5")]

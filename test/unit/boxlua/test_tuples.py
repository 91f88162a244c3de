"""Tuples as Lua objects: paths, and the order of entries in tables made from them."""

from __future__ import annotations

from .box_support import Box, Run


def test_paths_and_maps_of_tuples(run: Run) -> None:
    """Paths may omit the dot after the field's name; maps made from tuples have Tarantool's `pairs()` order.

    The order follows from a table's size at its creation. Maps of `tomap()` and `tuple.name` have room for all fields;
    those of `tuple[n]` have grown. LuaJIT 2.1 hashes with a random seed, so it takes many maps until two orders differ.
    """

    async def body(box: Box) -> None:
        await box(
            """s = box.schema.space.create('s', {format = {{'id', 'unsigned'}, {'data', 'map'}}})
            s:create_index('pk')
            t = s:insert{1, {car = {color = 'red', wheels = {4, 5}}}}"""
        )
        assert await box("return t['[2]car.color'], t['[\"data\"]car.wheels[2]'], t['[2].car.color']") == [
            "red",
            5,
            "red",
        ]
        assert await box.raw("return t['[2][\"car\"]color'], t['datacar'], t['[2]..car']") == [None, None, None]
        wrong = await box(
            """local function order(t)
                local names = {}
                for name in pairs(t) do
                    names[#names + 1] = name
                end
                return table.concat(names, ' ')
            end
            local msgpack, wrong, different = require('msgpack'), {}, 0
            for case = 1, 200 do
                local value, names = {}, {}
                for i = 1, case % 12 + 1 do
                    value[require('digest').md5_hex(case .. ' ' .. i)] = i
                end
                local tuple = s:replace{1, value}
                local expected = order(msgpack.decode(msgpack.encode(value)))
                local by_number = order(tuple[2])
                different = different + (by_number ~= expected and 1 or 0)
                if order(tuple.data) ~= expected or order(tuple:tomap().data) ~= expected
                        or order(tuple:totable()[2]) ~= by_number then
                    wrong[#wrong + 1] = case
                end
            end
            return wrong, different > 0"""
        )
        assert wrong == [[], True]
        assert await box("return t:tomap(), t:tomap({names_only = true}).id, #t:tomap({names_only = true})") == [
            {
                1: 1,
                2: {"car": {"color": "red", "wheels": [4, 5]}},
                "id": 1,
                "data": {"car": {"color": "red", "wheels": [4, 5]}},
            },
            1,
            0,
        ]

    run(body)


def test_operations_of_a_tuple_are_encoded_by_msgpackffi(run: Run) -> None:
    """A table with holes is a map there, and a number of more than 64 bits becomes 0."""

    async def body(box: Box) -> None:
        await box("t = box.tuple.new{1, 2}")
        assert await box("return t:update{{'=', 2, {1, nil, 3}}}") == [1, {1: 1, 3: 3}]
        assert await box("return t:update{{'=', 2, 2^65}, {'=', 3, -2^64}}") == [1, 0, -(2**63)]
        assert await box.fails("t:update{{nil, 2, 1}}") == (
            "Illegal parameters, update operation must be an array {op,..}"
        )
        assert await box("return t:transform(1, 5LL, 'x')") == ["x", 1, 2]
        assert await box("return t:transform(1, 1.5, 'x')") == ["x", 2]

    run(body)


def test_tuples_are_equal_if_they_are_the_same(run: Run) -> None:
    """Copies of the same stored tuple are equal; two new tuples differ even if their contents are equal."""

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('same') s:create_index('pk') s:replace{1, 2}")
        assert await box("return s:get(1) == s:get(1), s:get(1) == s:select()[1]") == [True, True]
        assert await box("t = box.tuple.new{1, 2} return t == t, t == box.tuple.new{1, 2}, t == s:get(1)") == [
            True,
            False,
            False,
        ]

    run(body)


def test_the_size_of_a_space_is_a_64_bit_integer(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('sized') i = s:create_index('pk')")
        assert await box("return type(s:bsize()), type(i:bsize()), s:bsize() == 0") == ["cdata", "number", True]

    run(body)


def test_a_loop_from_a_position_that_is_no_number_is_an_error(run: Run) -> None:
    """A NaN is neither before the end nor behind it: the loop would read memory beyond the tuple."""

    async def body(box: Box) -> None:
        found = await box(
            """local tuple, nan, found = box.tuple.new{1, 2}, 0 / 0, {}
            for _, loop in ipairs({
                function() return tuple:find(nan, 3) end,
                function() return tuple:findall(nan, 3) end,
                function() for _ in tuple:pairs(nan) do end end,
            }) do
                local _, problem = pcall(loop)
                found[#found + 1] = tostring(problem):match('error: .*')
            end
            return found"""
        )
        assert found == ["error: invalid key to 'next'"] * 3

    run(body)


def test_fractions_of_positions(run: Run) -> None:
    """A loop from a fraction starts at its whole part; each step adds one, up to the end that was given."""

    async def body(box: Box) -> None:
        await box("t = box.tuple.new{'a', 'b', 'c', 'd'}")
        assert await box("return t:totable(1.5)") == ["a", "b", "c", "d"]
        assert await box("return t:totable(1.5, 3)") == ["a", "b"]
        assert await box("return t:totable(2, 3LL)") == ["b", "c"]
        assert await box("return t:unpack(2.5, 4)") == ["b", "c"]
        assert await box("return t:find(1.5, 'c')") == 3.5

    run(body)

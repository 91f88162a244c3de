"""Errors about indexes that want different types of one field: which type comes first, as in Tarantool 2.8.1."""

from __future__ import annotations

from .box_support import Box, Run


def test_an_altered_index_is_the_one_that_conflicts(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("""
            s = box.schema.space.create('s')
            s:create_index('pk')
            s:create_index('a', {unique = false, parts = {{2, 'unsigned', path = '[*].x'}}})
            s:create_index('b', {unique = false, parts = {{2, 'unsigned', path = '[*].y'}}})""")
        assert await box.fails("s.index.a:alter{parts = {{2, 'unsigned', path = 'x'}}}") == (
            "Field 2 has type 'array' in one index, but type 'map' in another"
        )
        assert await box.fails("s.index.b:alter{parts = {{2, 'unsigned', path = 'x'}}}") == (
            "Field 2 has type 'array' in one index, but type 'map' in another"
        )

    run(body)


def test_an_index_keeps_its_place_if_tuples_need_another_number_of_fields(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("""
            s = box.schema.space.create('s')
            s:create_index('pk')
            s:create_index('a', {unique = false, parts = {{3, 'unsigned'}}})
            s:create_index('b', {unique = false, parts = {{2, 'unsigned', path = '[*].y'}}})""")
        assert await box.fails("s.index.a:alter{parts = {{2, 'unsigned', path = 'x'}}}") == (
            "Field 2 has type 'map' in one index, but type 'array' in another"
        )

    run(body)

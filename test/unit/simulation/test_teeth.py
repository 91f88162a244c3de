"""The mutations of `make teeth` fit the product as it is."""

from __future__ import annotations

import pytest

from test.mutations import MUTATIONS, Mutation
from test.teeth import ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_text_of_a_mutation_occurs_once(mutation: Mutation) -> None:
    assert (ROOT / mutation.path).read_text().count(mutation.old) == 1
    assert mutation.new != mutation.old

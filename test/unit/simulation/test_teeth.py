"""The mutations of `make teeth` fit the product as it is."""

from __future__ import annotations

import pytest

from test.mutation import Mutation
from test.mutations import MUTATIONS
from test.teeth import CORPUS, ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_text_of_a_mutation_occurs_once(mutation: Mutation) -> None:
    assert (ROOT / mutation.path).read_text().count(mutation.old) == 1
    assert mutation.new != mutation.old


def test_files_of_the_corpus_belong_to_mutations() -> None:
    """Each has failed without a remedy, which one of the mutations takes back."""
    assert {path.stem for path in CORPUS.glob("*.json")} == {one.corpus for one in MUTATIONS if one.corpus}

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


TWO_REMEDIES = {
    "They failed before leaders claimed decisions and votes compared the terms of logs: each of the two is enough": {
        "a-promotion-of-five-that-no-majority-has",
        "a-promotion-that-no-majority-has",
        "rows-that-a-promotion-unknown-here-made-void",
    }
}
"""Files of the corpus whose remedy no single mutation takes back, by the reason."""


def test_files_of_the_corpus_belong_to_mutations() -> None:
    """Each has failed without a remedy. One of the mutations takes that back, or the file is listed with its reason."""
    listed = {one.corpus for one in MUTATIONS if one.corpus}.union(*TWO_REMEDIES.values())
    assert {path.stem for path in CORPUS.glob("*.json")} == listed

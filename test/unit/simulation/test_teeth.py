"""The mutations of `make teeth` fit the present code."""

from __future__ import annotations

import pytest

from test.mutation import Mutation
from test.mutations import MUTATIONS
from test.teeth import CORPUS, ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_texts_of_a_mutation_occur_once(mutation: Mutation) -> None:
    for edit in mutation.edits:
        assert (ROOT / edit.path).read_text().count(edit.old) == 1
        assert edit.new != edit.old


def test_files_of_the_corpus_belong_to_mutations() -> None:
    """Each file of the corpus belongs to a mutation that undoes the fix of its defect."""
    assert {path.stem for path in CORPUS.glob("*.json")} == {one.corpus for one in MUTATIONS if one.corpus}


def test_a_mutation_is_shown_by_runs_or_by_a_story() -> None:
    for one in MUTATIONS:
        assert bool(one.story) is not bool(one.workload and one.faults)
        path, _, name = one.story.partition("::")
        assert not one.story or f"def {name}(" in (ROOT / path).read_text()

"""The Spark example of README.md runs in a Jupyter notebook, with a kernel process of its own."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from .spark_files import NEEDS_SPARK, make_snapshot

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
nbformat = pytest.importorskip("nbformat", reason="the extra 'dev' is not installed")
nbclient = pytest.importorskip("nbclient", reason="the extra 'dev' is not installed")
pytest.importorskip("ipykernel", reason="the extra 'dev' is not installed")

pytestmark = NEEDS_SPARK

README = Path(__file__).parents[2] / "README.md"
SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
"""


def example() -> tuple[str, str]:
    """Return the code of the example and the table that README.md shows as its output."""
    section = README.read_text().partition("\n## 3. Spaces in Spark\n")[2]
    code, output = re.findall(r"```(?:python)?\n(.*?)```", section.partition("In a Spark session:")[2], re.DOTALL)[:2]
    return code, output


@pytest.mark.slow
def test_the_example_of_readme_runs_in_a_notebook(
    directory_with_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_snapshot(
        directory_with_java / "data",
        """
        local s = box.schema.space.create('goods', {format = {
            {'id', 'unsigned'}, {'name', 'string'}, {'price', 'double'}}})
        s:create_index('pk')
        local cast = require('ffi').cast
        box.begin()
        for i = 99001, 100000 do s:insert{i, 'name ' .. i, cast('double', i / 4)} end
        box.commit()
        """,
    )
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    code, output = example()
    cells = [nbformat.v4.new_code_cell(text) for text in (SESSION, code, "spark.stop()")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    kernel = {"kernel_cmd": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    client = nbclient.NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(directory_with_java)}})
    client.create_kernel_manager()
    client.km.kernel_spec.argv = kernel["kernel_cmd"]
    client.execute(env=dict(os.environ))
    printed = "".join(part.get("text", "") for part in notebook.cells[1].outputs if part.get("name") == "stdout")
    assert printed.strip() == output.strip()

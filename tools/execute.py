"""Execute notebooks from a fresh kernel and save their outputs in place.

    python tools/execute.py NOTEBOOK…

A cell that fails stops the notebook with the cell's own words, and nothing is saved.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from fold import fold
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


def execute(path: Path, timeout: int = 600) -> None:
    """Execute one notebook in its own folder and save it, without what varies by machine."""
    begin = time.monotonic()
    print(f"{path.name}: executing", flush=True)
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.resolve().parent)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise SystemExit(f"{path.name} is not saved: a cell failed.\n\n{error}") from None
    notebook.metadata.pop("language_info", None)  # the Python version of this machine
    merge_streams(notebook)
    fold(notebook)
    nbformat.write(notebook, path)
    print(f"{path.name}: saved after {time.monotonic() - begin:.0f} s", flush=True)


def merge_streams(notebook: nbformat.NotebookNode) -> None:
    """Join neighbouring pieces of one stream: how they were cut depends on timing."""
    for cell in notebook.cells:
        merged: list[nbformat.NotebookNode] = []
        for output in cell.get("outputs", []):
            last = merged[-1] if merged else None
            if (
                last
                and output.output_type == last.output_type == "stream"
                and (output.name == last.name)
            ):
                last.text += output.text
            else:
                merged.append(output)
        if cell.cell_type == "code":
            cell.outputs = merged


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for name in sys.argv[1:]:
        execute(Path(name))

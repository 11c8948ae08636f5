"""docs/tour.ipynb runs, and the outputs kept in it are of the kinds that come out now. To keep
fresh ones: DMFT_TOUR=keep tests/python.sh -k tour."""
import os

import nbclient
import nbformat

HERE = os.path.dirname(os.path.abspath(__file__))
TOUR = os.path.join(HERE, "..", "docs", "tour.ipynb")


def kinds(cell):
    """What a cell has put out: names of streams, kinds of data."""
    return [part.get("name") or sorted(part["data"]) for part in cell.outputs]


def test_tour(monkeypatch):
    monkeypatch.delenv("MPLBACKEND")  # that of the kernel shows figures in the notebook
    kept, fresh = nbformat.read(TOUR, as_version=4), nbformat.read(TOUR, as_version=4)
    client = nbclient.NotebookClient(fresh, timeout=600, kernel_name="python3", record_timing=False,
                                     resources={"metadata": {"path": os.path.dirname(TOUR)}})
    client.execute()
    if os.environ.get("DMFT_TOUR") == "keep":
        nbformat.write(fresh, TOUR)
        kept = fresh
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    for old, new in zip(cells, (cell for cell in fresh.cells if cell.cell_type == "code")):
        assert kinds(old) == kinds(new), old.source
    shown = [kind for cell in cells for kind in kinds(cell)]
    assert sum("image/png" in kind for kind in shown) == 3
    # Progress is one output that was updated, and ends as the notes of the run.
    notes = [part["data"]["text/plain"] for cell in cells for part in cell.outputs
             if part.output_type == "display_data" and "image/png" not in part["data"]]
    assert len(notes) == 3 and all("\r" not in note and "step" not in note for note in notes)
    assert all(note.startswith("memory: about") for note in notes[:1])

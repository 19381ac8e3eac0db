"""The notebooks run from top to bottom, on the demo's database where there is one, and their answers are checked."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.browser import sessions

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
DEMO = ROOT / ".demo" / "polar.db"
SAYS = {
    "01_capture_and_inspect": ["the harness speaks", "MB"],
    "02_sql_to_dataset": ["sampled tokens train", "trained tokens"],
    "03_trajectories": ["continued exactly", "retokenised", "thinking_dropped", "trained, policy"],
}
SECONDS = 120


def database(folder: Path) -> Path:
    """The demo's, else one like it."""
    if DEMO.is_file():
        return DEMO
    calls = sessions.eventful()
    calls[0].completion_ids = list(range(200, 220))
    calls[0].logprobs = [-0.1] * 20
    calls[1].prompt_ids = [*calls[0].prompt_ids, *calls[0].completion_ids, 30, 31]
    calls[1].prefix_len = len(calls[0].prompt_ids) + 20
    sessions.write(folder / "polar.db", {"s-all": calls})
    return folder / "polar.db"


def tokenizer() -> dict[str, str]:
    """The tokenizer of the tests' own engine, where it is there."""
    found = sorted((ROOT / ".cache" / "models").glob("driver-*/tokenizer.json"))
    return {"POLAR_TOKENIZER": str(found[-1].parent)} if found else {}


@pytest.mark.parametrize("name", SAYS)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    db = database(tmp_path)
    before = db.read_bytes()
    for variable, value in {
        "POLAR_DB": str(db),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        **tokenizer(),
    }.items():
        monkeypatch.setenv(variable, value)
    NotebookClient(
        book, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    told = "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs)
    for part in SAYS[name]:
        assert part in told
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert db.read_bytes() == before, "the notebook changed the database that it was given"
    target = os.environ.get("POLAR_SAVE_NOTEBOOKS")
    if target:
        nbformat.write(book, Path(target) / f"{name}.ipynb")


@pytest.mark.parametrize("name", SAYS)
def test_a_notebook_tells_nothing_of_the_machine_it_ran_on(name: str):
    text = (FOLDER / f"{name}.ipynb").read_text()
    assert str(ROOT) not in text
    assert str(Path.home()) + "/" not in text
    assert "/tmp/" not in text
    assert "Traceback" not in text

"""What all commands of the package share: one sentence where they fail, and their exit codes."""
import importlib
import subprocess
import sys

import dmft
import pytest
from dmft.__main__ import COMMANDS
from dmft.command import finish


def called(name, *lines):
    """What a command says that is called by its name where it is installed, and its exit code."""
    done = subprocess.run([sys.executable, "-c", "\n".join([
        "import sys", f"sys.argv = ['/usr/bin/{name}']", *lines, "from dmft.__main__ import main",
        "sys.exit(main())"])], stderr=subprocess.PIPE, text=True, check=False)
    return done.stderr, done.returncode


def test_without_matplotlib():
    """Runs and files need none; the command says what is missing."""
    assert called("dmft-plot", "sys.modules['matplotlib'] = None") == (
        'dmft-plot: pictures need matplotlib: pip install "dmft[plot]"\n', 1)


def test_an_interrupt_of_what_is_imported_is_one_line():
    assert called("dmft-diff", "class Slow:",
                  "    def __getattr__(self, name): raise KeyboardInterrupt",
                  "sys.modules['dmft.diff'] = Slow()") == ("dmft-diff: interrupted\n", 130)


@pytest.mark.parametrize("name", [one for one in COMMANDS if one not in ("sweep", "torch")])
def test_wrong_words_are_one_sentence(name, capsys):
    """Of every command, without the usage before it."""
    with pytest.raises(SystemExit) as end:
        importlib.import_module(COMMANDS[name]).main(["--nothing"])
    said = capsys.readouterr().err
    assert end.value.code == 2 and said.count("\n") == 1 and said.startswith(f"dmft-{name}: ")


@pytest.mark.parametrize("error, code, said", (
    (KeyboardInterrupt(), 130, "interrupted"), (MemoryError(), 1, "out of memory"),
    (dmft.InputError("a sentence"), 2, "a sentence"),
    (OSError(28, "No space left on device"), 1, "[Errno 28] No space left on device")))
def test_a_command_that_fails_says_one_sentence(error, code, said, capsys, monkeypatch):
    def work():
        raise error
    monkeypatch.setattr(sys, "stdout", sys.stdout)      # which a full disk takes away
    assert finish("dmft-x", work) == code
    assert finish("dmft-x", work, failed=2) == (130 if code == 130 else 2)
    assert capsys.readouterr().err == 2 * f"dmft-x: {said}\n"


def test_a_full_disk_is_one_sentence(tmp_path):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([sys.executable, "-m", "dmft", "examples", tmp_path], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "dmft-examples: [Errno 28] No space left on device\n"

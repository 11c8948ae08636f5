"""The programs: where they are, how they are run, what they say while they run."""
from __future__ import annotations

import atexit
import codecs
import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request

from dmft.errors import Interrupted, SystemFailure, failure


# What mpirun and srun tell a process of a job of ranks. Its children are none of them.
RANKS = re.compile("OMPI_|PMI_|PMIX_|PMI2_|MPI_LOCALRANKID|HYDRA_|PRTE_|SLURM_PROCID|SLURM_STEP")


def alone() -> dict[str, str]:
    """The environment of a program that is started here, and is no rank of a job that this process
    is of."""
    return {name: value for name, value in os.environ.items() if not RANKS.match(name)}


def _installed_from() -> str | None:
    """The folder that pip installed this package from, if it was one."""
    try:
        text = importlib.metadata.distribution("dmft").read_text("direct_url.json")
        url = urllib.parse.urlparse(json.loads(text or "{}").get("url", ""))
    except (importlib.metadata.PackageNotFoundError, ValueError, OSError):
        return None
    return urllib.request.url2pathname(url.path) if url.scheme == "file" else None


def _checkout(folder: str | None, name: str) -> str | None:
    """The program in the checkout around a folder, if it is in one and built."""
    while folder:
        path = os.path.join(folder, name)
        source = os.path.join(folder, "solver", "main_solve.c")
        if os.path.exists(source) and os.access(path, os.X_OK):
            return path
        above = os.path.dirname(folder)
        folder = above if above != folder else None
    return None


def find(name: str) -> str:
    """The path of a program: in the folder DMFT_HOME (or its bin/) where that is set; else inside
    of this package, where a wheel has it, of the checkout this package lies in or was installed
    from, or on PATH. The current folder is not asked: it may be a stranger's.

    >>> find("dmft-solve")                      # doctest: +SKIP
    '/usr/local/bin/dmft-solve'
    """
    home = os.environ.get("DMFT_HOME")
    if home:
        for folder in (home, os.path.join(home, "bin")):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return path
        raise SystemFailure(f"no {name} in DMFT_HOME={home}; build it there with make")
    here = os.path.dirname(os.path.abspath(__file__))
    path = shutil.which(name, path=os.path.join(here, "bin")) or _checkout(here, name) or \
        shutil.which(name) or _checkout(_installed_from(), name)
    if not path:
        raise SystemFailure(f"no {name} on PATH or in the checkout of this package; build it with "
                            "make and set DMFT_HOME to its folder, or PATH, or make install")
    return path


def _become(name: str):
    """Commands of an installed wheel: the program inside of it takes the place of this process."""
    path = find(name)
    os.execv(path, [path, *sys.argv[1:]])


def solve():
    """dmft-solve, of a wheel."""
    _become("dmft-solve")


def compare():
    """dmft-compare, of a wheel."""
    _become("dmft-compare")


def _notebook() -> bool:
    """Whether this runs in a notebook (IPython with a kernel)."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


class Screen:
    """Lines, and below them one that changes: in a terminal rewritten in place, in a notebook one
    output that is updated, elsewhere (a log) left out."""

    def __init__(self, name: str):
        self.name, self.shown, self.handle, self.text = name, 0, None, ""
        self.notebook = _notebook()
        self.changes = self.notebook or sys.stderr.isatty()

    def line(self, text: str) -> None:
        """A line that stays."""
        if self.notebook:
            self.text += text + "\n"
            self._update("")
        else:
            self.status("")
            print(text, file=sys.stderr, flush=True)

    def status(self, text: str) -> None:
        """The line that changes; "" takes it away."""
        if self.notebook:
            self._update(text)
        elif self.changes and (text or self.shown):
            text = text[:shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + text.ljust(self.shown) + ("" if text else "\r"))
            sys.stderr.flush()
            self.shown = len(text)

    def _update(self, status: str) -> None:
        text = (self.text + status).rstrip()
        if not text and not self.handle:
            return
        from IPython.display import display
        data = {"text/plain": text or self.name}
        if self.handle:
            self.handle.update(data, raw=True)
        else:
            self.handle = display(data, raw=True, display_id=True)


def _pieces(source: int):
    """(text, whether it is a line) of what a program writes, read as it comes: its progress follows
    a carriage return and ends in none."""
    rest, after_return = "", False
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a letter may be in two chunks
    while True:
        try:
            chunk = os.read(source, 4096)
        except OSError:  # a terminal whose other side is closed
            chunk = b""
        if not chunk:
            break
        *parts, rest = re.split(r"(\r*\n|\r\x1b\[K)", rest + decoder.decode(chunk))
        for text, end in zip(parts[::2], parts[1::2]):
            if "\n" in end:
                yield text, True
            after_return = "\n" not in end
        if rest and after_return:
            yield rest, False
    if rest and not after_return:
        yield rest, True


class _Interrupts:
    """While it is open Ctrl-C goes to a child. Signals reach the main thread alone."""

    def __init__(self):
        self.child, self.count = None, 0
        self.main = threading.current_thread() is threading.main_thread()

    def __enter__(self):
        self.before = signal.signal(signal.SIGINT, self._handle) if self.main else None
        return self

    def __exit__(self, *error):
        if self.main:
            signal.signal(signal.SIGINT, signal.default_int_handler if self.before is None
                          else self.before)  # SIG_DFL is false

    def pass_to(self, child: subprocess.Popen) -> None:
        self.child = child
        if self.count:
            child.send_signal(signal.SIGINT)

    def _handle(self, number, frame) -> None:
        self.count += 1
        if self.child:
            self.child.send_signal(signal.SIGINT)


def _open(screen: Screen) -> tuple[int, int]:
    """(to read from, to write to). Where progress is shown the program writes to a pseudo terminal,
    where there is one, and so tells it ten times a second."""
    if screen.changes:
        import pty
        with contextlib.suppress(OSError):
            return pty.openpty()
    return os.pipe()


def call(name: str, arguments: list[str], progress: bool, hide: str = "") -> str:
    """Runs a program to its end and gives what it wrote to its standard output. Ctrl-C is passed
    on, and Interrupted raised when the program has ended; other exit codes raise the error of their
    kind. Lines that hold the text `hide` are not shown.

    >>> call("dmft-solve", ["--version"], progress=False)       # doctest: +SKIP
    'dmft-solve 0.1.0'
    """
    screen, lines = Screen(name), []
    command = [find(name), *arguments]
    source, sink = _open(screen)
    with tempfile.TemporaryFile() as report, _Interrupts() as interrupts:
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=report, stderr=sink,
                                     env=alone())
        except OSError as error:
            os.close(source)
            raise SystemFailure(f"{command[0]}: {error.strerror}") from None
        finally:
            os.close(sink)
        try:
            interrupts.pass_to(child)
            for text, whole in _pieces(source):
                if whole:
                    lines.append(text)
                show(screen, name, text, whole, progress, hide)
            code = child.wait()
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
            os.close(source)
            screen.status("")
        report.seek(0)
        table = report.read().decode(errors="replace")
    if interrupts.count or code in (130, -signal.SIGINT):
        raise Interrupted(_sentence(name, lines) or "interrupted")
    if code:
        died = f"{name} was ended by {signal.Signals(-code).name}" if code < 0 else \
            f"{name} ended with exit code {code}"
        raise failure(code, _sentence(name, lines) or died, None)
    return table


class _Answers:
    """`dmft-solve --programs`, which waits for the next question, because to start it takes longer
    than to answer. It is started anew where the program, the folder or the process is another."""

    def __init__(self):
        self.child, self.made_for, self.lock = None, None, threading.Lock()
        self.count = 0                  # questions that were answered
        atexit.register(self.end)

    def __call__(self, words: list[str]) -> str:
        """What `dmft-solve --program` prints for these words; errors as of call().

        >>> described(["x.ini", "--network.kappa=2"])           # doctest: +SKIP
        '{"format":1, ...'
        """
        question = json.dumps(words)
        if re.search(r"\\ud[89a-f]", question):  # a path that is no UTF-8 cannot be asked for
            return call("dmft-solve", ["--program", *words], False)
        with self.lock:
            try:
                answer = self._ask(question)
            except OSError as error:
                self.end()
                raise SystemFailure(f"dmft-solve: {error.strerror}") from None
            except BaseException:  # Ctrl-C: nobody wants the answer that is under way
                self.end()
                raise
        self.count += 1
        if not answer.endswith("\n"):
            raise SystemFailure("dmft-solve --programs ended without an answer")
        if answer.startswith('{"code":'):
            failed = json.loads(answer)
            raise failure(failed["code"], failed["error"].strip(), None)
        return answer

    def _ask(self, question: str) -> str:
        path = find("dmft-solve")
        wanted = path, os.stat(path).st_mtime_ns, os.getcwd(), os.getpid()
        if self.made_for != wanted or self.child.poll() is not None:
            self.end()
            self.child = subprocess.Popen([path, "--programs"], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                          encoding="utf-8", start_new_session=True,
                                          env=alone())
            self.made_for = wanted
        self.child.stdin.write(question + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline()

    def end(self) -> None:
        """The program ends, where this process has started it."""
        if self.child:
            with contextlib.suppress(OSError):
                self.child.stdin.close()
            self.child.stdout.close()
            if self.made_for[-1] == os.getpid():
                self.child.kill()
                self.child.wait()
        self.child, self.made_for = None, None


described = _Answers()


def show(screen, name, text, whole, progress, hide) -> None:
    """A line of a program, or its progress; the error itself becomes the exception."""
    if not progress or text.startswith(name + ": ") or (hide and hide in text):
        return
    if not whole or (screen.changes and re.match(r"\d+/\d+  ", text)):  # units of a sweep
        screen.status(text)
    else:
        screen.line(text)


def _sentence(name: str, lines: list[str]) -> str:
    """What follows the last "dmft-solve: "."""
    starts = [k for k, line in enumerate(lines) if line.startswith(name + ": ")]
    return "\n".join(lines[starts[-1]:]).removeprefix(name + ": ").strip() if starts else ""

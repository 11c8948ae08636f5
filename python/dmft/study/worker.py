"""The process that runs the units of a sweep: dmft-solve --units (solver/study/units.h), which
answers one question after another. To start it takes longer than to run a small point.

Executors of other machines call run_units(tasks), where this package and the folder of the sweep
are to be found under the same names.
"""
from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time

from dmft import program
from dmft.errors import DmftError, InputError, Interrupted, SystemFailure, failure
from dmft.study import place

def _environment() -> dict[str, str]:
    """That of the child; with what dmft-solve sets for itself, and else starts once more for."""
    own = program.alone()
    if "OMP_WAIT_POLICY" not in own:
        own.setdefault("GOMP_SPINCOUNT", "10000")
    own.setdefault("OPENBLAS_NUM_THREADS", "1")
    return own


class Worker:
    """One such process, started at the first question. Not for several threads at once, but for
    stop() and close()."""

    def __init__(self, path: str | None = None, folder: str | None = None):
        self.path, self.folder = path or program.find("dmft-solve"), folder
        self.child, self.busy, self.stopped = None, False, False

    def _start(self) -> None:
        try:
            # A session of its own: Ctrl-C is for who has started the sweep, and stop() for us.
            self.child = subprocess.Popen([self.path, "--units"], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, cwd=self.folder,
                                          env=_environment(), start_new_session=True)
        except OSError as error:
            raise SystemFailure(f"cannot start {self.path}: {error.strerror}") from None

    def ask(self, question: dict) -> dict:
        """The answer; a failure that it tells, or the end of the process, is raised. `unit` of the
        error is the one that it is about, or None."""
        try:
            line = json.dumps(question, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError("names of files, and words of the command line, must be UTF-8 in a "
                             "sweep") from None
        if self.child is None:
            self._start()
        if self.stopped:
            raise Interrupted("interrupted")
        self.busy = True
        try:
            self.child.stdin.write(line + b"\n")
            self.child.stdin.flush()
        except OSError:  # it is gone, and its end says why
            pass
        answer = self.child.stdout.readline()
        if not answer.endswith(b"\n"):
            raise self._died()
        self.busy = False
        found = json.loads(answer)
        if "code" in found:
            error = failure(found["code"], found["error"].rstrip("\n"), None)
            error.unit = found.get("unit")
            raise error
        return found

    def version(self) -> str:
        """"dmft-solve VERSION"."""
        try:
            return subprocess.run([self.path, "--version"], capture_output=True, text=True,
                                  check=True, env=_environment()).stdout.strip()
        except (OSError, subprocess.SubprocessError) as error:
            raise SystemFailure(f"{self.path} --version: {error}") from None

    def _died(self) -> BaseException:
        code, self.busy = self.child.wait(), False
        self.close()
        if code == 130 or self.stopped:
            return Interrupted("interrupted")
        if code < 0:
            return SystemFailure(f"the process was ended by signal {-code}; what is done is kept, "
                                 "and the same command goes on from here")
        return SystemFailure(f"dmft-solve --units ended with exit code {code}, without an answer")

    def stop(self) -> None:
        """The run that is under way ends in order, as by a signal."""
        self.stopped = True
        if self.child is not None:
            self.child.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """The process ends, at once where it has a run under way."""
        child, self.child = self.child, None
        if child is None:
            return
        with contextlib.suppress(OSError):
            child.stdin.close()
        try:
            child.wait(0 if self.busy else 5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


_workers = threading.local()  # a thread dies with its process (PR_SET_PDEATHSIG)


def _worker_of(task: dict) -> Worker:
    """The process of this thread: of the program that began the sweep, where that is here."""
    path = task["program"] if os.access(task["program"], os.X_OK) else program.find("dmft-solve")
    wanted = path, task["folder"], os.getpid()
    if getattr(_workers, "made_for", None) != wanted:
        if hasattr(_workers, "one") and _workers.made_for[-1] == os.getpid():
            _workers.one.close()
        _workers.one, _workers.made_for = Worker(path, task["folder"]), wanted
    return _workers.one


def run_unit(task: dict, worker: Worker | None = None) -> tuple[int, str, float]:
    """(exit code, sentence, seconds) of a unit: `question` to a process, or to that of this thread
    in `folder`; behind it the sum of its file is kept."""
    begin = time.monotonic()
    made, where = (os.path.join(task["folder"], path)
                   for path in (task["question"]["output"], task["sum"]))
    try:
        place.keep_sum(None, where)
        (worker or _worker_of(task)).ask(task["question"])
        place.keep_sum(made, where)
    except (DmftError, Interrupted) as error:
        return error.code, error.sentence, time.monotonic() - begin
    return 0, "", time.monotonic() - begin


def run_units(tasks: list[dict]) -> list[tuple[int, str, float]]:
    """Of each of these units, one after another."""
    return [run_unit(task) for task in tasks]

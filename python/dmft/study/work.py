"""The units of a sweep that are pending, run by processes or by an executor. Whatever happens, a
unit is either done or will be run again, from its states where it has left some."""
from __future__ import annotations

import concurrent.futures
import contextlib
import os
import queue
import signal
import threading
import time

from dmft.errors import DmftError, Interrupted, SystemFailure, failure
from dmft.study.sweep import DONE, FAILED, PENDING, Sweep
from dmft.study.worker import Worker, run_unit, run_units

GOES_ON = "the same command goes on from here"


class Signals:
    """While it is open the first Ctrl-C (or SIGTERM, or a terminal that is closed, without nohup)
    calls `tell`, or raises Interrupted where that is None, as does one more than a second later.
    Signals reach the main thread alone."""

    def __init__(self):
        self.tell, self.first, self.before = None, None, {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
                numbers.append(signal.SIGHUP)
            for number in numbers:
                self.before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error):
        for number, handler in self.before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _handle(self, _number, _frame) -> None:
        # Within a second it is the same request: timeout(1) signals the process and its group.
        if self.first is not None and time.monotonic() - self.first < 1:
            return
        again, self.first = self.first is not None, time.monotonic()
        if self.tell is None or again:
            raise Interrupted(f"interrupted; {GOES_ON}")
        self.tell()


class _Team:
    """What has been given to an executor. Its results come into `results`, (units, future)."""

    def __init__(self, sweep: Sweep, executor, jobs: int):
        self.sweep, self.results, self.futures = sweep, queue.SimpleQueue(), []
        self.own, self.left, self.stopped = executor is None, 0, False
        self.workers = [sweep.worker]  # of our own threads, each of which takes one
        self.free, self.mine = [sweep.worker], threading.local()
        self.executor = executor or concurrent.futures.ThreadPoolExecutor(jobs)

    def give(self, jobs: int, chunk: int) -> None:
        """Everything that is pending, in parts of `chunk` units."""
        sweep = self.sweep
        pending = [unit for unit in range(sweep.count) if sweep.status[unit] == PENDING]
        parts = [pending[k:k + chunk] for k in range(0, len(pending), chunk)]
        for unit in pending:  # what a run that was cut has left, of which its states stay
            with contextlib.suppress(FileNotFoundError):
                os.unlink(sweep.path(unit, ".h5.partial"))
        batch = getattr(self.executor, "batch", contextlib.nullcontext)  # an array of submitit
        with batch():
            for units in parts:
                tasks = [sweep.task(unit, jobs) for unit in units]
                self.futures.append((units, self.executor.submit(self._run_own, tasks) if self.own
                                     else self.executor.submit(run_units, tasks)))
        self.left = len(parts)
        polled = []
        for units, future in self.futures:
            if hasattr(future, "add_done_callback"):
                future.add_done_callback(lambda one, units=units: self.results.put((units, one)))
            else:
                polled.append((units, future))
        if polled:  # jobs of submitit say when they are asked
            threading.Thread(target=self._poll, args=(polled,), daemon=True).start()

    def _run_own(self, tasks):
        if not hasattr(self.mine, "worker"):
            try:
                self.mine.worker = self.free.pop()
            except IndexError:
                self.mine.worker = Worker(self.sweep.worker.path)
                self.workers.append(self.mine.worker)
                if self.stopped:  # by a loop over those that were there before
                    self.mine.worker.stop()
        return [run_unit(task, self.mine.worker) for task in tasks]

    def _poll(self, polled) -> None:
        while polled:
            for one in [one for one in polled if one[1].done()]:
                polled.remove(one)
                self.results.put(one)
            time.sleep(0.5)

    def stop(self) -> None:
        """Nothing is started any more; of our own processes the runs that are under way end in
        order."""
        self.stopped = True
        for _, future in self.futures:
            future.cancel()
        for worker in self.workers:
            worker.stop()

    def end(self) -> None:
        """Ends our own processes; an executor is its owner's."""
        if self.own:
            self.executor.shutdown(wait=False, cancel_futures=True)
            for worker in self.workers:
                worker.close()


class _Account:
    """What has become of the units. check: of the first of each width that is done."""

    def __init__(self, sweep: Sweep, log, check):
        self.sweep, self.log, self.first, self.lost = sweep, log, None, []
        self.check, self.checked = check, set()
        self.done = sum(status != PENDING for status in sweep.status)

    def settle(self, unit: int, code: int, sentence: str, seconds: float) -> None:
        """A unit has ended: done, diverged (kept in a file), or a reason to stop, of which the
        first is kept."""
        sweep, note = self.sweep, self.sweep.describe(unit)
        if code not in (0, 3):
            self.first = self.first or (
                Interrupted(f"interrupted; {GOES_ON}") if code == 130 else
                failure(code, f"{note}: {sentence}", None))
            return
        self.done += 1
        self.log(f"{self.done}/{sweep.count}  {note}  {seconds:.1f} s" +
                 (f"  failed: {sentence}" if code else ""))
        sweep.status[unit] = FAILED if code else DONE
        if not code and unit % sweep.columns not in self.checked:
            self.checked.add(unit % sweep.columns)
            try:
                self.check(unit)
            except DmftError as error:
                self.first = self.first or error
        if code:
            path = sweep.path(unit, ".failed")
            try:
                with open(path + ".new", "w", encoding="utf-8") as file:
                    file.write(sentence)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(path + ".new", path)
            except OSError as error:
                self.first = self.first or SystemFailure(
                    f"cannot write {path}: {error.strerror}")

    def lose(self, units: list[int], error: BaseException) -> None:
        """The process or the machine that made them is gone; those that are there are done."""
        for unit in units:
            if os.path.exists(self.sweep.path(unit, ".h5")):
                self.settle(unit, 0, "", 0.0)
            else:
                self.lost.append((unit, error))

    def conclude(self) -> None:
        """Raises what has gone wrong."""
        if self.first is not None:
            raise self.first
        if self.lost:
            unit, error = self.lost[0]
            raise SystemFailure(
                f"{len(self.lost)} of {self.sweep.count} runs did not come to their end, because "
                "the process or machine that was to make them is gone, the first at "
                f"{self.sweep.describe(unit)}: "
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}; "
                f"{GOES_ON}")


def work(sweep: Sweep, signals: Signals, log, jobs: int, executor=None, chunk: int = 1,
         check=lambda unit: None) -> None:
    """Runs what is pending. executor: of concurrent.futures, or of submitit, None: processes of our
    own, `jobs` at a time. chunk: so many units are one submission. jobs: the processors of a
    machine are shared out among so many runs. check: raises a DmftError where a unit that is done
    says that all others were run for nothing.

    After a failure or a signal nothing is started any more. What an executor loses with a process
    or a machine is run by the next call; all else goes on."""
    account = _Account(sweep, log, check)
    pending = sweep.count - account.done
    log(f"{sweep.count} runs, {account.done} of them done, " +
        (f"{jobs} at a time" if executor is None else f"by {type(executor).__name__}"))
    if not pending:
        return
    team = _Team(sweep, executor, jobs)
    signals.tell = lambda: team.results.put(None)
    try:
        team.give(jobs, chunk if executor is not None else 1)
        while team.left:
            found = team.results.get()
            if found is None:
                account.first = account.first or Interrupted(f"interrupted; {GOES_ON}")
            else:
                team.left -= 1
                _take(account, *found)
            if account.first is not None and not team.stopped:
                team.stop()
                if found is None and not team.own:
                    break  # runs of others go to their end, and are found done by the next call
    finally:
        signals.tell = None
        team.end()
    account.conclude()


def _take(account: _Account, units: list[int], future) -> None:
    try:
        results = future.result()
    except concurrent.futures.CancelledError:
        return
    except Exception as error:  # whatever an executor says of a machine that is gone
        account.lose(units, error)
        return
    for unit, result in zip(units, results):
        account.settle(unit, *result)

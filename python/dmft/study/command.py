"""dmft-sweep: the runs of an ini file over a grid of its keys, in parallel processes.

Under mpirun, with mpi4py, rank 0 reads the sweep and the others run its units (docs/cluster.md).
"""
from __future__ import annotations

import contextlib
import os
import re
import sys

from dmft.errors import DmftError, InputError, Interrupted, SystemFailure
from dmft.program import Screen, show

USAGE = """\
usage: dmft-sweep [-o OUT.h5] [--jobs N] [--retry] [--force] [--quiet] FILE.ini
                  [--section.key=value ...]
       dmft-sweep --points FILE.ini [--section.key=value ...]
       dmft-sweep --optimum OUT.h5 [--along section.key] [--objective NAME] [-o FILE.h5]
       dmft-sweep --help | --version"""

HELP = f"""\
dmft-sweep: runs of dmft-solve over a grid of keys
{USAGE}

FILE.ini is an ini of dmft-solve with one section more, whose keys are those to vary:

    [sweep]
    network.parameterization = mup mssp
    training.eta0 = logspace(0.1, 10, 9)
    network.kappa, network.expert_width = 0.25 4 | 0.5 2 | 1 1

Each line is an axis of the grid. Values are logspace(first, last, n), linspace(first, last,
n) or a list, in which | separates values that have blanks. Keys joined by commas vary
together: each point, between |, has one value for every key, separated by blanks or by
commas. A line can stand on the command line as well, in quotes, and then goes over the one
of the file: --sweep.training.eta0="0.1 0.2 0.4".

Every point is run at each of the [reference] widths and in the limit, in N processes that make
one run at a time (--jobs; default: all cores). Files go to OUT.d, the summary to OUT.h5,
and a table of the optimum (or of the losses) to the screen. The same command goes on with a
sweep that was stopped or changed; done runs are not repeated. Runs that ended in a
numerical failure count as done unless --retry.

Points are compared by [sweep] objective = test_loss, loss, smooth_loss, time_to=X or
NAME[t][i]..., any series at a time t or "last" and an entry i or "mean" of each further
axis (--objective; default: test_loss where there is one), and the optimum is sought along
[sweep] along = section.key (--along; default: training.eta0). --optimum does so once more
with a sweep that is done, and runs nothing. --points prints the grid as JSON: the ini
without [sweep], and the keys and values of each axis."""

FLAGS = ("--force", "--quiet", "--retry", "--points", "--help", "-h", "--version")
VALUES = {"-o": "the name of the output file", "--jobs": "the number of processes",
          "--optimum": "the file of a sweep", "--along": "a key of the sweep",
          "--objective": "what points are compared by"}
MOST = 1024  # processes


class Options:
    """The words of a command line."""

    def __init__(self, words: list[str]):
        self.flags, self.values, self.keys, self.file = set(), {}, [], None
        words = iter(words)
        for word in words:
            if word in FLAGS:
                self.flags.add(word)
            elif word in VALUES:
                value = next(words, "")
                if not value:
                    raise InputError(f"{word} needs {VALUES[word]}")
                self.values[word] = value
            elif word.startswith("--") and "." in word and "=" not in word:
                raise InputError(f"{word}: a key and its value are one word, "
                                 f"{word}={next(words, 'value')}")
            elif "=" in word and (word.startswith("--") or not os.path.exists(word)):
                self.keys.append(word)
            elif word.startswith("-"):
                raise InputError(f"unknown option {word}; " + (
                    "the same command as before goes on with a sweep" if word == "--continue" else
                    "a key is set by --section.key=value") + "\n" + USAGE)
            elif self.file is not None:
                raise InputError(f"one ini file at a time: {self.file}, {word}")
            else:
                self.file = word
        self._check()

    def _check(self) -> None:
        again = "--optimum" in self.values
        if again and (self.file or self.keys):
            raise InputError("--optimum takes a sweep that is done, and no ini or keys")
        if self.file is None and not again and not self.flags & {"--help", "-h", "--version"}:
            raise InputError(f"which ini file?\n{USAGE}")
        if "--points" in self.flags and ("-o" in self.values or again):
            raise InputError("--points prints the grid of an ini; it takes no "
                             + ("-o" if "-o" in self.values else "--optimum"))
        jobs = self.values.get("--jobs")
        if jobs and not (re.fullmatch(r"\s*[+-]?\d+", jobs) and 1 <= int(jobs) <= MOST):
            raise InputError(f"--jobs {jobs}: must be an integer, 1 to {MOST}")

    @property
    def jobs(self) -> int:
        """So many runs at a time."""
        return int(self.values.get("--jobs", len(os.sched_getaffinity(0))))

    @property
    def output(self) -> str:
        """OUT.h5: as given, or for data/regime2.ini regime2.h5 in the current folder."""
        return self.values.get("-o") or \
            re.sub(r"(?<=.)\.ini$", "", self.file.rpartition("/")[2]) + ".h5"

    def repeated(self) -> str:
        """Which keys are given more than once, and count with their last value; "": none."""
        last, more = {}, []
        for word in self.keys:
            word = word.removeprefix("--")
            key = re.sub("[ \t]", "", word.partition("=")[0])
            if key in last:
                more = [one for one in more if one != key] + [key]
            last[key] = word
        return "given more than once on the command line, where the last value counts: " + \
            ", ".join(last[key] for key in more) if more else ""


def _points(options: Options, worker, tell) -> None:
    """The grid of an ini as one line of JSON: `ini`, what it says without [sweep], with absolute
    paths, and `axes`, each with its `keys` and its `values`, a list of one text for each key. Only
    the first point is read; nothing is run or made."""
    import json

    from dmft.study.sweep import Sweep
    sweep = Sweep(options.file, options.keys, worker=worker)
    axes = [{"keys": [key.name for key in axis.keys],
             "values": [[key.text[i] for key in axis.keys] for i in range(axis.count)]}
            for axis in sweep.grid.axes]
    tell(json.dumps({"ini": sweep.base["given"], "axes": axes}, separators=(",", ":"),
                    ensure_ascii=False))


def _look_again(options: Options, worker, tell) -> None:
    """Tables, and with -o a file, of other choices than those of the sweep."""
    from dmft.study import output as files, place, summary
    from dmft.study.sweep import reopen
    again, output = options.values["--optimum"], options.values.get("-o")
    if output:
        place.refuse_input(output, again)
        force = "--force" in options.flags
        place.check(output, force)
        files.refuse_partial(output, force)
    sweep = reopen(again, worker)
    choice, along = options.values.get("--objective"), options.values.get("--along")
    summary.check(sweep, choice, along)
    summary.write(sweep, choice, along, output, tell)


def _sweep(options: Options, worker, signals, tell, log, executor, chunk) -> None:
    from dmft.study import output as files, place
    from dmft.study.sweep import Note, Sweep
    from dmft.study.work import work
    output = options.output
    repeated = options.repeated()
    if repeated:
        log(f"note: {repeated}")
    place.refuse_input(output, options.file)
    place.check(output, True)  # to check many points takes minutes
    files.refuse_partial(output, "--force" in options.flags)
    sweep = Sweep(options.file, options.keys, worker=worker)
    try:
        if repeated:
            sweep.notes.append(Note("given_twice", repeated))
        sweep.check()
        for note in sweep.notes[bool(repeated):]:
            log(f"note: {note.text}")
        sweep.name_folder(output)
        for given in sweep.inputs():
            place.refuse_input(output, given)
        # scipy takes longer to import than a refusal to be told
        from dmft.study import cells, summary
        choice, along = options.values.get("--objective"), options.values.get("--along")
        summary.check(sweep, choice, along)
        sweep.open_folder("--force" in options.flags, "--retry" in options.flags)
        summary.write_grid(sweep)
        work(sweep, signals, log, options.jobs, executor, chunk,
             lambda unit: cells.check(sweep, unit, choice))
        try:
            summary.write(sweep, choice, along, output, tell)
        except SystemFailure as error:
            raise SystemFailure(f"{error.sentence}; the runs in {sweep.folder} are complete, the "
                                "same command goes on") from None
        log(f"wrote {output}")
    finally:
        sweep.close()


def run(words: list[str], tell, log, executor=None, chunk: int = 1,
        program: str | None = None) -> None:
    """What the command does with these words: tell is given each line of its standard output, log
    those of standard error; failures are raised. program: dmft-solve."""
    from dmft.study.work import Signals
    from dmft.study.worker import Worker
    options = Options(words)
    if "--quiet" in options.flags:
        log = lambda line: None  # noqa: E731
        tell = tell if "--points" in options.flags else log
    if "--help" in options.flags or "-h" in options.flags:
        tell(HELP)
        return
    with Signals() as signals, contextlib.closing(Worker(program)) as worker:
        if "--version" in options.flags:
            tell(worker.version().replace("dmft-solve", "dmft-sweep"))
        elif "--optimum" in options.values:
            _look_again(options, worker, tell)
        elif "--points" in options.flags:
            _points(options, worker, tell)
        else:
            _sweep(options, worker, signals, tell, log, executor, chunk)


def call(words: list[str], progress: bool, hide: str = "", executor=None, chunk: int = 1) -> str:
    """What the command prints, for Python: failures are raised, and what it says meanwhile is shown
    as dmft.program.call does."""
    screen, lines = Screen("dmft-sweep"), []
    def log(line: str) -> None:
        show(screen, "dmft-sweep", line, True, progress, hide)

    try:
        run(words, lines.append, log, executor, chunk)
    finally:
        screen.status("")
    return "\n".join([*lines, ""])


# ---- the command ----

def _ranks() -> int:
    """How many processes a job has that this one is of; 0: it is of none."""
    sizes = (os.environ.get(name, "") for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                                   "SLURM_STEP_NUM_TASKS"))
    return max((int(size) for size in sizes if size.isdigit()), default=0)


def _log(line: str) -> None:
    with contextlib.suppress(OSError):  # a sweep goes on where nobody reads what it says
        print(line, file=sys.stderr, flush=True)


def _once(words: list[str], program: str | None, executor=None) -> int:
    """The exit code; a failure is told. Where the table cannot be printed its file is written all
    the same; whoever reads it, as `head` does, may have read enough."""
    unprinted = []

    def put(*line: str) -> None:
        try:
            print(*line, end="\n" * len(line), flush=not line)
        except BrokenPipeError:
            sys.stdout = None
        except OSError:
            unprinted.append(line)

    try:
        run(words, put, _log, executor, program=program)
        put()
        if unprinted:
            raise SystemFailure("cannot write to standard output")
    except (DmftError, Interrupted) as error:
        _log(f"dmft-sweep: {error.sentence}")
        return error.code
    except MemoryError:
        _log("dmft-sweep: out of memory")
        return 1
    return 0


def _by_ranks(words: list[str], program: str | None) -> int:
    """Rank 0 has the sweep, the others run its units."""
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPICommExecutor
    except ImportError:
        _log("dmft-sweep: several ranks share out a sweep by mpi4py, which is not here; one "
             "process starts as many runs as --jobs says")
        return 1
    with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
        if executor is None:
            return 0
        if "--jobs" in words:
            _log("dmft-sweep: --jobs is not for several ranks: each makes one run at a time")
            return 2
        code = _once([*words, "--jobs", "1"], program, executor)
        if code == 130:  # runs under way are not waited for
            MPI.COMM_WORLD.Abort(code)
        return code


def main(words: list[str] | None = None, program: str | None = None) -> int:
    """The command; returns its exit code. program: dmft-solve, where it is not to be looked for."""
    words = sys.argv[1:] if words is None else words
    code = _by_ranks(words, program) if _ranks() > 1 else _once(words, program)
    if code:  # what could not be written is not tried again
        sys.stdout = None
    return code

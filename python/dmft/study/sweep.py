"""A sweep as its ini and its folder say: its units, their names, and what of them is done."""
from __future__ import annotations

import dataclasses
import os
import re

from dmft.errors import DmftError, InputError, SystemFailure
from dmft.study import place, text
from dmft.study.grid import Grid, is_of_sweep
from dmft.study.worker import Worker

PENDING, DONE, FAILED = "pending", "done", "failed"


@dataclasses.dataclass
class Note:
    """As dmft.files.Note, of a sweep; told: it is on the screen already."""
    code: str
    text: str
    group: str = "/"
    warning: bool = False
    told: bool = True


class Sweep:
    """words: [--]section.key=value of the command line."""

    def __init__(self, file: str, words=(), content: str | None = None, worker=None):
        self.worker = worker or Worker()
        self.words = [word for word in words if is_of_sweep(word) is None]
        self.output, self.folder, self._lock = "", "", None
        self.notes: list[Note] = []
        self.hash: list[str] = []
        self.status: list[str] = []
        self.widths: list[int] = []
        self.limit = False
        self.grid = Grid(file, words, content)
        self.types = self.worker.ask({"keys": [key.name for key, _ in self.grid.keys]})["types"]
        self._place()
        for word in self.words:
            for key, _ in self.grid.keys:
                if text.same_key(word.removeprefix("--"), key.name):
                    raise InputError(f"--{word.removeprefix('--')}: [sweep] varies this key")
        try:
            self.base = self.worker.ask({"open": self._question([self._values(0)])})
        except DmftError as error:
            self._tell_line(error)
            raise
        self.widths, self.limit = self.base["widths"], self.base["limit"]

    # ---- units ----

    @property
    def columns(self) -> int:
        """Widths and limit."""
        return len(self.widths) + self.limit

    @property
    def count(self) -> int:
        """Units in all, [point][column], the limit last."""
        return self.grid.points * self.columns

    def width(self, unit: int) -> int:
        """0: the limit."""
        column = unit % self.columns
        return self.widths[column] if column < len(self.widths) else 0

    def describe(self, unit: int) -> str:
        """"training.eta0 = 0.3, N = 64"."""
        width = self.width(unit)
        return "".join(f"{name} = {value}, " for name, value in
                       self.grid.values(unit // self.columns)) + (f"N = {width}" if width else
                                                                  "limit")

    def path(self, unit: int, suffix: str) -> str:
        """OUT.d/HASH and a suffix."""
        return f"{self.folder}/{self.hash[unit]}{suffix}"

    def file(self, unit: int) -> str | None:
        """The file of a unit that is done, or of one of which some runs failed; None: there is
        none."""
        if self.status[unit] == DONE:
            return self.path(unit, ".h5")
        path = self.path(unit, ".h5.partial")
        return path if self.status[unit] == FAILED and place.exists(path) else None

    def group(self, unit: int) -> str:
        """Of its file: "limit", "reference/N0064"."""
        width = self.width(unit)
        return f"reference/N{width:04d}" if width else "limit"

    def stride(self, axis: int) -> int:
        """Units between neighbours along an axis."""
        stride = self.columns
        for other in self.grid.axes[axis + 1:]:
            stride *= other.count
        return stride

    # ---- what dmft-solve is asked ----

    def _values(self, point: int) -> list[str]:
        return [f"--{name}={value}" for name, value in self.grid.values(point)]

    def _question(self, points: list[list[str]]) -> dict:
        # What is no UTF-8 becomes a control character, which is refused by the same sentence.
        rest = re.sub("[\ud800-\udfff]", "\x01", self.grid.rest)
        return {"file": self.grid.file, "text": rest, "words": self.words, "points": points,
                "widths": self.widths, "limit": self.limit}

    def task(self, unit: int, jobs: int) -> dict:
        """What dmft.study.worker.run_unit makes the unit's file by; jobs: so many share the
        processors of a machine."""
        question = {"run": self._question([self._values(unit // self.columns)]),
                    "column": unit % self.columns, "output": self.path(unit, ".h5"),
                    "jobs": jobs, "version": self.base["provenance"]["version"]}
        return {"program": os.path.abspath(self.worker.path), "folder": os.getcwd(),
                "question": question, "sum": self.path(unit, ".sum")}

    def _place(self) -> None:
        """Paths among the values count from the folder of the ini, as those of its other sections
        do; those of the command line from the current one."""
        folder = self.grid.file.rpartition("/")
        for (key, a), kind in zip(self.grid.keys, self.types):
            if kind == "path" and self.grid.axes[a].line and folder[1]:
                key.text = [one if not one or one.startswith("/") else f"{folder[0]}/{one}"
                            for one in key.text]

    def _tell_line(self, error: DmftError) -> bool:
        """A refused value of a point came as an override "--section.key=value": the message names
        its line instead. False: it is not such a one."""
        for key, a in self.grid.keys:
            if error.sentence.startswith(f"--{key.name}="):
                line = self.grid.axes[a].line
                error.sentence = (f"{self.grid.file}:{line}: [sweep] {error.sentence[2:]}" if line
                                  else f"--sweep.{error.sentence[2:]}")
                error.args = (error.sentence,)
                return True
        return False

    def check(self) -> None:
        """Checks every unit before anything runs, and gives it its name."""
        points = [self._values(point) for point in range(self.grid.points)]
        try:
            found = self.worker.ask({"check": self._question(points)})
        except DmftError as error:
            unit = getattr(error, "unit", None)
            if error.code == 2 and unit is not None and not self._tell_line(error):
                error.sentence += f" (at {self.describe(unit)})"
                error.args = (error.sentence,)
            raise
        self.hash = found["hash"]
        if len(self.hash) != self.count:
            raise SystemFailure(f"out of memory: the names of {self.count} runs")
        self.status = [PENDING] * self.count
        if found["note"]:
            self.notes.append(Note("keys_left_out", "some points do not use, and leave out:" +
                                   found["note"]))

    # ---- the folder ----

    def inputs(self) -> list[str]:
        """Files that the output must not replace."""
        return [self.grid.file, *self.base["inputs"],
                *(one for (key, _), kind in zip(self.grid.keys, self.types) if kind == "path"
                  for one in key.text)]

    def name_folder(self, output: str) -> None:
        """OUT.d, of OUT.h5."""
        self.output = output
        self.folder = re.sub(r"(?<=.)\.h5$", "", output) + ".d"

    def open_folder(self, force: bool, retry: bool) -> None:
        """Makes and locks it, and looks up what is done; retry: failures are forgotten."""
        place.check(self.output, force or self._is_mine())
        try:
            os.mkdir(self.folder)
        except FileExistsError:
            pass
        except OSError as error:
            raise SystemFailure(f"cannot make the folder {self.folder}: {error.strerror}") from None
        self._lock_folder()
        for unit in range(self.count):
            path, failed = self.path(unit, ".h5"), self.path(unit, ".failed")
            if place.exists(path):
                place.check_sum(path, self.path(unit, ".sum"))
                self.status[unit] = DONE
            elif place.exists(failed):
                if retry:
                    os.unlink(failed)
                else:
                    self.status[unit] = FAILED

    def _lock_folder(self) -> None:
        """Where files cannot be locked (some network file systems) nobody else is seen, as with
        results."""
        path = f"{self.folder}/lock"
        try:
            self._lock = open(path, "a+b")  # pylint: disable=consider-using-with
        except OSError as error:
            raise SystemFailure(f"cannot open {path}: {error.strerror}") from None
        try:
            place.lock(self._lock)
        except BlockingIOError:
            raise InputError(f"another dmft-sweep is at work in {self.folder}; choose another name "
                             f"than {self.output}, or wait") from None
        except OSError:
            pass

    def _is_mine(self) -> bool:
        """Whether the output is of a sweep all of whose runs are of this one, or lie in the
        folder: nothing is lost when it is replaced."""
        if not os.path.isfile(self.output):
            return False
        from dmft.study import output as files
        try:
            program, names = files.read_names(self.output)
        except (OSError, KeyError, ValueError):
            return False
        mine = {f"{one}.h5" for one in self.hash}
        return program == "dmft-sweep" and all(
            name in mine or os.path.exists(f"{self.folder}/{name}") or
            os.path.exists(f"{self.folder}/{name.partition('.')[0]}.failed") for name in names)

    def close(self) -> None:
        """Gives the folder free, and ends the process that was asked."""
        if self._lock is not None:
            self._lock.close()
        self.worker.close()

    # ---- as an ini ----

    def ini(self) -> str:
        """An ini that repeats the sweep from anywhere: all that was given, also by the command
        line and by included files, with the text of a program and absolute paths."""
        lines = [self.base["given"], "[sweep]"]
        lines += [f"{name} = {text.line_of(self.grid.settings[name])}"
                  for name in ("objective", "along", "columns") if name in self.grid.settings]
        kinds = dict(zip((key.name for key, _ in self.grid.keys), self.types))
        for axis in self.grid.axes:
            between = ", " if axis.has_blanks() else " "
            points = [between.join(_whole(key.text[i]) if kinds[key.name] == "path" else
                                   key.text[i] for key in axis.keys) for i in range(axis.count)]
            lines.append(f"{axis.name} = {text.line_of(' | '.join(points))}")
        return "\n".join(lines) + "\n"


def _whole(path: str) -> str:
    """An absolute path, unless it could not be read back."""
    whole = os.path.realpath(path) if os.path.exists(path) else path
    return path if re.search(r"[ \t|,]", whole) else whole


def reopen(output: str, worker: Worker) -> Sweep:
    """A sweep that is done, from its OUT.h5 and OUT.d, to be looked at again: nothing is run,
    checked or locked."""
    from dmft.study.output import read_summary
    ini, names, scale = read_summary(output)
    sweep = Sweep(output, (), ini, worker)
    sweep.name_folder(output)
    sweep.limit = bool(scale) and scale[-1] == float("inf")
    sweep.widths = [int(N) for N in scale[:len(scale) - sweep.limit]]
    if len(names) != sweep.count:
        raise InputError(f"{output}: its runs are not those of its ini")
    for name in names:
        if not re.fullmatch(r"[0-9a-f]{16}\.h5", name):
            raise InputError(f"{output}: {name} is no name of a run")
        sweep.hash.append(name.removesuffix(".h5"))
        unit = len(sweep.hash) - 1
        sweep.status.append(
            DONE if place.exists(sweep.path(unit, ".h5")) else
            FAILED if place.exists(sweep.path(unit, ".failed")) else PENDING)
        if sweep.status[unit] == PENDING:
            raise InputError(f"{sweep.path(unit, '.h5')}: this run is missing; the same dmft-sweep "
                             "that made it makes it again")
    return sweep

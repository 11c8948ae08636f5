"""Where a result is written: whether it may be, and files that are replaced as a whole
(solver/files/partial.h)."""
from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct

from dmft.errors import InputError, SystemFailure


def exists(path: str) -> bool:
    """Whether there is a file; SystemFailure where the disk does not say."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise SystemFailure(f"{path}: cannot be looked up: {error.strerror}") from None
    return True


def check(path: str, force: bool, how: str = "add --force") -> None:
    """Whether a result can get this name: the folder exists, and no file does unless force, of
    which the sentence says how it is given."""
    if not path:
        raise InputError("the name of the output file is empty")
    folder = os.path.dirname(path) or "."
    try:
        os.stat(folder)
    except OSError as error:
        kind = InputError if error.errno in (errno.ENOENT, errno.ENOTDIR) else SystemFailure
        raise kind(f"output {path}: folder {folder}: {error.strerror}") from None
    if not os.path.isdir(folder):
        raise InputError(f"output {path}: {folder} is not a folder")
    if path.endswith("/") or (os.path.exists(path) and not os.path.isfile(path)):
        raise InputError(f"output {path}: is not a regular file")
    if not force and os.path.lexists(path):
        raise InputError(f"output {path}: exists already; choose another name or {how}")


def refuse_input(output: str, given: str) -> None:
    """InputError where the output is an input, --force or not."""
    try:
        same = bool(given) and os.path.samefile(output, given)
    except OSError:
        same = False
    if same:
        raise InputError(f"-o {output} would overwrite an input of this run")


def lock(file) -> None:
    """BlockingIOError where somebody else has it. The lock is of the open file, as those of
    dmft-solve are, so that it also holds against another thread, which lockf lets pass."""
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)  # struct flock of Linux
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, whole)
    except PermissionError as error:  # EACCES says the same on some systems
        raise BlockingIOError(*error.args) from None


def save(path: str, content: bytes) -> None:
    """Replaces a file by a whole one, which is on the disk when it gets its name."""
    partial = path + ".partial"
    try:
        # a link to another file is none of ours (ELOOP)
        with open(partial, "r+b", opener=lambda name, _: os.open(
                name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
                0o666)) as file:
            lock(file)
            try:
                file.truncate(0)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                os.unlink(partial)
                raise
            os.replace(partial, path)
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        except OSError as error:  # some file systems refuse to sync a folder
            if error.errno == errno.EIO:
                raise
        finally:
            os.close(folder)
    except BlockingIOError:
        raise InputError(f"output {path}: another run is writing {partial}; choose "
                         "another name, or wait") from None
    except OSError as error:
        raise SystemFailure(f"cannot write {path}: {error.strerror}") from None


def _sum_of(path: str) -> str:
    """Of the name and the bytes of a file."""
    found = hashlib.sha256(os.path.basename(path).encode())
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest() + "\n"


def keep_sum(path: str | None, where: str) -> None:
    """Writes what check_sum goes by, whole or not at all; None: that a file is being made."""
    try:
        with open(where + ".new", "w", encoding="ascii") as file:
            file.write(_sum_of(path) if path else "")
        os.replace(where + ".new", where)
    except OSError as error:
        raise SystemFailure(f"cannot write {where}: {error.strerror}") from None


def check_sum(path: str, where: str) -> None:
    """InputError where keep_sum has seen no file of this name, or another one. A sweep that was cut
    just behind a run has left a file that was being made, and its sum is kept now."""
    try:
        with open(where, encoding="ascii", errors="replace") as file:
            said = file.read()
        same = said == _sum_of(path)
    except FileNotFoundError:
        raise InputError(f"{path}: its sum in {where} is missing; delete it, and it will be run "
                         "again") from None
    except OSError as error:
        raise SystemFailure(f"{error.filename}: cannot be read: {error.strerror}") from None
    if not said:
        keep_sum(path, where)
    elif not same:
        raise InputError(f"{path}: is not the file that was written under this name: its bytes and "
                         f"{where} disagree; delete it, and it will be run again")

"""Memory: what a run says beforehand, what dmft-solve --estimate says, and what it took at most.

    memory.py DMFT_SOLVE [FILE.ini ...]

Without files, those of data/. Bases of a limit are counted as large as those of other runs were.
OMP_NUM_THREADS is that of the caller.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SAID = re.compile(r"memory: about (\S+) GB for the limit, (\S+) GB for networks, "
                  r"(\S+) GB of results, beside (\S+) GB")
TRIED = re.compile(r"^all, with the data .* (\S+) GB$", re.MULTILINE)


def peak_of(command):
    """GB that a command took at most, and what it wrote."""
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
        _, status, used = os.wait4(child.pid, 0)
        log.seek(0)
        text = log.read()
    if status:
        raise RuntimeError(text.strip().splitlines()[-1])
    return 1024e-9 * used.ru_maxrss, text


def row_of(program, ini, folder):
    peak, text = peak_of([program, "-o", f"{folder}/out.h5", "--force", ini])
    limit, networks, results, rest = map(float, SAID.search(text).groups())
    said = max(limit, networks) + results + rest
    tried = float(TRIED.search(peak_of([program, "--estimate", ini])[1]).group(1))
    return f"{said:8.3f} {tried:9.3f} {peak:8.3f}   {said / peak:5.2f} {tried / peak:9.2f}"


def main(program, *inis):
    print(f"{'GB':28}     said estimate     peak   said/peak, estimate/peak", flush=True)
    for ini in inis or sorted(map(str, Path("data").glob("*.ini"))):
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{Path(ini).name:28} {row_of(program, ini, folder)}", flush=True)
            except (RuntimeError, AttributeError) as error:
                print(f"{Path(ini).name:28} {error}", flush=True)


main(*sys.argv[1:])

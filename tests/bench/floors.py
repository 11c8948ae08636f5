"""make bench, its last part: how far the limit of every ini of data/ is from the floor. One
replicate on one thread with --profile, whose line `floor:` says what its operations would take at
the rates of dgemm and of triad, measured in the same run; operations over the floor, and the whole
run with start and small matrices over it, each the least of some rounds. Arguments: the program,
and perhaps how many rounds. Nothing here decides a test."""

import glob
import os
import re
import subprocess
import sys
import tempfile

LINE = re.compile(r"floor: (\S+) s,.* took (\S+) of it, the whole run (\S+)")


def ratios(program, ini):
    """Seconds of the floor, operations over it, the run over it; or what the program said."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [program, "--profile", "-o", folder + "/out.h5", ini, "--solver.threads=1",
             "--reference.widths=", "--solver.replicates=1"], capture_output=True, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = LINE.search(run.stdout + run.stderr)
    return tuple(map(float, found.groups())) if found else run.stderr.strip()


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    print(f"{'one replicate':40} {'floor, s':>9} {'operations':>11} {'the run':>8}  over the floor")
    for ini in sorted(glob.glob("data/*.ini")):
        found = [ratios(program, ini) for _ in range(rounds)]
        if isinstance(found[0], str):
            print(f"{ini:40} {found[0]}")
            continue
        floor, operations, run = (min(f[k] for f in found) for k in range(3))
        print(f"{ini:40} {floor:9.3g} {operations:11.2f} {run:8.2f}", flush=True)


if __name__ == "__main__":
    main()

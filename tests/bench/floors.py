"""make bench, its last part: how far the limit of every ini of data/ is from the floor. All its
replicates on one thread with --profile, whose line `floor:` says what the operations would take at
the rates of multiply-adds and of triad. Operations over the floor, and the whole run with its
files, its start and its small matrices, which the other columns tell in seconds. Other programs on
the same cores slow down both a run and the rates beside it, so the table takes the least time and
the least floor of some rounds each. Arguments: the program, perhaps how many rounds, and perhaps
inis. Nothing here decides a test."""

import glob
import os
import re
import subprocess
import sys
import tempfile

LINE = re.compile(r"floor: (\S+) s,.* took (\S+) of it, files (\S+) s, waiting and small matrices "
                  r"(\S+) s, the whole run (\S+)")
REPLICATES = re.compile(r"^\s*replicates *= *(\d+)", re.MULTILINE)


def seconds(program, ini):
    """Of the floor, the operations, files, what is left, the run; or what the program said."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([program, "--profile", "-o", folder + "/out.h5", ini,
                              "--solver.threads=1", "--reference.widths="], capture_output=True,
                             text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = LINE.search(run.stdout + run.stderr)
    if not found:
        return (run.stderr.strip().splitlines() or ["no floor"])[-1]
    floor, operations, files, left, whole = map(float, found.groups())
    return floor, operations * floor, files, left, whole * floor


def replicates(ini):
    with open(ini) as file:
        found = REPLICATES.search(file.read())
    return found[1] if found else ""


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    print(f"{'limit':34} {'replicates':>10} {'floor, s':>9} {'operations':>11} {'the run':>8} "
          f"{'files, s':>9} {'start and small, s':>18}")
    for ini in sys.argv[3:] or sorted(glob.glob("data/*.ini")):
        found = [seconds(program, ini) for _ in range(rounds)]
        if isinstance(found[0], str):
            print(f"{ini:34} {found[0]}")
            continue
        floor, operations, files, left, run = (min(f[k] for f in found) for k in range(5))
        print(f"{ini:34} {replicates(ini):>10} {floor:9.3g} {operations / floor:11.2f} "
              f"{run / floor:8.2f} {files:9.3f} {left:18.3f}", flush=True)


if __name__ == "__main__":
    main()

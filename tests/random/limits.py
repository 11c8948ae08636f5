"""Limits of random networks (programs.py) beside their networks of three widths: the statistic of
the night.

    tests/random.sh limits [--count N] [--time SECONDS] [--seed SEED] [--file FILE]
        [--table]

dmft-compare extrapolates networks in 1/N, divides the distance from the limit by both errors, and
makes of this Student's t the normal number z that is as rare (docs/output.md). So the rms of z is 1
for a limit that is right, whatever the number of runs, but for weights of the fit that come from
estimated errors: 1.00 to 1.04 in simulations of this statistic. z of the loss, f and every kernel
at the first and the last time are collected, a line of the file for each program; what
the file has is not run again. --table prints the table of
the file alone. Programs without a limit, by their own word (no_limit), and random limits are left
out, as are those that take longer than LONGEST seconds of processor.

Each program has a [solver] seed of its own. With one seed for all, matrices of the same name and
shape are the same numbers in all programs: their z are then alike, and no number of programs makes
the error of the rms small.

Entries are many, so some z are beyond 4 by chance. A program with such a z
runs again from other seeds with four times the networks: `again` is the largest z of the same
quantities then, and what is beyond 4 both times is no chance (exit code 1, but for EXPLAINED).
"""
from __future__ import annotations

import csv
import itertools
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

import dmft

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import options  # noqa: E402
import programs  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTHS, LONGEST = "64 128 256", 90
KEYS = {"reference.widths": WIDTHS, "reference.seeds": 16, "solver.replicates": 8,
        "solver.sites": 1024, "solver.halves": "yes", "solver.threads": 1}
COLUMNS = "seed state entries below1 below2 below3 below4 squares largest where again".split()
AGAIN = {"reference.seeds": 64, "solver.replicates": 16}
EXPLAINED = {8}  # beyond 4 twice, for a reason that docs/testing_log.md gives
UNWEIGHTED = 245  # programs of these seeds were run before inputs had weights
LATER = 1_000_000  # what the seed of a second run is larger by
FEW = {"solver.expert_sites": 128, "solver.unit_sites": 64}  # where there are pairs of both
MANY = {"solver.expert_sites": 1024, "solver.unit_sites": 512}


def state_of(ini: str) -> str:
    """limit, or why there is none to look at."""
    try:
        described = dmft.describe(ini, **{"reference.widths": 64, "solver.replicates": 0})
    except dmft.InputError as error:
        return f"refused: {error}"
    if described.limit is None:
        return "no limit"
    return "random" if described.limit.random else "limit"


def compare(seed: int, ini: str, out: str, pairs: bool, again: bool = False) -> str:
    """done, slow, diverges, or refused: ..."""
    keys = KEYS | (FEW if pairs else MANY) | (AGAIN if again else {})
    keys["solver.seed"] = seed + (LATER if again else 0)
    program = os.path.join(os.environ.get("DMFT_HOME", "."), "dmft-compare")
    command = [program, "--quiet", "-o", out, ini, *(f"--{k}={v}" for k, v in keys.items())]
    most = (8 if again else 1) * LONGEST
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=lambda:
                          resource.setrlimit(resource.RLIMIT_CPU, (most, most)))
    if -done.returncode in (signal.SIGXCPU, signal.SIGKILL):
        return "slow"
    if done.returncode in (0, 3):
        return "done" if done.returncode == 0 else "diverges"
    return f"refused: {done.stderr.strip()}"


def collect(out: str) -> dict[str, np.ndarray]:
    """{quantity[t]: its z} of the loss, f and kernels at the first and the last time."""
    run, found = dmft.load(out), {}
    for name in run.compare:
        wanted = name in ("loss_z", "f_z") or name.endswith("_diag_z")
        if not wanted or run.compare[name].ndim < 2:
            continue
        z = run.compare[name].values[0]
        for t in (0, len(z) - 1):
            entries = np.ravel(z[t])
            entries = entries[np.isfinite(entries)]
            if len(entries):
                found[f"{name.removesuffix('_z').removesuffix('_diag')}[{t}]"] = entries
    return found


def write(seed: int, folder: str) -> tuple[str, str, bool]:
    """Paths of the ini and the output of a program, and whether it has pairs."""
    program = programs.draw(seed, limit=True, weights=seed > UNWEIGHTED)
    ini = program.write(folder)
    return ini, ini.removesuffix(".ini") + ".h5", "pairs = population" in program.lua


def again(line: dict, folder: str) -> None:
    """A program with a z beyond 4 once more; writes `again`."""
    seed = int(line["seed"])
    ini, out, pairs = write(seed, folder)
    line["again"] = state = compare(seed, ini, out, pairs, again=True)
    if state == "done":
        found = collect(out)
        z = [np.abs(found[name]).max() for name in line["where"].split() if name in found]
        line["again"] = f"{max(z):.2f}" if z else "no z"


def line_of(seed: int, folder: str) -> dict:
    """The line of a program."""
    ini, out, pairs = write(seed, folder)
    state = state_of(ini)
    if state == "limit":
        state = compare(seed, ini, out, pairs)
    line = dict.fromkeys(COLUMNS, "") | {"seed": seed, "state": state.split("\n")[0]}
    found = collect(out) if state == "done" else {}
    if found:
        z = np.abs(np.concatenate(list(found.values())))
        where = max(found, key=lambda name: np.abs(found[name]).max())
        beyond = [name for name in found if np.abs(found[name]).max() > 4]
        line |= {"entries": len(z), "squares": f"{(z ** 2).sum():.4g}",
                 "largest": f"{z.max():.2f}", "where": " ".join(beyond or [where])}
        line |= {f"below{k}": int((z < k).sum()) for k in (1, 2, 3, 4)}
    return line


def read(path: str) -> list[dict]:
    """The lines of the file; none if it is not there."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def save(path: str, lines: list[dict]) -> None:
    """All lines, by their seeds; the file is whole at all times."""
    with open(path + ".new", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, "", delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(lines, key=lambda line: int(line["seed"])))
    os.replace(path + ".new", path)


def beyond(z: str | None) -> bool:
    """Whether this is a number above 4."""
    try:
        return float(z or 0) > 4
    except ValueError:  # it did not end
        return True


def suspect(line: dict) -> bool:
    """Whether it has a z beyond 4."""
    return beyond(line["largest"])


def rms_of(programs_done: list[tuple[int, float]]) -> tuple[float, float]:
    """The rms of z and its error, of (entries, sum of squares) of each program: entries of one
    program move together, so that the error is that of a ratio of two sums over programs."""
    entries, squares = np.array(programs_done, dtype=float).T
    mean = squares.sum() / entries.sum()
    apart = squares - mean * entries
    error = math.sqrt((apart ** 2).sum() * len(entries) / max(len(entries) - 1, 1)) / entries.sum()
    return math.sqrt(mean), error / (2 * math.sqrt(mean))


def table(lines: list[dict]) -> str:
    """What docs/testing_log.md has."""
    states = [line["state"].split(":")[0] if line["entries"] or line["state"] != "done" else
              "without z" for line in lines]
    done = [line for line in lines if line["entries"]]
    total = sum(int(line["entries"]) for line in done)
    others = ", ".join(f"{states.count(s)} {s}" for s in sorted(set(states)) if s != "done")
    said = [f"{len(lines)} programs, {len(done)} beside their limit" +
            (f" ({others})" if others else "") + f", {total} entries"]
    if total:
        shares = [sum(int(line[f"below{k}"]) for line in done) / total for k in (1, 2, 3, 4)]
        rms, error = rms_of([(int(line["entries"]), float(line["squares"])) for line in done])
        normal = [math.erf(k / math.sqrt(2)) for k in (1, 2, 3, 4)]
        said += ["", "| | below 1 | below 2 | below 3 | below 4 | rms |",
                 "| --- | --- | --- | --- | --- | --- |",
                 "| abs(z) | " + " | ".join(f"{x:.4f}" for x in shares) +
                 f" | {rms:.2f} ({error:.2f}) |",
                 "| normal | " + " | ".join(f"{x:.4f}" for x in normal) + " | 1.00 to 1.04 |", ""]
        said += [f"beyond 4: seed {line['seed']}, {line['largest']}: {line['where']}; again "
                 f"{line.get('again') or 'not run'}" for line in done if suspect(line)]
    return "\n".join(said)


def main() -> int:
    """1 where the generator made what is refused, or a z is beyond 4 twice."""
    parser = options.parser_of(__doc__, 30)
    parser.add_argument("--file", default=os.path.join(HERE, "limits.tsv"))
    parser.add_argument("--table", action="store_true", help="nothing is run")
    said = parser.parse_args()
    warnings.simplefilter("ignore")
    lines, end = read(said.file), time.monotonic() + said.time
    known = {int(line["seed"]) for line in lines}
    with tempfile.TemporaryDirectory() as folder:
        fresh = (seed for seed in itertools.count(said.seed) if seed not in known)
        for seed in options.until(end, itertools.islice(fresh, 0 if said.table else said.count)):
            lines.append(line_of(seed, folder))
            save(said.file, lines)
        for line in lines:
            wanted = suspect(line) and not line.get("again") and not said.table
            if wanted and time.monotonic() < end:
                again(line, folder)
                save(said.file, lines)
    print(table(lines))
    refused = [line for line in lines if line["state"].startswith("refused")]
    for line in refused:
        print(f"seed {line['seed']}: the generator made what is {line['state']}")
    twice = [line for line in lines if beyond(line.get("again"))
             and int(line["seed"]) not in EXPLAINED]
    return 1 if refused or twice else 0


if __name__ == "__main__":
    sys.exit(main())

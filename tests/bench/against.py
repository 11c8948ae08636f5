"""make bench-against BASE=PATH/dmft-solve: CPU seconds and peak memory of another build of it
beside this one, on the same runs, one after the other in turns; the least time of several rounds,
and the median of the ratios. An older build may not know what today's inis ask for: a run that one
of the two refuses, or that takes one of them more than a minute, is told in one line and is not
counted. Prints ratios of one run on one machine; nothing here decides a test."""

import os
import statistics
import subprocess
import sys
import tempfile

LIMIT = ["reference.widths=", "solver.replicates=1"]
NETWORK = ["solver.replicates=0", "reference.seeds=1"]
CASES = [
    ("dense", []), ("fashion", []), ("regime1", []), ("regime2", []), ("regime2_mup", []),
    ("regime2_softmax", []), ("regime2_fashion", []), ("regime3", []), ("regime3_mup", []),
    ("single_pass", []), ("residual", ["reference.widths=32", "reference.seeds=2"]),
    ("dense", LIMIT + ["solver.sites=65536"]),
    ("regime1", LIMIT + ["solver.sites=16384"]),
    ("regime2", LIMIT + ["solver.sites=32768", "solver.expert_sites=32768"]),
    ("regime2", LIMIT + ["solver.sites=4096", "solver.expert_sites=4096", "data.inputs=128",
                         "data.dimension=64", "output.kernels=diagonal"]),
    ("regime3", LIMIT + ["solver.sites=8192", "solver.expert_sites=256", "solver.unit_sites=256"]),
    ("regime1_adam", LIMIT + ["solver.sites=512"]),
    ("dense", LIMIT + ["solver.method=fixed_point", "solver.sites=1024", "training.steps=8"]),
    ("dense", NETWORK + ["reference.widths=2048"]),
    ("regime2", NETWORK + ["reference.widths=1024"]),
]


MOST = 60  # seconds of wall clock that one run may take


class Skipped(Exception):
    """A run that one of the two programs does not do, and why."""


def cost(program, name, options):
    """CPU seconds, peak MB of one run on one thread."""
    with tempfile.TemporaryDirectory() as folder, open(folder + "/said", "w+") as said:
        command = [program, "--quiet", "-o", folder + "/out.h5", f"data/{name}.ini",
                   "--solver.threads=1", *("--" + option for option in options)]
        process = subprocess.Popen(["timeout", str(MOST), *command], stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        said.seek(0)
        last = (said.read().strip().splitlines() or [""])[-1]
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise Skipped(f"more than {MOST} s" if code == 124 else last or f"status {code}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def both(programs, name, options):
    """Of each program what cost() says."""
    found = []
    for which, program in zip(("the base", "this build"), programs):
        try:
            found.append(cost(program, name, options))
        except Skipped as why:
            raise Skipped(f"{which}: {why}") from None
    return found


def main():
    programs, rounds = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 3
    ratios = []
    print(f"{'run':64} {'CPU s':>15} ratio {'MB':>13} ratio")
    for name, options in CASES:
        case = f"{name} {' '.join(options)}"
        try:
            runs = [both(programs, name, options) for _ in range(rounds)]
        except Skipped as why:
            print(f"{case:64.64} skipped: {why}", flush=True)
            continue
        s = [min(run[k][0] for run in runs) for k in (0, 1)]
        m = [max(run[k][1] for run in runs) for k in (0, 1)]
        ratios.append(s[1] / s[0])
        print(f"{case:64.64} {s[0]:7.2f} {s[1]:7.2f} {s[1] / s[0]:5.2f} "
              f"{m[0]:6.0f} {m[1]:6.0f} {m[1] / m[0]:5.2f}", flush=True)
    if ratios:
        print(f"median of {len(ratios)} ratios {statistics.median(ratios):.2f}, "
              f"{len(CASES) - len(ratios)} of {len(CASES)} runs skipped")


if __name__ == "__main__":
    main()

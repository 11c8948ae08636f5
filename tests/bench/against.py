"""make bench-against BASE=PATH/dmft-solve: CPU seconds and peak memory of another build of it
beside this one, on the same runs, one after the other in turns; the least time of several rounds.
Prints ratios of one run on one machine; nothing here decides a test."""

import os
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


def cost(program, name, options):
    """CPU seconds, peak MB of one run on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--quiet", "-o", folder + "/out.h5", f"data/{name}.ini",
                   "--solver.threads=1", *("--" + option for option in options)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{' '.join(command)}: status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    programs, rounds = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 3
    print(f"{'run':64} {'CPU s':>15} ratio {'MB':>13} ratio")
    for name, options in CASES:
        runs = [[cost(program, name, options) for program in programs] for _ in range(rounds)]
        s = [min(run[k][0] for run in runs) for k in (0, 1)]
        m = [max(run[k][1] for run in runs) for k in (0, 1)]
        print(f"{name + ' ' + ' '.join(options):64.64} {s[0]:7.2f} {s[1]:7.2f} {s[1] / s[0]:5.2f} "
              f"{m[0]:6.0f} {m[1]:6.0f} {m[1] / m[0]:5.2f}", flush=True)


if __name__ == "__main__":
    main()

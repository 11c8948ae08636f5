"""make bench-precision: CPU seconds of a step of finite networks in single and in double precision,
one after the other in turns on one thread. A step is what a longer run takes beyond one of two
times, so drawing weights and writing files are left out; the least of several rounds. Prints ratios
of one run on one machine; nothing here decides a test."""

import os
import subprocess
import sys
import tempfile

# Network, further keys, and for each width the number of steps.
CASES = [
    ("regime1", [], {64: 2000, 256: 200, 1024: 20, 2048: 8}),
    ("regime2", [], {64: 4000, 256: 400, 1024: 40, 2048: 12}),
    ("regime3", [], {64: 1000, 256: 60, 1024: 6}),
    ("residual", ["network.experts=4"], {64: 200, 256: 20}),
    ("transformer", [], {64: 300, 256: 40, 1024: 10, 2048: 6}),
]
PRECISIONS = {"f64": "double", "f32": "single"}


def seconds(program, name, options):
    """CPU seconds of one run on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--quiet", "-o", folder + "/out.h5", f"data/{name}.ini",
                   "--solver.threads=1", "--solver.replicates=0", "--reference.seeds=1",
                   "--reference.draws=iid", "--output.kernels=none",
                   *("--" + option for option in options)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{' '.join(command)}: status {status}")
    return usage.ru_utime + usage.ru_stime


def step(program, name, options, bits, steps, starts):
    """CPU seconds of a step of f64 or f32, what `steps` more of them take than a run of two, of
    which the least so far counts and is kept in starts {bits: seconds}."""
    options = [*options, f"reference.precision={PRECISIONS[bits]}"]
    start = seconds(program, name, [*options, "training.steps=2"])
    starts[bits] = min(start, starts.get(bits, start))
    whole = seconds(program, name, [*options, f"training.steps={2 + steps}"])
    return (whole - starts[bits]) / steps


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print(f"{'network':12} {'N':>5} {'double, ms':>11} {'single, ms':>11} ratio")
    for name, keys, widths in CASES:
        for N, steps in widths.items():
            options, starts, found = [*keys, f"reference.widths={N}"], {}, {}
            for _ in range(rounds):
                for bits in PRECISIONS:
                    s = step(program, name, options, bits, steps, starts)
                    found[bits] = min(s, found.get(bits, s))
            print(f"{name:12} {N:5} {1e3 * found['f64']:11.4g} {1e3 * found['f32']:11.4g} "
                  f"{found['f32'] / found['f64']:5.2f}", flush=True)


if __name__ == "__main__":
    main()

"""make bench-device: wall seconds of whole runs with [solver] backend = cuda beside the same with
backend = cpu on all threads and on one, for growing sites or widths, on one machine. A run is that
of a new process, with all that it does; what a device takes to start is told by the first line, a
run of one time. Nothing here decides a test."""

import os
import subprocess
import sys
import tempfile
import time

ALL = ["solver.max_memory=100", "output.kernels=none"]
LIMIT = [*ALL, "solver.replicates=1", "reference.widths="]
NETWORK = [*ALL, "solver.replicates=0", "reference.seeds=1", "reference.draws=iid",
           "reference.centre=no"]
DENSE = ["data.inputs=10", "data.dimension=25", "training.eta0=0.1", "training.steps=101"]
SINGLE = "reference.precision=single"


def sites(*keys):
    """Those keys at a number of sites."""
    return lambda n: [f"solver.{key}={n}" for key in keys]


def pairs(n):
    """Sites of experts and of units, as many each."""
    return [f"solver.expert_sites={n}", f"solver.unit_sites={n}"]


def width(n):
    """Networks of this width."""
    return [f"reference.widths={n}"]


# What, ini, keys, what a size sets, sizes.
CASES = [
    ("limit: dense, P = 10, T = 100", "dense", LIMIT + DENSE, sites("sites"),
     (2048, 16384, 131072)),
    ("limit: regime2", "regime2", LIMIT, sites("sites", "expert_sites"), (2048, 16384, 131072)),
    ("limit: regime3, pairs", "regime3", LIMIT, pairs, (256, 512, 1024)),
    ("limit: residual", "residual", LIMIT, sites("sites", "unit_sites"), (512, 2048)),
    ("limit: transformer", "transformer", LIMIT + ["solver.halves=no"], sites("sites"),
     (1024, 8192, 65536)),
    ("16 replicates: dense", "dense", LIMIT + DENSE + ["solver.replicates=16"], sites("sites"),
     (2048, 16384)),
    ("network: dense, 40 steps", "dense", NETWORK + ["training.steps=41"], width,
     (512, 2048, 8192)),
    ("network: dense, 40 steps, single", "dense", NETWORK + ["training.steps=41", SINGLE], width,
     (512, 2048, 8192)),
    ("network: regime2, Adam, 40 steps", "regime2",
     NETWORK + ["training.steps=41", "training.optimizer=adam", "training.eta0=.01"], width,
     (512, 2048, 8192)),
    ("network: regime3, 10 steps", "regime3", NETWORK + ["training.steps=11"], width, (256, 1024)),
    ("network: transformer, 40 steps, single", "transformer",
     NETWORK + ["training.steps=41", SINGLE], width, (512, 4096)),
]


def seconds(program, ini, keys, longest):
    """Wall seconds of a run, the better of two where it is short; None: it took too long."""
    best = None
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--quiet", "-o", folder + "/out.h5", f"data/{ini}.ini",
                   *("--" + key for key in keys)]
        for _ in range(2):
            start = time.monotonic()
            try:
                done = subprocess.run(command, timeout=longest, check=False, capture_output=True,
                                      text=True)
            except subprocess.TimeoutExpired:
                return best
            took = time.monotonic() - start
            if done.returncode:
                sys.exit(f"{' '.join(command)}: {done.stderr}")
            os.remove(folder + "/out.h5")
            best = min(took, best or took)
            if took > 2:
                break
    return best


def main():
    program, longest = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    cores = len(os.sched_getaffinity(0))
    ways = {"cuda": ["solver.backend=cuda", f"solver.threads={cores}"],
            f"{cores} threads": [f"solver.threads={cores}"], "1 thread": ["solver.threads=1"]}
    start = seconds(program, "dense", LIMIT + ["training.steps=1", *ways["cuda"]], longest)
    print(f"one time of a small limit, cuda: {start:.2f} s\n", flush=True)
    print("| run | size | " + " | ".join(f"{way}, s" for way in ways) + " |", flush=True)
    print("| --- | --- |" + " --- |" * len(ways), flush=True)
    for what, ini, keys, sized, sizes in CASES:
        left = list(ways)
        for size in sizes:
            row = []
            for way in ways:
                took = seconds(program, ini, [*keys, *sized(size), *ways[way]],
                               longest) if way in left else None
                if took is None and way in left:
                    left.remove(way) # larger ones take longer
                row.append("" if took is None else f"{took:.2f}")
            print(f"| {what} | {size} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()

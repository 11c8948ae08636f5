"""Multipliers of muP and MSSP for images.ini, tuned at one width with the same number of runs.

    python/with studies/findings/images_tune.py images_tuning.csv [gd|adam]

Coordinate descent: one multiplier after the other (of the rate of all matrices, of that of each,
and of the initial scale of all) is made FACTOR times larger and smaller, and once more beyond where
this was better; the best value stays. After RUNS points no new ones are begun. Each point is a line
of the table as soon as it is done, and the same command goes on with a table that was begun.
"""
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import dmft  # noqa: E402
from tables import read_table, write_table  # noqa: E402

MATRICES = ("W1", "Q", "W_in", "W_out")  # the read-out begins at zero: it has no initial scale
COORDINATES = ("eta0", "init", "W_out", "W1", "W_in", "Q", "w")
HEAD = ("optimizer", "parameterization", *COORDINATES, "test loss", "test loss of each network")
FACTOR = {name: 2.0 if name == "init" else 4.0 for name in COORDINATES}  # init is a deviation
START = dict.fromkeys(COORDINATES, 1.0) | {"eta0": 0.5}
RUNS, WIDTH, SEEDS = 30, 128, 1


class Spent(Exception):
    """All points that may be run have been run."""


class Points:
    """Losses of points of one optimizer and parameterization, run once and kept in the table."""

    def __init__(self, path: str, optimizer: str, parameterization: str):
        self.path, self.side = path, (optimizer, parameterization)
        self.asked: dict[tuple[str, ...], float] = {}

    def loss(self, point: dict[str, float]) -> float:
        rows = read_table(self.path) if os.path.exists(self.path) else []
        row = (*self.side, *(f"{point[name]:g}" for name in COORDINATES))
        if row not in self.asked and len(self.asked) == RUNS:
            raise Spent
        known = next((old for old in rows if old[:len(row)] == row), None)
        if known is None:
            losses = self.run(point)
            mean = sum(losses) / len(losses)
            known = (*row, f"{mean:.5g}", " ".join(f"{one:.5g}" for one in losses))
            write_table(self.path, HEAD, [*rows, known])
            print(*known, flush=True)
        self.asked[row] = float(known[len(row)])
        return self.asked[row]

    def best(self) -> dict[str, float]:
        row = min(self.asked, key=self.asked.__getitem__)
        return dict(zip(COORDINATES, map(float, row[len(self.side):])))

    def run(self, point: dict[str, float]) -> list[float]:
        """Test losses at the end; infinite where training failed."""
        keys = {"training.eta0": point["eta0"], "training.optimizer": self.side[0],
                "network.parameterization": self.side[1], "reference.widths": WIDTH,
                "reference.seeds": SEEDS}
        keys |= {f"rates.{name}": point[name] for name in (*MATRICES, "w")}
        keys |= {f"init.{name}": point["init"] for name in MATRICES}
        with open(os.path.join(HERE, "images.ini"), encoding="utf-8") as file:
            base = file.read().partition("[sweep]")[0]
        try:
            run = dmft.solve(base, progress=False, **keys)
        except dmft.NumericalFailure as error:
            print(error, file=sys.stderr)
            return [math.inf] * SEEDS
        losses = run.reference[WIDTH]["test_loss_runs"].isel(t=-1).values
        return [float(loss) if math.isfinite(loss) else math.inf for loss in losses]


def best_along(points: Points, name: str, best: dict[str, float]) -> dict[str, float]:
    """The best point along one coordinate: of its neighbours, and once more beyond."""
    for factor in (FACTOR[name], 1 / FACTOR[name]):
        for _ in range(2):
            other = best | {name: best[name] * factor}
            if not points.loss(other) < points.loss(best):
                break
            best = other
    return best


def tune(path: str, optimizer: str, parameterization: str) -> dict[str, float]:
    points, best, before = Points(path, optimizer, parameterization), START, {}
    try:
        while best != before:
            before = best
            for name in COORDINATES:
                best = best_along(points, name, best)
    except Spent:
        pass
    return points.best()


if __name__ == "__main__":
    for side in ("mup", "mssp"):
        found = tune(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "gd", side)
        print(side, *(f"{name} = {value:g}" for name, value in found.items()))

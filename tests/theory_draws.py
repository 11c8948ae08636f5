"""Normals of Gaussian fields, one at a time, for tests/theory_march.py."""
import numpy as np

TOLERANCE = 1e-2


class Basis:
    """Orthonormal rows over the sites of a population, to make normals orthogonal to: that takes
    most of the sampling noise away."""

    def __init__(self, sites):
        self.rows, self.count, self.sites = np.zeros((sites // 2, sites)), 0, sites

    def full(self):
        return self.count == len(self.rows)

    def left_of(self, rows):
        """What is left of rows behind the basis."""
        known = self.rows[:self.count]
        return rows - (rows @ known.T / self.sites) @ known

    def new_of(self, row, tolerance, left=None):
        """What is new of a row, at size 1, or None; it joins the basis, while there is room. left:
        what a basis that has grown since has left of it."""
        size = whole = np.sqrt(row @ row / self.sites)
        for _ in range(2):              # again where round-off of the first time would be seen
            before, left = size, self.left_of(row) if left is None else left
            size = np.sqrt(left @ left / self.sites)
            if size > 0.3 * before:
                break
            row, left = left, None
        if size <= tolerance * whole or size < 1e-12:
            return None
        left = left / size
        if not self.full():
            self.rows[self.count] = left
            self.count += 1
        return left

    def join(self, rows, tolerance):
        """Adds what is new of each row."""
        begun, left = self.count, [] if self.full() else self.left_of(rows)
        for row, one in zip(rows, left):
            mine = self.rows[begun:self.count]
            self.new_of(row, tolerance, one - (mine @ one / self.sites) @ mine)


class Draw:
    """Fields that are drawn together: the rows of their kernels that were met, the inverse of the
    Cholesky factor of their covariance, and a normal for each."""

    def __init__(self):
        self.places, self.met, self.normals = [], np.zeros((0, 0)), np.zeros((0, 0))
        self.inverse = np.zeros((0, 0))

    def row(self, x, scale, place, fresh):
        """A field whose covariance with all that was drawn is scale <x x'>; fresh() gives a new
        normal where there is more in it than TOLERANCE of its size."""
        m, size = len(self.places), scale * (x @ x)
        known = self.inverse @ (scale * (self.met @ x)) if m else np.zeros(0)
        left = size - known @ known
        if left > TOLERANCE ** 2 * size:
            root, inverse = np.sqrt(left), np.zeros((m + 1, m + 1))
            inverse[:m, :m], inverse[m, m] = self.inverse, 1 / root
            inverse[m, :m] = -known @ self.inverse / root
            normal = fresh()
            self.met = np.vstack([self.met.reshape(m, len(x)), x])
            self.normals = np.vstack([self.normals.reshape(m, len(normal)), normal])
            self.inverse, known = inverse, np.append(known, root)
            self.places.append(place)
        return known @ self.normals if len(known) else 0.0

    def slopes(self, x):
        """d<x>/d field at every place, by Stein's lemma, of each row of x."""
        return self.inverse.T @ (self.normals @ x.T) / x.shape[1]

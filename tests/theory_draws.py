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
            if size <= tolerance * whole or size < 1e-12:
                return None
            if size > 0.3 * before:
                break
            row, left = left, None
        left = left / size
        if not self.full():
            self.rows[self.count] = left
            self.count += 1
        return left

    def join(self, rows, tolerance):
        """Adds what is new of each row."""
        if self.full():
            return
        begun, left = self.count, self.left_of(rows)
        new = (left ** 2).sum(1) > tolerance ** 2 * (rows ** 2).sum(1)
        for row, one in zip(rows[new], left[new]):
            mine = self.rows[begun:self.count]
            self.new_of(row, tolerance, one - (mine @ one / self.sites) @ mine)


class Draw:
    """Fields that are drawn together: the rows of their kernels that were met, the inverse of the
    Cholesky factor of their covariance, and a normal for each."""

    def __init__(self):
        self.places, self.all_met, self.all_normals = [], np.zeros((0, 0)), np.zeros((0, 0))
        self.inverse = np.zeros((0, 0))

    @property
    def normals(self):
        return self.all_normals[:len(self.places)]

    def row(self, x, scale, place, fresh):
        """A field whose covariance with all that was drawn is scale <x x'>; fresh() gives a new
        normal where there is more in it than TOLERANCE of its size."""
        m, size = len(self.places), scale * (x @ x)
        known = self.inverse @ (scale * (self.all_met[:m] @ x)) if m else np.zeros(0)
        left = size - known @ known
        if left > TOLERANCE ** 2 * size:
            root, inverse = np.sqrt(left), np.zeros((m + 1, m + 1))
            inverse[:m, :m], inverse[m, m] = self.inverse, 1 / root
            inverse[m, :m] = -known @ self.inverse / root
            normal = fresh()
            if m == len(self.all_met):              # room for eight more
                self.all_met, self.all_normals = (
                    np.concatenate([rows.reshape(m, len(one)), np.empty((m + 8, len(one)))])
                    for rows, one in ((self.all_met, x), (self.all_normals, normal)))
            self.all_met[m], self.all_normals[m] = x, normal
            self.inverse, known = inverse, np.append(known, root)
            self.places.append(place)
        return known @ self.normals if len(known) else 0.0

    def slopes(self, x):
        """d<x>/d field at every place, by Stein's lemma, of each row of x."""
        return self.inverse.T @ (self.normals @ x.T) / x.shape[1]

"""Sweeps: the runs of an ini over a grid of its keys (the command dmft-sweep, dmft.sweep).

A unit of work is one point of the grid with one width, or with the limit. Each is an ordinary run
of dmft-solve, which a process that lives as long as the sweep makes one after another (worker.py),
into OUT.d/HASH.h5; HASH is made of everything that decides its numbers (its complete ini, the data,
the version of the program), so that a file never stands for a unit that it does not belong to,
whatever is changed between two calls. HASH.h5 exists once it is complete; HASH.sum, the sum of its
name and bytes, shows that it still is what was written. A unit of which a run ends in a numerical
failure (divergence) leaves HASH.failed with the message, and all trajectories in HASH.h5.partial:
its means are over the runs that ended, and it bounds where an optimum may be known, since without
the networks that diverge the mean of a rate at the edge is too good. Both are done, and are not run
again. OUT.d/grid holds the axes and the names of all files.

    grid.py        the section [sweep]: axes, points
    worker.py      the process that runs units, and what it is asked
    sweep.py       the sweep as a whole: its units, its folder, what is done
    work.py        the units that are pending, by processes or by an executor; signals
    objective.py   what points are compared by
    cells.py       what the units have come to; marks.py what they are worth
    optimum.py     where an objective is smallest along a key; optima.py of all columns
    summary.py     the file OUT.h5; tables.py what is printed; output.py HDF5
    command.py     the command line

Nothing here imports xarray: the command starts in a fifth of the time.
"""

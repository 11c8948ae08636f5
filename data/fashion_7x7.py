#!/usr/bin/env python3
"""Makes fashion_7x7.h5: 32 Fashion-MNIST images, 7 x 7 pixels, two classes (see fashion_7x7.ABOUT).

    python3 fashion_7x7.py [IMAGES.gz LABELS.gz [OUT.h5]]

Needs numpy and h5py. The defaults are the files of the Debian package dataset-fashion-mnist and a
file beside this script. The same input gives the same bytes.
"""
import gzip
import os
import sys

import h5py
import numpy as np

FOLDER = "/usr/share/datasets/fashion-mnist"
HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = ((2, "pullover", 1.0), (4, "coat", -1.0))  # label, name, target
PER_CLASS = 16
BLOCK = 4                                            # 28 / BLOCK = 7
SIDE = 28 // BLOCK
D = SIDE * SIDE


def idx(path):
    """The array of a gzipped IDX file of unsigned bytes."""
    with gzip.open(path) as file:
        raw = file.read()
    if raw[:3] != b"\0\0\x08":
        sys.exit(f"{path}: not an IDX file of unsigned bytes")
    shape = np.frombuffer(raw, ">u4", raw[3], 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def inputs(images):
    """[P][28][28] bytes -> [P][D]: block means, centred per feature, |x|^2 = D.

    The row scale drops the factors 1/255 (pixels to 0..1), 1/BLOCK^2 (mean) and 1/P (centring), so
    all but the last line is done in integers and the result is the same on every machine.
    """
    P = len(images)
    blocks = images.astype(np.int64).reshape(P, SIDE, BLOCK, SIDE, BLOCK).sum((2, 4)).reshape(P, D)
    centred = P * blocks - blocks.sum(0)
    return centred * SIDE / np.sqrt((centred**2).sum(1, keepdims=True))


def main(images=f"{FOLDER}/train-images-idx3-ubyte.gz",
         labels=f"{FOLDER}/train-labels-idx1-ubyte.gz",
         out=os.path.join(HERE, "fashion_7x7.h5")):
    pixels, label = idx(images), idx(labels)
    # interleaved: mu even is a pullover, mu odd a coat, each class in the order of the training set
    index = np.stack([np.flatnonzero(label == c)[:PER_CLASS] for c, _, _ in CLASSES], 1).ravel()
    X = inputs(pixels[index])
    y = np.tile([target for _, _, target in CLASSES], PER_CLASS)

    with h5py.File(out, "w", libver="earliest") as file:
        file.attrs["about"] = ("32 Fashion-MNIST training images averaged to 7 x 7 pixels, centred "
                               "per feature, rows rescaled to |x|^2 = 49; pullover +1, coat -1")
        file.attrs["source"] = ("Fashion-MNIST, https://github.com/zalandoresearch/fashion-mnist; "
                                "made by fashion_7x7.py")
        file.attrs["licence"] = ("MIT, Copyright (c) 2017 Zalando SE, https://tech.zalando.com; "
                                 "full notice in fashion_7x7.ABOUT")
        for name, values, dims, about in (
                ("X", X, "mu i", "inputs: pixels i = 7 row + column, centred, |x|^2 = D = 49"),
                ("y", y, "mu", "targets: +1 pullover (mu even), -1 coat (mu odd)")):
            data = file.create_dataset(name, data=values, dtype="<f8", track_times=False)
            data.attrs["about"] = about
            data.attrs["dims"] = dims
        file["X"].attrs["index"] = index.astype("<i4")  # row of each mu in the training set


if __name__ == "__main__":
    if len(sys.argv) not in (1, 3, 4) or sys.argv[1:2] == ["--help"]:
        sys.exit(__doc__)
    main(*sys.argv[1:])

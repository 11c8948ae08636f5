"""Data files of `[data] source = file`, made of what others store and of laws that are known.

    import dmft, dmft.data
    dmft.data.write("x.h5", dmft.data.read("x.npz"))                    # npz, csv
    dmft.data.write("images.h5", dmft.data.fashion([2, 4], inputs=32))  # Fashion-MNIST
    dmft.data.write("parts.h5", dmft.data.mixture(3, inputs=64, dimension=10, separation=0.6))
    dmft.solve("x.ini", **{"data.source": "file", "data.file": "parts.h5"})

or the command dmft-data. What is written is described in docs/data.md: X [P][D] or [P][n][D] or
tokens [P][n], y, and X_test ... y_test. A Data may have arrays of its own beside these (of a law:
its parameters), and attributes of the file; `floor_LOSS` is the loss of the best predictor that
knows the law, which a result of this loss has as attribute floor of /data."""
from __future__ import annotations

import gzip
import os
import zipfile

import h5py
import numpy as np

from dmft.errors import InputError, SystemFailure

FOLDER = "/usr/share/datasets/fashion-mnist"  # of Debian's package dataset-fashion-mnist
PIXELS = 28


class Data(dict):
    """Arrays by their names, and attributes of the file that they make."""

    def __init__(self, arrays, **attributes):
        super().__init__(arrays)
        self.attributes = attributes


# ---- files ----

def _check_kind(path: str, name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf" or array.ndim == 0 and name != "V":
        raise InputError(f"{path}: {name} is no array of numbers (its type is {array.dtype}, its "
                         f"shape {array.shape}); leave it out")
    return array.astype(np.int8) if array.dtype.kind == "b" else array


def _read_npz(path: str) -> Data:
    try:
        with zipfile.ZipFile(path) as archive:
            twice = [name for name in archive.namelist() if archive.namelist().count(name) > 1]
        if twice:
            raise InputError(f"{path}: has {twice[0].removesuffix('.npy')} twice")
        with np.load(path, allow_pickle=False) as file:
            return Data({name: _check_kind(path, name, file[name]) for name in file.files})
    except InputError:
        raise
    except Exception as error:  # whatever zip, deflate and numpy say of damaged bytes
        raise InputError(f"{path}: cannot be read as npz: {error}") from None


def _number(text: str):
    try:
        return None if "_" in text else float(text)     # Python alone takes 1_000 for a number
    except ValueError:
        return None


def _columns(names: list[str], weight: str | None, path: str) -> tuple[list[int], list[int]]:
    """Numbers of the columns of X and of y."""
    if len(set(names)) < len(names) or "" in names:
        twice = next((name for name in names if names.count(name) > 1), "")
        raise InputError(f"{path}: two columns have the name {twice!r}" if twice else
                         f"{path}: a column has no name, as one that numbers the lines; leave it "
                         "out (to_csv(index=False) of pandas)")
    ys = ["y"] if "y" in names else [f"y{c}" for c in range(len(names)) if f"y{c}" in names]
    if not ys or ys != ["y"] and ys != [f"y{c}" for c in range(len(ys))]:
        raise InputError(f"{path}: the first line names the columns, and none of them is y, or y0, "
                         "y1, ... without a gap")
    if weight and weight not in {*names} - {*ys}:
        raise InputError(f"{path}: no column of inputs has the name {weight!r}; there are "
                         + ", ".join(name for name in names if name not in ys))
    inputs = [k for k, name in enumerate(names) if name not in ys and name != weight]
    return inputs, [names.index(name) for name in ys]


def _read_csv(path: str, weight: str | None) -> Data:
    with open(path, encoding="utf-8-sig") as file:
        lines = [(at, line.strip()) for at, line in enumerate(file, 1)]
    lines = [(at, line) for at, line in lines if line and not line.startswith("#")]
    if not lines:
        raise InputError(f"{path}: has no numbers")
    first = lines[0][1]
    mark = next((mark for mark in ",\t;" if mark in first), ",")
    head = [word.strip() for word in first.split(mark)]
    named = any(_number(word) is None for word in head)
    if head == [*map(str, range(len(head)))] and "." in "".join(line for _, line in lines[1:2]):
        raise InputError(f"{path}: the first line numbers the columns; give them names, y that of "
                         "the targets, or leave it out")
    rows = []
    for at, line in lines[named:]:
        row = [_number(word) for word in line.split(mark)]
        if None in row or len(row) != len(head):
            word = line.split(mark)[row.index(None)].strip() if None in row else None
            raise InputError(f"{path}:{at}: " + (f"{word!r} is no number" if word is not None else
                             f"has {len(row)} numbers, and the first line {len(head)}"))
        rows.append(row)
    values = np.array(rows)
    if not rows or len(head) < 2:
        raise InputError(f"{path}: a line has the numbers of an input and its target, at least two")
    if not named:
        if weight:
            raise InputError(f"{path}: has no line of names, so no column {weight!r}")
        return Data({"X": values[:, :-1], "y": values[:, -1]})
    X, y = _columns(head, weight, path)
    if not X:
        raise InputError(f"{path}: has no column beside y")
    data = Data({"X": values[:, X], "y": values[:, y[0] if len(y) == 1 else y]})
    return Data({**data, weight: values[:, head.index(weight)]}) if weight else data


def read(path, weight: str | None = None) -> Data:
    """The arrays of an HDF5 file (a result: of its /data), an npz, or a csv. weight: the name of
    one of them.

    A line of a csv is an input: numbers between commas (tabs, semicolons). A first line that is not
    all numbers names the columns: y, or y0, y1, ..., are the targets, `weight` is an array of its
    own, all others are X. Without names the last column is y."""
    path = os.fspath(path)
    found = _read(path, weight)
    if weight and weight not in found:
        raise InputError(f"{path}: has no array {weight!r}; there are {', '.join(found)}")
    return found


def _read(path: str, weight: str | None) -> Data:
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise InputError(f"{path}: is not a regular file; what comes from a pipe is written to a "
                         "file first")
    try:
        with open(path, "rb") as file:
            begin = file.read(4)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if begin[:2] == b"PK":
        return _read_npz(path)
    try:
        if not h5py.is_hdf5(path):
            return _read_csv(path, weight)
        with h5py.File(path, "r") as file:
            group = file["data"] if isinstance(file.get("data"), h5py.Group) else file
            attributes = {key: one for key, one in group.attrs.items() if
                          key.startswith("floor_")}
            return Data({name: _check_kind(path, name, one[()]) for name, one in group.items()
                         if isinstance(one, h5py.Dataset)}, **attributes)
    except UnicodeDecodeError:
        raise InputError(f"{path}: is neither HDF5 nor npz, and no text, as a csv is") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def write(path, data: Data, force: bool = False) -> None:
    """Writes PATH whole or not at all; without force an existing file stays, and is an error."""
    path = os.fspath(path)
    mine = f"{path}.{os.getpid()}.new"
    for name, array in data.items():
        if np.asarray(array).dtype.kind not in "biuf":
            raise InputError(f"{path}: {name} is no array of numbers")
        if not np.isfinite(array).all():
            at = np.argwhere(~np.isfinite(array))[0]
            raise InputError(f"{path}: {name}{''.join(f'[{k}]' for k in at)} would be "
                             f"{np.asarray(array)[tuple(at)]}, and data are finite numbers")
    try:
        if not force and os.path.exists(path):
            raise InputError(f"{path}: exists already; choose another name, or force")
        with open(mine, "wb"):  # whose error is shorter than that of HDF5
            pass
        with h5py.File(mine, "w", libver="earliest") as file:
            for name, array in data.items():
                file.create_dataset(name, data=array, track_times=False)
            file.attrs.update(getattr(data, "attributes", {}))
        os.replace(mine, path)
    except OSError as error:
        raise SystemFailure(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if os.path.exists(mine):
            os.remove(mine)


# ---- Fashion-MNIST ----

def _idx(folder: str, name: str) -> np.ndarray:
    """The array of a gzipped IDX file of unsigned bytes: 0 0 8 rank, extents, values."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        raise InputError(f"{path}: is not there; install Debian's package dataset-fashion-mnist, "
                         "or give the folder")
    try:
        with gzip.open(path) as file:
            raw = file.read()
    except (OSError, EOFError, ValueError, gzip.zlib.error) as error:
        raise InputError(f"{path}: is damaged, incomplete or no gzip file: {error}") from None
    rank = raw[3] if len(raw) > 3 and raw[:3] == b"\0\0\x08" else 0
    if not rank or len(raw) < 4 + 4 * rank:
        raise InputError(f"{path}: is not an IDX file of unsigned bytes")
    shape = tuple(int(extent) for extent in np.frombuffer(raw, ">u4", rank, 4))
    if len(raw) - 4 - 4 * rank != np.prod(shape, dtype=object):
        raise InputError(f"{path}: has {len(raw) - 4 - 4 * rank} values, and its header says "
                         f"{shape}")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def _images(folder: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    images = _idx(folder, f"{name}-images-idx3-ubyte.gz")
    labels = _idx(folder, f"{name}-labels-idx1-ubyte.gz")
    if images.ndim != 3 or images.shape[1:] != (PIXELS, PIXELS) or labels.shape != images.shape[:1]:
        raise InputError(f"{folder}: {name} has images {images.shape} and labels {labels.shape}, "
                         "where each image is of 28 x 28 pixels and has a label")
    return images, labels


def _choose(images, labels, kinds, count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """(sums over blocks of pixels [count][D], kind of each): images of each kind in turn, those of
    a kind in the order of the file."""
    kind = np.arange(count) % len(kinds)
    at = np.empty(count, int)
    for k, classes in enumerate(kinds):
        found, wanted = np.flatnonzero(np.isin(labels, classes)), kind == k
        if len(found) < wanted.sum():
            raise InputError(f"Fashion-MNIST has {len(found)} images of the classes "
                             f"{' '.join(map(str, classes))}, and {count} inputs need "
                             f"{wanted.sum()}")
        at[wanted] = found[:wanted.sum()]
    block = PIXELS // side
    sums = images[at].reshape(count, side, block, side, block).sum((2, 4), dtype=np.int64)
    return sums.reshape(count, side * side), kind


def fashion(classes, inputs: int, test_inputs: int = 0, side: int = 7, patch: int = 0,
            labels: bool = False, folder: str = FOLDER) -> Data:
    """Images of Fashion-MNIST, averaged over squares to side x side pixels: the first of each class
    of its training set, and of its test set, the classes in turn.

    labels: y is the class, 0, 1, ... in the order of `classes`; else the first half of them has
    y = +1 and the second -1. patch: an image has (side/patch)^2 rows, squares of D = patch^2
    pixels, row by row; 0: it is one row of D = side^2.

    Every pixel is centred over the training inputs, then every input is scaled to |x|^2 = D. What
    inputs have in common as a factor drops out, so this is done in whole numbers up to the end."""
    classes = [int(one) for one in classes]
    if len(set(classes)) < max(2, len(classes)) or not set(classes) <= set(range(10)) or \
            not labels and len(classes) % 2:
        raise InputError(f"classes {' '.join(map(str, classes))}: must be different, 0 to 9, at "
                         "least two" + ("" if labels else ", and as many with y = +1 as with -1"))
    if side < 1 or PIXELS % side or patch < 0 or patch and side % patch:
        raise InputError(f"side {side}, patch {patch}: side must divide 28, and patch side")
    kinds = [[one] for one in classes] if labels else np.split(np.array(classes), 2)
    if inputs < 1 or test_inputs < 0 or not labels and (inputs % 2 or test_inputs % 2):
        raise InputError(f"inputs {inputs}, test inputs {test_inputs}: must be "
                         f"{'' if labels else 'even, '}1 or more (test inputs: 0 or more)")
    sums, kind = _choose(*_images(folder, "train"), kinds, inputs, side)
    tests, test_kind = _choose(*_images(folder, "t10k"), kinds, test_inputs, side) if \
        test_inputs else (sums[:0], kind[:0])
    x = (inputs * np.concatenate([sums, tests]) - sums.sum(0)).astype(float)
    square = (x ** 2).sum(1, keepdims=True)
    if not square.all():
        raise InputError(f"input {np.flatnonzero(square == 0)[0]} is the mean of all {inputs} "
                         "inputs and cannot be scaled to |x|^2 = D")
    x = x * side / np.sqrt(square)
    if patch:
        count = side // patch
        x = x.reshape(-1, count, patch, count, patch).swapaxes(2, 3)
        x = x.reshape(-1, count * count, patch * patch)
    y = np.concatenate([kind, test_kind])
    y = y.astype(np.int32) if labels else 1.0 - 2 * y
    test = {"X_test": x[inputs:], "y_test": y[inputs:]} if test_inputs else {}
    return Data({"X": x[:inputs], "y": y[:inputs], **test},
                source="Fashion-MNIST, https://github.com/zalandoresearch/fashion-mnist",
                licence="MIT, Copyright (c) 2017 Zalando SE, https://tech.zalando.com")


# ---- laws that are known ----

def _key(seed: int, owner: int) -> np.ndarray:
    return np.array([seed, owner], np.uint64)


def _draws(seed: int, inputs: int, owner: int, *shape) -> np.ndarray:
    """Normals [inputs][shape]; those of an input do not depend on how many inputs there are."""
    return np.random.Generator(np.random.Philox(key=_key(seed, owner))).standard_normal(
        (inputs, *shape))


def _uniform(seed: int, inputs: int, owner: int, *shape) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key=_key(seed, owner))).random((inputs, *shape))


def _split(inputs: int, **arrays) -> dict:
    """Rows behind the first `inputs` are those of test inputs."""
    test = {f"{name}_test": array[inputs:] for name, array in arrays.items() if
            len(array) > inputs}
    return {**{name: array[:inputs] for name, array in arrays.items()}, **test}


def _check(**numbers) -> None:
    """name = (value, least, most)"""
    for name, (value, least, most) in numbers.items():
        if not least <= value <= most:
            raise InputError(f"{name} = {value}: must be {least} to {most}")


def mixture(components: int, inputs: int, dimension: int, separation: float = 0.5,
            noise: float = 0, test_inputs: int = 0, seed: int = 1) -> Data:
    """One of K components, k, with probability 1/K each; x = r m_k + sqrt(1 - r^2) g with
    r = separation, and y = <t_k, x>/sqrt D + noise e; means m_k, teachers t_k, g and e are standard
    normals. At r = 0 nothing in x tells the component.

    With p_k(x) proportional to exp(-|x - r m_k|^2/(2 (1 - r^2))) and u_k = <t_k, x>/sqrt D the best
    predictor is sum_k p_k u_k; floor_mse is the mean of its expected loss
    (sum_k p_k u_k^2 - (sum_k p_k u_k)^2 + noise^2)/2 over the test inputs, without any over the
    others. Further arrays: means, teachers [K][D], component [P]."""
    _check(components=(components, 1, 10000), inputs=(inputs, 1, 10 ** 7),
           dimension=(dimension, 1, 10 ** 6), separation=(separation, 0, 0.999),
           noise=(noise, 0, 1000), test_inputs=(test_inputs, 0, 10 ** 7),
           seed=(seed, 0, 2 ** 64 - 1))
    count, r, D = inputs + test_inputs, separation, dimension
    means, teachers = (_draws(seed, components, owner, D) for owner in (1, 2))
    k = (_uniform(seed, count, 3) * components).astype(int)
    x = r * means[k] + np.sqrt(1 - r * r) * _draws(seed, count, 4, D)
    y = (teachers[k] * x).sum(1) / np.sqrt(D) + noise * _draws(seed, count, 5)
    judged, expected = x[inputs:] if test_inputs else x, 0.0
    for one in judged:
        p = -((one - r * means) ** 2).sum(1) / (2 * (1 - r * r))
        p = np.exp(p - p.max())
        p, u = p / p.sum(), teachers @ one / np.sqrt(D)
        expected += (p @ (u - p @ u) ** 2 + noise ** 2) / 2
    return Data({**_split(inputs, X=x, y=y, component=k), "means": means, "teachers": teachers},
                floor_mse=expected / len(judged))


def chains(components: int, vocabulary: int, tokens: int, inputs: int, switching: float = 0,
           sharpness: float = 1, test_inputs: int = 0, seed: int = 1) -> Data:
    """Letters of `components` Markov chains, of which a hidden chain says which is in use: a
    sequence begins with one of them, and after each letter one is drawn anew with the probability
    `switching`. The first letter is uniform; b follows a with probability chain[k][a][b], softmax
    over b of sharpness times standard normals. The target of each token is the next letter.

    floor_cross_entropy is that of the predictor that knows the chains and all letters before:
    over test inputs, without any over the others. Further arrays: chain [K][V][V], and component
    [P][n], the chain that draws the target of each token. A network that sees the letter that is
    asked for has no floor. For one chain `[data] source = markov` needs no file."""
    _check(components=(components, 1, 10000), vocabulary=(vocabulary, 2, 100000),
           tokens=(tokens, 2, 10000), inputs=(inputs, 1, 10 ** 7), switching=(switching, 0, 1),
           sharpness=(sharpness, 0, 100), test_inputs=(test_inputs, 0, 10 ** 7),
           seed=(seed, 0, 2 ** 64 - 1))
    count, K, V = inputs + test_inputs, components, vocabulary
    logits = sharpness * _draws(seed, K, 1, V, V)
    T = np.exp(logits - logits.max(-1, keepdims=True))
    T /= T.sum(-1, keepdims=True)
    cumulated, u = T.cumsum(-1), _uniform(seed, count, 2, tokens + 1, 3)
    letter = np.empty((count, tokens + 1), np.int32)
    component = np.empty((count, tokens), np.int32)
    letter[:, 0] = u[:, tokens, 0] * V
    weight, entropy = np.full((count, K), 1 / K), np.empty((count, tokens))
    for s in range(tokens):
        anew = (u[:, s, 1] * K).astype(int)
        component[:, s] = np.where(u[:, s, 2] < (switching if s else 1.0), anew,
                                   component[:, s - 1])
        a, rows = letter[:, s], cumulated[component[:, s], letter[:, s]]
        letter[:, s + 1] = np.minimum((u[:, s, :1] >= rows).sum(1), V - 1)
        p = np.einsum("mk,kmb->mb", weight, T[:, a])
        entropy[:, s] = -(p * np.log(np.where(p > 0, p, 1))).sum(1)
        b = letter[:, s + 1]
        weight = weight * T[:, a, b].T / p[np.arange(count), b][:, None]
        weight = (1 - switching) * weight + switching / K
    return Data({**_split(inputs, tokens=letter[:, :-1], y=letter[:, 1:], component=component),
                 "V": np.array(V), "chain": T},
                floor_cross_entropy=entropy[inputs if test_inputs else 0:].mean())

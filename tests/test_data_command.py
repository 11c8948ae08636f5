"""dmft.data and dmft-data: files of others become what [data] source = file reads; Fashion-MNIST,
judged by hand from files that the test writes and by a stored file that another program made; what
is damaged or no data is refused in one sentence; laws, judged by their definitions."""
import functools
import gzip
import itertools
import os
import random
import subprocess
import sys

import h5py
import numpy as np
import pytest
from refusing import refuses

import dmft
from dmft import data, data_command

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
X = np.array([[1, -2], [0.5, 3], [-1.5, 0.25]])
Y = np.array([1.0, -1, 1])
CSV = {"bare": "1,-2,1\n.5, 3,\t-1\r\n\n-1.5,25e-2,1",
       "names": "# mine\ny;first;second\n1;1;-2\n# more\n-1;0.5;3\n1;-1.5;0.25\n",
       "tabs": "\ufeffa\ty\tb\n1\t1\t-2\n0.5\t-1\t3\n-1.5\t1\t0.25\n"}


def made(tmp_path, *words):
    """The arrays and attributes of the file that the command writes."""
    out = str(tmp_path / "out.h5")
    assert data_command.main([*map(str, words), "-o", out, "--force"]) == 0
    with h5py.File(out) as file:
        return {name: one[()] for name, one in file.items()}, dict(file.attrs)


@pytest.mark.parametrize("kind", CSV)
def test_csv(kind, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(CSV[kind], encoding="utf-8")
    found, _ = made(tmp_path, path)
    assert sorted(found) == ["X", "y"]
    np.testing.assert_array_equal(found["X"], X)
    np.testing.assert_array_equal(found["y"], Y)


def test_csv_with_weights_and_several_targets(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("y1,w,x,y0\n1,2,3,4\n5,6,7,8\n")
    found, _ = made(tmp_path, path, "--weight", "w")
    assert {name: one.tolist() for name, one in found.items()} == {
        "X": [[3], [7]], "y": [[4, 1], [8, 5]], "w": [2, 6]}


@pytest.mark.parametrize("packed", (np.savez, np.savez_compressed))
def test_npz(packed, tmp_path):
    path = tmp_path / "x.npz"
    arrays = {"X": np.asfortranarray(X), "y": Y.astype(">f4"), "w": np.array([True, False, True]),
              "V": np.array(3)}
    packed(path, **arrays)
    found, _ = made(tmp_path, path)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    again, _ = made(tmp_path, path)  # HDF5 itself, and a result
    assert sorted(again) == sorted(found)


@pytest.mark.parametrize("text, sentence", (
    ("1,2,x\n3,4\n", "x.csv:2: has 2 numbers, and the first line 3"),
    ("a,y\n1,2\n3,four\n", "x.csv:3: 'four' is no number"), ("a,b\n1,2\n", "none of them is y"),
    ("a,y0,y2\n1,2,3\n", "without a gap"), ("a,a,y\n1,2,3\n", "two columns have the name 'a'"),
    (",a,y\n0,2,3\n", "x.csv: a column has no name"),
    ("0,1,2\n.5,2,3\n", "x.csv: the first line numbers the columns"),
    ("y\n1\n", "at least two"), ("# nothing\n\n", "has no numbers"), ("a,y\n", "at least two"),
    ("y0,y1\n1,2\n", "no column beside y"),
    ("1,2,3\n4,nan,6\n", "X[1][1] would be nan, and data are finite numbers"),
    ("1,2\n3,-1e400\n", "y[1] would be -inf, and")))
def test_what_is_no_csv_is_refused(text, sentence, tmp_path, capsys):
    (tmp_path / "x.csv").write_text(text)
    assert data_command.main([str(tmp_path / "x.csv"), "-o", str(tmp_path / "out.h5")]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
    assert os.listdir(tmp_path) == ["x.csv"]


def test_what_is_no_npz_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    for arrays, sentence in (({"X": np.array([{}, 1], object)}, "cannot be read as npz"),
                             ({"X": X * 1j}, "X is no array of numbers"),
                             ({"X": np.array(["a"])}, "X is no array of numbers"),
                             ({"X": np.array(2.0)}, "X is no array of numbers")):
        np.savez(path, **arrays)
        refuses(sentence, data.read, path)
    np.savez(path, X=X, y=Y)
    good, drawn = path.read_bytes(), random.Random(1)
    for trial in range(300):  # bytes changed or cut at random: arrays, or one sentence
        bad = bytearray(good)
        for _ in range(drawn.randrange(1, 4)):
            bad[drawn.randrange(2, len(bad))] = drawn.randrange(256)
        path.write_bytes(bad[:drawn.randrange(len(bad))] if trial % 3 == 0 else bad)
        try:
            data.read(path)
        except dmft.InputError as error:
            assert "\n" not in str(error) or "cannot be read as npz" in str(error)
    (tmp_path / "x.bin").write_bytes(bytes(range(256)))
    refuses("neither HDF5 nor npz", data.read, tmp_path / "x.bin")


def test_the_program_names_the_command(tmp_path):
    """And the command that it names makes the file that it reads."""
    np.savez(tmp_path / "x.npz", X=X, y=Y)
    keys = {"network.model": "dense", "data.source": "file", "training.steps": 1,
            "solver.sites": 32, "solver.replicates": 2}
    name = str(tmp_path / "x.npz")
    refuses(f"dmft-data {name} -o OUT.h5", dmft.solve, keys, progress=False, **{"data.file": name})
    out = str(tmp_path / "x.h5")
    assert data_command.main([name, "-o", out]) == 0
    assert data_command.main([name, "-o", out]) == 2  # it is there
    run = dmft.solve(keys, progress=False, **{"data.file": out})
    np.testing.assert_array_equal(run.data["X"], X)
    found = data.read(run.path)  # of a result the data
    np.testing.assert_array_equal(found["y"], Y)


def test_the_command_stands_beside_the_programs(tmp_path):
    (tmp_path / "x.csv").write_text(CSV["bare"])
    home = os.environ.get("DMFT_HOME", ROOT)
    done = subprocess.run([os.path.join(home, "dmft-data"), "x.csv", "-o", "x.h5"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "wrote x.h5: X 3x2, y 3\n", "")
    done = subprocess.run([sys.executable, "-m", "dmft", "data", "mixture", "--components", "0",
                           "--inputs", "1", "--dimension", "1", "-o", "m.h5"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr == "dmft-data: components = 0: must be 1 to 10000\n"


def test_options_may_stand_before_what_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("mixture,x,y\n1,2,3\n")
    for words in ("-o a.h5 mixture --components 2 --inputs 3 --dimension 4",
                  "--weight mixture -o b.h5 x.csv", "-o c.h5 x.csv --weight mixture"):
        assert data_command.main(words.split()) == 0
    assert data.read("a.h5")["means"].shape == (2, 4)
    assert all(data.read(name)["mixture"].tolist() == [1] for name in ("b.h5", "c.h5"))


@pytest.mark.parametrize("words, sentence", (
    ("x.npz --weight w", "x.npz: has no array 'w'; there are X, y"),
    ("x.csv --weight y", "x.csv: no column of inputs has the name 'y'; there are a, b"),
    ("python.csv", "python.csv:2: '1_000' is no number")))
def test_what_a_file_does_not_have(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", X=X, y=Y)
    (tmp_path / "x.csv").write_text("a,b,y\n1,2,3\n")
    (tmp_path / "python.csv").write_text("1,2\n1,1_000\n")
    assert data_command.main([*words.split(), "-o", "x.h5"]) == 2
    assert capsys.readouterr().err == f"dmft-data: {sentence}\n"


@pytest.mark.parametrize("words, code, sentence", (
    ("mixture --components 1 --inputs 1 --dimension 1 --seed -1", 2, "seed = -1: must be 0 to"),
    ("mixture --components 1 --inputs 10000000 --dimension 1000000", 1, "Unable to allocate"),
    ("chains --components 1 --vocabulary 1 --tokens 2 --inputs 1", 2, "vocabulary = 1: must be 2"),
    ("fashion --classes 3 7 --inputs 4 --folder nowhere", 2, "nowhere/train-images"),
    ("nowhere.csv", 2, "nowhere.csv: No such file"),
    ("/dev/zero", 2, "/dev/zero: is not a regular file; what comes from a pipe is written to")))
def test_bad_input_gets_one_sentence(words, code, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert data_command.main([*words.split(), "-o", "x.h5"]) == code
    said = capsys.readouterr().err
    assert said.startswith("dmft-data: ") and sentence in said and said.count("\n") == 1
    assert not os.listdir(tmp_path)


# ---- Fashion-MNIST ----

LABELS = np.array([3, 5, 3, 7, 8, 7, 3, 5, 7], np.uint8)
N, I = np.ogrid[:9, :784]
IMAGES = ((37 * N * N + 11 * I + N * (I // 28) * (I % 5)) % 256).astype(np.uint8)


def idx(array) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def folder(tmp_path):
    for name in ("train", "t10k"):
        (tmp_path / f"{name}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(idx(IMAGES.reshape(9, 28, 28))))
        (tmp_path / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS)))
    return tmp_path


def by_hand(images, trained):
    """By floating-point means: every number is below 255 and a mean of 16 pixels minus another, so
    that 1e-12 is a thousand times the round-off."""
    b = IMAGES[images].reshape(-1, 7, 4, 7, 4).mean((2, 4)).reshape(len(images), 49)
    c = b - b[:trained].mean(0)
    return 7 * c / np.sqrt((c ** 2).sum(1, keepdims=True))


@pytest.mark.parametrize("classes, labels, images, y", (
    ([3, 7], False, [0, 3, 2, 5], [1, -1, 1, -1]),
    ([7, 8, 5, 3], False, [3, 0, 4, 1, 5, 2, 8, 6], [1, -1, 1, -1, 1, -1, 1, -1]),
    ([7, 3, 5], True, [3, 0, 1, 5, 2, 7], [0, 1, 2, 0, 1, 2])))
def test_images_are_chosen_and_normalised(classes, labels, images, y, folder):
    found = data.fashion(classes, len(images), 2, labels=labels, folder=str(folder))
    want = by_hand(images + images[:2], len(images))
    np.testing.assert_allclose(found["X"], want[:len(images)], atol=1e-12)
    np.testing.assert_allclose(found["X_test"], want[len(images):], atol=1e-12)
    assert found["y"].tolist() == y and found["y_test"].tolist() == y[:2]
    np.testing.assert_allclose((found["X"] ** 2).sum(1), 49, atol=1e-12)


def test_patches(folder):
    whole = data.fashion([3, 7], 4, side=14, folder=str(folder))["X"]
    cut = data.fashion([3, 7], 4, side=14, patch=7, folder=str(folder))["X"]
    assert cut.shape == (4, 4, 49)
    for square in range(4):
        row, column = 7 * (square // 2), 7 * (square % 2)
        np.testing.assert_array_equal(cut[:, square], whole.reshape(4, 14, 14)[
            :, row:row + 7, column:column + 7].reshape(4, 49))


@pytest.mark.parametrize("more, sentence", (
    ({"classes": [3, 3]}, "must be different"), ({"classes": [3, 11]}, "0 to 9"),
    ({"classes": [3, 5, 7]}, "as many with y"), ({"side": 6}, "side must divide 28"),
    ({"patch": 2}, "patch side"), ({"inputs": 3}, "must be even"), ({"inputs": 0}, "1 or more"),
    ({"inputs": 8}, "has 3 images of the classes 3, and 8 inputs need 4"),
    ({"classes": [0, 3], "inputs": 2}, "has 0 images of the classes 0")))
def test_what_is_no_choice_is_refused(more, sentence, folder):
    with pytest.raises(dmft.InputError, match=sentence):
        data.fashion(**{"classes": [3, 7], "inputs": 4, "folder": str(folder), **more})


def test_damaged_images_are_refused(folder):
    path = folder / "train-images-idx3-ubyte.gz"
    good = path.read_bytes()
    raw = gzip.decompress(good)
    for bad in (good[:40], good[:-3], raw, b"", gzip.compress(b"\0\0\x09\3" + raw[4:]),
                gzip.compress(raw[:-1]), gzip.compress(raw + b"\0"), gzip.compress(raw[:6]),
                gzip.compress(idx(IMAGES.reshape(9, 784))), good[:60] + b"\0\0" + good[62:],
                gzip.compress(idx(IMAGES[:8].reshape(8, 28, 28)))):
        path.write_bytes(bad)
        with pytest.raises(dmft.InputError):
            data.fashion([3, 7], 4, folder=str(folder))
    path.unlink()
    refuses("package dataset-fashion-mnist", data.fashion, [3, 7], 4, folder=str(folder))
    with pytest.raises(dmft.InputError, match="is the mean of all 2 inputs"):
        path.write_bytes(gzip.compress(idx(np.zeros((9, 28, 28), np.uint8))))
        data.fashion([3, 7], 2, folder=str(folder))


KEPT = {"data/fashion_7x7.h5": ([2, 4], 32), "data/fashion.h5": ([0, 6, 1, 3], 64),
        "data/fashion_32.h5": ([0, 6, 1, 3], 32), "data/fashion10.h5": (range(10), 60, 200),
        "data/single_pass.h5": ([2, 4], 264, 128), "examples/image.h5": ([2, 4], 8),
        "docs/coverage/fashion.h5": ([0, 6, 1, 3], 16, 16),
        "docs/coverage/classes.h5": (range(10), 60, 100)}


READ_ONCE = functools.cache(data._images)


@pytest.mark.skipif(not os.path.isdir(data.FOLDER), reason=f"no {data.FOLDER} here")
@pytest.mark.parametrize("name", KEPT)
def test_images_that_are_kept_are_those_of_the_package(name, monkeypatch):
    """Bit for bit; data/fashion_7x7.h5 was written by another program."""
    monkeypatch.setattr(data, "_images", READ_ONCE)
    found = data.fashion(*KEPT[name], labels=len(KEPT[name][0]) == 10,
                         patch=int(name.startswith("examples")))
    with h5py.File(os.path.join(ROOT, name)) as file:
        assert sorted(file) == sorted(found)
        for array in found:
            np.testing.assert_array_equal(file[array], found[array])


# ---- laws ----

def test_mixtures_are_what_they_say():
    P, K, D, r, noise = 4000, 3, 12, 0.6, 0.3
    found = data.mixture(K, P, D, separation=r, noise=noise, test_inputs=P)
    means, teachers = found["means"], found["teachers"]
    for end in ("", "_test"):
        x, y, k = (found[name + end] for name in ("X", "y", "component"))
        assert abs(np.bincount(k, minlength=K) - P / K).max() < 5 * np.sqrt(P * 2 / 9)
        g = (x - r * means[k]) / np.sqrt(1 - r ** 2)
        e = (y - np.einsum("mi,mi->m", teachers[k], x) / np.sqrt(D)) / noise
        for numbers in (g, e):  # mean and variance of standard normals, five standard errors
            assert abs(numbers.mean()) < 5 / np.sqrt(numbers.size)
            assert abs(numbers.var() - 1) < 5 * np.sqrt(2 / numbers.size)
        assert abs(np.corrcoef(g[:, 0], g[:, 1])[0, 1]) < 5 / np.sqrt(P)
    # the best predictor, from the densities
    x, y = found["X_test"], found["y_test"]
    log = -((x[:, None] - r * means) ** 2).sum(-1) / (2 * (1 - r ** 2))
    p = np.exp(log - log.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    u = x @ teachers.T / np.sqrt(D)
    best = (p * u).sum(1)
    expected = ((p * (u - best[:, None]) ** 2).sum(1) + noise ** 2) / 2
    assert found.attributes["floor_mse"] == pytest.approx(expected.mean(), rel=1e-12)
    loss = (y - best) ** 2 / 2
    assert abs((loss - expected).mean()) < 4 * (loss - expected).std() / np.sqrt(P)
    # and no predictor that does not know the component does better than one that does
    assert expected.mean() > noise ** 2 / 2


def test_without_separation_nothing_tells_the_component():
    """The best prediction is then that of the mean teacher."""
    found = data.mixture(2, 500, 6, separation=0)
    u = found["X"] @ found["teachers"].T / np.sqrt(6)
    assert found.attributes["floor_mse"] == pytest.approx(((u[:, 0] - u[:, 1]) ** 2).mean() / 8,
                                                          rel=1e-12)


def entropies(T, tokens, switching):
    """Of each next letter, given all before it, by a sum over all sequences of components."""
    K, n = len(T), len(tokens)
    found = []
    for s in range(n):
        p = np.zeros(T.shape[-1])
        for hidden in itertools.product(range(K), repeat=s + 1):
            weight = 1 / K
            for before, after in zip(hidden, hidden[1:]):
                weight *= (1 - switching) * (before == after) + switching / K
            for place in range(s):
                weight *= T[hidden[place]][tokens[place], tokens[place + 1]]
            p += weight * T[hidden[s]][tokens[s]]
        p /= p.sum()
        found.append(-(p * np.log(p)).sum())
    return found


@pytest.mark.parametrize("K, switching", ((1, 0), (2, 0), (3, 0.3), (2, 1)))
def test_hidden_chains(K, switching):
    found = data.chains(K, 3, 5, 600, switching, sharpness=2, test_inputs=5)
    T, tokens, component = found["chain"], found["tokens"], found["component"]
    np.testing.assert_allclose(T.sum(-1), 1, rtol=1e-14)
    np.testing.assert_array_equal(tokens[:, 1:], found["y"][:, :-1])
    by_hand = np.mean([entropies(T, row, switching) for row in found["tokens_test"]])
    assert found.attributes["floor_cross_entropy"] == pytest.approx(by_hand, rel=1e-12)
    begin = np.bincount(component[:, 0], minlength=K)
    assert abs(begin - 600 / K).max() <= 5 * np.sqrt(600 / K)
    changed = (component[:, 1:] != component[:, :-1]).mean()
    p = switching * (1 - 1 / K)
    assert abs(changed - p) <= 5 * np.sqrt(p * (1 - p) / component[:, 1:].size)
    for k in range(K):  # letters follow the chain of the component behind them
        at = component == k
        for a in range(3):
            from_a = found["y"][at & (tokens == a)]
            q = T[k, a]
            share = np.bincount(from_a, minlength=3) / len(from_a)
            assert (abs(share - q) < 5 * np.sqrt(q * (1 - q) / len(from_a))).all()


def test_inputs_do_not_depend_on_their_number():
    for law, name in ((lambda P: data.mixture(3, P, 4, noise=0.1), "X"),
                      (lambda P: data.chains(2, 3, 4, P, 0.5), "tokens")):
        few, many = law(3), law(8)
        np.testing.assert_array_equal(few[name], many[name][:3])
        np.testing.assert_array_equal(few["y"], many["y"][:3])


def test_results_have_the_floor_of_their_loss(tmp_path):
    path = str(tmp_path / "x.h5")
    few = {"network.model": "dense", "data.source": "file", "data.file": path, "training.steps": 1,
           "solver.sites": 32, "solver.replicates": 0, "reference.widths": 8, "reference.seeds": 1}
    law = data.mixture(2, 8, 3)
    data.write(path, law)
    assert dmft.solve(few, progress=False).data.attrs["floor"] == law.attributes["floor_mse"]
    other = dmft.solve(few, progress=False, **{"training.loss": "huber"})
    assert "floor" not in other.data.attrs
    law = data.chains(2, 3, 4, 8, test_inputs=2)
    data.write(path, law, force=True)
    few |= {"network.model": "transformer", "network.experts": 0, "network.depth": 1,
            "training.loss": "cross_entropy"}
    for causal in ("yes", "no"):  # a network that sees the letter that is asked for has none
        attrs = dmft.solve(few, progress=False, **{"network.causal": causal}).data.attrs
        assert attrs.get("floor") == (law.attributes["floor_cross_entropy"] if causal == "yes"
                                      else None)

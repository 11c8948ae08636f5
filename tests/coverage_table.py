"""docs/coverage/rows.toml: whether what its rows say was seen is seen.

    python/with tests/coverage_table.py [--update] [ROW ...]      (make coverage-check)
    python/with tests/coverage_table.py --pages                   (the pages, made again from rows)

The commands of a row are run one after the other in a folder of their own with the checkout in it;
same commands are run once. They end with exit code 0, or N where the row says "exit N". Of what
was seen

    `/limit/loss[8]` = .231          a value of the file of the last command (slices: several),
    `rms(/limit/psi[8])` = .1        or of mean, rms, min, max, median, count of several,
    `largest(/limit/psi_runs[:,8])` = .3         the mean over runs of the largest of each,
    `times(/optimum/at[0])` = 1.2 [1.0, 1.4]     the last optimum over the first, with its interval,
    `/limit/tangent`                 a dataset that is there,
    `first.h5:/limit/loss[8]`        of another file than that of the last command,
    "rests"                          what was printed (a quotation in ordinary quotes)

is compared: numbers to one unit of their last digit, which of entries that should be zero is at
least the round-off of the dataset's largest entry. .62(3) is a value with its standard error in
units of the last digit; the error is that of the dataset NAME_se beside NAME, and is known within
half of itself. Every value has one where the file has one above 1e-4 of it, exponents must, and so
has the mean, rms, std or largest of a dataset NAME_runs or /sweep/NAME (the jackknife over runs, or
over points, such as data sets). An optimum, and the objective there, must have its interval of 95
%, .62 [.58, .66]: that of the datasets NAME_low and NAME_high (low and high of at). One that is not
known is refused, with the reason that the file has (its row may give /optimum/least_at), and so is
one whose row does not say of which key it is ("best eta0"). Warnings that errors of a limit are too
small, its mean is biased, or networks are at the edge of stability are quoted behind the word
"warns". --update writes the numbers that are seen into the rows and their pages."""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coverage_rows import ENTRY, NUMBER, ROOT, SEEN, read_rows, write_pages, write_rows

NEEDS_ERROR = re.compile(r"_exponent$|_approach$")
OPTIMUM = re.compile(r"^/optimum/(median_)?(at|objective|shift|factor)$")
UNSEEN = 1e-4  # an error below so much of its value is beyond the digits of the page
WARNED = re.compile("^(?:warning|[a-z]): .*"
                    "(?:few sites|standard errors|self-averaging|a handful|edge of stability)")
ROUND_OFF = 1e-12  # of sums of some thousand products, relative to the largest entry


def output_of(command):
    """The file that a command writes, by the rules of the programs."""
    named = re.search(r"(?:^| )(?:-o|--continue) (\S+)", command)
    if named:
        return named[1]
    ini = re.findall(r"\S+\.ini", command)
    ending = "_compare.h5" if "dmft-compare" in command else ".h5"
    return Path(ini[-1]).stem + ending if ini else ""


def run(commands):
    """Code, text, folder and seconds of commands that are run one after the other."""
    start = time.monotonic()
    folder = tempfile.TemporaryDirectory(prefix="coverage")
    for name in ROOT.iterdir():
        if not name.name.startswith(".") and name.suffix not in (".h5", ".d", ".state"):
            os.symlink(name, Path(folder.name) / name.name)
    text, code = "", 0
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=folder.name, env=environment,
                              capture_output=True, text=True)
        text, code = text + done.stdout + done.stderr, done.returncode
        if code:
            break
    return code, text, folder, time.monotonic() - start


def spoken(text):
    return re.sub(r"\s+", " ", text)


def unit(text):
    """One of the last digit; numbers are written with three, so that 2 is 2.00 and 0 is zero."""
    if text.lstrip("+-").isdigit():
        return 10.0 ** (len(text.lstrip("+-")) - 3) if int(text) else 0.0
    mantissa, _, power = re.sub(r"\(\d+\)", "", text.lower()).partition("e")
    return 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))


def short(value, error=None):
    """Three digits, without what they do not need: .25, -.0512, 1.23e-4; with an error, the digits
    that it leaves: .62(3), -.0(2), 1.2(3)e-4."""
    if error is not None and math.isfinite(error) and error > 0:
        power = math.floor(math.log10(abs(value))) if 0 < abs(value) < 1e-3 > error else 0
        value, error = value / 10.0 ** power, error / 10.0 ** power
        digits = max(0, -math.floor(math.log10(error)))
        digits -= digits > 0 and round(error * 10 ** digits) == 10
        text = f"{value:.{digits}f}({round(error * 10 ** digits)})" + f"e{power}" * (power != 0)
    else:
        text = f"{value:.2e}" if value and abs(value) < 1e-3 else f"{value:.3g}"
        text = re.sub(r"e([-+])0*(\d)", r"e\1\2", text).replace("e+", "e")
    return re.sub(r"^(-?)0\.", r"\1.", text)


def error_in(text):
    """The standard error that .62(3) says, .03; NaN without one."""
    said = re.search(r"\((\d+)\)", text)
    return int(said[1]) * unit(text) if said else math.nan


def reduced(array, reduction, index):
    """The entries that are meant of an array, or the one number that they are reduced to."""
    import numpy as np
    if index:
        array = eval(f"array[{index}]", {"array": array})
    if reduction == "rms":
        return [float(np.sqrt(np.nanmean(np.square(array))))]
    if reduction == "largest":
        return [float(np.mean(np.max(array.reshape(len(array), -1), axis=1)))]
    if reduction == "count":
        return [float(np.sum(np.isfinite(array)))]
    if reduction:
        return [float(getattr(np, "nan" + reduction)(array))]
    return [float(value) for value in np.ravel(array)]


def values_of(file, reduction, path, index):
    """The entries that are meant, and the size below which a difference of them is round-off."""
    import numpy as np
    array = np.asarray(file[path][()], dtype=float)
    return reduced(array, reduction, index), ROUND_OFF * np.nanmax(np.abs(array), initial=0)


def jackknife(file, reduction, path, index):
    """The standard error of a reduction over runs, from what it is without each of them."""
    import numpy as np
    runs = np.asarray(file[path][()], dtype=float)
    without = [reduced(np.delete(runs, run, axis=0), reduction, index) for run in range(len(runs))]
    return float(np.std(without) * np.sqrt(len(runs) - 1))


def spread_over(value, low, high):
    """.62 [.58, .66]: with one digit of half of the interval, or two where they are below 30."""
    if not math.isfinite(low + high):
        return short(value)
    power = math.floor(math.log10(abs(value))) if 0 < abs(value) < 1e-3 else 0
    half = (high - low) / 2 / 10.0 ** power
    digits = max(0, -math.floor(math.log10(half / 3))) if half > 0 else 3
    tail = f"e{power}" if power else ""
    value, low, high = (re.sub(r"^(-?)0\.", r"\1.", f"{one / 10.0 ** power:.{digits}f}{tail}")
                        for one in (value, low, high))
    return f"{value} [{low}, {high}]"


def refused(file, path, index, errors, before):
    """Why the values of this dataset may not be printed, or None. before: what the row says until
    there."""
    if path.startswith("/optimum/"):
        key = file["optimum"].attrs["key"].rpartition(".")[2]
        if f"best {key}" not in before:
            return f'this is the optimum of {key}, and the row does not say "best {key}"'
    optimum = OPTIMUM.match(path)
    if optimum and optimum[2] in ("shift", "factor"):
        there = values_of(file, None, path, index)[0]
        return None if all(map(math.isfinite, there)) else "it is not known"
    if optimum:
        why = values_of(file, None, f"/optimum/{optimum[1] or ''}reason", index)[0]
        if any(why):
            return f"the optimum is not known (reasons {' '.join(f'{one:g}' for one in why)})"
    if NEEDS_ERROR.search(path) and not all(math.isfinite(error) for error in errors):
        return "its error is not known"
    return None


def change_over(file, path, index):
    """The last of several optima over the first, and its interval of 95 %: the quantiles of this
    quotient in the samples of the runs that the file has."""
    import numpy as np
    values = eval(f"array[{index or ':'}]", {"array": file[path][()]})
    samples = eval(f"array[{index or ':'}]", {"array": file[path + "_samples"][()]})
    low, high = np.quantile(samples[-1] / samples[0], [0.025, 0.975], method="nearest")
    return float(values[-1] / values[0]), float(low), float(high)


def entries_of(file, path, index, reduction):
    """The entries that are meant as rows (value,), (value, error) or (value, low, high); what is
    round-off is 0."""
    if reduction == "times":
        return [change_over(file, path, index)]
    seen, floor = values_of(file, reduction, path, index)
    beside, optimum = [], OPTIMUM.match(path)
    if optimum and not reduction:
        kind, name = optimum.groups()
        ends = ("low", "high") if name == "at" else (name + "_low", name + "_high")
        beside = [f"/optimum/{kind or ''}{end}" for end in ends]
    elif not reduction and (path + "_se" in file or NEEDS_ERROR.search(path)):
        beside = [path + "_se"]
    if reduction in ("mean", "rms", "std", "largest") and re.search("_runs$|^/sweep/", path):
        return [(seen[0], jackknife(file, reduction, path, index))]
    seen = [0.0 if abs(value) < floor else value for value in seen]
    rows = zip(seen, *(values_of(file, None, more, index)[0] for more in beside))
    return [row[:1] if len(row) == 2 and abs(row[1]) < max(UNSEEN * abs(row[0]), floor) else row
            for row in rows]


def differs(said, entry):
    """Whether an entry of the page is not what is seen: numbers by more than one unit of their last
    digit, errors by more than half of themselves."""
    numbers = re.findall(NUMBER, said)
    if numbers == ["?"] or len(numbers) != (3 if len(entry) == 3 else 1):
        return True
    seen = entry if len(entry) == 3 else entry[:1]
    far = any(not abs(float(re.sub(r"\(\d+\)", "", one)) - value) <= 1.01 * unit(one)
              for one, value in zip(numbers, seen))
    if len(entry) == 2:
        error = error_in(said)  # NaN, too, where all runs agree by chance (docs/output.md)
        far |= not (abs(error - entry[1]) <= 0.5 * entry[1] + 1.01 * unit(said)
                    or math.isnan(error) and math.isnan(entry[1]))
    return far


def compare(match, folder, output, problems):
    """What the row says of one dataset; returns it as it should be written."""
    import h5py
    reduction, name, path, index, said = match.groups()
    try:
        with h5py.File(folder / (name or output)) as file:
            seen = entries_of(file, path, index, reduction)
            errors = [entry[1] for entry in seen if len(entry) == 2]
            reason = refused(file, path, index, errors, match.string[:match.start()])
    except (OSError, KeyError, IndexError) as error:
        problems.append(f"{path}: {error}")
        return match[0]
    if not said:
        return match[0]
    if reason:
        problems.append(f"{match[0]}: {reason}")
    said = re.findall(ENTRY, said)
    if len(said) != len(seen) and said != ["?"]:
        problems.append(f"{match[0]}: {len(seen)} values are seen")
    written = [spread_over(*entry) if len(entry) == 3 else short(*entry) for entry in seen]
    for one, entry, new in zip(said, seen, written):
        if one != new and differs(one, entry):
            problems.append(f"{match[0]}: {new} is seen")
    return match[0].rpartition(" = ")[0] + " = " + " ".join(written)


def warnings_left(seen, text):
    """Warnings that errors of a limit are too small, its mean is biased, or networks are at the
    edge of stability, as the program and the tables of sweeps print them, of which the row quotes
    nothing behind "warns"."""
    quotes = re.findall(r'"([^"]+)"', seen.partition("warns")[2])
    return [line for line in dict.fromkeys(text.splitlines()) if WARNED.search(line)
            and not any(spoken(quote) in spoken(line) for quote in quotes)]


def check(row, result):
    """Problems, and what the row says with the numbers that are seen."""
    code, text, folder, _ = result
    problems, seen = [], row.seen
    if code != row.exit_code():
        return [f"exit code {code}\n{text[-600:]}"], seen
    for quote in re.findall(r'"([^"]+)"', seen):
        if spoken(quote) not in spoken(text):
            problems.append(f'"{quote}" is not printed')
    problems += [f"it does not repeat: {line}" for line in warnings_left(seen, text)]
    output = output_of(row.commands[-1])
    return problems, SEEN.sub(lambda match: compare(match, Path(folder.name), output, problems),
                              seen)


def main(arguments):
    parser = argparse.ArgumentParser(description="Runs the commands of rows and compares what they "
                                     "show; all rows take three quarters of an hour.")
    parser.add_argument("row", type=int, nargs="*", help="none: all rows")
    parser.add_argument("--update", action="store_true", help="write new values into the rows")
    parser.add_argument("--pages", action="store_true", help="only make the pages from the rows")
    asked = parser.parse_args(arguments)
    rows = read_rows()
    if asked.pages:
        write_pages(rows)
        return 0
    table = [row for row in rows if row.commands and (not asked.row or row.number in asked.row)]
    distinct = list(dict.fromkeys(row.commands for row in table))
    failed, new = 0, {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {commands: pool.submit(run, commands) for commands in distinct}
        for row in table:
            problems, seen = check(row, running[row.commands].result())
            new[row.number] = seen
            for problem in problems:
                print(f"row {row.number}: {problem}", flush=True)
            failed += bool(problems)
    seconds = {running[row.commands].result()[3]: row.number for row in table}
    if asked.update:  # of rows as they are now: somebody may have written others meanwhile
        rows = read_rows()
        for row in rows:
            row.seen = new.get(row.number, row.seen)
        write_rows(rows)
        write_pages(rows)
    print(f"{len(table)} rows, {len(distinct)} runs, {failed} rows fail; the longest runs: "
          + ", ".join(f"row {seconds[one]} {one:.0f} s" for one in sorted(seconds)[:-6:-1]))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""docs/gallery.md: figures of the papers as small machines see them. studies/gallery.toml has a
table for each picture; its data are those of studies/NAME.ini, by dmft-sweep; the function NAME in
one of the modules beside this draws them and says what is seen.

    gallery.py NAME ...        make study NAME=...: NAME.h5, NAME.d and NAME.png in this folder
    gallery.py --all           make gallery: data in build/gallery, pictures and docs/gallery.md,
                               and studies/kept, what these are drawn from (kept.py); with names
                               the data of these alone
    gallery.py --kept NAME ... make pictures: pictures of docs/gallery, from studies/kept; without
                               names all that are there and, where all are, docs/gallery.md with
                               the core-minutes that it says

What was done is not done again, since dmft-sweep keeps the units of a sweep. DMFT_HOME says where
dmft-sweep is (default: the checkout).
"""
from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]

import matplotlib  # noqa: E402

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from PIL import Image  # noqa: E402

import dmft  # noqa: E402
import checks  # noqa: E402
import condensing  # noqa: E402
import dynamics  # noqa: E402
import kept  # noqa: E402
import language  # noqa: E402
import mixtures  # noqa: E402
import routers  # noqa: E402
import scales  # noqa: E402
import scaling  # noqa: E402
import spikes  # noqa: E402
import verdict  # noqa: E402
from dmft.plot.style import STYLE  # noqa: E402

MODULES = scaling, checks, scales, routers, mixtures, dynamics, language, condensing, spikes
PAPERS = """S: *How to Scale Mixture-of-Experts*; F: *Why Routers Freeze*;
J: *Hyperparameter Transfer with Mixture-of-Experts Layers*;
M: *mu-Parametrization for Mixture of Experts*; B: Bordelon's slides."""
VERDICT_RULE = """**Verdicts.** The plotting code computes every sentence below, and its verdict,
from the data, by one rule (studies/verdict.py). A sentence is *shown* where the whole 95 %
interval of what it claims lies inside of the claim, and *contradicted* where it lies outside: the
numbers exclude the claim, in this setting. Otherwise the numbers *cannot tell*, as also where an
optimum is not known or a run failed. A sentence on several quantities is shown where all of them
lie inside, and contradicted where one lies outside; among many, it must do so by a wider interval.
An exponent agrees with a claimed one within 1/4. A best rate transfers if it changes by less than
25 per cent from the smallest width to the largest, and rises or falls if it changes by more than
10, by a line through all widths; of a single pass the same is asked of the factor in the rate by
which the whole curve of the loss of the largest width is laid on that of the smallest. *Seen* are
numbers of which nothing is claimed.""".replace("\n", " ")
READING = """**How to read the sentences.** Numbers in round brackets are standard errors in the
last digit; square brackets, bands and bars are 95 % intervals. A star marks the best value of the
grid where no optimum is known: it lies at the end of the grid or beside runs that failed, or noise
decides it. In panels of best rates its point is hollow. A picture draws at most three of the
widths; means of runs that diverged may leave its frame. *Exponents* are slopes of the logarithm of
a root mean square against ln N. A matrix W makes three parts of a signal. The
*initial* part is W(0) applied to its input at the start; the *propagating* part is W(0) applied
to how this input has changed; the *effective* part is what W has learned, applied to its input.
Of what the experts add up to, A1 is the initial part; A21 and A22 pass through the initial W_3
and carry what the first layer and W_2 have learned; A3 is what W_3 has learned. Backward, A4
passes through the initial W_2 and W_3, A5 through the initial W_2 and what W_3 has learned, A6
the reverse, and E through what both have learned. b is the gradient of the hidden units of an
expert; its first index says whether it passes through the initial W_3 (0) or through what W_3 has
learned (d), its second the same of the read-out
([output.md](output.md#coordinate-check)).""".replace("\n", " ")
KEPT = os.path.join(HERE, "kept")
PICTURES = os.path.join(ROOT, "docs", "gallery")
LARGEST = 120_000  # bytes of a picture
PAGE = os.path.join(ROOT, "docs", "gallery.md")
LARGEST_KEPT = 1_000_000  # of what studies/kept has of a picture
VERDICTS = {True: "shown", None: "cannot tell", False: "contradicted"}
WORDS = VERDICTS | {verdict.SEEN: "seen"}


def table() -> dict[str, dict]:
    """{NAME: title, figures, claim, data, and, where there is more to say, note}."""
    with open(os.path.join(HERE, "gallery.toml"), "rb") as file:
        found = tomllib.load(file)
    return {name: {"data": [name]} | entry for name, entry in found.items()}


def ini_of(study: str) -> str:
    return os.path.join(HERE, study + ".ini")


def run(study: str, folder: str, more=(), jobs: int = 1) -> float:
    """Runs the sweep, as far as it is not done; seconds of processor time."""
    path, ini = os.path.join(folder, study + ".h5"), ini_of(study)
    program = dmft.program.find("dmft-sweep")
    with open(os.path.join(folder, study + ".log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen([program, "--quiet", "--force", "--jobs", str(jobs), "-o", path,
                                    ini, *more], stdout=log, stderr=subprocess.STDOUT,
                                   env=os.environ | {"OMP_NUM_THREADS": "1"})
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        with open(log.name, encoding="utf-8") as said:
            raise SystemExit(f"gallery.py: {study}: {said.read().strip()}")
    return usage.ru_utime + usage.ru_stime


def draw(name: str, entry: dict, folder: str, out: str, dpi: int = 150):
    """The picture of a study. Gives what is seen: (whether it is what the paper says, True, False
    or None as by verdict.judge, or verdict.SEEN; a sentence); and the lines of a table, of a study
    that has one."""
    function = next(getattr(module, name) for module in MODULES if hasattr(module, name))
    runs = [dmft.load(os.path.join(folder, study + ".h5")) for study in entry["data"]]
    with plt.rc_context(STYLE | {"savefig.dpi": dpi}):
        figure, seen, *table = function(*runs)
        figure.savefig(out)
    plt.close("all")
    few = Image.open(out).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1,
                                                  dither=Image.Dither.NONE)
    few.save(out, optimize=True)
    if os.path.getsize(out) > LARGEST:
        raise SystemExit(f"gallery.py: {out} has {os.path.getsize(out)} bytes, more than {LARGEST}")
    return [(good if good in (None, verdict.SEEN) else bool(good), " ".join(sentence.split()))
            for good, sentence in seen], [line for lines in table for line in lines]


def kept_of(name: str) -> str:
    return os.path.join(KEPT, name + ".tar.xz")


def draw_and_keep(name: str, entry: dict, folder: str, out: str):
    with kept.Reading() as reading:
        drawn = draw(name, entry, folder, out)
    kept.keep(reading, folder, kept_of(name))
    size = os.path.getsize(kept_of(name))
    if size > LARGEST_KEPT:
        os.remove(kept_of(name))
        print(f"{name}: its numbers take {size} bytes and are not kept")
    return drawn


def draw_kept(name: str, entry: dict, out: str):
    with kept.unpacked(kept_of(name)) as folder:
        return draw(name, entry, folder, out)


def tell(out: str, seen) -> None:
    print(out, *(f"\n  {WORDS[good]}: {sentence}" for good, sentence in seen))


def together(seen) -> str:
    """shown, where every claim is; otherwise how many claims are what."""
    counts = Counter(good for good, _ in seen if good in VERDICTS)
    if len(counts) == 1:
        return VERDICTS[next(iter(counts))]
    return ", ".join(f"{counts[good]} {word}" for good, word in VERDICTS.items() if counts[good])


def section(name: str, entry: dict, seen, rows, minutes: float) -> list[str]:
    """Of docs/gallery.md."""
    lines = [f"## {name}", "", f"**{entry['title']}** ({entry['figures']})", "",
             f"![{entry['title']}](gallery/{name}.png)", "", f"The claim: {entry['claim']}", "",
             f"Seen here ({', '.join(f'`studies/{study}.ini`' for study in entry['data'])}, "
             f"{minutes:.1f} core-minutes):", ""]
    lines += [f"- {WORDS[good] if good else f'**{WORDS[good]}**'}: "
              + sentence.replace("*", r"\*") for good, sentence in seen]  # two stars slant a text
    lines += ["", entry["note"].strip()] if "note" in entry else []
    return lines + (["", *rows] if rows else [])


def minutes_of(entries, costs) -> tuple[dict[str, float], float]:
    """Core-minutes of each picture, and of all of them."""
    return {name: sum(costs.get(study, 0) for study in entry["data"]) / 60
            for name, entry in entries.items()}, sum(costs.values()) / 60


def minutes_said(text: str) -> tuple[dict[str, float], float]:
    """The same, as docs/gallery.md says it."""
    return {name: float(one) for name, one in re.findall(
        r"(?ms)^## (\w+)\n.*?([\d.]+) core-minutes\):$", text)}, \
        float(re.search(r"([\d.]+) core-minutes of runs", text)[1])


def page(entries, seen, tables, minutes, total) -> str:
    """docs/gallery.md."""
    lines = ["# Figures of the papers, on a small machine", "", PAPERS, "",
             f"`make gallery` makes all of it, {total:.0f} core-minutes of runs, shared over the "
             "cores, and two of drawing; it goes on where it was stopped. `make study "
             "NAME=...` makes one, and `make pictures` draws in seconds what studies/kept has the "
             "numbers of. Networks are small and the data are toys: a claim is about how "
             "something depends on the width, the depth or a rate, and this dependence is what is "
             "measured.",
             "", VERDICT_RULE, "", READING,
             "",
             "| study | figures | what it shows | verdict |", "| --- | --- | --- | --- |"]
    lines += [f"| [`{name}`](#{name}) | {entry['figures']} | {entry['title']} | "
              f"{together(seen[name])} |" for name, entry in entries.items()]
    for name, entry in entries.items():
        lines += ["", *section(name, entry, seen[name], tables[name], minutes[name])]
    return "\n".join(lines).rstrip() + "\n"


def from_kept(entries, names=(), spent=()) -> None:
    """Pictures from studies/kept; of all of them, the page, too. spent: {picture: core-minutes} of
    those whose sweeps were run again; of the others the page says them."""
    there = [name for name in entries if os.path.exists(kept_of(name))]
    seen, tables = {}, {}
    for name in names or there:
        if name not in there:
            raise SystemExit(f"gallery.py: no numbers of {name} are kept; there are those of "
                             f"{' '.join(there)}; make study NAME={name} runs it")
        out = os.path.join(PICTURES, name + ".png")
        seen[name], tables[name] = draw_kept(name, entries[name], out)
        tell(out, seen[name])
    if not names and there == list(entries):
        with open(PAGE, encoding="utf-8") as file:
            minutes, total = minutes_said(file.read())
        spent = dict(spent)
        total += sum(new - minutes.get(name, 0) for name, new in spent.items())
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page(entries, seen, tables, minutes | spent, total))


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="gallery.py", description="Pictures of studies/.")
    parser.add_argument("name", nargs="*")
    parser.add_argument("--all", action="store_true", help="every picture, and docs/gallery.md")
    parser.add_argument("--kept", action="store_true", help="pictures from studies/kept, no runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    options = parser.parse_args(arguments)
    entries = table()
    unknown = [name for name in options.name if name not in entries]
    if unknown or not (options.name or options.all or options.kept):
        raise SystemExit(f"gallery.py: no study {' '.join(unknown)}; there are {' '.join(entries)}")
    if options.kept:
        from_kept(entries, options.name)
        return
    folder = os.path.join(ROOT, "build", "gallery") if options.all else "."
    os.makedirs(folder, exist_ok=True)
    known = os.path.join(folder, "costs.json")
    costs = {}
    if os.path.exists(known):
        with open(known, encoding="utf-8") as file:
            costs = json.load(file)
    names = options.name or list(entries)
    studies = list(dict.fromkeys(study for name in names for study in entries[name]["data"]))

    def one(study):
        spent = run(study, folder, jobs=1 if len(studies) > 1 else options.jobs)
        if spent > 1:
            costs[study] = costs.get(study, 0) + spent

    with ThreadPoolExecutor(options.jobs) as pool:
        for _ in pool.map(one, sorted(studies, key=lambda study: -costs.get(study, 0))):
            pass
    if options.all:
        with open(known, "w", encoding="utf-8") as file:
            json.dump(costs, file, indent=1)
    seen, tables = {}, {}
    for name in names:
        out = os.path.join(PICTURES if options.all else ".", name + ".png")
        drawn = (draw_and_keep if options.all else draw)(name, entries[name], folder, out)
        seen[name], tables[name] = drawn
        tell(out, seen[name])
    if options.all and options.name:
        minutes, _ = minutes_of(entries, costs)
        from_kept(entries, spent={name: minutes[name] for name in names})
    elif options.all:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page(entries, seen, tables, *minutes_of(entries, costs)))


if __name__ == "__main__":
    main()

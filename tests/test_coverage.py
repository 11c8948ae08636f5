"""docs/coverage/rows.toml is whole: rows, verdicts, commands, reasons; the pages are made from it.
What the commands show is checked by make coverage-check (tests/coverage_table.py)."""

import math
import re
import tomllib

import numpy as np
import pytest

import coverage_rows
import coverage_table as table

ROWS = 265


@pytest.fixture(scope="module")
def rows():
    return coverage_rows.read_rows()


def test_rows_are_whole(rows):
    assert [row.number for row in rows] == list(range(1, ROWS + 1))
    for row in rows:
        assert row.verdict in coverage_rows.VERDICTS, row.number
        assert row.section in coverage_rows.SECTIONS, row.number
        assert row.source and row.claim and row.seen, row.number
        assert row.commands or row.verdict == "not there", f"row {row.number} has no command"
        assert "?" not in row.seen and "TODO" not in row.seen, row.number
        if row.verdict != "shown":
            assert len(re.sub(table.SEEN, "", row.seen)) > 40, f"row {row.number} gives no reason"


def test_pages_are_made_from_the_rows(rows):
    for path, text in coverage_rows.pages(rows).items():
        assert path.read_text(encoding="utf-8") == text, \
            f"{path.name}: python/with tests/coverage_table.py --pages makes it again"


def test_rows_are_written_as_they_are_read(rows, tmp_path, monkeypatch):
    """--update changes numbers and nothing else."""
    copy = tmp_path / "rows.toml"
    copy.write_text(coverage_rows.ROWS.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(coverage_rows, "ROWS", copy)
    coverage_rows.write_rows(rows)
    assert coverage_rows.read_rows() == rows


NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
INTERVAL = re.compile(rf"({NUMBER}) \[({NUMBER}), ({NUMBER})\]")


def of_studies():
    """Values with their intervals that the pages of studies and the tables behind them have."""
    docs = coverage_rows.ROOT / "docs"
    for page in (docs / "gallery.md", *docs.glob("findings*.md"), *(docs / "theory").glob("*.md")):
        yield from INTERVAL.findall(page.read_text().replace("\n", " "))
    for path in (coverage_rows.ROOT / "studies" / "findings").glob("*.csv"):
        for line in path.read_text().splitlines():
            cells = line.split(",")
            for three in zip(cells, cells[1:], cells[2:]):
                if all(re.fullmatch(NUMBER, cell) for cell in three):
                    yield three


def test_intervals_of_studies_are_those_of_their_pages(rows):
    """What a row says of a study, which no command of the page makes again, the study says."""
    there = np.array([[float(one) for one in three] for three in of_studies()])
    for row in rows:
        for said in INTERVAL.findall(re.sub(table.SEEN, " ", row.seen)):
            apart = np.abs(there - [float(one) for one in said])
            near = (apart <= [0.5 * table.unit(one) * (1 + 1e-9) for one in said]).all(1)
            assert near.any(), f"row {row.number}: {said[0]} [{said[1]}, {said[2]}] is of no study"


def numbers_of(text):
    return [(one, error, float(one))
            for one, error in re.findall(r"(?<![\w.])(-?\d*\.\d+)(?:\((\d+)\))?", text)]


def sections_of_studies():
    """What pages say of each study: sections of the gallery, and those of the findings that name
    an ini or a table of this name behind "Files:"."""
    docs = coverage_rows.ROOT / "docs"
    gallery = (docs / "gallery.md").read_text()
    there = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", gallery, re.M | re.S))
    for page in docs.glob("findings*.md"):
        for section in re.findall(r"^## (.*?)(?=^## |\Z)", page.read_text(), re.M | re.S):
            files = re.search(r"^Files: (.*)", section, re.M)
            for name in re.findall(r"(\w+)\.(?:ini|csv)", files[1] if files else ""):
                there[name] = there.get(name, "") + section
    return there


def sentences_of_studies(row, there):
    """The sentences of a row with the studies that each names, in words or by a link to them."""
    for sentence in re.split(r"(?<=[.;]) ", re.sub(table.SEEN, " ", row.seen)):
        studies = [name for name in re.findall(r"`([a-z]\w+)`", sentence) if name in there]
        studies += ["images"] * ("#how-to-scale-on-images" in sentence)
        if studies:
            yield sentence, studies


def test_numbers_of_studies_are_those_of_their_sections(rows):
    """Decimals of a sentence that names studies, and their errors, are of the sections of these."""
    sections = sections_of_studies()
    for row in rows:
        for sentence, studies in sentences_of_studies(row, sections):
            there = [one for name in studies for one in numbers_of(sections[name])]
            for said, error, value in numbers_of(sentence):
                assert any(abs(value - seen) <= 0.5 * table.unit(said) * (1 + 1e-9)
                           and (not error or table.error_in(f"{said}({error})") ==
                                table.error_in(f"{text}({its})")) for text, its, seen in there), \
                    f"row {row.number}: {said} is not on the page of {', '.join(studies)}"


def test_commands_name_what_is_there(rows):
    for row in rows:
        for command in row.commands:
            program, *words = command.split()
            assert program in ("./dmft-solve", "./dmft-compare", "./dmft-sweep"), command
            inis = [word for word in words if word.endswith(".ini")]
            assert len(inis) == 1 and (coverage_rows.ROOT / inis[0]).is_file(), command


def test_inis_serve_a_row():
    used = set(re.findall(r"docs/coverage/(\w+\.ini)", coverage_rows.ROWS.read_text()))
    folder = coverage_rows.ROOT / "docs" / "coverage"
    for ini in folder.glob("*.ini"):
        used |= set(re.findall(r"^include = (\S+)", ini.read_text(), re.M))
    assert {ini.name for ini in folder.glob("*.ini")} == used


def values_of(row, key):
    """What the commands of a row set for a key, each value once; "" where one says nothing."""
    return {value for command in row.commands
            for value in coverage_rows.settings(command).get(key, "").split() or [""]}


NAMED = (  # words of a claim, the key that they are about, and values of which a command has one
    (r"\bAdam\b", "training.optimizer", {"adam", "adamw"}),
    (r"\bAdamW\b", "training.optimizer", {"adamw"}),
    (r"\bSGD\b", "training.optimizer", {"", "gd"}),
    (r"\bmuP\b", "network.parameterization", {"mup"}),
    (r"\bMSSP\b", "network.parameterization", {"", "mssp"}),
    (r"\bSP\b", "network.parameterization", {"sp"}),
    (r"\bsimP\b", "network.parameterization", {"simp"}),
    (r"\bsoftmax\b", "network.gate", {"", "softmax"}),
    (r"w4=0|zero read-out", "network.read_out", {"zero"}),
    (r"w4=1/N", "network.read_out", {"", "normal"}),
    (r"\bGeLU\b", "network.activation", {"gelu"}),
)


@pytest.mark.parametrize("words, key, allowed", NAMED)
def test_commands_set_what_a_claim_names(rows, words, key, allowed):
    asked = [row for row in rows if row.commands and re.search(words, row.claim)]
    assert asked
    for row in asked:
        assert values_of(row, key) & allowed, f"row {row.number} says {words}: {key}"


def test_claims_of_a_selection_select(rows):
    for row in rows:
        if row.verdict == "shown" and re.search(r"\btop-(K|1|2)\b", row.claim):
            assert any(float(share or 1) < 1 for share in values_of(row, "network.rho")) \
                or "lua" in row.seen, f"row {row.number} selects no experts"


# Rows with a selection of which they do not say yet how it differs between inputs or changes.
SILENT = {230}
ACTS = {"flips", "load", "load2", "gate_load", "qstar", "loss_runs"}


def test_claims_of_a_selection_say_what_it_does(rows):
    silent = {row.number for row in rows if row.verdict == "shown"
              and re.search(r"\btop-(K|1|2)\b|token choice", row.claim)
              and not ACTS & {path.rpartition("/")[2] for _, _, (_, path, _), _ in said_of(row)}}
    assert silent <= SILENT


def test_networks_that_select_say_what_the_selection_does(rows):
    for row in rows:
        shares = {float(share) for share in values_of(row, "network.rho") if share}
        if row.verdict == "shown" and shares and min(shares) < 1:
            assert re.search(r"select|active|come into use|/flips|/load", row.seen), row.number


LARGE_EPS = 1e-4  # above gradients of the networks here; the papers have 1e-8 and 1e-12


def large_eps(values):
    """The smallest eps of Adam where it is above LARGE_EPS; the program's default is .05."""
    eps = min(map(float, values.get("training.eps", "0.05").split()))
    return eps if values.get("training.optimizer", "").startswith("adam") and eps > LARGE_EPS else 0


def says_eps(text, allowed):
    return {float(one) for one in re.findall(rf"\beps = ({NUMBER})", text)} & allowed


def test_adam_has_a_small_eps_or_the_row_says_which(rows):
    for row in rows:
        for command in row.commands:
            values = coverage_rows.settings(command)
            if values.get("training.optimizer", "").startswith("adam"):
                assert "training.eps" in values, f"row {row.number} does not set Adam's eps"
                assert not large_eps(values) or says_eps(row.seen, {large_eps(values)}), row.number


def test_rows_say_which_eps_the_adam_of_their_studies_has(rows):
    studies, sections = coverage_rows.ROOT / "studies", sections_of_studies()
    gallery = tomllib.loads((studies / "gallery.toml").read_text())
    for row in rows:
        for sentence, names in sentences_of_studies(row, sections):
            for name in names if "gradient descent" not in sentence or "Adam" in sentence else ():
                inis = [studies / f"{one}.ini" for one in gallery.get(name, {}).get("data", [name])]
                inis += [studies / "findings" / f"{name}.ini"]
                eps = {large_eps(coverage_rows.of_ini(ini)) for ini in inis if ini.exists()} - {0}
                assert not eps or says_eps(row.seen, eps), f"row {row.number}: {name} has eps {eps}"


def entry_of(text):
    """Value and error of .62(3), or of .62 [.58, .66] a quarter of the interval."""
    value, _, interval = re.sub(r"\(\d+\)", "", text).partition(" [")
    ends = [float(one) for one in interval.rstrip("]").split(", ") if one]
    return float(value), (ends[1] - ends[0]) / 4 if ends else table.error_in(text)


def said_of(row):
    """The numbers of a row: what its command sets, the dataset (without reduction) and its entries,
    as pairs (value, error)."""
    sets = {table.output_of(command): coverage_rows.settings(command) for command in row.commands}
    for match in table.SEEN.finditer(row.seen):
        reduction, name, path, index, said = match.groups()
        if said:
            name = name or table.output_of(row.commands[-1])
            yield sets[name], reduction, (name, path, index), [
                entry_of(one) for one in re.findall(table.ENTRY, said)]


LEAST = {"limit": ("solver.replicates", 4), "reference": ("reference.seeds", 8),
         "compare": ("reference.seeds", 8), "optimum": ("reference.seeds", 8),
         "sweep": ("reference.seeds", 8)}


def test_errors_are_of_enough_runs(rows):
    """An error of 4 replicates is itself known within 40 per cent, one of 8 networks within 27;
    intervals of optima are quantiles over networks."""
    for row in rows:
        for sets, _, (_, path, _), entries in said_of(row):
            kind = next((part for part in path.split("/") if part in LEAST), None)
            if row.verdict == "shown" and kind and any(math.isfinite(e) for _, e in entries):
                limits = kind == "sweep" and not sets.get("reference.widths")
                key, least = LEAST["limit" if limits else kind]
                assert int(sets.get(key, least)) >= least, f"row {row.number}: {path}"


def test_reductions_have_errors_or_are_bounds(rows):
    """Of entries of one run nobody knows how far they vary together; of runs the check does."""
    bare = {row.number for row in rows for _, reduction, _, entries in said_of(row)
            if row.verdict == "shown" and reduction in ("mean", "rms", "std", "largest")
            and not math.isfinite(entries[0][1])}
    assert not bare


def test_networks_are_of_widths_that_are_run(rows):
    """Numbers that were of another width before a command was changed are found at once."""
    for row in rows:
        for sets, _, (_, path, _), _ in said_of(row):
            width = re.search(r"/reference/N(\d+)/", path)
            assert not width or int(width[1]) in map(int, sets["reference.widths"].split()), \
                f"row {row.number}: {path} is of a width that its command does not run"


def test_exponents_are_of_three_widths(rows):
    for row in rows:
        for sets, _, (_, path, _), _ in said_of(row):
            if re.search(r"_(exponent|approach)$", path):
                assert len(sets["reference.widths"].split()) >= 3, f"row {row.number}: {path}"


APART = {30: "Adam with a small eps in muP, whose first gradients vanish with the width",
         32: "the same in Regime III",
         62: "the same of a softmax router, in one of its settings",
         196: "its selection follows fluctuations, of sites in the limit, and the row says so",
         232: "initial logits of these networks are as large as the biases"}


def test_networks_come_to_their_limit(rows):
    """The widest networks that a row has beside a limit are within four errors of it, or nearer
    than the narrowest by the root of the width at least."""
    pairs = 0
    for row in rows:
        beside = {}
        for _, reduction, (name, path, index), entries in said_of(row):
            found = re.fullmatch(r"(/\w+)?/(limit|reference/N(\d+))/(\w+)", path)
            if found and not reduction:
                widths = beside.setdefault((name, found[1], found[4], index), {})
                widths[int(found[3] or 0)] = entries
        for (_, _, series, _), widths in beside.items():
            limit, last = widths.pop(0, ()), max(widths, default=0)
            for place, (value, error) in enumerate(limit if widths else ()):
                its, its_error = widths[last][place]
                noise = math.hypot(*(e for e in (error, its_error) if math.isfinite(e)))
                first = min(widths)
                far = abs(widths[first][place][0] - value) * (first / last) ** 0.5
                allowed = max(4 * noise, far + 3 * noise if first < last else 0)
                pairs += noise > 0
                if row.number not in APART:
                    assert noise == 0 or abs(its - value) <= allowed, \
                        f"row {row.number}: {series} of N = {last} is {its}, the limit {value}"
    assert pairs > 300


def test_the_list_of_rows_with_a_zero_read_out_is_whole(rows):
    """Row 249 tells which rows have muP with one."""
    said = next(row.seen for row in rows if row.number == 249).partition("read-out of zero: ")[2]
    begins = [row.number for row in rows if any(
        "mup" in sets.get("network.parameterization", "").split()
        and "zero" in sets.get("network.read_out", "")
        for sets in map(coverage_rows.settings, row.commands))]
    assert said.startswith(", ".join(map(str, begins)) + "; "), begins

def test_studies_that_are_named_exist(rows):
    there = set(tomllib.loads((coverage_rows.ROOT / "studies" / "gallery.toml").read_text()))
    for row in rows:
        assert set(re.findall(r"study `([a-z]\w+)`", row.seen)) <= there, row.number


def test_numbers_are_compared_to_their_last_digit():
    assert table.unit("1.25e-3") == pytest.approx(1e-5) and table.unit(".40") == pytest.approx(.01)
    assert table.unit("2") == pytest.approx(.01) and table.unit("0") == 0
    for value, text in ((0.25, ".25"), (-0.0512345, "-.0512"), (1e-9, "1.00e-9"), (12.34, "12.3"),
                        (0, "0"), (float("nan"), "nan"), (-1.5, "-1.5"), (0.0001234, "1.23e-4")):
        assert table.short(value) == text
    match = table.SEEN.search("`rms(a.h5:/limit/psi[8, :])` = .1 -2e-3")
    assert match.groups() == ("rms", "a.h5", "/limit/psi", "8, :", ".1 -2e-3")
    runs = np.array([[[1, 5], [2, 3]], [[1, 2], [0, 9]]])  # run, time, block
    assert table.reduced(runs, "largest", ":, -1") == [6]


def test_warnings_of_a_limit_are_to_be_quoted():
    few = "warning: too few sites for 4 replicates (experts 64): with 256 or more of each kind"
    mark = "u: random vectors of the limit could not all be made orthogonal: it has too few sites"
    edge = "warning: at the edge of stability: from t = 5 on the variance of f over networks goes"
    text = f"note: more sites give smaller standard errors\n{few}\nwarning: no profile\n{mark}\n"
    assert table.warnings_left("it stays", edge) == [edge]
    assert table.warnings_left("it stays", text) == [few, mark]
    assert table.warnings_left('"too few sites for 4 replicates", which it warns of', text) == \
        [few, mark]
    assert table.warnings_left('it warns of "too few sites for 4 replicates"', text) == [mark]
    assert not table.warnings_left('it warns of "too few sites"', text)


def test_outputs_are_named_as_the_programs_name_them():
    assert table.output_of("./dmft-solve --force docs/coverage/r1.ini --a.b=1") == "r1.h5"
    assert table.output_of("./dmft-compare docs/coverage/r1.ini") == "r1_compare.h5"
    assert table.output_of("./dmft-solve data/r1.ini -o x.h5") == "x.h5"


def problems_of(said, folder, **datasets):
    """What compare finds in a row that says this of a file with these datasets."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "seen.h5", "w") as file:
        for name, value in datasets.items():
            file[name.replace("__", "/")] = value
        file.require_group("optimum").attrs["key"] = "training.eta0"
    problems = []
    table.compare(table.SEEN.search(said), folder, "seen.h5", problems)
    return problems


def test_optima_and_exponents_come_with_their_errors(tmp_path):
    optimum = {"at": [0.5, 0.7], "low": [0.46, 0.1], "high": [0.55, 9], "reason": [0, 2],
               "objective": [0.02, 0.03], "objective_low": [0.01, 0.02],
               "objective_high": [0.04, 0.05], "least_at": [0.5, 0.75]}
    optimum = {"optimum__" + key: value for key, value in optimum.items()}
    for said in ("best eta0 `/optimum/at[0]` = .50 [.46, .55]",
                 "best eta0 of the grid `/optimum/least_at` = .5 .75",
                 "best eta0, loss there `/optimum/objective[0]` = .020 [.010, .040]"):
        assert not problems_of(said, tmp_path, **optimum), said
    for said, wrong in (("best eta0 `/optimum/at[1]` = .70 [.10, 9.0]", "is not known (reasons 2)"),
                        ("best depth `/optimum/at[0]` = .50 [.46, .55]", "optimum of eta0"),
                        ("best eta0 `/optimum/at[0]` = .50", "is seen"),
                        ("best eta0 `/optimum/at[0]` = .50 [.40, .55]", "is seen"),
                        ("best eta0 `/optimum/objective[0]` = .020", "is seen")):
        assert any(wrong in problem for problem in problems_of(said, tmp_path, **optimum)), said
    assert table.spread_over(0.62, 0.58, 0.66) == ".62 [.58, .66]"
    assert table.spread_over(1.4e-4, 1.2e-4, 1.7e-4) == "1.40e-4 [1.20e-4, 1.70e-4]"
    slope = {"compare__A1_exponent": [-0.5], "compare__A1_exponent_se": [0.2]}
    assert not problems_of("`/compare/A1_exponent[0]` = -.5(2)", tmp_path, **slope)
    assert problems_of("`/compare/A1_exponent[0]` = -.5", tmp_path, **slope)


def test_round_off_is_zero_on_every_machine(tmp_path):
    assert not problems_of("`/cross` = .43 0", tmp_path, cross=[0.43, -2.6e-18])
    assert problems_of("`/cross` = .43 0", tmp_path, cross=[0.43, 2e-9])


def test_numbers_are_written_with_the_digits_of_their_errors():
    for value, error, text in ((0.6234, 0.031, ".62(3)"), (-0.0157, 0.2, "-.0(2)"),
                               (1.234e-4, 3e-5, "1.2(3)e-4"), (6e-4, 0.03, ".00(3)"),
                               (1.08, 0.0099, "1.08(1)"), (12.4, 3.2, "12(3)"),
                               (0.5, float("nan"), ".5")):
        assert table.short(value, error) == text


def test_an_error_that_nobody_knows_is_none_on_the_page(tmp_path):
    """Of a load that all runs agree on (docs/output.md)."""
    agreed = {"limit__load": [0.33333], "limit__load_se": [float("nan")]}
    assert not problems_of("`/limit/load[0]` = .334", tmp_path, **agreed)
    assert problems_of("`/limit/load[0]` = .333(5)", tmp_path, **agreed)
    assert problems_of("`/limit/load[0]` = .31", tmp_path, **agreed)

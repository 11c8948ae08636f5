#!/usr/bin/env python3
"""Mutants: what the tests would not notice.  make mutants COUNT=300 SEED=1

Each mutant is the program with one small fault in kernels, models, integrators or solver. In a copy
of the tree its file is compiled and the program linked as a shared library, which the test programs
load; those run until one fails, in an order of what is likely to kill it and quick (a dropped check
of an error also test_faults at every place within the dropped call). Results are appended to
build/mutants/results.jsonl: a second call goes on where the first was stopped. A mutant whose
object code is that of the original is left out, and so is one that does not compile. Those of
tests/equivalent.tsv are equivalent, for the reason given there, and are not run.
"""
import argparse
import collections
import difflib
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

from mutations import HOME, chosen, every_fault, tracked
import reach

WORK = HOME / 'build' / 'mutants'
RESULTS = WORK / 'results.jsonl'
BUILD = 'build/release'
SHARED = f'{BUILD}/shared'
PROGRAMS = [f'{BUILD}/libprogram.so'] + [f'{SHARED}/dmft-{name}'
                                         for name in ('solve', 'sweep', 'compare')]
# Tests that have the program inside, or start programs that have: of tests/tests.mk.
RULES = (HOME / 'tests' / 'tests.mk').read_text()
WHOLE = {'faults', *re.search(r'^WHOLE := (.*)$', RULES, re.M)[1].split()}
# Bytes that a runaway mutant may reserve (the emulated device takes 8 GB), and write.
MEMORY, FILE = 24 << 30, 1 << 30
# Files of tests in Python that judge what no test in C does.
IN_PYTHON = ['sweep.py', 'sweep_grid.py', 'study.py', 'include.py', 'cli_files.py', 'screen.py',
             'compare.py', 'cli.py']
QUICK = 5.  # seconds, until it is known how long a test takes


# --- a mutant -------------------------------------------------------------------------------------

def limited(seconds):
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    return limit


def program_of(test):
    return f'{BUILD}/test_{test}'


def words_of(test):
    if test in IN_PYTHON:
        return ['tests/python.sh', f'tests/test_{test}', '-x']
    return [program_of(test)]


def run(tree, test, arguments, cpu, wall):
    """(exit code or None after a time, seconds of processors)."""
    environment = dict(os.environ, OMP_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1',
                       DMFT_HOME=SHARED if test in IN_PYTHON else BUILD,
                       DMFT_SOLVE=f'{SHARED}/dmft-solve')
    before = os.times()
    process = subprocess.Popen([*words_of(test), *arguments], cwd=tree, env=environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True, preexec_fn=limited(cpu))
    try:
        code = process.wait(wall)
    except subprocess.TimeoutExpired:
        code = None
    try:
        os.killpg(process.pid, signal.SIGKILL)  # with what it has started
    except ProcessLookupError:
        pass
    process.wait()
    now = os.times()
    return code, sum(now[2:4]) - sum(before[2:4])


def make(tree, *targets):
    # Arguments that are no numbers of their types do not compile, as without a fault.
    strict = 'WARN=-Werror=int-conversion -Werror=incompatible-pointer-types'
    return subprocess.run(['make', '-s', '-j1', strict, *targets], cwd=tree,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def code_of(tree, name):
    """The object of this file without what is for debuggers."""
    bare = tree / BUILD / 'bare.o'
    subprocess.run(['objcopy', '-g', tree / BUILD / (name[:-2] + '.o'), bare], check=True)
    return bare.read_bytes()


def programs(folder, names):
    paths = [pathlib.Path(folder, name) for name in names]
    return [path.name for path in paths if path.is_file() and os.access(path, os.X_OK)]


def prepare(job):
    """(A copy of the tree, all tests but those of MPI), built from the objects here."""
    tree = WORK / f'tree{job}'
    fresh = not tree.exists()
    tree.mkdir(parents=True, exist_ok=True)
    for name in tracked():
        if name and (HOME / name).is_file():
            to = tree / name
            if not to.exists() or to.read_bytes() != (HOME / name).read_bytes():
                to.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copy2 if fresh else shutil.copy)(HOME / name, to)  # else it is built anew
    if fresh and (HOME / BUILD).exists():
        shutil.copytree(HOME / BUILD, tree / BUILD, copy_function=shutil.copy2, ignore=programs)
    (tree / SHARED).mkdir(parents=True, exist_ok=True)
    if fresh:
        (tree / SHARED / 'faults').symlink_to('../faults')  # where DMFT_SOLVE lies
    tests = reach.names()
    if make(tree, *PROGRAMS, *(program_of(t) for t in tests)):
        raise SystemExit('mutate: the tree does not build')
    return tree, tests + IN_PYTHON


BASELINE = WORK / 'baseline.json'


def baseline(tests):
    """Seconds of each test of the program without a fault: None where it fails so and is left out.
    Those that were not run yet are taken for quick, and run before a mutant is theirs."""
    known = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    return {test: known.get(test, QUICK) for test in tests}


def without_fault(tree, test):
    """Seconds of a test where nothing is wrong, or None; known from then on."""
    make(tree, *PROGRAMS, *[program_of(test)] * (test not in IN_PYTHON))
    code, seconds = run(tree, test, [], 600, 3600)
    if code != 0:
        print(f'mutate: {test} fails without a fault and is left out', flush=True)
    known = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    known[test] = seconds if code == 0 else None
    BASELINE.write_text(json.dumps(known))
    return known[test]


def in_order(times, kills, name, operator, near):
    """Tests by kills to be expected for each second; near: those alone that the file reaches."""
    folder = os.path.dirname(name)

    def worth(test):
        count = 0.2 + (test in reach.GENERAL) + reach.weight(test, name)
        count += 6 * (test == 'faults' and operator == 'check')
        for killed, by in kills:
            if by == test:
                count += 3 if killed == name else 1 if os.path.dirname(killed) == folder else 0.2
        return -count / (times[test] + 0.2)
    reached = [test for test in times if not near or test in reach.GENERAL
               or reach.weight(test, name) or (test, operator) == ('faults', 'check')]
    return sorted(reached, key=worth)


def counted(instead):
    """A dropped check of a call that says where it is: tests/faults lets fail what is within."""
    return ('do { extern int mutant_inside; mutant_inside++; ' + instead +
            '; mutant_inside--; } while (0)')


def judge(tree, mutant, text, times, kills, most, near):
    name, operator, first, behind, instead = mutant
    inside = operator == 'check' and instead.startswith('(void)(')
    path, built = tree / name, tree / BUILD / (name[:-2] + '.o')
    original = code_of(tree, name)
    kept = [shutil.copy2(p, f'{p}.kept') for p in (path, built)]
    path.write_text(text[:first] + (counted(instead) if inside else instead) + text[behind:] +
                    ('int mutant_inside;\n' if inside else ''))
    try:
        if make(tree, f'{BUILD}/{name[:-2]}.o'):
            return 'invalid', None
        if code_of(tree, name) == original:
            return 'same code', None
        if make(tree, *PROGRAMS):
            return 'invalid', None
        runs = [(t, []) for t in in_order(times, kills, name, operator, near)
                if t != 'faults' or not inside]
        if operator == 'check' and 'faults' in times:  # behind the quick ones
            runs.insert(len(runs) // 2, ('faults', ['inside' if inside else 'places']))
        all_run = True
        for test, arguments in runs:
            if times[test] * (1 + (1 if inside else 9) * len(arguments)) > most:
                all_run = False
                continue
            if test in WHOLE and make(tree, program_of(test)):
                return 'invalid', None
            cpu = int(10 + 4 * times[test]) * (1 + 4 * len(arguments))
            code, seconds = run(tree, test, arguments, cpu, 10 * cpu)
            if code != 0:
                return 'killed', test
            most -= seconds
            if not arguments and times[test] == QUICK:
                times[test] = seconds
        return 'survived' if all_run and not near else 'undecided', None
    finally:
        for copy in kept:
            os.replace(copy, copy[:-5])
        os.utime(built)  # now: what was linked with the fault is older, and is made again
        for part in PROGRAMS:
            (tree / part).unlink(missing_ok=True)


# --- results --------------------------------------------------------------------------------------

def number(mutant, text):
    """Of the fault and the lines around it: it stays while those do."""
    name, operator, first, behind, instead = mutant
    around = text[max(0, first - 200):behind + 200]
    return hashlib.sha256(repr((name, operator, around, instead)).encode()).hexdigest()[:8]


def difference(mutant, text):
    name, _, first, behind, instead = mutant
    changed = text[:first] + instead + text[behind:]
    lines = difflib.unified_diff(text.splitlines(), changed.splitlines(),
                                 name, name, lineterm='', n=1)
    return '\n'.join(list(lines)[2:])


def read_results():
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [json.loads(line) for line in lines]


def equivalent():
    """Numbers of mutants that change nothing which can be seen."""
    lines = (HOME / 'tests' / 'equivalent.tsv').read_text().splitlines()
    return {line.split('\t')[0] for line in lines[1:]}


def report(rows):
    """Counts by operator and folder, and what lives."""
    real = [r for r in rows if r['verdict'] == 'killed'
            or (r['verdict'] in ('survived', 'undecided') and r['number'] not in equivalent())]
    for key, of in (('operator', lambda r: r['operator']),
                    ('folder', lambda r: os.path.dirname(r['file'])), ('', lambda r: 'all')):
        print(f'| {key} | mutants | killed | undecided | survived |\n' + '| --- ' * 5 + '|')
        for value in sorted(set(map(of, real))):
            count = collections.Counter(r['verdict'] for r in real if of(r) == value)
            print(f"| {value} | {count.total()} | {count['killed']} | {count['undecided']} "
                  f"| {count['survived']} |")
        print()
    count = collections.Counter(r['verdict'] for r in rows)
    print(f"{len(rows)} faults: {count['invalid']} do not compile, {count['same code']} change no "
          f"code, {sum(count.values()) - count['invalid'] - count['same code'] - len(real)} are "
          'equivalent (tests/equivalent.tsv)\n')
    for r in real:
        if r['verdict'] != 'killed':
            print(f"{r['verdict']}: {r['number']} {r['operator']} {r['file']}:{r['line']}\n"
                  f"{r['diff']}\n")


def work(job, options):
    """Judges every mutant of the job: each options.jobs-th."""
    tree, tests = prepare(job)
    times = {test: seconds for test, seconds in baseline(tests).items() if seconds is not None}
    sources, by_operator = every_fault()
    done, same = {r['number'] for r in read_results()}, equivalent()
    for mutant in chosen(by_operator, options.count, options.seed)[job::options.jobs]:
        name, operator, first, _, _ = mutant
        known = number(mutant, sources[name])
        if known in done:
            continue
        begun = time.time()
        kills = [(r['file'], r['by']) for r in read_results() if r['verdict'] == 'killed']
        most = options.limit * (2 if operator == 'check' else 1)
        verdict, by = 'equivalent', None
        while known not in same:
            verdict, by = judge(tree, mutant, sources[name], times, kills, most, options.near)
            if verdict != 'killed' or times[by] != QUICK:
                break
            times[by] = without_fault(tree, by)
            times = {test: seconds for test, seconds in times.items() if seconds is not None}
        row = {'number': known, 'file': name, 'operator': operator, 'verdict': verdict, 'by': by,
               'line': sources[name].count('\n', 0, first) + 1,
               'seconds': round(time.time() - begun), 'diff': difference(mutant, sources[name])}
        with RESULTS.open('a') as out:
            out.write(json.dumps(row) + '\n')
        print(known, operator, f"{name}:{row['line']}", verdict, by or '', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--count', type=int, default=300)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--jobs', type=int, default=2, help='mutants at a time')
    parser.add_argument('--limit', type=float, default=1e9,
                        help='seconds of tests for each, of a check twice that: tests that take '
                        'longer than what is left of it do not run')
    parser.add_argument('--near', action='store_true',
                        help='only tests that tests/reach.py gives to the file, and general ones; '
                        'what they leave is undecided')
    parser.add_argument('--again', action='store_true',
                        help='judge survivors and undecided ones again')
    parser.add_argument('--report', action='store_true', help='only print the tables')
    options = parser.parse_args()
    if not options.report:
        if options.again:
            rows = [r for r in read_results() if r['verdict'] not in ('survived', 'undecided')]
            RESULTS.write_text(''.join(json.dumps(r) + '\n' for r in rows))
        jobs = [multiprocessing.Process(target=work, args=(job, options))
                for job in range(options.jobs)]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
    report(read_results())


if __name__ == '__main__':
    main()

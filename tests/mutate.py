#!/usr/bin/env python3
"""Mutants: what the tests would not notice.  make mutants COUNT=300 SEED=1

Each mutant is the program with one small fault in kernels, models, integrators or solver. It is
built in a copy of the tree and judged by the test programs, those that have killed its neighbours
and are quick first, until one fails (a dropped check of an error: by test_faults with more places
first). Results are appended to build/mutants/results.jsonl: a second
call goes on where the first was stopped. A mutant whose object code is that of the original is
left out, and so is one that does not compile. Survivors whose number stands in docs/testing.md are
equivalent, for the reason given there.
"""
import argparse
import collections
import difflib
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time

HOME = pathlib.Path(__file__).resolve().parent.parent
WORK = HOME / 'build' / 'mutants'
TREE = WORK / 'tree'
RESULTS = WORK / 'results.jsonl'
BUILD = 'build/release'
# Bytes that a runaway mutant may reserve (the emulated device takes 8 GB), and write.
MEMORY, FILE = 24 << 30, 1 << 30
STATEMENT = (r'(?<=[;{}]\n)( +)'
             r'(?!return|break|continue|goto|for|while|TRY|DO|static|const|else)'
             r'((?:\w+(?:->|\.|\[[^\n;]*?\])|\*)?[\w.>\[\]-]* ?(?:[-+*/|]?= |\()[^;{}]*;)')
COMPARED = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='}


# --- faults ---------------------------------------------------------------------------------------

def blanked(text):
    """The text with comments, strings, characters and lines of the preprocessor made blank."""
    rule = (r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|'
            r'^[ \t]*#(?:\\\n|[^\n])*')
    return re.sub(rule, lambda m: re.sub(r'[^\n]', ' ', m.group()), text, flags=re.S | re.M)


def closing(code, at):
    """The place of the parenthesis that closes the one at this place."""
    depth = 0
    for end in range(at, len(code)):
        depth += {'(': 1, ')': -1}.get(code[end], 0)
        if depth == 0:
            return end
    return at


def faults(text):
    """Of a source: (operator, first, behind, what stands there instead)."""
    code = blanked(text)
    for m in re.finditer(r' (<=|>=|==|!=|<|>) ', code):
        yield 'comparison', m.start(1), m.end(1), COMPARED[m.group(1)]
    for m in re.finditer(r'(?<=[\w)\]]) ([-+])(?== | )', code):
        yield 'sign', m.start(1), m.end(1), '-' if m.group(1) == '+' else '+'
    for m in re.finditer(r'(?<![\w.])(\d+)(?![\w.])', code):
        base = 8 if m.group(1)[0] == '0' else 10
        yield 'one', m.start(1), m.end(1), str(int(m.group(1), base) + 1)
    for m in re.finditer(r'(?<![\w.])(\d+\.\d*|\.\d+|\d+(?:\.\d*)?e-?\d+)(?![\w.])', code):
        yield 'constant', m.start(1), m.end(1), '(%s * 1.01)' % m.group(1)
    for m in re.finditer(r'\b(TRY|DO)\(', code):
        end = closing(code, m.end() - 1)
        yield 'check', m.start(), end + 1, '(void)(' + text[m.end():end] + ')'
    for m in re.finditer(r'\bif (\()', code):
        end = closing(code, m.start(1))
        if re.match(r'\)\s*(return|DO\(|code =) ?\(?err_set', code[end:]):
            yield 'check', m.start(1), end + 1, '(0)'
    for m in re.finditer(STATEMENT, code):
        yield 'statement', m.start(2), m.end(2), ';'


def tracked(*folders):
    return subprocess.run(['git', 'ls-files', *folders], cwd=HOME, capture_output=True, text=True,
                          check=True).stdout.split('\n')


def every_fault():
    listed = tracked('kernels', 'models', 'integrators', 'solver')
    sources = {}
    by_operator = collections.defaultdict(list)
    for name in sorted(n for n in listed if n.endswith('.c')):
        sources[name] = (HOME / name).read_text()
        for operator, first, behind, instead in faults(sources[name]):
            by_operator[operator].append((name, operator, first, behind, instead))
    return sources, by_operator


def chosen(by_operator, count, seed):
    """As many of each operator, in an order that the seed gives: a prefix of that of more."""
    rng = random.Random(seed)
    piles = {operator: rng.sample(by_operator[operator], len(by_operator[operator]))
             for operator in sorted(by_operator)}
    mixed = []
    while len(mixed) < count and any(piles.values()):
        mixed += [pile.pop() for pile in piles.values() if pile]
    return mixed[:count]


# --- a mutant -------------------------------------------------------------------------------------

def limited(seconds):
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    return limit


def processor_time():
    now = os.times()
    return now.children_user + now.children_system


def run(command, cpu, wall):
    """(exit code or None after a time, seconds of processors)."""
    environment = dict(os.environ, DMFT_SOLVE=f'{BUILD}/dmft-solve', DMFT_HOME=BUILD,
                       OMP_NUM_THREADS='1')
    before = processor_time()
    process = subprocess.Popen(command, cwd=TREE, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True,
                               preexec_fn=limited(cpu))
    try:
        code = process.wait(wall)
    except subprocess.TimeoutExpired:
        code = None
    try:
        os.killpg(process.pid, signal.SIGKILL)  # with what it has started
    except ProcessLookupError:
        pass
    process.wait()
    return code, processor_time() - before


def make(*targets):
    return subprocess.run(['make', '-s', '-j1', 'WARN=', *targets], cwd=TREE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def code_of(name):
    path = TREE / BUILD / (name[:-2] + '.o')
    sections = [word for section in ('.text', '.rodata', '.data', '.data.rel.ro.local')
                for word in ('-j', section)]
    return subprocess.run(['objdump', '-ds', *sections, path], capture_output=True).stdout


def prepare():
    """A copy of the tree, with what is built here, if its objects are up to date."""
    fresh = not TREE.exists()
    TREE.mkdir(parents=True, exist_ok=True)
    for name in tracked():
        if name and (HOME / name).is_file():
            to = TREE / name
            if not to.exists() or to.read_bytes() != (HOME / name).read_bytes():
                to.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copy2 if fresh else shutil.copy)(HOME / name, to)  # else it is built anew
    if fresh and (HOME / BUILD).exists():
        shutil.copytree(HOME / BUILD, TREE / BUILD, copy_function=shutil.copy2)
    tests = sorted(p.stem[5:] for p in (TREE / 'tests').glob('test_*.c') if p.stem != 'test_mpi')
    if make('all', *(f'{BUILD}/test_{t}' for t in tests)):
        raise SystemExit('mutate: the tree does not build')
    return tests


def baseline(tests):
    """Seconds of each test of the program without a fault, measured once."""
    path = WORK / 'baseline.json'
    known = json.loads(path.read_text()) if path.exists() else {}
    for test in tests:
        if test not in known:
            code, seconds = run([f'{BUILD}/test_{test}'], 600, 3600)
            if code:
                print(f'mutate: {test} fails without a fault and is left out', flush=True)
            known[test] = None if code else seconds
            path.write_text(json.dumps(known))
    return {test: known[test] for test in tests if known[test] is not None}


def in_order(times, kills, name):
    """Tests by kills to be expected for each second."""
    stem, folder = pathlib.Path(name).stem, os.path.dirname(name)

    def worth(test):
        count = 0.2 + 5 * (test in stem or stem.split('_')[0] in test)
        for killed, by in kills:
            if by == test:
                count += 3 if killed == name else 1 if os.path.dirname(killed) == folder else 0.2
        return -count / (times[test] + 1)
    return sorted(times, key=worth)


def judge(mutant, text, times, kills, most):
    name, operator, first, behind, instead = mutant
    path = TREE / name
    original = code_of(name)
    path.write_text(text[:first] + instead + text[behind:])
    try:
        if make(f'{BUILD}/{name[:-2]}.o'):
            return 'invalid', None
        if code_of(name) == original:
            return 'same code', None
        if make('all'):
            return 'invalid', None
        more = [('faults', ['12'])] if operator == 'check' and 'faults' in times else []
        for test, arguments in more + [(test, []) for test in in_order(times, kills, name)]:
            if make(f'{BUILD}/test_{test}'):
                return 'invalid', None
            cpu = int(20 + 5 * times[test]) + 120 * len(arguments)
            code, seconds = run([f'{BUILD}/test_{test}', *arguments], cpu, 10 * cpu)
            if code != 0:
                return 'killed', test
            most -= seconds
            if most < 0:
                return 'undecided', None
        return 'survived', None
    finally:
        path.write_text(text)
        make(f'{BUILD}/{name[:-2]}.o')


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


def share(rows, equivalent):
    real = [r for r in rows
            if r['verdict'] in ('killed', 'survived') and r['number'] not in equivalent]
    killed = sum(r['verdict'] == 'killed' for r in real)
    return f'{len(real)} | {killed} | {100 * killed / len(real):.0f} %' if real else '0 | 0 | '


def report(rows):
    """The tables of docs/testing.md."""
    text = (HOME / 'docs' / 'testing.md').read_text()
    equivalent = {r['number'] for r in rows if r['number'] in text and r['verdict'] == 'survived'
                  and f"| `{r['number']}` |" in text}
    for key in ('operator', 'file'):
        print(f'| {key} | mutants | killed | share |\n| --- | --- | --- | --- |')
        for value in sorted({r[key] for r in rows}):
            print(f'| {value} | {share([r for r in rows if r[key] == value], equivalent)} |')
        print(f'| all | {share(rows, equivalent)} |\n')
    counts = collections.Counter(r['verdict'] for r in rows)
    print(f"{len(rows)} faults: {counts['invalid']} do not compile, "
          f"{counts['same code']} change no code, "
          f"{len(equivalent)} are equivalent, {counts['undecided']} are undecided: --limit\n")
    for r in rows:
        if r['verdict'] in ('survived', 'undecided') and r['number'] not in equivalent:
            print(f"{r['verdict']}: {r['number']} {r['operator']} {r['file']}:{r['line']}")
            print(r['diff'] + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--count', type=int, default=300)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--limit', type=float, default=1e9,
                        help='seconds of tests for each; then it is undecided')
    parser.add_argument('--again', action='store_true',
                        help='judge survivors and undecided ones again')
    parser.add_argument('--report', action='store_true', help='only print the tables')
    options = parser.parse_args()
    if not options.report:
        sources, by_operator = every_fault()
        mutants = chosen(by_operator, options.count, options.seed)
        times = baseline(prepare())
        rows = read_results()
        if options.again:
            rows = [r for r in rows if r['verdict'] not in ('survived', 'undecided')]
            RESULTS.write_text(''.join(json.dumps(r) + '\n' for r in rows))
        done = {r['number'] for r in rows}
        for mutant in mutants:
            name, operator, first, _, _ = mutant
            known = number(mutant, sources[name])
            if known in done:
                continue
            begun = time.time()
            kills = [(r['file'], r['by']) for r in rows if r['verdict'] == 'killed']
            verdict, by = judge(mutant, sources[name], times, kills, options.limit)
            rows.append({'number': known, 'file': name, 'operator': operator, 'verdict': verdict,
                         'by': by,
                         'line': sources[name].count('\n', 0, first) + 1,
                         'seconds': round(time.time() - begun),
                         'diff': difference(mutant, sources[name])})
            done.add(known)
            with RESULTS.open('a') as out:
                out.write(json.dumps(rows[-1]) + '\n')
            print(known, operator, f"{name}:{rows[-1]['line']}", verdict, by or '', flush=True)
    report(read_results())


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""Which tests a source file reaches, so that a change need not wait for all of them.

    python3 tests/reach.py [FILE ...]    names of tests for these files; without FILE for what
                                         differs from the last commit on main, committed or not

`make test-changed` runs what this prints; tests/mutate.py asks `weight` in which order to run them.
No call graph is kept: a test is reached by a file that is named like it, whose header it includes,
or that the table below gives to it. What every test needs (kernels/base, tests/support) reaches
the tests that go through much of the program.
"""
import pathlib
import subprocess
import sys

HOME = pathlib.Path(__file__).resolve().parent.parent
# Tests that go through much of the program.
GENERAL = {'limit', 'map', 'oracle', 'networks', 'program', 'io', 'cli.py', 'flow', 'regime1'}
# Tests of networks beside their oracles.
JUDGED = {'oracle', 'network', 'regime1', 'regime3', 'residual', 'resnet', 'stack', 'transformer',
          'optimizer', 'outputs', 'parameterization', 'tied', 'batches'}
# What tests go through most, beside those that are named like a file or include its header.
REACHED = {'kernels/archive': 'resume', 'kernels/array/': 'backend backend_bits single',
           'kernels/maps/map_field': 'fixed_point fixed_point_parts fixed_point_sweeps bytes',
           'kernels/maps/map': 'limit map', 'kernels/maps/twotime': 'fixed_point fixed_point_parts',
           'integrators': 'models optimizer flow flow_control', 'models/engine/archive': 'resume',
           'models/engine/apart': 'bytes', 'models/engine/describe': 'description',
           'models/language': 'script script_built_in program program_refusals models',
           'models/engine': 'models', 'models/lua': 'script script_built_in script_fuzz refusals',
           'models/parts/router': 'balance', 'models/parts/gate': 'balance regime3',
           'models/parts/balance': 'script residual', 'models/parts/attention': 'transformer',
           'models/parts/experts': 'transformer stack', 'models/parts/block': 'stack residual',
           'models/parts': 'models', 'models/': 'models',
           'solver/command': 'cli.py cli_refusals refusals',
           'solver/files': 'io io_partial cli_files.py', 'solver/files/partial': 'faults',
           'kernels/base/text': 'refusals', 'solver/run/run': 'cli_files.py',
           'solver/study/units': 'sweep.py sweep_grid.py study.py refusals faults',
           'solver/measure': 'fields fields_experts outputs rates',
           'solver/measure/aggregation': 'coordinate coordinate_limit coordinate_state',
           'solver/measure/record': 'statistics halves', 'solver/run/ensemble': 'resume',
           'solver/run/forecast': 'notes', 'solver/run/notes': 'screen.py cli_ends',
           'solver/run/condense': 'notes', 'solver/run/estimate': 'estimate',
           'solver/run/iteration': 'cli_ends',
           'solver/run/report': 'cli.py cli_files.py screen.py cli_bits',
           'solver/run/states': 'resume states',
           'solver/settings': 'param param_refusals refusals include.py factor keys',
           'solver/data/normals': 'residual', 'solver/run/speeds': 'cli_bits',
           'solver/data': 'data data_targets data_file tokens token_sources',
           'solver/study': 'compare.py fits'}


def names():
    """All test programs in C but that of MPI, which compares two builds."""
    return sorted(p.stem[5:] for p in (HOME / 'tests').glob('test_*.c') if p.stem != 'test_mpi')


def in_python(path):
    """Files of tests in Python that this source is named with."""
    return {test for at, tests in REACHED.items() if path.startswith(at)
            for test in tests.split() if test.endswith('.py')}


def weight(test, path):
    """How much of a file this test is about: 0 for nothing that is known."""
    stem = pathlib.Path(path).stem
    file = HOME / 'tests' / (f'test_{test}' if test.endswith('.py') else f'test_{test}.c')
    count = 2 * (f'"{path.rsplit(".", 1)[0]}.h"' in file.read_text())
    count += 5 * (test in stem or stem.split('_')[0] in test)
    count += 5 * any(path.startswith(at) and test in tests.split() for at, tests in REACHED.items())
    return count


def changed():
    def lines(*words):
        return subprocess.run(['git', *words], cwd=HOME, capture_output=True, text=True,
                              check=True).stdout.split('\n')
    base = 'main'
    if lines('rev-parse', '--abbrev-ref', 'HEAD')[0] == base:
        base = 'HEAD'
    return {name for name in lines('diff', '--name-only', base) +
            lines('ls-files', '--others', '--exclude-standard') if name}


def reached(paths):
    """Names of tests in C, of files of tests in Python, or `python` for all of these, for these
    files."""
    tests = {'architecture'}
    for path in paths:
        if path.startswith('tests/test_') and path.endswith('.c'):
            tests.add(path[11:-2])
        elif path.startswith('tests/refusals'):
            tests.add('refusals')
        elif path.startswith(('kernels/base', 'tests/support')):
            tests |= GENERAL
        elif path.startswith('tests/oracles/'):
            tests |= JUDGED | {name for name in names() if path[21:].split('.')[0] in name}
        elif path.endswith(('.c', '.h', '.cu')):
            tests |= {name for name in names() if weight(name, path)} | in_python(path)
        elif path.startswith('python/dmft/study/'):
            tests |= {'python', 'refusals'}
        elif path.startswith(('python/', 'studies/', 'tests/')) and path.endswith('.py'):
            tests.add('python')
    return sorted(test for test in tests if test in names() + ['architecture', 'python'] or
                  test.endswith('.py') and 'python' not in tests)


if __name__ == '__main__':
    print(*reached(sys.argv[1:] or changed()))

"""Small faults of a C source: what tests/mutate.py puts in."""
import collections
import pathlib
import random
import re
import subprocess

HOME = pathlib.Path(__file__).resolve().parent.parent
STATEMENT = (r'(?<=[;{}]\n)( +)'
             r'(?!return|break|continue|goto|for|while|TRY|DO|static|const|else)'
             r'((?:\w+(?:->|\.|\[[^\n;]*?\])|\*)?[\w.>\[\]-]* ?(?:[-+*/|]?= |\()[^;{}]*;)')
COMPARED = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='}


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


def arguments(code, at):
    """Where each argument of the call begins and ends whose parenthesis is at this place."""
    end, depth, cuts = closing(code, at), 0, [at]
    for place in range(at + 1, end):
        depth += (code[place] in '([{') - (code[place] in ')]}')
        if code[place] == ',' and depth == 0:
            cuts.append(place)
    cuts.append(end)
    return [(first + 1, behind) for first, behind in zip(cuts, cuts[1:])]


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
    for m in re.finditer(r' (&&|\|\|) ', code):
        yield 'logic', m.start(1), m.end(1), '||' if m.group(1) == '&&' else '&&'
    for m in re.finditer(r' ([*/]) ', code):
        yield 'product', m.start(1), m.end(1), '/' if m.group(1) == '*' else '*'
    for m in re.finditer(r'(?<=[( ])!(?=[\w(*])', code):
        yield 'not', m.start(), m.end(), ''
    for m in re.finditer(r'(?<!\bfor)(?<!\bif)(?<!\bwhile)(?<=\w)\(', code):
        if code[code.rfind('\n', 0, m.start()) + 1] != ' ':
            continue  # a function is defined here, not called
        parts = arguments(code, m.start())
        for (first, middle), (_, behind) in zip(parts, parts[1:]):
            one, other = text[first:middle], text[middle + 1:behind]
            if one.strip() != other.strip():
                yield 'swap', first, behind, f'{other.strip()}, {one.strip()}'
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

#!/usr/bin/env python3
"""Deliberate faults in the program, and whether its comparison with PyTorch finds them.

    make torch-faults [FAULTS="gate lion 7"]

Each fault of the list, or each of a number or word of FAULTS, is put into a copy of the tree in
build/torch-faults. That is built, and its tests/torch.sh run until one test fails, the likely ones
first; with FAULTS=--likely these alone.
A row is printed for each, with the test that found it; the exit code is 1 where a fault is not
found. tests/test_torch_faults.py holds the list and the sources together.
"""
import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

from mutations import HOME, tracked

TREE = HOME / "build" / "torch-faults"
BUILD = "build/release"


class Fault(NamedTuple):
    """What is said of it, the source, a text that stands there once, what takes its place, and
    pytest's -k of the tests that are run first."""
    what: str
    source: str
    right: str
    wrong: str
    first: str


FAULTS = [
    Fault("powers of numbers: a derivative with the same power", "models/language/numbers.c",
          "->constant.factor = c - 1;", "->constant.factor = c;",
          "test_gradients_are_those_of_autograd"),
    Fault("gates: the z-loss has half of its gradient", "models/language/penalty.c",
          "v->A[k] = 2 * c * x->s[k];", "v->A[k] = c * x->s[k];", "no_ini_has[26]"),
    Fault("gates: the z-loss has the largest logit with the other sign", "models/parts/gate.c",
          "program_times(p, -beta, shift)", "program_times(p, beta, shift)",
          "no_ini_has[26]"),
    Fault("gates: the balance loss has half of its gradient", "models/language/penalty.c",
          "v->A[k] = c / x->count;", "v->A[k] = c / x->count / 2;", "no_ini_has[26]"),
    Fault("router: derivative of softmax over all without its mean", "models/parts/router_gate.c",
          "beta * (p[i] * g[i] - q[i] * mean)", "beta * (p[i] * g[i])", "no_ini_has[23]"),
    Fault("router: one expert more is selected", "kernels/array/counted.c",
          "size_t sites = x.array->sites;\n    FREED",
          "size_t sites = x.array->sites;\n    K += K < sites;\n    FREED",
          "regime1.ini-gd"),
    Fault("router: equal logits go to the higher index", "kernels/array/counted.c",
          "for (size_t i = 0; i < sites; i++)\n            out[i] = top",
          "for (size_t i = sites; i-- > 0;)\n            out[i] = top", "equal_numbers"),
    Fault("router: selection biases move towards loads", "models/parts/balance.c",
          "double c = -s->eta_bias,", "double c = s->eta_bias,", "no_ini_has[22]"),
    Fault("tokens: derivative of softmax without its mean", "models/language/tokens.c",
          "a[t] * (g[t] - mean)", "a[t] * g[t]",
          "transformer.ini-gd"),
    Fault("tokens: causal softmax keeps the next token in its sum", "models/language/tokens.c",
          "sum += out[t] = t < count ? out[t] : 0;",
          "{ double e = t < count ? out[t] : exp(x[t] - largest); "
          "sum += t <= count ? e : 0; out[t] = t < count ? e : 0; }",
          "transformer.ini-gd"),
    Fault("tokens: queries and keys have each other's logits backward", "models/language/tokens.c",
          "return tokens_mix(p, g, (struct value){argument[1 - k]}, k == 1,",
          "return tokens_mix(p, g, (struct value){argument[1 - k]}, k == 0,", "transformer.ini-gd"),
    Fault("tokens: heads of few units have each other's weights backward",
          "models/language/tokens.c",
          "? tokens_mix(p, A, g, true, 1, x.at)",
          "? tokens_mix(p, A, g, false, 1, x.at)",
          "no_ini_has[40]"),
    Fault("tokens: derivative of the norm doubled", "models/language/tokens.c",
          "->constant.factor = -0.5;", "->constant.factor = -0.25;",
          "no_ini_has[34]"),
    Fault("products with what belongs to experts: a sum over units, not their mean, backward",
          "models/language/operations.c",
          "group_sum(x->value, v->value);\n    rows_scale(1.0 / x->on->group, v->value);",
          "group_sum(x->value, v->value);", "regime2.ini-gd"),
    Fault("shifts of rows by numbers have another gradient", "models/language/operations.c",
          "return k == 1 ? g : numbers_average(p, g, none, 0, p->node[v].argument[0]);",
          "return k == 1 ? g : numbers_average(p, g, g, 0, p->node[v].argument[0]);",
          "words_of_scripts"),
    Fault("rows times a number: without the number backward", "models/language/operations.c",
          "return adjoint_times(p, p->node[v].constant.factor, g);",
          "return adjoint_times(p, 1, g);",
          "stack.ini-gd"),
    Fault("matrices: those drawn are one per cent too large", "kernels/maps/map_finite.c",
          "rows_scale(map->declared.a0 / sqrt((double)source_sites(map)), array_all(W));",
          "rows_scale(1.01 * map->declared.a0 / sqrt((double)source_sites(map)), array_all(W));",
          "start_with"),
    Fault("thin matrices: those drawn are one per cent too large", "kernels/maps/thin.c",
          "rows_scale(amplitude, W);", "rows_scale(1.01 * amplitude, W);", "start_with"),
    Fault("matrices: rates of maps go with targets, not sources", "kernels/maps/map_finite.c",
          "double s = 1 / (map->declared.s_f * (double)source_sites(map));",
          "double s = 1 / (map->declared.s_f * (double)target_sites(map));", "regime2.ini-gd"),
    Fault("matrices: rates without gamma0", "models/engine/stage.c",
          "step * net->setup.gamma0 * p->rate", "step * p->rate", "no_ini_has[24]"),
    Fault("matrices: Adam's eps of maps without gamma0", "models/language/matrices.c",
          "add_parameter(p, out.at, parameter, net->setup.gamma0);",
          "add_parameter(p, out.at, parameter, 1);", "no_ini_has[2]"),
    Fault("Adam: both means are corrected by beta1", "integrators/adam.c",
          "pow(training->adam.beta2, steps)", "pow(training->adam.beta1, steps)",
          "dense.ini-adam"),
    Fault("AdamW, Lion: decay at the full rate under a schedule", "integrators/optimizer.c",
          "net_decay(net, step.schedule * training->weight_decay)",
          "net_decay(net, training->weight_decay)",
          "no_ini_has[6]"),
    Fault("momentum: the step of biases without the schedule", "integrators/momentum.c",
          "numbers[k] += step->schedule * memory[k];", "numbers[k] += memory[k];",
          "no_ini_has[24]"),
    Fault("Lion: beta1 in the place of beta2", "integrators/lion.c",
          ".beta2 = step->training->adam.beta2,", ".beta2 = step->training->adam.beta1,",
          "dense.ini-lion"),
    Fault("clipping: gradients below the norm are scaled up", "integrators/integrator.c",
          "if (norm > training->clip)", "if (norm > 0)", "no_ini_has[6]"),
    Fault("schedules: the warmup begins a step later", "integrators/schedule.c",
          "return tau / training", "return (tau + 1) / training",
          "no_ini_has[5]"),
]


def prepare():
    """A copy of the tree with the objects of this one."""
    fresh, names = not TREE.exists(), tracked()
    for path in TREE.rglob("*.[ch]"):  # of an earlier version
        if str(path.relative_to(TREE)) not in names:
            path.unlink()
    for name in names:
        if name and (HOME / name).is_file():
            to = TREE / name
            if not to.exists() or to.read_bytes() != (HOME / name).read_bytes():
                to.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copy2 if fresh else shutil.copy)(HOME / name, to)  # else it is built anew
    if fresh and (HOME / BUILD).exists():
        shutil.copytree(HOME / BUILD, TREE / BUILD, copy_function=shutil.copy2,
                        ignore=shutil.ignore_patterns("test_*", "shared", "faults", "tests"))
    build()


def build():
    """dmft-solve of the copy, which is all that its tests run."""
    done = subprocess.run(["make", "-s", "-j2", "WARN=", f"{BUILD}/dmft-solve"], cwd=TREE,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"torch_faults: the copy does not build\n{done.stderr[:2000]}")


def judge(fault, likely):
    """The test that fails first; empty where all pass. likely: of the likely ones alone."""
    path = TREE / fault.source
    text = path.read_text()
    if text.count(fault.right) != 1:
        raise SystemExit(f"torch_faults: {fault.source} does not have once: {fault.right}")
    path.write_text(text.replace(fault.right, fault.wrong))
    try:
        build()
        return first_failure("-k", fault.first) or \
            ("" if likely else first_failure("-k", f"not ({fault.first})"))
    finally:
        path.write_text(text)


def first_failure(*options):
    """The test of tests/torch that fails first; empty where all pass."""
    done = subprocess.run(["tests/torch.sh", "-x", "-q", *options], cwd=TREE, capture_output=True,
                          text=True, check=False, env=dict(os.environ, DMFT_HOME=BUILD))
    found = re.search(r"^FAILED (.*?)(?: - .*)?$", done.stdout, re.M)
    if done.returncode != (1 if found else 0):
        raise SystemExit("torch_faults: the tests did not run\n" + done.stdout + done.stderr)
    return found[1] if found else ""


def chosen(words):
    """The faults with their numbers, from 1 on."""
    for k, fault in enumerate(FAULTS, 1):
        if not words or any(word == str(k) or (word in fault.what + fault.source
                                               and not word.isdigit()) for word in words):
            yield k, fault


def main():
    if not os.environ.get("PYTHON"):
        os.environ["PYTHON"] = sys.executable
    words = sys.argv[1:]
    likely = "--likely" in words
    prepare()
    missed = 0
    print("| | fault | source | found by |\n| --- | --- | --- | --- |", flush=True)
    for k, fault in chosen([word for word in words if word != "--likely"]):
        by = judge(fault, likely)
        missed += not by
        name = by.removeprefix("tests/torch/").replace("::", " ") if by else "nothing"
        print(f"| {k} | {fault.what} | `{fault.source}` | {name} |", flush=True)
    build()
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Networks of data/ and examples/, as modules of dmft.torch: a plan of each, which sees a
module alone, has the powers that dmft.recipe has of the network."""
import math
import os
import warnings

import dmft
import dmft.torch
import pytest
from test_round_trip import ELSEWHERE, INIS, ROOT, WIDE, inputs_of

# Scales that these inis have beside the language's: muP, and experts of infinite width, whose last
# matrix has a random part that vanishes. Of a module such a scale is one of its start.
INFINITE = {("W2_0", "std"), ("W2_1", "std")}
OWN = {"data/residual.ini": INFINITE, "data/residual_multi_index.ini": INFINITE,
       "data/regime2_mup.ini": {("W_out", "std")}}
# The networks of others on other data, or by other optimizers, and two that take minutes.
LIKE_OTHERS = {"data/fashion.ini", "data/fashion10.ini", "data/muon.ini", "data/regime1_adam.ini",
               "data/regime2_fashion.ini", "data/single_pass.ini", "data/small.ini",
               "examples/activation.ini", "examples/dense.ini", "examples/regime1.ini",
               "examples/regime2.ini", "examples/resnet.ini", "examples/image.ini",
               "examples/language_model.ini"}
KEYS = ("std", "sgd", "adam", "eps")


def powers_of(recipe, widths):
    """{(matrix, number): its power of the width}, of numbers that are not zero."""
    found = {}
    for one, two in zip(*(recipe.at({"N": N}).tensors for N in widths)):
        for key in KEYS:
            values = [getattr(tensor, key) for tensor in (one, two)]
            if all(value is not None and float(value) for value in values):
                up = math.log2(float(values[1]) / float(values[0]))
                found |= {(name, key): up / math.log2(widths[1] / widths[0]) for name in one.names}
    return found


@pytest.mark.parametrize("ini", [ini for ini in INIS
                                 if ini not in ELSEWHERE | LIKE_OTHERS])
def test_a_plan_of_the_module_is_the_recipe_of_the_network(ini):
    widths, path = WIDE.get(ini, (16, 32)), os.path.join(ROOT, ini)
    x, output = inputs_of(path, widths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmft.NoteWarning)
        plan = dmft.torch.plan(lambda N: dmft.torch.Network(path, N=N, centre=False), x,
                               {"N": widths[0]}, "mssp", widths={"N": widths},
                               output=output)
        recipe = powers_of(dmft.recipe(path), widths)
    seen = set()
    for entry in plan._content["parameters"]:
        mine = {**{key: entry[key].get("N", 0) for key in KEYS[1:]},
                "std": entry["parts"][0]["std"].get("N", 0)}
        for name in entry["names"]:
            matrix = name.rpartition(".")[2]
            for key in KEYS:
                if (matrix, key) in recipe and (matrix, key) not in OWN.get(ini, ()):
                    assert mine[key] == pytest.approx(recipe[matrix, key], abs=1e-9), (matrix, key)
                    seen.add((matrix, key))
    assert seen == set(recipe) - OWN.get(ini, set()) and len(seen) >= 12

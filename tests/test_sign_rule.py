"""The sign rule of selection biases, b -= eta sign(load - share), by plain loops."""
import dmft
import numpy as np

SMALL = {"data.inputs": 8, "data.dimension": 10, "training.steps": 12, "training.eta0": 0.3,
         "solver.sites": 256, "solver.replicates": 2, "reference.widths": 16, "reference.seeds": 1}
START = [0.6, 0.2, -0.3, -0.5]


def run(tail, look="a0 = 0", bias="rate = 1", start=START, first=1, **more):
    numbers = ", ".join(str(b) for b in start)
    script = f"""
        local a = population("a")
        local x = tanh(read_in(a, {{name = "W1", rate = {first}}}))
        local psi = look(x, {len(start)}, {{name = "Q", {look}}})
        psi = bias(psi, {{{numbers}}}, {{name = "b", {bias}}})
        {tail}"""
    text = {"network.program": "sign.lua", "network.program_text": script.replace("\n", "\\n")}
    return dmft.solve(text, progress=False, **{**SMALL, **more})


def routed(K, options):
    return f"""
        local mask = balance_select(psi, {K}, {{{options}}})
        local e, h = mask * exp(psi), nil
        for i = 1, 4 do
            local y = e[i] / sum(e) * tanh(map(x, a, "V_" .. i))
            h = h and h + y or y
        end
        read_out(h, "w")"""


def mean(result, side, name):
    return (result.limit if side == "limit" else result.reference[16])[name].values


def test_where_all_loads_are_as_far_from_their_share_both_rules_are_one():
    """Two of four experts have all inputs at first, so loads are 1/2 from their share."""
    sign, other = (run(routed(2, text)) for text in
                   ("eta_bias = 0.01, sign = true", "eta_bias = 0.02"))
    for side in ("limit", 16):
        load = mean(sign, side, "load")
        even = np.all((load == 0) | (load == 1), axis=1)
        still = len(load) if even.all() else int(np.argmin(even))
        assert still > 6
        for name in ("loss", "load"):
            assert np.array_equal(mean(sign, side, name)[:still], mean(other, side, name)[:still])


def test_biases_of_few_experts_move_by_one_size():
    """Logits that never move, and one expert for all inputs: a loop of three lines."""
    result = run(routed(1, "eta_bias = 0.3, sign = true"), look="a0 = 0, rate = 0", bias="rate = 0")
    b = np.zeros(4)
    for side in ("limit", 16):
        b[:] = 0
        for t, load in enumerate(mean(result, side, "load")):
            wanted = np.arange(4) == np.argmax(START + b)
            assert np.array_equal(load, wanted), (side, t)
            b -= 0.3 * np.sign(wanted - 0.25)


def test_biases_of_many_experts_move_by_one_size():
    """Of one input a quarter of the experts is selected: their biases are +-eta after a step."""
    for sign, wanted in (("true", 1 - 0.5 ** 2), ("false", 0.75 ** 2 / 4 + 0.25 ** 2 * 3 / 4)):
        result = run(f"""
            local s = map(x, a, "R")
            local m = balance_select(s, a.sites // 4, {{eta_bias = 0.1, sign = {sign}}})
            read_out(m * s + psi[1] * x, "w")""", **{"data.inputs": 1, "training.steps": 2})
        for side in ("limit", 16):
            b2 = mean(result, side, "b2").ravel()
            assert b2[0] == 0
            assert abs(b2[1] - 0.01 * wanted) < 1e-14


def test_round_off_is_no_excess():
    """Ten of twenty inputs: their shares add up to .49999999999999994, and no bias moves. Logits
    stay, so a loop over counted inputs has every load."""
    assert sum([0.05] * 10) != 0.5
    result = run("""
        local m = balance_select(psi, 2, {eta_bias = 0.013, sign = true})
        show(psi, "psi", {axis = "i"})
        read_out(m[1] * tanh(map(x, a, "V")) + x, "w")""", look="rate = 0", bias="rate = 0",
                 start=[0, 0, 0, 0], first=0,
                 **{"data.inputs": 20, "solver.replicates": 0, "training.steps": 40})
    b, even = np.zeros(4), 0
    for load, psi in zip(mean(result, 16, "load"), mean(result, 16, "psi")):
        chosen = np.argsort(-(psi + b), axis=1)[:, :2]
        count = np.bincount(chosen.ravel(), minlength=4)
        assert np.allclose(load, count / 20, rtol=0, atol=1e-9)
        even += np.sum(count == 10) % 4
        b -= 0.013 * np.sign(count - 10)
    assert even > 4


def test_round_off_of_single_precision_is_no_excess():
    """Seven of ten inputs are a share of .7, whose sum of seven tenths is 2^-24 away in single
    precision. Logits stay, so networks of both precisions move their biases alike."""
    script = """
        local p = sigmoid(map(x, a, "R"))
        local m = balance_select(p, a.sites * 7 // 10, {eta_bias = 0.1, sign = true})
        read_out(m * p + psi[1] * x, "w")"""
    single, double = (run(script, **{
        "data.inputs": 10, "training.eta0": 0, "training.steps": 9, "solver.replicates": 0,
        "reference.widths": 40, "reference.precision": precision}).reference[40]
        for precision in ("single", "double"))
    assert np.allclose(single["b2"].values, double["b2"].values, rtol=0, atol=1e-7)
    assert np.allclose(single["load2"].values, double["load2"].values, rtol=0, atol=1e-7)

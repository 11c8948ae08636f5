-- The parts of Mixtral in one network: RMSNorm, causal attention with rotary positions and H heads of queries
-- on one head of keys and values, then the two of M SwiGLU experts with the largest logits, a softmax
-- over the two. Everything is infinitely wide but H and M.
local H, M, base = key("heads", 2), key("experts", 8), key("base", 100.0)
local stream, pairs_of, values = population("stream"), population("pairs"), population("values")
local h = read_in(stream, "W0")

local cos = constant(pairs_of, function(u, s) return math.cos(s * base ^ -u) end)
local sin = constant(pairs_of, function(u, s) return math.sin(s * base ^ -u) end)
local y = norm(h)
local function turned(name, a0)
    local one, two = map(y, pairs_of, {name = name .. "_1", a0 = a0}), map(y, pairs_of, {name = name .. "_2", a0 = a0})
    return cos * one - sin * two, sin * one + cos * two
end
local k1, k2 = turned("W_K", 1)
local v = map(y, values, "W_V")
for i = 1, H do
    local q1, q2 = turned("W_Q" .. i, 0)
    local a = softmax(attend(q1, k1, 2.0) + attend(q2, k2, 2.0), {causal = true})
    h = h + map(mix(a, v), stream, {name = "W_O" .. i, s_f = H ^ -0.5, rate = 1 / H, adam_rate = H ^ -0.5})
end

y = norm(h)
local psi = bias(look(y, M, {name = "R", a0 = 0}), normals(M), "b")
local p = softmax(psi, {top = 2})
show(psi, "psi")
show(top(psi, 2), "chosen")
gates(p, psi)
for i = 0, M - 1 do
    local units = population("units_" .. i)
    local gate, up = map(y, units, "W_gate_" .. i), map(y, units, "W_up_" .. i)
    h = h + map(p[i + 1] * (sigmoid(gate) * gate * up), stream, "W_down_" .. i)
end
kernel(h, "Phi")
gradient(h, "G")
read_out(norm(h), {name = "w", a0 = 0})

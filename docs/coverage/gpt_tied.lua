-- What a GPT-2 with experts has: one matrix that reads letters in and logits out, heads of N_k units that grow in number
-- with the width, and the two of M experts with the largest logits.
local N_k, M = key("head_width", 4), key("experts", 4)
local stream = population("stream")
local heads = population("heads", {size = 1 / N_k, page = 1 / N_k})
local units = population("head_units", {of = heads, group = N_k, page = 1})

local E = {name = "E", tied = key("tied", 1) > 0}
local h = embed(input(1, vocabulary), stream, E) + embed(input(vocabulary + 1, vocabulary + tokens), stream, "P")

local y = norm(h)
local q, k, v = map(y, units, {name = "W_Q", zero = true}), map(y, units, "W_K"), map(y, units, "W_V")
local a = softmax(attend(q, k, key("beta", 3.0), heads), {causal = true})
h = h + map(mix(a, v), stream, "W_O")

y = norm(h)
local psi = bias(look(y, M, {name = "R", a0 = 0}), normals(M), {name = "b", a0 = 1.0})
local p = softmax(psi, {top = 2})
gates(p, psi)
for i = 1, M do
    local expert = population("expert_" .. i)
    local x = sigma_of_experts(map(y, expert, {name = "W1_" .. i, family = "W1"}))
    h = h + map(p[i] * x, stream, {name = "W2_" .. i, family = "W2"})
end
kernel(h, "Ch")
gradient(h, "Cg")
output(key("c", 1.0) * read_out(norm(h), E.tied and E or "U"))

-- A mixture with a shared expert: one that every input passes through, beside M that are routed to,
-- the best K of them; experts have iota N units, and N goes to infinity.
--     h_top = o_shared(x1) + sum_i p_i o_i(x1)        p = softmax(<Q_i, x1> + b_i), top K
local M, K, iota = key("experts", 4), key("top", 2), key("iota", 0.5)
local h1 = read_in(population("bottom"), "W1")
local x1 = sigma(h1)
local up = population("top")

local function expert(name)
    local units = population(name, {size = iota})
    local h = map(x1, units, {name = "W2_" .. name, rate = 1 / iota})
    gradient(h, "G2_" .. name)
    return map(sigma(h), up, "W3_" .. name)
end

local psi = bias(look(x1, M, {name = "Q", a0 = 0}), normals(M), "b")
local p = softmax(psi, {top = K})
show(p, "p", {about = "gates of the routed experts"})
gates(p, psi) -- for [output] experts

local h_top = expert("shared")
for i = 1, M do h_top = h_top + p[i] * expert("e" .. i) end
kernel(x1, "Phi1")
gradient(h1, "G1")
kernel(h_top, "PhiL")
read_out(h_top, "w")

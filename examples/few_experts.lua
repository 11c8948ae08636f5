-- A fixed number of experts that choose their tokens: each takes the C tokens of an input that it has
-- the largest logits for. With capacity > 0 tokens choose K experts instead, and each expert takes
-- `capacity` of the tokens that have chosen it, the first ones or (by_gate) those with the largest
-- gates; the rest is dropped. At the start all tokens have the same logits, and fluctuations choose
-- among them, in the first step or in the second: the limit of such a choice is a random one.
local M, iota, C = key("experts", 4), key("iota", 0.5), key("tokens", 2)
local K, capacity, by_gate = key("top", 2), key("capacity", 0), key("by_gate", false)
local stream = population("stream")
local h = read_in(stream, "W0")
local x = norm(h)

local router = {name = "R", a0 = key("router", 0), rate = key("router_rate", 4)}
local start = {}
for i = 1, M do start[i] = 0.4 * (1 - 2 * (i - 1) / (M - 1)) end
local psi = bias(look(x, M, router), start, {name = "b", rate = 0})
local p = sigmoid(psi)
local taken
if capacity > 0 then
    local chosen = top(psi, K)
    taken = by_gate and chosen * top_rows(chosen * p, capacity) or first_rows(chosen, capacity)
    show(sum(chosen - taken) / K, "dropped", {about = "share of the choices of a token that are dropped"})
else
    taken = top_rows(psi, C)
end
show(taken, "taken", {axis = "i", about = "whether an expert has taken a token"})
show(psi, "psi", {axis = "i", about = "logits"})

local out
local phi = taken * p
for i = 1, M do
    local units = population("expert" .. i, {size = iota})
    local y = tanh(map(x, units, {name = "W1_" .. i, rate = 1 / iota}))
    local part = map(phi[i] * y, stream, "W2_" .. i)
    out = out and out + part or part
end
h = h + out
kernel(h, "Phi")
gradient(h, "G")
read_out(norm(h), "w")

-- The block of examples/gains.lua, where queries and keys keep the norm that their matrices give them.
local stream, head, units = population("stream"), population("head"), population("units")
local h = read_in(stream, "W0")

local function gained(x, name) return vector(x, {name = name, start = 1}) * norm(x) end
local function biased(x, name) return x + vector(x, {name = name, start = 0}) end

local y = gained(h, "gain_0")
local q, k = map(y, head, "W_Q"), map(y, head, "W_K")
local a = softmax(attend(q, k, key("attention_beta", 4.0)), {causal = true})
show(a, "attention", {axis = "source"})
h = h + scalar({name = "branch", start = 0.5}) * map(mix(a, map(y, head, "W_V")), stream, "W_O")
local x = biased(map(gained(h, "gain_1"), units, "W1"), "b1")
h = h + biased(map(sigma(x), stream, "W2"), "b2")
kernel(h, "Ch")
gradient(h, "Cg")
read_out(gained(h, "gain_2"), "w")

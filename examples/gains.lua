-- A block of a transformer with what the built-in one has not: queries and keys of norm 1 (QK-norm),
-- gains behind norms, biases of hidden layers, and a trained number in front of a branch. With
-- [program] qk_norm = no queries and keys keep the norm that their matrices give them.
local stream, head, units = population("stream"), population("head"), population("units")
local h = read_in(stream, "W0")

local function gained(x, name) return vector(x, {name = name, start = 1}) * norm(x) end
local function biased(x, name) return x + vector(x, {name = name, start = 0}) end

local y = gained(h, "gain_0")
local q, k = map(y, head, "W_Q"), map(y, head, "W_K")
if key("qk_norm", true) then q, k = norm(q), norm(k) end
local a = softmax(attend(q, k, key("attention_beta", 4.0)), {causal = true})
show(a, "attention", {axis = "source"})
h = h + scalar({name = "branch", start = 0.5}) * map(mix(a, map(y, head, "W_V")), stream, "W_O")
local x = biased(map(gained(h, "gain_1"), units, "W1"), "b1")
h = h + biased(map(sigma(x), stream, "W2"), "b2")
kernel(h, "Ch")
gradient(h, "Cg")
read_out(gained(h, "gain_2"), "w")

-- A block of a transformer with what the built-in one has not: queries and keys of norm 1 (QK-norm),
-- gains behind norms, biases of hidden layers. A trained vector is a matrix that reads ones: W 1
-- starts at zero and moves as a vector does, along the sum of Delta g over inputs and tokens.
local stream, head, units = population("stream"), population("head"), population("units")
local h = read_in(stream, "W0")
local one = exp(h, 0)

local function vector(p, name) return map(one, p, {name = name, zero = true}) end

local function gained(x, p, name)
    local y = norm(x)
    return y + vector(p, name) * y
end

local y = gained(h, stream, "gain_0")
local q, k = norm(map(y, head, "W_Q")), norm(map(y, head, "W_K"))
local a = softmax(attend(q, k, key("attention_beta", 4.0)), {causal = true})
show(a, "attention", {axis = "source"})
h = h + map(mix(a, map(y, head, "W_V")), stream, "W_O")
y = gained(h, stream, "gain_1")
h = h + map(sigma(map(y, units, "W1") + vector(units, "b1")), stream, "W2") + vector(stream, "b2")
kernel(h, "Ch")
gradient(h, "Cg")
read_out(gained(h, stream, "gain_2"), "w")

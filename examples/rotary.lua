-- Attention with rotary positions and grouped queries: H heads of queries share one head of keys
-- and values. Units come in pairs (q1, q2), which token s turns by the angle s theta(u), u in (0, 1)
-- the place of a pair, theta = base^-u; a logit then depends on how far two tokens are apart.
local H, beta, base = key("heads", 2), key("beta", 2.0), key("base", 100.0)
local stream = population("stream")
local h = read_in(stream, "W0")
local y = norm(h)

local pairs_of = population("pairs")
local cos = constant(pairs_of, function(u, s) return math.cos(s * base ^ -u) end)
local sin = constant(pairs_of, function(u, s) return math.sin(s * base ^ -u) end)

local function turned(name, zero)
    local a0 = zero and 0 or 1
    local one = map(y, pairs_of, {name = name .. "_1", a0 = a0})
    local two = map(y, pairs_of, {name = name .. "_2", a0 = a0})
    return cos * one - sin * two, sin * one + cos * two
end

local k1, k2 = turned("W_K", false)
local values = population("values")
local v = map(y, values, "W_V")
for i = 1, H do
    local q1, q2 = turned("W_Q" .. i, true)
    local a = softmax(attend(q1, k1, beta) + attend(q2, k2, beta), {causal = true})
    show(a, "attention" .. i, {axis = "source"})
    h = h + map(mix(a, v), stream, {name = "W_O" .. i, s_f = 1 / math.sqrt(H), rate = 1 / H, adam_rate = 1 / math.sqrt(H)})
end
kernel(h, "Phi")
gradient(h, "G")
read_out(norm(h), "w")

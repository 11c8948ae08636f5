-- Attention of two heads that differ: one sees all tokens of an input, the other one only a token
-- itself and those before it. `heads_of` says of which query, key, value or output matrix a map is
-- a part, so that Muon can move the part of each head ([training] muon_heads = each) or the matrix
-- of both heads (together).
local beta, H = key("beta", 2.0), 2
local stream = population("stream")
local h = read_in(stream, "W0")
local y = norm(h)

local function part(x, to, name, i, W)
    W.name, W.family, W.heads_of = name .. "_" .. i, name, name
    return map(x, to, W)
end

local sum
for i, causal in ipairs({false, true}) do
    local units = population("head_" .. i, {size = 1 / H, page = 1 / H})
    local q = part(y, units, "W_Q", i, {rate = H, adam_eps = 1 / H, zero = true})
    local k = part(y, units, "W_K", i, {rate = H, adam_eps = 1 / H})
    local v = part(y, units, "W_V", i, {rate = H, adam_eps = 1 / H})
    local a = softmax(attend(q, k, beta), {causal = causal})
    show(a, "attention_" .. i, {axis = "source"})
    local o = part(mix(a, v), stream, "W_O", i,
                   {rate = 1 / H, adam_rate = 1 / H, a0 = 1 / math.sqrt(H)})
    sum = sum and sum + o or o
end
h = h + sum
kernel(h, "Phi")
gradient(h, "G")
read_out(norm(h), "w")

-- A transformer with experts, as models/networks/transformer.c: fixed heads (one in the limit, where all are
-- the same), RMSNorm before attention and experts.
local L, H, nu = key("depth", 1), limit and 1 or key("heads", 1), key("attention_width", 1.0)
local E, iota, beta_A = key("experts", 2), key("iota", 1.0), key("attention_beta", 1.0)
local causal = key("causal", false)
local b = L ^ -key("branch_power", 1.0)
local rate = 1 / (L * b * b)
local stream = population("stream")
local h = read_in(stream, "W0")

local function apply(name, l, i, x, to, W)
    local family = name .. "_" .. l
    return map(x, to, {name = i and family .. "_" .. i or family, family = family, zero = W.zero,
                       a0 = W.a0, rate = rate * W.rate, adam_rate = b * rate * (W.adam_rate or 1),
                       adam_eps = b * (W.adam_eps or 1)})
end

local function head(l, i, y)
    local r = nu / H
    local units = population("head_" .. l .. (i and "_" .. i or ""), {size = r, page = b * r})
    local zero = key("zero_queries", false)
    local q = apply("W_Q", l, i, y, units, {rate = 1 / r, adam_eps = 1 / H, zero = zero})
    local k = apply("W_K", l, i, y, units, {rate = 1 / r, adam_eps = 1 / H})
    local v = apply("W_V", l, i, y, units, {rate = 1 / r, adam_eps = 1 / H})
    local logits = attend(q, k, beta_A)
    local a = softmax(logits, {causal = causal})
    local ending = l .. (i and "_" .. i or "")
    show(logits, "logits_" .. ending, {axis = "source"})
    show(a, "attention_" .. ending, {axis = "source"})
    local W_O = {rate = 1 / H, adam_rate = 1 / H, a0 = 1 / math.sqrt(H)}
    return apply("W_O", l, i, mix(a, v), stream, W_O)
end

local function expert(l, e, y, p)
    local units = population("expert_" .. l .. "_" .. e, {size = iota, page = b * iota})
    local x = sigma_of_experts(apply("W1", l, e, y, units, {rate = 1 / iota}))
    return apply("W2", l, e, p[e + 1] * x, stream, {rate = 1})
end

local function experts(l, y)
    local psi = look(y, E, {name = "R_" .. l, a0 = key("q0", 0.0), rate = rate * key("router_rate", 1.0),
                            adam_rate = b * rate * key("router_rate", 1.0), adam_eps = b})
    psi = bias(psi, normals(E), {name = "b_" .. l, rate = rate, adam_rate = b * rate, adam_eps = b})
    local p = sigmoid(psi)
    show(psi, "psi_" .. l)
    gates(p, psi, {name = "block" .. l})
    show(p, "p_" .. l)
    local sum = expert(l, 0, y, p)
    for e = 1, E - 1 do sum = sum + expert(l, e, y, p) end
    return sum
end

local function measure(name)
    kernel(h, "Ch_" .. name)
    gradient(h, "Cg_" .. name)
end

measure(0)
for l = 0, L - 1 do
    local y = norm(h)
    local o = head(l, H > 1 and 0 or nil, y)
    for i = 1, H - 1 do o = o + head(l, i, y) end
    h = h + b * o
    measure("mid_" .. l)
    h = h + b * experts(l, norm(h))
    measure(l + 1)
end
read_out(norm(h), "w")

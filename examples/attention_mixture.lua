-- A mixture of attention heads: each token weighs H heads by a router of its own.
--     h += sum_i p_i(y_s) W_O,i sum_t a_i,st W_V,i y_t        y = norm(h), p = softmax(<r_i, y_s> + b_i)
local H, beta = key("heads", 3), key("beta", 2.0)
local stream = population("stream")
local h = read_in(stream, "W0")
local y = norm(h)

local psi = bias(look(y, H, {name = "R", a0 = 0}), normals(H), "b")
local p = softmax(psi, {beta = key("router_beta", 1.0)})
show(p, "p", {about = "weights of the heads"})

local function head(i)
    local units = population("head" .. i)
    local q = map(y, units, {name = "W_Q" .. i, a0 = 0})
    local k = map(y, units, "W_K" .. i)
    local v = map(y, units, "W_V" .. i)
    local a = softmax(attend(q, k, beta), {causal = true})
    show(a, "attention" .. i, {axis = "source"})
    return map(mix(a, v), stream, "W_O" .. i)
end

local o = p[1] * head(1)
for i = 2, H do o = o + p[i] * head(i) end
h = h + o
kernel(h, "Phi")
gradient(h, "G")
read_out(norm(h), "w")

-- Blocks of many experts on a residual stream, as models/networks/stack.c with mixture = regime2 in MSSP.
local L, kappa, N_e = key("depth", 2), key("kappa", 1.0), key("expert_width", 2)
local before = key("norm", false)
local b = L ^ -key("branch_power", 1.0)
local rate = 1 / (L * b * b) -- L blocks move as much as one
local stream = population("stream")
local x = sigma(read_in(stream, "W1"))

local function matrix(name, l, W)
    W = W or {}
    return {name = name .. "_" .. l, rate = rate * (W.rate or 1), adam_rate = b * rate,
            adam_eps = b * (W.adam_eps or 1)}
end

local function mixture(l, y)
    local experts = population("experts_" .. l, {size = kappa, sites = "expert_sites", page = b * kappa})
    local units = population("units_" .. l, {of = experts, group = N_e, page = b * kappa * N_e})
    local psi = map(y, experts, matrix("Q", l))
    local phi = sigmoid(psi, key("beta", 1.0))
    if l == L - 1 then gates(phi) end
    local h_in = map(y, units, matrix("W_in", l, {rate = 1 / (kappa * N_e), adam_eps = N_e}))
    local x2 = phi * sigma_of_experts(h_in)
    local h3 = map(x2, stream, matrix("W_out", l))
    kernel(x2, "Phib_" .. l)
    gradient(h_in, "Gb_" .. l, {scale = kappa ^ 2})
    gradient(psi, "Gphi_" .. l, {scale = kappa ^ 2})
    return h3
end

kernel(x, "Ch_0")
gradient(x, "Cg_0")
for l = 0, L - 1 do
    x = x + b * mixture(l, before and norm(x) or x)
    kernel(x, "Ch_" .. l + 1)
    if l == L - 1 then read_out_kernel("Cw") else gradient(x, "Cg_" .. l + 1) end
end
read_out(x, "w")

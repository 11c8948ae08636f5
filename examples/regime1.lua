-- A fixed number M of deep experts, as models/networks/regime1.c in MSSP: h_top = sum_i p_i h_E,i.
local M, layers, iota = key("experts", 2), key("expert_layers", 1), key("iota", 1.0)
local beta, rho = key("beta", 1.0), key("rho", 1.0)
local h1 = read_in(population("bottom"), "W1")
local x1 = sigma(h1)
local top = population("top")
kernel(x1, "Phi1")
gradient(h1, "G1")

-- the router: its logits are numbers of each input, zero at the start but for a bias
local psi = look(x1, M, {name = "Q", a0 = key("q0", 0.0)})
if key("bias", "trained") == "trained" then
    psi = bias(psi, normals(M), "b")
end
local gate = key("gate", "sigmoid") == "softmax" and softmax or sigmoid
local p = gate(psi, {beta = beta, top = rho * M})
show(psi, "psi")
show(p, "p")
gates(p, psi)

local function expert(i)
    local x = x1
    for k = 2, layers + 1 do
        local last, name = k == layers + 1, "W" .. k .. "_" .. i
        local on = last and top or population(name, {size = iota, page = iota})
        local h = map(x, on, {name = name, family = "W" .. k, rate = last and 1 or 1 / iota})
        x = last and h or sigma_of_experts(h)
        if not last then kernel(x, "Phi" .. k .. "_" .. i) end
        gradient(h, "G" .. k .. "_" .. i)
    end
    return p[i + 1] * x
end

local h_top = expert(0)
for i = 1, M - 1 do h_top = h_top + expert(i) end
kernel(h_top, "PhiL")
read_out(h_top, "w")

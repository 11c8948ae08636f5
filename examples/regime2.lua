-- As many experts as width, M = kappa N, of N_e units each, as models/networks/regime2.c.
local kappa, N_e = key("kappa", 1.0), key("expert_width", 2)
local beta, rho, mup = key("beta", 1.0), key("rho", 1.0), key("mup", false)
local bottom = population("bottom")
local h1 = read_in(bottom, "W1")
local x1 = sigma(h1)
local experts = population("experts", {size = kappa, sites = "expert_sites", page = kappa})
local units = population("units", {of = experts, group = N_e, page = kappa * N_e})
local up = population("top")

-- gates: phi = sigmoid(beta psi), or softmax times the number of experts; the best share rho alone
local psi = map(x1, experts, "Q")
local soft = key("gate", "sigmoid") == "softmax"
local e
if soft then
    local largest = average(psi, top(psi, 1)) * experts.sites
    e = exp(psi - stop(largest), beta)
else
    e = sigmoid(psi, beta)
end

-- the loads of the experts, balanced by biases and by terms of the loss
local phi, balance, z = e, key("balance_loss", 0.0), key("z_loss", 0.0)
if rho < 1 then
    local mask = balance_select(soft and psi or e, rho * experts.sites, {eta_bias = key("eta_bias", 0.0)})
    phi = mask * e
    if balance > 0 then
        local share = mean_of_rows(1 / mean(e) * e)
        penalty(balance / rho * average(share, mean_of_rows(mask)), "balance_loss")
    end
end
if z > 0 then penalty(z * log(mean(exp(psi, beta))) ^ 2, "z_loss") end
if soft then phi = 1 / mean(phi) * phi end
gates(phi, psi)

local h_in = map(x1, units, {name = "W_in", rate = 1 / (kappa * N_e), adam_eps = N_e})
local x2 = phi * sigma_of_experts(h_in)
local h3 = map(x2, up, {name = "W_out", a0 = mup and 1 / math.sqrt(experts.size) or 1})

kernel(x1, "Phi1")
kernel(h3, "Phi3")
gradient(h1, "G1")
read_out_kernel("G3")
kernel(x2, "Phib")
gradient(h_in, "Gb", {scale = kappa ^ 2})
gradient(psi, "Gphi", {scale = kappa ^ 2})
read_out(h3, "w")

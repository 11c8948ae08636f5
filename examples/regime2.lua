-- As many experts as width, M = kappa N, of N_e units each, as models/regime2.c.
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
local mask = rho < 1 and top(psi, rho * experts.sites)
local phi
if key("gate", "sigmoid") == "softmax" then
    local largest = average(psi, top(psi, 1)) * experts.sites
    local e = exp(psi - stop(largest), beta)
    if mask then e = mask * e end
    phi = 1 / mean(e) * e
else
    phi = sigmoid(psi, beta)
    if mask then phi = mask * phi end
end
gates(phi)

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

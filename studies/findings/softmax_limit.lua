-- As many experts as kappa N behind a softmax, in MSSP (Regime II). cap: logits are cap tanh(psi/cap), and with 0 psi
-- itself; rho: share of the experts with the largest logits, over which the softmax goes.
local kappa, N_e = key("kappa", 1.0), key("expert_width", 2)
local cap, rho = key("cap", 0.0), key("rho", 1.0)
local bottom, top_stream = population("bottom"), population("top")
local x1 = sigma(read_in(bottom, "W1"))
local experts = population("experts", {size = kappa, sites = "expert_sites", page = kappa})
local units = population("units", {of = experts, group = N_e, page = kappa * N_e})

local psi = map(x1, experts, "Q")
if cap > 0 then psi = cap * tanh(psi, 1 / cap) end
local largest = average(psi, top(psi, 1)) * experts.sites
local e = exp(psi - stop(largest))
if rho < 1 then e = top(psi, rho * experts.sites) * e end
local phi = 1 / mean(e) * e
gates(phi, psi)

local h = map(x1, units, {name = "W_in", rate = 1 / (kappa * N_e), adam_eps = N_e})
read_out(map(phi * sigma_of_experts(h), top_stream, {name = "W_out", a0 = 1}), "w")

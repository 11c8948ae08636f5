-- Half as many experts as neurons, which choose their tokens: each takes the C tokens of an input that it
-- has the largest logits for. With capacity > 0 tokens choose experts instead, the share rho of
-- them, and each expert takes the first `capacity` tokens that have chosen it; the rest is dropped.
local kappa, N_e, C = key("kappa", 0.5), key("expert_width", 2), key("tokens", 2)
local capacity, rho = key("capacity", 0), key("rho", 0.5)
local stream = population("stream")
local h = read_in(stream, "W0")
local x = norm(h)
local experts = population("experts", {size = kappa, sites = "expert_sites"})
local units = population("units", {of = experts, group = N_e})

local psi = map(x, experts, "Q")
local taken
if capacity > 0 then
    local chosen = top(psi, rho * experts.sites)
    taken = first_rows(chosen, capacity)
    show(mean(chosen - taken) / rho, "dropped", {about = "share of the choices of tokens that are dropped"})
else
    taken = top_rows(psi, C)
end
gates(taken * sigmoid(psi), psi)

local h_in = map(x, units, {name = "W_in", rate = 1 / (kappa * N_e), adam_eps = N_e})
h = h + map(taken * sigmoid(psi) * tanh(h_in), stream, "W_out")
kernel(h, "Phi")
gradient(psi, "Gphi", {scale = kappa ^ 2})
read_out(norm(h), "w")

-- Top-K of half as many experts as neurons with noise on the logits, whose scale is learnt:
--     psi = Q x + softplus(S x) zeta,   gates are sigmoid(psi) on the share rho of the largest psi
-- zeta are normals of every expert, input and step. Test inputs see no noise.
local kappa, N_e, rho = key("kappa", 0.5), key("expert_width", 2), key("rho", 0.5)
local noise_scale = key("noise", 1.0)
local stream = population("stream")
local x = tanh(read_in(stream, "W1"))
local experts = population("experts", {size = kappa, sites = "expert_sites"})
local units = population("units", {of = experts, group = N_e})
local top_of_stack = population("top")

local psi = map(x, experts, "Q")
if noise_scale > 0 then
    local zeta = noise(psi)
    name_rows(zeta, "zeta", {tex = "\\zeta"})
    psi = psi + noise_scale * softplus(map(x, experts, "S")) * zeta
end
local phi = top(psi, rho * experts.sites) * sigmoid(psi)
gates(phi, psi)

local h_in = map(x, units, {name = "W_in", rate = 1 / (kappa * N_e), adam_eps = N_e})
local h = map(phi * tanh(h_in), top_of_stack, "W_out")
kernel(h, "Phi")
gradient(psi, "Gphi", {scale = kappa ^ 2})
read_out(h, "w")

-- Experts as wide as the network, N_e = iota N, as models/networks/regime3.c in MSSP: experts begin equal.
local kappa, iota, beta = key("kappa", 1.0), key("iota", 1.0), key("beta", 1.0)
local h1 = read_in(population("bottom"), "W1")
local x1 = sigma(h1)
local experts = population("experts", {size = kappa, sites = "expert_sites", page = kappa})
local units = population("units", {size = iota, sites = "unit_sites", page = iota})
local pairs = population("pairs", {of = experts, units = units, page = iota})
local top = population("top")

local psi = map(x1, experts, "Q")
local phi = sigmoid(psi, beta)
gates(phi, psi)

-- what is learned, P, on top of matrices that all experts share, A
local h = map(x1, pairs, {name = "P_in", zero = true, rate = 1 / (kappa * iota), adam_eps = iota})
local tied = map(x1, units, {name = "A_in", fixed = true})
h = h + tile(tied, pairs)
local x = sigma_of_experts(h)
local x2 = phi * x
local h3 = map(x2, top, {name = "P_out", zero = true, s_f = math.sqrt(iota / experts.size),
                         rate = iota / kappa})
local means = tile_mean(x2, units)
h3 = h3 + map(means, top, {name = "A_out", fixed = true, s_f = math.sqrt(iota)})

kernel(x1, "Phi1")
kernel(h3, "Phi3")
gradient(h1, "G1")
read_out_kernel("G3")
kernel(x2, "Phibar")
gradient(h, "Gbar")
kernel(x, "PhiE")
kernel(means, "Phitil")
gradient(tied, "Gtil")
gradient(psi, "G1phi", {scale = kappa ^ 2})
kernel(phi, "phit2")
read_out(h3, "w")

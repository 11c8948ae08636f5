-- SwiGLU experts, as many as width: M = kappa N experts of N_e units, each silu(W x) times V x.
--     x2 = phi silu(W x1) (V x1)        phi = sigmoid(Q x1)        silu(h) = h sigmoid(h)
local kappa, N_e = key("kappa", 0.5), key("expert_width", 2)
local h1 = read_in(population("bottom"), "W1")
local x1 = sigma(h1)
local experts = population("experts", {size = kappa, sites = "expert_sites"})
local units = population("units", {of = experts, group = N_e})
local up = population("top")

local function silu(h) return sigmoid(h) * h end

local phi = sigmoid(map(x1, experts, "Q"))
local rate = 1 / (kappa * N_e)
local h_in = map(x1, units, {name = "W_in", rate = rate})
local x2 = phi * (silu(h_in) * map(x1, units, {name = "V_in", rate = rate}))
local h3 = map(x2, up, "W_out")
gates(phi)
kernel(x1, "Phi1")
kernel(x2, "Phib", {about = "feature kernel of the units"})
gradient(h_in, "Gb")
kernel(h3, "Phi3")
read_out(h3, "w")

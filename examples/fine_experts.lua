-- A mixture as in DeepSeek-V3: many fine experts, M = kappa N of N_e SwiGLU units, of which each input has the
-- share rho with the largest sigmoid gates plus selection biases; the gates of those that are selected are divided
-- by their sum. Beside them a shared expert, of iota N units, that every input passes through.
--     h = W_out (phi silu(W_in x1) (V_in x1)) + W_s silu(W_g x1) (V_g x1)
--     phi = m s / <m s>        s = sigmoid(Q x1)        m: the rho M largest s + b        b -= eta_bias (load - rho)
local kappa, N_e, rho, iota = key("kappa", 0.5), key("expert_width", 2), key("rho", 0.25), key("iota", 0.5)
local h1 = read_in(population("bottom"), "W1")
local x1 = sigma(h1)
local experts = population("experts", {size = kappa, sites = "expert_sites"})
local units = population("units", {of = experts, group = N_e})
local shared = population("shared", {size = iota})
local up = population("top")

local function silu(h) return sigmoid(h) * h end

local psi = map(x1, experts, "Q")
local s = sigmoid(psi)
local selected = balance_select(s, rho * experts.sites, {eta_bias = key("eta_bias", 0.01)}) * s
local phi = 1 / mean(selected) * selected
gates(phi, psi) -- for [output] router

local rate = 1 / (kappa * N_e)
local h_in = map(x1, units, {name = "W_in", rate = rate})
local x2 = phi * (silu(h_in) * map(x1, units, {name = "V_in", rate = rate}))
local h_shared = map(x1, shared, {name = "W_g", rate = 1 / iota})
local x_shared = silu(h_shared) * map(x1, shared, {name = "V_g", rate = 1 / iota})
local h3 = map(x2, up, "W_out") + map(x_shared, up, "W_s")
kernel(x1, "Phi1")
gradient(h1, "G1")
kernel(x2, "Phib", {about = "feature kernel of the units of the fine experts"})
kernel(x_shared, "Phis", {about = "feature kernel of the shared expert"})
kernel(h3, "Phi3")
read_out(h3, "w")

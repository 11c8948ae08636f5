-- Four blocks on a stream: dense, experts, dense, experts, each behind a norm. Experts of Regime II: kappa N of them, of
-- N_e units.
local kappa, N_e = key("kappa", 0.25), key("expert_width", 4)
local stream = population("stream")
local h = read_in(stream, "W0")

local function dense(l, y)
    local units = population("dense_" .. l)
    return map(sigma(map(y, units, {name = "W1_" .. l, family = "W1"})), stream, {name = "W2_" .. l, family = "W2"})
end

local function mixture(l, y)
    local experts = population("experts_" .. l, {size = kappa, sites = "expert_sites", page = kappa})
    local units = population("units_" .. l, {of = experts, group = N_e, page = kappa * N_e})
    local psi = map(y, experts, {name = "Q_" .. l, family = "Q"})
    local phi = sigmoid(psi)
    gates(phi, psi, {name = "block" .. l})
    local x = map(y, units, {name = "W_in_" .. l, family = "W_in", rate = 1 / (kappa * N_e), adam_eps = N_e})
    return map(phi * sigma_of_experts(x), stream, {name = "W_out_" .. l, family = "W_out"})
end

for l = 1, 4 do h = h + (l % 2 == 1 and dense or mixture)(l, norm(h)) / 2 end
kernel(h, "Ch")
gradient(h, "Cg")
read_out(norm(h), {name = "w", zero = true})

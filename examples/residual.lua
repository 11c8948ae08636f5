-- A deep residual mixture of experts, as models/networks/residual.c with experts of infinite width, alpha > 0
-- and soft routing; top-K with selection biases that do not start at 0 is for the built-in
-- network alone.
local L, alpha, E = key("depth", 2), key("alpha", 1.0), key("experts", 2)
local stream = population("stream")
local h = read_in(stream, "W0")

local function block(l)
    local many, some, N_e = 1 / alpha, 1, "unit_sites"
    if not limit then
        some, N_e = E / N, N / (alpha * E)
        many = some * N_e
    end
    local experts = population("experts_" .. l, {size = some, sites = limit and 1 or nil, page = 1 / L})
    local units = population("units_" .. l, {of = experts, group = N_e, size = many, page = 1 / L,
                                             mirrored = true})
    local c = sigmoid(map(h, experts, {name = "R_" .. l, zero = true, rate = L, adam_eps = 1 / L}))
    local psi = map(h, units, {name = "W1_" .. l, rate = L, adam_eps = 1 / L})
    local x = c * sigma(psi)
    kernel(x, "Mphi_" .. l)
    gradient(psi, "Mg_" .. l)
    return map(x, stream, {name = "W2_" .. l, s_f = math.sqrt(stream.size / units.size) / L,
                           rate = 1 / L, adam_rate = 1 / L})
end

for l = 0, L do
    kernel(h, "Ch_" .. l)
    gradient(h, "Cg_" .. l)
    if l < L then h = h + block(l) end
end
read_out(h, "w")

-- Four experts behind sigmoid gates (Regime I in muP). What the read-in learns is kept apart by the way on which its
-- gradient comes: through the router (V) or through the experts (U). Their sum is what one matrix would learn.
local M, bottom, top = 4, population("bottom"), population("top")
local start = read_in(bottom, {name = "W1", fixed = true})
local by_router = read_in(bottom, {name = "V", zero = true})
local by_experts = read_in(bottom, {name = "U", zero = true})
local for_router, for_experts = start + by_router + stop(by_experts), start + stop(by_router) + by_experts
local h_top, of_router, of_experts
for i = 1, M do
    local q = vector(bottom, {name = "Q" .. i, family = "Q", fixed = true})
    local learned = vector(bottom, {name = "dQ" .. i, family = "dQ", zero = true})
    local gate = sigmoid(average(for_router, q + learned))
    local units = population("units" .. i)
    local out = map(sigma(map(for_experts, units, {name = "W2_" .. i, family = "W2"})), top, {name = "W3_" .. i, family = "W3"})
    local a, b = average(by_router, stop(q)) ^ 2 / M, average(by_experts, stop(q)) ^ 2 / M
    h_top = h_top and h_top + gate * out or gate * out
    of_router, of_experts = of_router and of_router + a or a, of_experts and of_experts + b or b
end
show(of_router, "of_router", {about = "mean square of Q(0) dh1, what came through the router"})
show(of_experts, "of_experts", {about = "mean square of Q(0) dh1, what came through the experts"})
read_out(h_top, "w")

-- Spins that a symmetric random matrix couples, ds/dt = J s - lambda s with J_ij = J_ji of variance 1/N. J is
-- (W + W^T)/sqrt 2: gradient descent on lambda <s s>/2 - <s W s>/sqrt 2 meets W once forward and once backward.
local sites = population("sites")
local s = vector(sites, {name = "s"})
local field = map(s, sites, {name = "W", fixed = true})
penalty(0.5 * key("lambda", 2.0) * average(s, s) - 0.5 ^ 0.5 * average(s, field), "energy")
kernel(s, "C")
read_out(s, {name = "w", zero = true, fixed = true})

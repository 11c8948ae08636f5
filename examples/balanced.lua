-- A mixture whose loads are balanced, as models/networks/regime1.c with rho < 1: of M experts every input has
-- the K of the largest logits + b, which biases b, a term of the loss or both keep busy alike.
--     b_i -= eta_bias (load_i - K/M)           by the sign of that with sign = 1
--                                              balance_loss M/K sum_i load_i <share_i>
--     z_loss <(ln sum_i exp(beta psi_i))^2>    share = softmax(beta psi)
-- softmax and log_sum_exp are finite for logits of any size, exp is not.
local M, K, beta = key("experts", 4), key("top", 2), key("beta", 1.0)
local x1 = sigma(read_in(population("bottom"), "W1"))
local up = population("top")

local psi = bias(look(x1, M, {name = "Q", a0 = 0}), normals(M), "b")
local mask = balance_select(psi, K, {eta_bias = key("eta_bias", 0.01), sign = key("sign", 0) == 1})
local q = softmax(beta * psi)
penalty(key("balance_loss", 0.1) * M / K * sum(mean_of_rows(mask) * mean_of_rows(q)), "balance_loss")
penalty(key("z_loss", 0.01) * log_sum_exp(beta * psi) ^ 2, "z_loss")
local p = mask * q / sum(mask * q)
show(p, "p")

local h = p[1] * map(x1, up, "W2_0")
for i = 2, M do h = h + p[i] * map(x1, up, "W2_" .. i - 1) end
kernel(h, "PhiL")
read_out(h, "w")

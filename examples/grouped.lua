-- Routing limited to groups, as in DeepSeek-V3: eight experts in four groups of two; a token may choose two experts
-- among those of the two groups whose scores add up to most, and the balancing loss is taken for each sequence by itself.
--     psi = <Q x1> + b,  s = sigmoid(psi),  m: the two largest s of the groups that are chosen,  p = m s / sum m s
--     aux = alpha M/K mean over sequences of sum_i <m_i>_tokens <q_i>_tokens,  q = s / sum s
-- A token's scores are mixed with those of the token before, which shifts the choice but not the gates.
local groups, each, K = 4, 2, 2
local M = groups * each
local h1 = read_in(population("bottom"), "W1")
local x1 = sigma(h1)
local up = population("top")
local start = {} -- of each kind of token, so that tokens choose different experts from the beginning
for v = 1, vocabulary do
    start[v] = {}
    for i = 1, M do start[v][i] = math.sin(2.1 * v * v * i + i) end
end
local psi = bias(look(x1, M, {name = "Q", a0 = 0}), start, "b")
local s = sigmoid(psi)
local seen = s + 0.25 * lag(s, 1)
local jitter = key("jitter", 0) -- normals of each token and step on the scores that are compared, in training alone
if jitter > 0 then seen = seen + jitter * noise(seen) end
local sums = {}
for g = 1, groups do sums[g] = seen[each * (g - 1) + 1] + seen[each * g] end
local chosen, allowed = top(join(sums), 2), {}
for i = 1, M do allowed[i] = chosen[math.ceil(i / each)] end
local m = top(join(allowed) * seen, K)
local p, q = m * s / sum(m * s), s / sum(s)
local h
for i = 1, M do
    local y = p[i] * sigma(map(x1, up, {name = "W2_" .. i, family = "W2"}))
    h = h and h + y or y
end
penalty(key("alpha", 0.1) * M / K * sum(pool(m) * pool(q)), "aux", {about = "balancing loss of each sequence"})
show(p, "p", {about = "gates"})
kernel(x1, "Phi1")
kernel(h, "Phi3")
read_out(h, "w")

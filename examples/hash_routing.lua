-- Hash routing: the expert of a token follows from its number alone, and nothing is learned of it.
--     h += sum_i [hash(token) = i] W2_i sigma(W1_i h)
local E, iota, salt = key("experts", 2), key("iota", 0.5), key("salt", 5)
local stream = population("stream")
local h = read_in(stream, "W0")

-- gates are numbers of each token: 0 plus a fixed bias of its kind, 1 for its expert
local choice = {}
for v = 1, vocabulary do
    choice[v] = {}
    for i = 1, E do choice[v][i] = (v * salt // 3) % E == i - 1 and 1 or 0 end
end
local nothing = look(h, E, {name = "R", a0 = 0, rate = 0})
local p = bias(nothing, choice, {name = "hash", rate = 0})
show(p, "p", {about = "expert of each token"})

local sum
for i = 1, E do
    local units = population("expert" .. i, {size = iota})
    local x = sigma(map(h, units, {name = "W1_" .. i, rate = 1 / iota}))
    local o = map(p[i] * x, stream, "W2_" .. i)
    sum = sum and sum + o or o
end
h = h + sum
kernel(h, "Phi")
gradient(h, "G")
read_out(h, "w")

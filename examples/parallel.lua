-- Parallel blocks: attention and a gated dense layer read the same norm of the stream and are added to
-- it at once, L times, each with 1/L.
--     h += (1/L) (W_O sum_t a_st W_V y_t + W_2 (sigma(W_1 y) * W_3 y))        y = norm(h)
local L, beta = key("depth", 2), key("beta", 2.0)
local stream = population("stream")
local h = read_in(stream, "W0")
kernel(h, "C_0")

for l = 1, L do
    local function matrix(name, a0) -- L blocks move as much as one
        return {name = name .. "_" .. l, a0 = a0, rate = L, adam_rate = 1, adam_eps = 1 / L}
    end
    local y = norm(h)
    local head = population("head_" .. l)
    local a = softmax(attend(map(y, head, matrix("W_Q", 0)), map(y, head, matrix("W_K")), beta),
                      {causal = true})
    local seen = map(mix(a, map(y, head, matrix("W_V"))), stream, matrix("W_O"))
    local units = population("units_" .. l)
    local x = sigma(map(y, units, matrix("W_1"))) * map(y, units, matrix("W_3"))
    h = h + (seen + map(x, stream, matrix("W_2"))) / L
    kernel(h, "C_" .. l)
    show(a, "attention_" .. l, {axis = "source"})
end
read_out(norm(h), "w")

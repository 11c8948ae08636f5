-- A convolutional network on sequences: h_s = K^-1/2 sum_k W_k (S_k y)_s, S_k what place k of a window
-- of K tokens sees. The first layer keeps all tokens, the second takes every second window.
local K, stride = key("window", 3), key("stride", 2)
local channels, top = population("channels"), population("top")

local function windows(n, stride)
    return window(1, n, {size = K, padding = (K - 1) // 2, stride = stride})
end

local h
for k, S in ipairs(windows(tokens, 1)) do
    local part = mix(read_in(channels, "W1_" .. k), S)
    h = h and h + part or part
end
h = K ^ -0.5 * h
local y = tanh(h)
local g
for k, S in ipairs(windows(tokens, stride)) do
    local part = map(mix(y, S), top, {name = "W2_" .. k, s_f = K ^ -0.5, rate = 1 / K, adam_rate = K ^ -0.5})
    g = g and g + part or part
end
kernel(h, "Phi1")
kernel(g, "Phi2")
gradient(g, "G2")
read_out(tanh(g), "w")

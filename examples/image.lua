-- A convolutional network on images of tokens = side x side pixels: 3 x 3 windows, every second one in
-- both directions, the mean over squares of 2 x 2 places, and 3 x 3 windows again.
local side = key("side", 7)
assert(side * side == tokens, "an image has side x side rows; [data] patch = 1 makes rows of pixels")
local first, second = population("first"), population("second")

local function sum(list)
    local all = list[1]
    for k = 2, #list do
        all = all + list[k]
    end
    return all
end

local parts, places = {}, (side - 1) // 2 + 1
for k, S in ipairs(window(side, side, {size = 3, stride = 2, padding = 1})) do
    parts[k] = mix(read_in(first, "W1_" .. k), S)
end
local h1 = 1 / 3 * sum(parts)
local y = mix(tanh(h1), pooling(places, places))

parts = {}
for k, S in ipairs(window(places // 2, places // 2, {size = 3, padding = 1})) do
    parts[k] = map(mix(y, S), second, {name = "W2_" .. k, s_f = 1 / 3, rate = 1 / 9, adam_rate = 1 / 3})
end
local h2 = sum(parts)
kernel(y, "Phi1")
kernel(h2, "Phi2")
gradient(h2, "G2")
read_out(tanh(h2), "w")

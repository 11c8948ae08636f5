-- A deep residual dense network, as models/networks/resnet.c: h_l+1 = h_l + (b/sqrt L) W_l sigma(h_l).
local L, b = key("depth", 4), key("branch", 1.0)
local scale = b / math.sqrt(L)
local stream = population("stream")
local h = read_in(stream, "W0")

local function measure(l)
    kernel(h, "Ch_" .. l, {equation = "<h_l h_l>"})
    gradient(h, "Cg_" .. l, {equation = "<g_l g_l>"})
end

measure(0)
for l = 0, L - 1 do
    local x = sigma(h)
    kernel(x, "Phi_" .. l)
    h = h + map(x, stream, {name = "W_" .. l, s_f = scale, rate = scale * scale, adam_rate = b / L})
    measure(l + 1)
end
read_out(h, "w")

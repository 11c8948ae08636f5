-- Weight-tied blocks: L residual blocks with one matrix W, which learns from all of its places.
--     h_l+1 = h_l + (b/L) W sigma(h_l)
local L, b = key("depth", 4), key("branch", 1.0)
local scale = b / L
local W = {name = "W", tied = true, s_f = scale, rate = scale * scale, adam_rate = scale}
local stream = population("stream")
local h = read_in(stream, "W0")

for l = 1, L do
    kernel(h, "C_" .. l - 1)
    gradient(h, "G_" .. l - 1)
    h = h + map(sigma(h), stream, W)
end
kernel(h, "C_" .. L)
read_out(h, "w")

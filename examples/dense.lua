-- The deep dense network, as models/networks/dense.c: h_1 = W1 x/sqrt D, h_l = W_l sigma(h_l-1).
local depth = key("depth", 3)
local h = read_in(population("bottom"), "W1")
local top = population("top")
local x
for l = 1, depth do
    x = sigma(h)
    kernel(x, "Phi" .. l, {equation = "<sigma(h) sigma(h)>"})
    gradient(h, "G" .. l)
    if l < depth then
        local name = "W" .. l + 1
        h = map(x, l + 1 < depth and population(name) or top, name)
    end
end
kernel(x, "PhiL", {about = "feature kernel of the top"})
read_out(x, "w")

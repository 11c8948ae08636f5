-- One matrix reads letters in and logits out, as in GPT-2: it has a trained vector E_v for each letter.
--     h = E_letter + W2 sigma(W1 norm(h0))      f_v = c <E_v norm(h)>      c: of order one, with muP's 1/N in the mean
-- f(0) is of order one, since h has E in it, and not 0 as with a read-out of its own.
local stream, units = population("stream"), population("units")
local V, c = outputs, key("c", 1.0)

local function unit(v) -- the list 0 .. 0 1 0 .. 0
    local list = {}
    for k = 1, V do list[k] = k == v and 1 or 0 end
    return list
end

local kinds, E = {}, {}
for v = 1, V do kinds[v], E[v] = unit(v), vector(stream, {name = "E" .. v, decays = true}) end
local none = scalar({name = "none", start = unit(0), rate = 0})
local letter = bias(none, kinds, {name = "letter", rate = 0}) -- letter[v]: 1 where the letter is v

local h = letter[1] * E[1]
for v = 2, V do h = h + letter[v] * E[v] end
h = h + map(sigma(map(norm(h), units, "W1")), stream, "W2")
kernel(h, "Ch")
gradient(h, "Cg")

local x = norm(h)
local f = read_out(x, {name = "w", a0 = 0, rate = 0}) -- 0: an output has a read-out, and more is added to it
for v = 1, V do f = f + c * mean(E[v] * x) * scalar({name = "unit" .. v, start = unit(v), rate = 0}) end
output(f)

-- One matrix reads letters in and logits out, as in GPT-2: a trained vector E_v for each letter v.
--     h = E_letter + P_place + W2 sigma(W1 norm(h0))      f_v = c <E_v norm(h)>
-- c is of order one, with muP's 1/N in the mean. f(0) is of order one, too, since h has E in it, and is not subtracted.
local stream, units = population("stream"), population("units")

local E = {name = "E", tied = true}
local h = embed(input(1, vocabulary), stream, E)
h = h + embed(input(vocabulary + 1, vocabulary + tokens), stream, "P")
h = h + map(sigma(map(norm(h), units, "W1")), stream, "W2")
kernel(h, "Ch")
gradient(h, "Cg")
output(key("c", 1.0) * read_out(norm(h), E))

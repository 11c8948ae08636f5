-- The end of a language model: its output has a bias, lies below a cap, and has a z-loss.
local stream, units = population("stream"), population("units")
local cap, start = key("cap", 3.0), {}
for c = 1, outputs do start[c] = 0 end
local h = read_in(stream, "W0")
h = h + map(sigma(map(norm(h), units, "W1")), stream, "W2")
kernel(h, "Ch")
gradient(h, "Cg")
local f = bias(read_out(norm(h), "w"), start, "c")
f = cap * tanh(f / cap)
penalty(key("z_loss", 0.05) * log_sum_exp(f) ^ 2, "z_loss")
output(f)

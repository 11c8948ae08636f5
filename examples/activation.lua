-- Activations of one's own: functions of rows, put together from those there are. Their derivatives
-- follow by the chain rule, in networks of every width and in the limit.
local function mish(x) return x * tanh(softplus(x)) end
local function snake(x) local s = sin(x) return x + s * s end
local function leaky(x) return relu(x) - 0.1 * relu(x, -1) end
local function squared(x) return relu(x) ^ 2 end
local function logcosh(x) return log(exp(x) + exp(x, -1)) end
local function root(x) return (exp(x) + exp(x, -1)) ^ 0.5 end

local mine = {mish = mish, snake = snake, leaky = leaky, squared = squared, logcosh = logcosh, root = root}
local name = key("activation", "snake")
local act = mine[name] or error("there is no activation " .. name)

local bottom, top = population("bottom"), population("top")
local h1 = read_in(bottom, "W1")
local h2 = map(act(h1), top, "W2")
name_rows(h2, "h2")
kernel(act(h2), "Phi2")
gradient(h2, "G2")
read_out(act(h2), "w")

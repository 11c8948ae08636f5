/* Functions of numbers, and arithmetic on everything: what + - * / ^ and f(x) mean for rows over
 * the sites of a population, for numbers of each input, and for plain numbers of Lua. */
#include "models/lua/script.h"
#include "models/parts/block.h"

struct value script_numbers(lua_State *L, int arg) {
    const struct handle *h = luaL_testudata(L, arg, SCRIPT_VALUE);
    if (!script_is_numbers(L, arg))
        luaL_argerror(L, arg,
                      script_is_rows(L, arg) ? "must be numbers of each input, is rows"
                                             : "must be numbers of each input");
    struct value s = {h->at};
    if (h->column >= 0)
        s = program_pick(script_program(L), s, h->column);
    script_check(L);
    return s;
}

/* s[k], from 1; nil beyond the last. */
static int index_numbers(lua_State *L) {
    const struct handle *h = lua_touserdata(L, 1);
    if (!script_is_numbers(L, 1) || h->column >= 0 || !lua_isinteger(L, 2))
        return luaL_error(L, "only numbers of each input have parts: s[1] ... s[#s]");
    lua_Integer k = lua_tointeger(L, 2);
    if (k < 1 || k > script_node(L, (struct value){h->at})->K)
        return 0;
    struct handle *out = lua_newuserdatauv(L, sizeof *out, 0);
    *out = (struct handle){h->at, (int)k - 1};
    luaL_setmetatable(L, SCRIPT_VALUE);
    return 1;
}

static int length(lua_State *L) {
    const struct handle *h = lua_touserdata(L, 1);
    if (!script_is_numbers(L, 1))
        return luaL_error(L, "only numbers of each input have a length");
    lua_pushinteger(L, h->column < 0 ? script_node(L, (struct value){h->at})->K : 1);
    return 1;
}

/* --- arithmetic ------------------------------------------------------------------------------ */

static bool is_number(lua_State *L, int arg) {
    return lua_type(L, arg) == LUA_TNUMBER;
}

/* The handle of numbers of which there is one of each input, and which column. */
static struct value single_number(lua_State *L, int arg, int *column) {
    const struct handle *h = lua_touserdata(L, arg);
    struct value s = {h->at};
    *column = h->column < 0 ? 0 : h->column;
    int K = script_node(L, s)->K;
    if (h->column < 0 && K != 1)
        luaL_error(L, "rows go with one number of each input, not with %d: s[1] is the first", K);
    return s;
}

static int scale_by(lua_State *L, int numbers, int rows) {
    int column;
    struct value s = single_number(L, numbers, &column), x = script_rows(L, rows);
    return script_push(L, program_scale(script_program(L), s, column, x));
}

static int shift_by(lua_State *L, int numbers, int rows) {
    struct value x = script_rows(L, rows), s;
    int column;
    single_number(L, numbers, &column);
    s = script_numbers(L, numbers);
    return script_push(L, program_shift(script_program(L), s, x));
}

static int refuse_operand(lua_State *L, const char *op) {
    return luaL_error(L, "%s of values goes with values and numbers only", op);
}

/* k x of either kind. */
static int multiply_value(lua_State *L, double k, int arg) {
    if (!isfinite(k))
        return luaL_error(L, "a factor must be finite");
    return script_push(L, program_times(script_program(L), k, script_rows_or_numbers(L, arg)));
}

static int push_sum(lua_State *L, int arg, double c) {
    if (script_is_rows(L, arg))
        return luaL_error(L, "rows plus a number: only rows or numbers of each input can be added");
    return script_push(L, program_plus(script_program(L), script_numbers(L, arg), c));
}

static int add(lua_State *L) {
    struct program *p = script_program(L);
    if (is_number(L, 1) || is_number(L, 2))
        return is_number(L, 1) ? push_sum(L, 2, lua_tonumber(L, 1))
                               : push_sum(L, 1, lua_tonumber(L, 2));
    if (!script_is_value(L, 1) || !script_is_value(L, 2))
        return refuse_operand(L, "a sum");
    bool a = script_is_rows(L, 1), b = script_is_rows(L, 2);
    if (a != b)
        return a ? shift_by(L, 2, 1) : shift_by(L, 1, 2);
    struct value x = script_rows_or_numbers(L, 1);
    return script_push(L, program_add(p, x, script_rows_or_numbers(L, 2)));
}

static int negate(lua_State *L) {
    return multiply_value(L, -1, 1);
}

static int subtract(lua_State *L) {
    if (is_number(L, 2)) {
        lua_pushnumber(L, -lua_tonumber(L, 2));
    } else {
        if (!script_is_value(L, 2))
            return refuse_operand(L, "a difference");
        multiply_value(L, -1, 2);
    }
    lua_replace(L, 2);
    lua_settop(L, 2);
    return add(L);
}

/* Where two populations meet, the one whose sites have groups is the second factor. */
static int multiply_alike(lua_State *L) {
    struct value a = script_rows_or_numbers(L, 1), b = script_rows_or_numbers(L, 2);
    const struct population *u = script_node(L, a)->on, *v = script_node(L, b)->on;
    bool turned = u != v && node_groups(v, u) && !node_groups(u, v);
    return script_push(L, turned ? program_multiply(script_program(L), b, a)
                                 : program_multiply(script_program(L), a, b));
}

static int multiply(lua_State *L) {
    if (is_number(L, 1))
        return multiply_value(L, lua_tonumber(L, 1), 2);
    if (is_number(L, 2))
        return multiply_value(L, lua_tonumber(L, 2), 1);
    if (!script_is_value(L, 1) || !script_is_value(L, 2))
        return refuse_operand(L, "a product");
    bool a = script_is_rows(L, 1), b = script_is_rows(L, 2);
    if (a != b)
        return a ? scale_by(L, 2, 1) : scale_by(L, 1, 2);
    return multiply_alike(L);
}

/* c/x */
static int push_inverse(lua_State *L, double c, int arg) {
    struct program *p = script_program(L);
    script_push(L, program_fn(p, FN_INVERSE, 1, script_rows_or_numbers(L, arg)));
    return c == 1 ? 1 : multiply_value(L, c, lua_gettop(L));
}

static int divide(lua_State *L) {
    if (is_number(L, 2))
        return multiply_value(L, 1 / lua_tonumber(L, 2), 1);
    if (!script_is_value(L, 2))
        return refuse_operand(L, "a quotient");
    if (is_number(L, 1))
        return push_inverse(L, lua_tonumber(L, 1), 2);
    push_inverse(L, 1, 2);
    lua_replace(L, 2);
    lua_settop(L, 2);
    return multiply(L);
}

/* x^c of rows: 1 = exp(0 x) where c is 0, products where it is whole, else exp(c log x), for which
 * x must be above 0. */
enum { MOST_FACTORS = 16 };
static struct value power_of_rows(struct program *p, struct value x, double c) {
    if (c == 0)
        return program_fn(p, FN_EXP, 0, x);
    if (c != round(c) || fabs(c) > MOST_FACTORS)
        return program_fn(p, FN_EXP, c, program_fn(p, FN_LOG, 1, x));
    struct value out = x;
    for (int k = 1; k < (int)fabs(c); k++)
        out = program_multiply(p, out, x);
    return c < 0 ? program_fn(p, FN_INVERSE, 1, out) : out;
}

static int power(lua_State *L) {
    if (!script_is_value(L, 1) || !is_number(L, 2) || !isfinite(lua_tonumber(L, 2)))
        return luaL_error(L, "a power is of rows or numbers, with a plain number as exponent");
    double c = lua_tonumber(L, 2);
    if (script_is_rows(L, 1))
        return script_push(L, power_of_rows(script_program(L), script_rows(L, 1), c));
    return script_push(L, program_power(script_program(L), script_numbers(L, 1), c));
}

/* --- functions by name ----------------------------------------------------------------------- */

/* softmax or sigmoid of beta s, 0 but for the K largest. */
static int push_gate(lua_State *L, bool softmax) {
    struct value s = script_numbers(L, 1);
    int M = script_node(L, s)->K;
    struct router_gate gate = {.softmax = softmax, .beta = 1, .K = M};
    struct value mask = {-1};
    script_options(L, 2, "beta top");
    if (script_option(L, 2, "beta"))
        gate.beta = script_real(L, -1, -1e6, 1e6);
    if (script_option(L, 2, "top"))
        gate.K = script_whole(L, -1, 1, M);
    if (gate.K < M)
        mask = program_top(script_program(L), s, (size_t)gate.K);
    return script_push(L, router_gates(script_program(L), s, mask, gate));
}

/* f(x), or f(x, k) = f(k x). */
static int function(lua_State *L) {
    enum fn fn = 0;
    const char *name = script_called(L);
    while (strcmp(functions_name[fn], name))
        fn++;
    if (!lua_isnoneornil(L, 3))
        return luaL_error(L, "%s of rows takes (x, k), of numbers (s, {beta=, top=})", name);
    if (script_is_numbers(L, 1) && fn == FN_SIGMOID)
        return push_gate(L, false);
    if (!script_is_value(L, 1))
        return luaL_error(L, "%s takes rows or numbers of each input", name);
    double factor = lua_isnoneornil(L, 2) ? 1 : script_real(L, 2, -1e9, 1e9);
    return script_push(L, program_fn(script_program(L), fn, factor, script_rows_or_numbers(L, 1)));
}

/* softmax of numbers or, where `causal` is said, of the logits of attention over tokens. */
static int softmax(lua_State *L) {
    struct program *p = script_program(L);
    if (!lua_istable(L, 2) || !script_option(L, 2, "causal"))
        return push_gate(L, true);
    bool causal = lua_toboolean(L, -1);
    script_options(L, 2, "causal");
    struct value s = script_is_rows(L, 1) ? script_rows(L, 1) : script_numbers(L, 1);
    const struct node *v = script_node(L, s);
    if (!v->on && (v->K != p->net->setup.data.n || v->per != p->net->setup.data.n))
        return luaL_error(L, "softmax with `causal` takes the logits of attention");
    return script_push(L, program_softmax(p, s, causal));
}

/* All numbers of a list, side by side. */
static int join(lua_State *L) {
    if (!lua_istable(L, 1))
        return luaL_error(L, "join takes a list of numbers of each input: join{s, r, ...}");
    int count = (int)lua_rawlen(L, 1), K = 0;
    struct value out = {-1};
    for (int k = 1; k <= count; k++) {
        lua_rawgeti(L, 1, k);
        if (!script_is_numbers(L, -1))
            return luaL_error(L,
                              "join takes a list of numbers of each input, and its entry %d is %s",
                              k, script_is_rows(L, -1) ? "rows over a population" : "none");
        struct value s = script_numbers(L, lua_gettop(L));
        K += script_node(L, s)->K;
        if (K > 4096)
            return luaL_error(L, "join would make more than 4096 numbers");
        out = k == 1 ? s : program_join(script_program(L), out, s);
        script_check(L);
        lua_pop(L, 1);
    }
    if (!count)
        return luaL_error(L, "join of nothing: it takes a list of numbers of each input");
    return script_push(L, out);
}

/* K normals that the limit and all networks of a seed share. */
static int normals(lua_State *L) {
    int K = script_whole(L, 1, 1, 100000);
    lua_createtable(L, K, 0);
    for (int k = 0; k < K; k++) {
        lua_pushnumber(L, router_normal(script_program(L), k));
        lua_rawseti(L, -2, k + 1);
    }
    return 1;
}

#define FN_X "k x"
#define WORD(number, word, formula, ...)                                                           \
    {word, "x, [k]", "rows or numbers", formula, function, NULL},
const struct script_word script_numbers_words[] = {
    FN_WORDS(WORD){
        "sigmoid", "x, [k, {beta=, top=}]", "rows or numbers",

        "1/(1 + exp(-k x)) of rows; of numbers gates 1/(1 + exp(-beta s)), which are 0 except for "
        "the `top` largest",
        function, NULL},
    {"softmax", "s, {beta=, top=, causal=}", "numbers or rows",
     "gates exp(beta s) over their sum, which are 0 except for the `top` largest. With `causal` "
     "= true or false: attention weights, from logits of either kind",
     softmax, NULL},
    {"stop", "x", "rows or numbers", "the same rows or numbers, constant in the backward pass",
     NULL, program_stop},
    {"join", "{s, ...}", "numbers", "all numbers of a list of numbers, side by side in its order",
     join, NULL},
    {"normals", "K", "list",
     "a list of K normals for Lua, the same for the limit and all networks of a seed", normals,
     NULL},
    {0}};

void script_open_numbers(lua_State *L) {
    static const luaL_Reg operators[] = {
        {"__add", add},    {"__sub", subtract}, {"__mul", multiply},
        {"__div", divide}, {"__unm", negate},   {"__index", index_numbers},
        {"__len", length}, {"__pow", power},    {NULL, NULL}};
    luaL_newmetatable(L, SCRIPT_VALUE);
    luaL_setfuncs(L, operators, 0);
    lua_pop(L, 1);
}

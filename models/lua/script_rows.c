/* Populations, matrices, and operations on rows, as scripts call them. */
#include "models/lua/script.h"
#include "kernels/base/text.h"

/* --- populations ----------------------------------------------------------------------------- */

/* Beside its halves and in them: the number is even, and a half has half of it. */
static int in_halves(lua_State *L, const char *option, int sites) {
    const struct net_setup *setup = program_setup(script_program(L));
    if (setup->N || !(setup->limit.beside_halves || setup->limit.half_number))
        return sites;
    if (sites % 2)
        luaL_error(L, "%s = %d: with [solver] halves = yes it must be even", option, sites);
    return setup->limit.half_number ? sites / 2 : sites;
}

/* What is at the top of the stack: a whole number, or a key of [solver] with the sites of the limit
 * (or of its half). drawn: the number is of sites, too, and not of units for a site. */
static int sites_of(lua_State *L, const char *option, int most, bool drawn) {
    static const char *const keys[] = {"sites", "expert_sites", "unit_sites"};
    const struct net_setup *setup = program_setup(script_program(L));
    const int numbers[] = {setup->limit.sites, setup->limit.expert_sites, setup->limit.unit_sites};
    for (int k = 0; k < 3 && lua_type(L, -1) == LUA_TSTRING; k++)
        if (!strcmp(lua_tostring(L, -1), keys[k]))
            return numbers[k];
    double x = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    if (!(x >= 1 && x <= most && x == floor(x)))
        luaL_error(L,
                   "%s must be a whole number from 1 to %d, or the name of a key of [solver]: "
                   "\"sites\", \"expert_sites\" or \"unit_sites\"",
                   option, most);
    return drawn ? in_halves(L, option, (int)x) : (int)x;
}

static struct script_population *option_population(lua_State *L, int options, const char *name) {
    return script_option(L, options, name) ? script_population(L, -1) : NULL;
}

static double option_real(lua_State *L, int options, const char *name, double least, double most,
                          double otherwise) {
    double x = script_option(L, options, name) ? script_real(L, -1, least, most) : otherwise;
    lua_pop(L, 1);
    return x;
}

/* 1 if it is not given. 0 is refused: struct weight has it for a number that was left out. */
static double option_above_zero(lua_State *L, int options, const char *name, double most) {
    double x = option_real(L, options, name, 0, most, 1);
    if (x == 0)
        luaL_error(L,
                   "%s must be above 0; rate = 0 or fixed = true keeps a matrix as it is under "
                   "every optimizer",
                   name);
    return x;
}

/* size N whole sites in a network of width N, `group` for each of another population. */
static void check_sites(lua_State *L, const char *name, double size,
                        const struct script_population *of, int group) {
    int N = program_setup(script_program(L))->N;
    if (N && !network_whole(size * N))
        luaL_error(L,
                   "population %s has %f sites in a network of width %d: it must be a whole "
                   "number, at least 1 and below 10^9",
                   name, size * N, N);
    if (N && of && round(size * N) != (double)of->on->sites * group)
        luaL_error(L, "population %s has %f sites in a network of width %d, but %d for each of %d",
                   name, round(size * N), N, group, (int)of->on->sites);
}

static bool boolean_option(lua_State *L, int table, const char *name) {
    bool is = script_option(L, table, name) && lua_toboolean(L, -1);
    lua_pop(L, 1);
    return is;
}

static int population(lua_State *L) {
    struct program *p = script_program(L);
    script_options(L, 2, "size sites of group units page mirrored label");
    lua_settop(L, 2);
    const char *name = script_name(L, 1, "populations");
    struct script_population *of = option_population(L, 2, "of");
    struct script_population *units = option_population(L, 2, "units");
    int group = units ? (int)units->on->sites : 1;
    bool counted = script_option(L, 2, "group") && lua_type(L, -1) == LUA_TNUMBER;
    if (!lua_isnil(L, -1))
        group = sites_of(L, "group", 1000000, units != NULL);
    if (units && (size_t)group != units->on->sites)
        luaL_error(L, "population %s: a group must have the sites of its units", name);
    if ((of && of->on->group > 1) || (units && units->on->group > 1))
        luaL_error(L, "population %s: its `of` and `units` must have no groups themselves", name);
    if (!of && group > 1)
        luaL_error(L, "population %s: a group needs the population `of` whose sites have it", name);
    if (of && script_option(L, 2, "sites"))
        luaL_error(L,
                   "population %s: `sites` beside `of`, whose sites and `group` say how many "
                   "there are",
                   name);
    double size = of && units ? units->relative * of->on->size : of ? of->relative * group : 1;
    double follows = size;
    size = option_real(L, 2, "size", 1e-6, 0x1p900, size);
    if (of && !units && counted && fabs(size - follows) > 1e-9 * follows)
        luaL_error(L, "population %s: its size, %f, contradicts `of` and `group`, which make it %f",
                   name, size, follows);
    double sites = (double)program_sites(p, size);
    if (of)
        sites = (double)of->on->sites * group;
    else if (script_option(L, 2, "sites") &&
             !(lua_type(L, -1) == LUA_TSTRING && !strcmp(lua_tostring(L, -1), "sites")))
        sites = sites_of(L, "sites", 100000000, true);
    if (sites > 1e9)
        luaL_error(L, "population %s would have %f sites", name, sites);
    check_sites(L, name, size, of, group);
    double page = option_real(L, 2, "page", 1e-9, 1e9, 1);
    bool mirrored = boolean_option(L, 2, "mirrored");
    const char *label = script_label(L, 2);
    script_check(L);
    struct script_population *out = lua_newuserdatauv(L, sizeof *out, 0);
    *out =
        (struct script_population){program_population(p, name, size, (size_t)sites, group), size};
    script_check(L);
    out->on->cotangent_scale = page;
    out->on->label = label;
    if (of)
        out->on->of = of->on;
    if (units)
        out->on->units = units->on;
    out->on->draws.mirrored = mirrored && !program_setup(p)->N;
    luaL_setmetatable(L, SCRIPT_POPULATION);
    return 1;
}

/* p.size in the nominal sites of the limit, p.sites, p.group. */
static int population_field(lua_State *L) {
    const struct script_population *on = script_population(L, 1);
    const char *key = luaL_checkstring(L, 2);
    if (!strcmp(key, "size"))
        lua_pushnumber(L, on->on->size);
    else if (!strcmp(key, "sites"))
        lua_pushinteger(L, (lua_Integer)on->on->sites);
    else if (!strcmp(key, "group"))
        lua_pushinteger(L, on->on->group);
    else
        luaL_error(L, "a population has size, sites and group, no %s", key);
    return 1;
}

/* --- matrices -------------------------------------------------------------------------------- */

/* The name at the top of the stack, which is that of a tied matrix and may come again. */
static const char *tied_name(lua_State *L) {
    const char *name = lua_tostring(L, -1);
    if (name && script_has(L, "tied matrices", name))
        return program_name(script_program(L), "%s", name);
    name = script_name(L, -1, "matrices");
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "tied matrices");
    lua_pushboolean(L, true);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
    return name;
}

/* decays = true, false or a number: struct weight. */
static double decays_option(lua_State *L, int arg, double most) {
    bool said = script_option(L, arg, "decays");
    int type = lua_type(L, -1);
    if (said && type != LUA_TBOOLEAN && type != LUA_TNUMBER)
        luaL_error(L,
                   "option decays must be true, false or a number of at least 0, the part of "
                   "weight_decay that acts on the matrix; it is a %s",
                   luaL_typename(L, -1));
    double part = type == LUA_TNUMBER ? script_real(L, -1, 0, most) : lua_toboolean(L, -1);
    lua_pop(L, 1);
    return said && part == 0 ? WEIGHT_STAYS : part;
}

struct weight script_weight(lua_State *L, int arg, enum script_may may) {
    struct weight W = {0};
    if (lua_type(L, arg) == LUA_TSTRING) {
        W.name = script_name(L, arg, "matrices");
        return W;
    }
    if (!lua_istable(L, arg))
        luaL_argerror(L, arg,
                      "must be a matrix: its name, or a table {name = ..., a0 = ..., rate = ...}");
    script_options(L, arg,
                   "name label family heads_of a0 s_f rate adam_rate adam_eps zero fixed decays "
                   "iid tied start");
    W.tied = boolean_option(L, arg, "tied");
    if (!script_option(L, arg, "name"))
        luaL_argerror(L, arg, "a matrix needs a name");
    W.name = W.tied ? tied_name(L) : script_name(L, -1, "matrices");
    W.label = script_label(L, arg);
    if (script_option(L, arg, "family"))
        W.family = script_word(L, luaL_checkstring(L, -1));
    if (script_option(L, arg, "heads_of"))
        W.heads_of = script_word(L, luaL_checkstring(L, -1));
    bool limit = !program_setup(script_program(L))->N; /* where powers of N are told apart */
    double most = limit ? 0x1p400 : 1e6, fastest = limit ? 0x1p800 : 1e12;
    W.a0 = option_real(L, arg, "a0", -most, most, 1);
    W.s_f = option_real(L, arg, "s_f", -most, most, 1);
    W.rate = option_real(L, arg, "rate", 0, fastest, 1);
    W.adam_rate = option_above_zero(L, arg, "adam_rate", fastest);
    W.adam_eps = option_above_zero(L, arg, "adam_eps", fastest);
    W.zero = boolean_option(L, arg, "zero") || W.a0 == 0;
    W.fixed = boolean_option(L, arg, "fixed") || W.rate == 0;
    W.decays = decays_option(L, arg, fastest);
    W.iid = boolean_option(L, arg, "iid");
    if (W.iid && may != SCRIPT_IID)
        luaL_error(L, "matrix %s: iid is for the matrices of look and read_out", TEXT_SHOWN_OF(&W));
    if (script_option(L, arg, "start") && may != SCRIPT_START)
        luaL_error(L, "matrix %s: start is for vector and scalar", TEXT_SHOWN_OF(&W));
    lua_pop(L, 1);
    if (W.s_f == 0)
        luaL_argerror(L, arg, "s_f = 0 would multiply the matrix by 0; a0 = 0 starts it at zero");
    return W;
}

static int read_in(lua_State *L) {
    struct population *bottom = script_population(L, 1)->on;
    return script_push(
        L, program_read_in(script_program(L), bottom, script_weight(L, 2, SCRIPT_PLAIN)));
}

static int map(lua_State *L) {
    struct value x = script_rows(L, 1);
    struct population *to = script_population(L, 2)->on;
    return script_push(L, program_map(script_program(L), x, to, script_weight(L, 3, SCRIPT_PLAIN)));
}

static int look(lua_State *L) {
    struct value x = script_rows(L, 1);
    int K = script_whole(L, 2, 1, 4096);
    return script_push(L, program_look(script_program(L), x, K, script_weight(L, 3, SCRIPT_IID)));
}

static int read_out(lua_State *L) {
    struct value x = script_rows(L, 1);
    return script_push(L, program_read_out(script_program(L), x, script_weight(L, 2, SCRIPT_IID)));
}

static int output(lua_State *L) {
    program_output(script_program(L), script_numbers(L, 1));
    script_check(L);
    return 0;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* The function is asked at the middle of each of as many equal parts of (0, 1) as there are sites,
 * or sites of a group. It may be one of C, which takes no instruction of Lua. */
static int constant(lua_State *L) {
    struct program *p = script_program(L);
    struct population *on = script_population(L, 1)->on;
    luaL_checktype(L, 2, LUA_TFUNCTION);
    size_t each = on->group > 1 ? (size_t)on->group : on->sites;
    int n = program_setup(p)->data.n;
    script_count(L, (size_t)n * each);
    double *values = script_memory(L, (size_t)n * each);
    for (int s = 0; s < n; s++)
        for (size_t i = 0; i < each; i++) {
            if (i % SCRIPT_TICK == 0)
                script_poll(L);
            lua_pushvalue(L, 2);
            lua_pushnumber(L, ((double)i + 0.5) / (double)each);
            lua_pushinteger(L, s + 1);
            lua_call(L, 2, 1);
            double x = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : NAN;
            if (!(fabs(x) <= 1e6))
                luaL_error(L,
                           "constant: the function must give a number from -1e6 to 1e6, and at u = "
                           "%f, token %d, it does not",
                           ((double)i + 0.5) / (double)each, s + 1);
            values[(size_t)s * each + i] = x;
            lua_pop(L, 1);
        }
    return script_push(L, program_constant(p, on, values));
}

static int expand(lua_State *L) {
    struct value x = script_rows(L, 1);
    return script_push(L, program_expand(script_program(L), x, script_population(L, 2)->on));
}

static int average(lua_State *L) {
    struct value a = script_rows(L, 1);
    return script_push(L, program_average(script_program(L), a, script_rows(L, 2)));
}

/* --- the words ------------------------------------------------------------------------------- */

const struct script_word script_matrices[] = {
    {"population", "name, {size=, sites=, of=, group=, units=, page=, mirrored=, label=}",
     "population", "a set of n = `size` N sites; docs/programs.md explains the options", population,
     NULL},
    {"read_in", "p, W", "rows",
     "rows W x/sqrt D on p: from the D numbers of an input (or token) to the sites of p", read_in,
     NULL},
    {"embed", "s, p, W", "rows",
     "rows sum_k s_k W_k on p of K numbers s: a trained vector for each of them, as an embedding "
     "has it of `input`",
     script_embed, NULL},
    {"map", "x, p, W", "rows", "rows s_f W x on p: from the m sites of x to the n sites of p", map,
     NULL},
    {"look", "x, K, W", "numbers",
     "K numbers `<W_k x>`, means over the sites of x. The limit subtracts their values at the "
     "first evaluation, unless it is a random one",
     look, NULL},
    {"bias", "s, {b1, ...}, W", "numbers",
     "K numbers s + b, as many as s has. b is trained and starts at a0 s_f times the K numbers "
     "of the list; `{{...}, {...}}` gives a list for each kind of token",
     script_bias, NULL},
    {"vector", "x, W", "rows",
     "a trained number at each site of the rows x, or of a population, the same in all rows: a "
     "gain or a bias. It starts at a0 s_f times `start`, or times normals if there is no `start`",
     script_vector, NULL},
    {"scalar", "[x], W", "numbers",
     "one trained number for all inputs, which starts at a0 s_f times `start`; a list `start` "
     "makes K of them. x says how many rows an input has, that of a token if it is left out",
     script_scalar, NULL},
    {"input", "first, last", "numbers",
     "numbers `first` to `last` of an input or token, counted from 1. Of tokens these are the "
     "`vocabulary` kinds, 1 for that of the token and 0 for others, and behind them in the same "
     "way the places in the sequence",
     script_input, NULL},
    {"read_out", "x, W", "numbers",
     "the output f = `<w x>`/gamma0, once in a program: from the sites of x to the outputs. "
     "Tokens are pooled where outputs are of inputs",
     read_out, NULL},
    {"output", "s", "",
     "makes numbers s that follow from the read-out the output in its place: with a bias, or "
     "below a cap",
     output, NULL},
    {0}};

const struct script_word script_rows_words[] = {
    {"sigma", "x", "rows or numbers",
     "the function `[network] activation`, at each site or of each number", NULL, program_sigma},
    {"sigma_of_experts", "x", "rows or numbers",
     "the function `[network] expert_activation`, at each site or of each number", NULL,
     program_sigma_of_experts},
    {"constant", "p, f", "rows",
     "rows on p that never change, f(u, s) at each site: u in (0, 1) is the place of the site "
     "among all, or in its group, and s the token, from 1 on",
     constant, NULL},
    {"average", "x, y", "numbers", "one number, the mean `<x y>` over sites", average, NULL},
    {"mean", "x", "numbers", "one number, the mean `<x>` over sites", NULL, program_mean},
    {"expand", "x, p", "rows",
     "rows over experts, copied to their units: from the experts to the units p", expand, NULL},
    {"norm", "x", "rows",
     "x over its root mean square, x/sqrt`<x x>`, of each input and token by itself", NULL,
     program_norm},
    {0}};

void script_open_rows(lua_State *L) {
    luaL_newmetatable(L, SCRIPT_POPULATION);
    lua_pushcfunction(L, population_field);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

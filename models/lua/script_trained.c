/* Vectors and numbers that are trained, as scripts call them. */
#include "models/lua/script.h"
#include "kernels/base/text.h"

/* The number k of the list at `list`. */
static double list_number(lua_State *L, int list, int k) {
    lua_rawgeti(L, list, k);
    if (lua_type(L, -1) != LUA_TNUMBER || !(fabs(lua_tonumber(L, -1)) <= 1e9))
        luaL_error(L, "a list of numbers needs one at place %d", k);
    double x = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return x;
}

/* That the list at `list` has `length` entries, of what is told. */
static void check_length(lua_State *L, int list, int length, const char *what) {
    if ((lua_Integer)lua_rawlen(L, list) != length)
        luaL_error(L, "a bias needs a list of %d %s, not of %d", length, what,
                   (int)lua_rawlen(L, list));
}

/* bias(s, {b1, b2, ...}, W), or of each kind of token {{...}, {...}, ...}. */
int script_bias(lua_State *L) {
    struct program *p = script_program(L);
    struct value s = script_numbers(L, 1);
    int K = script_node(L, s)->K, V = p->net->setup.data.V;
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_rawgeti(L, 2, 1);
    bool tokens = lua_istable(L, -1);
    int sets = tokens ? V : 1;
    if (tokens && !V)
        return luaL_error(L, "a bias of each kind of token needs inputs that are tokens");
    check_length(L, 2, tokens ? V : K, tokens ? "lists, one for each kind of token" : "numbers");
    double *start = script_memory(L, (size_t)sets * (size_t)K);
    for (ptrdiff_t v = 0; v < sets; v++) {
        if (tokens && lua_rawgeti(L, 2, v + 1) != LUA_TTABLE)
            return luaL_error(L, "a bias of each kind of token needs %d lists of %d numbers", V, K);
        if (tokens)
            check_length(L, lua_gettop(L), K, "numbers for each kind of token");
        for (int k = 0; k < K; k++)
            start[(size_t)v * (size_t)K + (size_t)k] =
                list_number(L, tokens ? lua_gettop(L) : 2, k + 1);
        lua_settop(L, 3);
    }
    struct weight b = script_weight(L, 3, SCRIPT_PLAIN);
    return script_push(L, tokens ? program_bias_of_tokens(p, s, start, b)
                                 : program_bias(p, s, start, b));
}

/* Field `start` of the table W at `arg`, a number or (most > 1) a list: how many numbers into
 * *start, which is NULL, and the numbers 0, where it is not given. W.zero, where all are 0. */
static int start_of(lua_State *L, int arg, int most, struct weight *W, double **start) {
    bool given = lua_istable(L, arg) && script_option(L, arg, "start");
    int K = given && lua_istable(L, -1) ? (int)lua_rawlen(L, -1) : given;
    if (given && (K < 1 || K > most))
        luaL_error(L, "start of %s must be a number%s", TEXT_SHOWN_OF(W),
                   most > 1 ? ", or a list of 1 to 4096 numbers" : "");
    *start = given ? script_memory(L, (size_t)K) : NULL;
    W->zero |= given;
    for (int k = 0; k < K; k++) {
        (*start)[k] = lua_istable(L, -1) ? list_number(L, lua_gettop(L), k + 1)
                                         : script_real(L, -1, -1e9, 1e9);
        W->zero &= (*start)[k] == 0;
    }
    return K;
}

/* input(first, last) */
int script_input(lua_State *L) {
    const int most = 1 << 24;
    int first = script_whole(L, 1, 1, most);
    return script_push(L, program_input(script_program(L), first, script_whole(L, 2, 1, most)));
}

/* embed(s, p, W) */
int script_embed(lua_State *L) {
    struct value s = script_numbers(L, 1);
    struct population *on = script_population(L, 2)->on;
    return script_push(L,
                       program_embed(script_program(L), s, on, script_weight(L, 3, SCRIPT_PLAIN)));
}

/* vector(x, W) of rows x, or of a population */
int script_vector(lua_State *L) {
    struct value like = {-1};
    double *start;
    lua_settop(L, 2);
    if (script_is_rows(L, 1))
        like = script_rows(L, 1);
    struct population *on = like.at < 0 ? script_population(L, 1)->on : script_node(L, like)->on;
    struct weight W = script_weight(L, 2, SCRIPT_START);
    start_of(L, 2, 1, &W, &start);
    return script_push(L, program_vector(script_program(L), on, like, start, W));
}

/* scalar(W), or scalar(x, W) of rows or numbers x */
int script_scalar(lua_State *L) {
    struct value like = {-1};
    int arg = lua_gettop(L) > 1 ? 2 : 1;
    double one = 1, *start;
    lua_settop(L, arg);
    if (arg == 2)
        like = script_rows_or_numbers(L, 1);
    struct weight W = script_weight(L, arg, SCRIPT_START);
    int K = start_of(L, arg, 4096, &W, &start);
    return script_push(
        L, program_trained(script_program(L), like, K ? K : 1, start ? start : &one, W));
}

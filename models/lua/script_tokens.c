/* Operations between the tokens or places of an input, as scripts call them, and the matrices that
 * convolutions over images are made of. */
#include "models/lua/script.h"

/* A matrix between places [rows][columns], which lives as long as the program. */
#define SCRIPT_PLACES "matrix between places"
struct script_places {
    int rows, columns;
    double *values;
};
enum { MOST_ENTRIES = 1 << 22, MOST_SIDE = 4096 };

static struct script_places *push_places(lua_State *L, int rows, int columns) {
    if ((double)rows * columns > MOST_ENTRIES)
        luaL_error(L, "a matrix between places would have %d x %d entries; it may have %d", rows,
                   columns, MOST_ENTRIES);
    double *values = script_memory(L, (size_t)rows * (size_t)columns);
    struct script_places *S = lua_newuserdatauv(L, sizeof *S, 0);
    *S = (struct script_places){rows, columns, values};
    luaL_setmetatable(L, SCRIPT_PLACES);
    return S;
}

/* A table of rows, each with as many numbers as the first. */
static struct script_places *read_places(lua_State *L, int arg) {
    int rows = (int)lua_rawlen(L, arg), columns = 0;
    if (rows && lua_rawgeti(L, arg, 1) == LUA_TTABLE)
        columns = (int)lua_rawlen(L, -1);
    if (!columns)
        luaL_argerror(L, arg,
                      "must be a matrix between places: {{S11, S12, ...}, {S21, ...}, ...}");
    struct script_places *S = push_places(L, rows, columns);
    for (int s = 0; s < rows; s++) {
        if (lua_rawgeti(L, arg, s + 1) != LUA_TTABLE || (int)lua_rawlen(L, -1) != columns)
            luaL_error(L, "row %d of a matrix between places is no list of %d numbers, as row 1 is",
                       s + 1, columns);
        for (int t = 0; t < columns; t++) {
            bool number = lua_rawgeti(L, -1, t + 1) == LUA_TNUMBER;
            S->values[s * columns + t] = number ? lua_tonumber(L, -1) : NAN;
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    return S;
}

/* A side of something: the option is a number for both, or {vertical, horizontal}. An image of one
 * row has no vertical side. */
static void two_sides(lua_State *L, const char *name, int least, int otherwise, int H, int out[2]) {
    out[0] = out[1] = otherwise;
    if (script_option(L, 3, name) && lua_istable(L, -1)) {
        int table = lua_gettop(L);
        if (lua_rawlen(L, table) != 2)
            luaL_error(L, "option %s must be a number, or two of them, {vertical, horizontal}",
                       name);
        for (int k = 0; k < 2; k++) {
            lua_rawgeti(L, table, k + 1);
            out[k] = script_whole(L, -1, least, MOST_SIDE);
        }
    } else {
        if (!lua_isnil(L, -1))
            out[0] = out[1] = script_whole(L, -1, least, MOST_SIDE);
        if (H == 1)
            out[0] = !strcmp(name, "padding") ? 0 : 1;
    }
    lua_settop(L, 3);
}

/* Windows of an image: their sides, what is between two of them, and how far they begin outside. */
struct windows {
    int from[2], size[2], stride[2], padding[2], to[2];
};

static struct windows read_windows(lua_State *L, bool pooling) {
    struct windows w = {
        .from = {script_whole(L, 1, 1, MOST_SIDE), script_whole(L, 2, 1, MOST_SIDE)}};
    script_options(L, 3, "size stride padding");
    lua_settop(L, 3);
    int H = w.from[0];
    two_sides(L, "size", 1, pooling ? 2 : 3, H, w.size);
    two_sides(L, "stride", 1, 1, H, w.stride);
    two_sides(L, "padding", 0, 0, H, w.padding);
    if (pooling && !script_option(L, 3, "stride"))
        memcpy(w.stride, w.size, sizeof w.stride);
    lua_settop(L, 3);
    for (int k = 0; k < 2; k++) {
        int room = w.from[k] + 2 * w.padding[k] - w.size[k];
        if (room < 0 || w.padding[k] >= w.size[k] || w.padding[k] > w.from[k])
            luaL_error(
                L,
                "windows of %d x %d places, %d x %d beyond the border, do not fit an image of "
                "%d x %d: a window must lie within the image with its border, and a border "
                "must be narrower than a window and no wider than the image",
                w.size[0], w.size[1], w.padding[0], w.padding[1], w.from[0], w.from[1]);
        w.to[k] = room / w.stride[k] + 1;
    }
    return w;
}

/* Adds `value` at the place that each window has at (i, j); how many windows have one there. */
static int add_shift(const struct windows *w, int i, int j, double value, double *S) {
    int columns = w->from[0] * w->from[1], inside = 0;
    for (int a = 0; a < w->to[0]; a++)
        for (int b = 0; b < w->to[1]; b++) {
            int y = a * w->stride[0] + i - w->padding[0], x = b * w->stride[1] + j - w->padding[1];
            if (y < 0 || y >= w->from[0] || x < 0 || x >= w->from[1])
                continue;
            S[(a * w->to[1] + b) * columns + y * w->from[1] + x] += value;
            inside++;
        }
    return inside;
}

/* window(H, W, options): a matrix for each place of a window, row by row. */
static int window(lua_State *L) {
    struct windows w = read_windows(L, false);
    lua_createtable(L, w.size[0] * w.size[1], 0);
    for (int i = 0; i < w.size[0]; i++)
        for (int j = 0; j < w.size[1]; j++) {
            struct script_places *S = push_places(L, w.to[0] * w.to[1], w.from[0] * w.from[1]);
            if (!add_shift(&w, i, j, 1, S->values))
                luaL_error(L,
                           "windows of %d x %d places on an image of %d x %d: none of them has its "
                           "place (%d, %d) inside the image; make them smaller",
                           w.size[0], w.size[1], w.from[0], w.from[1], i + 1, j + 1);
            lua_rawseti(L, -2, i * w.size[1] + j + 1);
        }
    return 1;
}

/* pooling(H, W, options): the mean over each window. */
static int pooling(lua_State *L) {
    struct windows w = read_windows(L, true);
    struct script_places *S = push_places(L, w.to[0] * w.to[1], w.from[0] * w.from[1]);
    for (int i = 0; i < w.size[0]; i++)
        for (int j = 0; j < w.size[1]; j++)
            add_shift(&w, i, j, 1.0 / (w.size[0] * w.size[1]), S->values);
    return 1;
}

static int attend(lua_State *L) {
    struct program *p = script_program(L);
    struct value q = script_rows(L, 1), k = script_rows(L, 2);
    double beta = lua_isnoneornil(L, 3) ? 1 : script_real(L, 3, -1e6, 1e6);
    struct population *heads = lua_isnoneornil(L, 4) ? NULL : script_population(L, 4)->on;
    return script_push(L, program_attend(p, q, k, beta, heads));
}

/* mix(x, S): by a constant matrix. */
static int mix_places(lua_State *L) {
    struct value x = script_rows_or_numbers(L, 1);
    const struct script_places *S = luaL_testudata(L, 2, SCRIPT_PLACES);
    S = S ? S : read_places(L, 2);
    return script_push(L, program_mix_places(script_program(L), x, S->rows, S->columns, S->values));
}

static int mix(lua_State *L) {
    struct program *p = script_program(L);
    if (lua_istable(L, 2) || luaL_testudata(L, 2, SCRIPT_PLACES))
        return mix_places(L);
    bool heads = script_is_rows(L, 1);
    struct value A = heads ? script_rows(L, 1) : script_numbers(L, 1);
    return script_push(L,
                       program_mix(p, A, heads ? script_rows(L, 2) : script_rows_or_numbers(L, 2)));
}

const struct script_word script_tokens[] = {
    {"attend", "q, k, [beta, p]", "numbers or rows",
     "attention logits beta `<q_s k_t>`: n numbers for each of the n tokens of an input; with a "
     "population p of heads, rows of logits at every head",
     attend, NULL},
    {"mix", "a, v", "rows or numbers",
     "sum_t a_st v_t: for each token, the rows v of all tokens with attention weights a of either "
     "kind, or numbers v with weights that are numbers. `mix(x, S)` is sum_t S_st x_t with a "
     "constant matrix S, which is a list of rows of numbers or comes from `window` or `pooling`",
     mix, NULL},
    {"window", "H, W, {size=, stride=, padding=}", "list",
     "a list of matrices for `mix(x, S)`, one for each place of the windows of an image, row by "
     "row: S[k] takes place k of every window; docs/programs.md explains the options",
     window, NULL},
    {"pooling", "H, W, {size=, stride=, padding=}", "matrix",
     "the matrix for `mix(x, S)` that takes the mean over each window of an image", pooling, NULL},
    {"pool", "x", "rows or numbers",
     "the mean over the n tokens of an input: one row, or set of numbers, for each input", NULL,
     program_pool},
    {0}};

void script_open_tokens(lua_State *L) {
    luaL_newmetatable(L, SCRIPT_PLACES);
    lua_pop(L, 1);
}

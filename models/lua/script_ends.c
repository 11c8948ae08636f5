/* What a script asks of the run, its keys and sizes, and what it has measured. */
#include "models/lua/script.h"
#include "kernels/base/text.h"
#include "models/language/operation.h"

/* --- keys ------------------------------------------------------------------------------------ */

static struct word *find_word(const struct network *network, const char *name) {
    for (int k = 0; k < network->script.words.count; k++)
        if (!strcmp(network->script.words.word[k].name, name))
            return &network->script.words.word[k];
    return NULL;
}

static bool number_of(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && !end[strspn(end, " \t")] && isfinite(*out);
}

/* The text as a value of the type of the default, or what it looks like. */
static void push_word(lua_State *L, const struct word *word) {
    double x;
    bool number = number_of(word->text, &x), yes = !strcmp(word->text, "yes");
    int type = lua_type(L, 2);
    if (type == LUA_TNUMBER && !number)
        luaL_error(L, "[program] %s = %s must be a number", word->name, word->text);
    if (type == LUA_TBOOLEAN && !yes && strcmp(word->text, "no") != 0)
        luaL_error(L, "[program] %s = %s must be yes or no", word->name, word->text);
    if (type == LUA_TBOOLEAN)
        lua_pushboolean(L, yes);
    else if (type == LUA_TSTRING || !number)
        lua_pushstring(L, word->text);
    else if (x == floor(x) && fabs(x) < 1e15)
        lua_pushinteger(L, (lua_Integer)x);
    else
        lua_pushnumber(L, x);
}

/* key(name), or key(name, default): from section [program]. That it was read is noted where nets
 * are declared, before a run. */
static int key(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    const struct program *p = script_program(L);
    struct word *word = find_word(program_network(p), name);
    lua_settop(L, 2);
    if (!word && lua_isnil(L, 2))
        return luaL_error(
            L, "the program needs [program] %s, which is not given and has no default", name);
    if (!word)
        return 1;
    if (program_setup(p)->declare_only)
        word->read = true;
    push_word(L, word);
    return 1;
}

/* --- what is measured ------------------------------------------------------------------------ */

const char *script_text(lua_State *L, int options, const char *field, const char *otherwise) {
    const char *text = script_option(L, options, field) ? lua_tostring(L, -1) : otherwise;
    return script_word(L, text ? text : otherwise);
}

const char *script_label(lua_State *L, int options) {
    bool given = script_option(L, options, "label");
    size_t length = 0;
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : "";
    if (!given) {
        lua_pop(L, 1);
        return NULL;
    }
    if (!length || length > SCRIPT_LABEL || strlen(text) != length || strchr(text, '\t') ||
        text_find_bad(text))
        luaL_error(L,
                   "option label must be a text of 1 to %d bytes in UTF-8, without tabs and other "
                   "control characters",
                   SCRIPT_LABEL);
    const char *kept = text_keep(text);
    lua_pop(L, 1);
    if (!kept)
        luaL_error(L, "out of memory: a label");
    return kept;
}

static int no_pairs(lua_State *L, struct value x) {
    int n = script_program(L)->net->setup.data.n;
    if (n > 1 && script_node(L, x)->per > n)
        return luaL_error(L, "%s of pairs of tokens cannot be measured",
                          script_node(L, x)->on ? "rows" : "numbers");
    return 0;
}

/* The kernel that was added last has the label of these options. */
static void label_kernel(lua_State *L, int options) {
    struct net *net = script_program(L)->net;
    script_check(L);
    net->kernels.item[net->kernels.count - 1].label = script_label(L, options);
}

/* kernel and gradient. */
static int kernel(lua_State *L) {
    bool gradient = !strcmp(script_called(L), "gradient");
    struct value x = script_rows(L, 1);
    no_pairs(L, x);
    script_options(L, 3, "scale about equation label");
    const char *name = script_name(L, 2, "results");
    double scale = script_option(L, 3, "scale") ? script_real(L, -1, -1e12, 1e12) : 1;
    const char *about = script_text(L, 3, "about", gradient ? "gradient kernel" : "feature kernel");
    const char *equation = script_text(L, 3, "equation", gradient ? "<g g>" : "<x x>");
    (gradient ? program_gradient : program_kernel)(script_program(L), x, scale, name, about,
                                                   equation);
    label_kernel(L, 3);
    return 0;
}

static int read_out_kernel(lua_State *L) {
    script_options(L, 2, "about equation label");
    const char *name = script_name(L, 1, "results"),
               *about = script_text(L, 2, "about", "kernel of the read-out");
    program_read_out_kernel(script_program(L), name, about, script_text(L, 2, "equation", "<w w>"));
    label_kernel(L, 2);
    return 0;
}

void script_axis(lua_State *L, const char *axis, int length) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "axes");
    if (lua_getfield(L, -1, axis) != LUA_TNIL && lua_tointeger(L, -1) != length)
        luaL_error(L,
                   "two results have an axis %s, one of %d and one of %d numbers: give one of "
                   "them {axis = \"j\"}",
                   axis, (int)lua_tointeger(L, -1), length);
    lua_pushinteger(L, length);
    lua_setfield(L, -3, axis);
    lua_pop(L, 2);
}

/* The axis of K numbers. */
static const char *dims_of(lua_State *L, struct value s) {
    static const char *const dims[] = {"t mu i", "t mu j", "t mu source"}, *const names[] = {
                                                                               "i", "j", "source"};
    const struct node *v = script_node(L, s);
    const char *axis = script_option(L, 3, "axis") ? luaL_checkstring(L, -1) : "i";
    int k = 0;
    if (v->K == 1 && !lua_isstring(L, -1))
        return "t mu";
    while (k < 3 && strcmp(names[k], axis) != 0)
        k++;
    if (k == 3)
        luaL_error(L, "an axis of numbers is called i, j or source");
    script_axis(L, axis, v->K);
    return dims[k];
}

/* show and show_gradient. */
static int show(lua_State *L) {
    bool gradient = !strcmp(script_called(L), "show_gradient");
    struct value s = script_numbers(L, 1);
    if (script_node(L, s)->plan.across_inputs)
        luaL_error(L, "what is made of a mean over inputs is not shown; penalty() shows its term");
    no_pairs(L, s);
    script_options(L, 3, "axis about equation label");
    const char *name = script_name(L, 2, "results"), *dims = dims_of(L, s);
    const char *about = script_text(L, 3, "about", gradient ? "gradient of numbers" : "numbers");
    const char *equation = script_text(L, 3, "equation", "");
    (gradient ? program_show_gradient : program_show)(script_program(L), s, dims, name, about,
                                                      equation);
    script_check(L);
    struct net *net = script_program(L)->net;
    net->numbers.item[net->numbers.count - 1].label = script_label(L, 3);
    return 0;
}

static int name_rows(lua_State *L) {
    struct value x = script_rows(L, 1);
    no_pairs(L, x);
    script_options(L, 3, "tex");
    program_name_rows(script_program(L), x, script_name(L, 2, "rows"));
    const char *tex = script_text(L, 3, "tex", "");
    program_rows_tex(script_program(L), x, *tex ? tex : NULL);
    return 0;
}

/* What a name of one router ends with: nothing, or what {name = ...} tells routers apart by. */
static const char *router_suffix(lua_State *L) {
    const struct net *net = script_program(L)->net;
    script_options(L, 3, "name");
    lua_settop(L, 3);
    if (script_option(L, 3, "name"))
        return program_name(script_program(L), "_%s", script_name(L, -1, "gates"));
    for (int r = 0; r < net->routers.count; r++)
        if (!*net->routers.item[r].suffix)
            luaL_error(L, "gates are told twice; {name = ...} tells routers apart");
    return "";
}

/* Rows over many experts, or numbers of a few; logits of the same experts. */
static int gates(lua_State *L) {
    struct program *p = script_program(L);
    bool rows = script_is_rows(L, 1);
    struct value phi = rows ? script_rows(L, 1) : script_numbers(L, 1), psi = {-1};
    no_pairs(L, phi);
    if (!lua_isnoneornil(L, 2)) {
        psi = rows ? script_rows(L, 2) : script_numbers(L, 2);
        const struct node *a = script_node(L, phi), *b = script_node(L, psi);
        if (a->on != b->on || a->count != b->count || a->K != b->K)
            return luaL_error(L, "gates and their logits must be of the same experts and inputs");
    }
    if (script_node(L, phi)->plan.across_inputs)
        return luaL_error(L, "gates cannot be made of a mean over inputs");
    const char *suffix = router_suffix(L);
    if (rows && p->gates < 0)
        program_gates(p, phi, (struct value){-1}, (struct gate_rule){.beta = 1, .share = 1});
    program_routes(p, phi, psi, true, suffix);
    script_check(L);
    return 0;
}

const struct script_word script_ends_words[] = {
    {"key", "name, [default]", "word",
     "the value of a key of `[program]`: a number, yes or no, or a word, of the kind of the "
     "default",
     key, NULL},
    {"kernel", "x, name, {scale=, about=, equation=, label=}", "",
     "measures the kernel scale `<x x>` over times and inputs", kernel, NULL},
    {"gradient", "x, name, {scale=, about=, equation=, label=}", "",
     "measures the same kernel of the cotangent n dF/dx", kernel, NULL},
    {"read_out_kernel", "name, {about=, equation=, label=}", "", "measures `<w w>`",
     read_out_kernel, NULL},
    {"show", "s, name, {axis=, about=, equation=, label=}", "",
     "measures numbers at every time; `axis` is `i`, `j` or `source` (tokens attended to)", show,
     NULL},
    {"show_gradient", "s, name, {axis=, about=, equation=, label=}", "",
     "measures the cotangent of numbers at every time", show, NULL},
    {"name_rows", "x, name, {tex=}", "",
     "names rows for `[output] fields` and `kernels_of`; `tex` is their symbol in generated "
     "equations",
     name_rows, NULL},
    {"gates", "phi, [psi, {name=}]", "",
     "declares the gates of a router and its logits, rows over many experts or numbers of a few. "
     "`[output] experts = yes` then measures what experts do, in series whose names end in "
     "`_name`. Of the first rows the participation ratio and the largest gate are measured, and "
     "with `[output] router = yes` the loads",
     gates, NULL},
    {0}};

const struct script_chapter script_chapters[] = {
    {"Populations and matrices", script_matrices, NULL},
    {"Functions of rows", script_rows_words, operation_words_of_rows},
    {"Functions of rows and numbers", script_numbers_words, operation_words_of_numbers},
    {"Tokens", script_tokens, operation_words_of_tokens},
    {"Selections and terms of the loss", script_balance_words, NULL},
    {"What is measured, and keys", script_ends_words, NULL},
    {0}};

void script_open_ends(lua_State *L) {
    const struct net_setup *setup = program_setup(script_program(L));
    lua_pushnumber(L, setup->N ? setup->N : POPULATION_INFINITE);
    lua_setglobal(L, "N");
    lua_pushboolean(L, !setup->N);
    lua_setglobal(L, "limit");
    lua_pushinteger(L, setup->data.n);
    lua_setglobal(L, "tokens");
    lua_pushinteger(L, setup->data.V);
    lua_setglobal(L, "vocabulary");
    lua_pushinteger(L, setup->data.C);
    lua_setglobal(L, "outputs");
    lua_pushnumber(L, setup->gamma0);
    lua_setglobal(L, "gamma0");
}

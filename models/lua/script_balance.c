/* Terms of the loss, and selections of experts that balance their loads, as scripts call them. */
#include "models/lua/script.h"
#include "models/parts/block.h"

/* --- terms of the loss ----------------------------------------------------------------------- */

static int penalty(lua_State *L) {
    struct value s = script_numbers(L, 1);
    script_options(L, 3, "about equation");
    const char *name = script_name(L, 2, "results");
    const char *about = script_text(L, 3, "about", "term of the loss");
    const char *equation = script_text(L, 3, "equation", "");
    program_penalty_mean(script_program(L), s, 1, false, name, about, equation);
    script_check(L);
    return 0;
}

/* --- selections ------------------------------------------------------------------------------ */

/* What may be selected among: sites, or numbers. */
static int count_choices(lua_State *L) {
    struct value s = script_rows_or_numbers(L, 1);
    const struct node *v = script_node(L, s);
    return v->on ? (int)v->on->sites : v->K;
}

/* K of these. A script counts the sites that it was given, of which a half has half: there it is
 * told in its own numbers, as where K is no more than a half has (models/engine/alike.c). */
static int count_of_largest(lua_State *L, int all) {
    bool half = script_is_rows(L, 1) && program_setup(script_program(L))->limit.half_number;
    int K = script_whole(L, 2, 1, half ? 2 * all : all);
    return K <= all ? K
                    : luaL_error(L,
                                 "a selection of %d of %d sites would be one of %d of %d with "
                                 "[solver] halves = yes; give K as a multiple of the population's "
                                 "sites, or to top as {share = %d/%d}",
                                 K, 2 * all, K, all, K, 2 * all);
}

/* K of these, or the number that is a share of them. */
static int number_of_largest(lua_State *L) {
    int all = count_choices(L), options = lua_istable(L, 2) ? 2 : 3;
    script_options(L, options, "share");
    bool shared = script_option(L, options, "share"),
         counted = options == 3 && !lua_isnoneornil(L, 2);
    if (shared == counted)
        return luaL_error(
            L,
            "top takes either K or {share = ...}, here %s: give K, a whole number from "
            "1 to %d, or the share K/%d",
            shared ? "both" : "neither", all, all);
    if (counted)
        return count_of_largest(L, all);
    double share = script_real(L, -1, 0, 1), K = round(share * all);
    if (K < 1 || fabs(K - share * all) > 1e-9 * all)
        return luaL_error(L,
                          "{share = %f} of %d is no whole number of at least 1: give K/%d for a "
                          "whole number K",
                          share, all, all);
    return (int)K;
}

static int top(lua_State *L) {
    size_t K = (size_t)number_of_largest(L);
    return script_push(L, program_top(script_program(L), script_rows_or_numbers(L, 1), K));
}

/* The name of what is measured, as a result of the script. */
static void push_series_name(lua_State *L, const char *name, const char *suffix) {
    lua_pushfstring(L, "%s%s", name, suffix);
    if (script_has(L, "results", lua_tostring(L, -1)))
        luaL_error(L, "two results are called %s; {name = ...} tells selections apart",
                   lua_tostring(L, -1));
    script_name(L, -1, "results");
    lua_pop(L, 1);
}

/* balance_select(scores, K, {eta_bias = 0, sign = false, name = nil}) */
static int balance_selection(lua_State *L) {
    struct program *p = script_program(L);
    int all = count_choices(L);
    struct balance_rule rule = {.K = (size_t)count_of_largest(L, all), .L = 1, .suffix = ""};
    rule.rho = (double)rule.K / all;
    script_options(L, 3, "eta_bias sign name");
    lua_settop(L, 3);
    rule.eta_bias = script_option(L, 3, "eta_bias") ? script_real(L, -1, 0, 1e6) : 0;
    rule.sign = script_option(L, 3, "sign") && lua_toboolean(L, -1);
    if (rule.sign && rule.eta_bias == 0)
        return luaL_error(L, "sign = true needs eta_bias, by which a bias moves in each step");
    if (script_option(L, 3, "name")) {
        const char *name = script_name(L, -1, "selections");
        rule.suffix = program_name(p, "_%s", name);
    }
    push_series_name(L, "load_largest", rule.suffix);
    push_series_name(L, "flips", rule.suffix);
    p->net->place.has_step_rule |= rule.eta_bias != 0;
    struct value scores = script_rows_or_numbers(L, 1);
    bool rows = script_is_rows(L, 1);
    push_series_name(L, rows ? "load2" : "load", rule.suffix);
    if (!rows)
        script_axis(L, "i", all);
    if (rows && rule.eta_bias == 0)
        return script_push(L, balance_watch(p, program_top(p, scores, rule.K), rule));
    if (rows)
        push_series_name(L, "qstar", rule.suffix);
    if (rows)
        push_series_name(L, "b2", rule.suffix);
    return script_push(L, balance_select(p, scores, rule));
}

const struct script_word script_balance_words[] = {
    {"top", "x, [K, {share=}]", "rows or numbers",
     "a mask: 1 on the K largest sites of rows, or on the K largest numbers. `share`, in the "
     "place of K, gives it as a share of all of them; a limit with `[solver] halves = yes`, or "
     "`sites = auto`, wants K of rows as a share or as a multiple of `p.sites`. Ties go to the "
     "first; constant in the backward pass",
     top, NULL},
    {"balance_select", "x, K, {eta_bias=, sign=, name=}", "rows or numbers",
     "a mask: 1 on the K largest x + b, where such a limit wants K of rows as a multiple of "
     "`p.sites`, as with `top`. The bias b starts at 0 and moves by -eta_bias (load - share) "
     "after each step, with `sign` true by -eta_bias, +eta_bias or, of a load that is its share, "
     "0 (a start of numbers other than 0 is `bias(s, {...}, {name = \"start\", rate = 0})` "
     "in the place of x). Loads are measured: `load_largest`, `flips`, and `load` (numbers) or "
     "`load2` (rows; with biases `qstar`, `b2`), followed by `_name`",
     balance_selection, NULL},
    {"mean_of_rows", "x", "rows or numbers",
     "the mean of rows or numbers over all inputs, one for all of them; for terms of the loss "
     "alone",
     NULL, program_mean_of_rows},
    {"penalty", "s, name, {about=, equation=}", "",
     "adds to the loss the mean over inputs of the sum of the numbers s, which is measured as "
     "`name`",
     penalty, NULL},
    {0}};

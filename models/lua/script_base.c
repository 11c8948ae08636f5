/* Arguments of scripts, and the part of Lua that they have. */
#include "models/lua/script.h"
#include "kernels/base/text.h"
#include "models/language/operation.h"

#include <lualib.h>

/* --- values ---------------------------------------------------------------------------------- */

static const struct handle *handle_at(lua_State *L, int arg) {
    return luaL_testudata(L, arg, SCRIPT_VALUE);
}

const struct node *script_node(lua_State *L, struct value v) {
    return node_of(script_program(L), v);
}

int script_push(lua_State *L, struct value v) {
    script_check(L);
    struct handle *added = lua_newuserdatauv(L, sizeof *added, 0);
    *added = (struct handle){v.at, -1};
    luaL_setmetatable(L, SCRIPT_VALUE);
    return 1;
}

bool script_is_value(lua_State *L, int arg) {
    return handle_at(L, arg) != NULL;
}

bool script_is_rows(lua_State *L, int arg) {
    const struct handle *h = handle_at(L, arg);
    return h && script_node(L, (struct value){h->at})->on;
}

bool script_is_numbers(lua_State *L, int arg) {
    return handle_at(L, arg) && !script_is_rows(L, arg);
}

/* What an argument is, in words. */
static const char *kind_in_words(lua_State *L, int arg) {
    return script_is_rows(L, arg)                      ? "rows over a population"
           : script_is_numbers(L, arg)                 ? "numbers of each input"
           : luaL_testudata(L, arg, SCRIPT_POPULATION) ? "a population"
           : lua_isnoneornil(L, arg)                   ? "nothing"
           : lua_type(L, arg) == LUA_TNUMBER           ? "a number"
                                                       : luaL_typename(L, arg);
}

/* Raises this complaint about an argument, or (at -1) about the last option. */
static void refuse_argument(lua_State *L, int arg, const char *text) {
    if (arg > 0)
        luaL_argerror(L, arg, text);
    luaL_error(L, "option %s %s", script_of(L)->option, text);
}

static void refuse_type(lua_State *L, int arg, const char *what) {
    refuse_argument(L, arg, lua_pushfstring(L, "must be %s, is %s", what, kind_in_words(L, arg)));
}

struct value script_rows(lua_State *L, int arg) {
    if (script_is_numbers(L, arg))
        refuse_argument(
            L, arg,
            "must be rows over a population, is numbers of each input; s[1] * one, with one = "
            "constant(p, function() return 1 end), has a number at every site of p, and mean(x) "
            "takes it back");
    if (!script_is_rows(L, arg))
        refuse_type(L, arg, "rows over a population");
    return (struct value){handle_at(L, arg)->at};
}

struct value script_rows_or_numbers(lua_State *L, int arg) {
    if (script_is_numbers(L, arg))
        return script_numbers(L, arg);
    if (!script_is_rows(L, arg))
        refuse_type(L, arg, "rows over a population or numbers of each input");
    return script_rows(L, arg);
}

struct script_population *script_population(lua_State *L, int arg) {
    struct script_population *on = luaL_testudata(L, arg, SCRIPT_POPULATION);
    if (!on)
        refuse_type(L, arg, "a population");
    return on;
}

double script_real(lua_State *L, int arg, double least, double most) {
    if (lua_type(L, arg) != LUA_TNUMBER)
        refuse_type(L, arg, "a number");
    double x = lua_tonumber(L, arg);
    if (!(x >= least && x <= most)) {
        char text[192];
        double power = program_setup(script_program(L))->N ? 0 : weight_power(x);
        if (power > 0 && isfinite(x))
            snprintf(text, sizeof text,
                     "grows as N^%.3g, so that there is no limit: its power of N must be 0 at most "
                     "(finite networks alone, [solver] replicates = 0, may have it)",
                     power);
        else
            snprintf(text, sizeof text, "must be a number from %g to %g, is %g", least, most, x);
        refuse_argument(L, arg, text);
    }
    return x;
}

int script_whole(lua_State *L, int arg, int least, int most) {
    double x = script_real(L, arg, least, most);
    if (x != floor(x))
        refuse_argument(L, arg, lua_pushfstring(L, "must be a whole number, is %f", x));
    return (int)x;
}

/* --- options --------------------------------------------------------------------------------- */

bool script_option(lua_State *L, int table, const char *name) {
    script_of(L)->option = name;
    if (lua_isnoneornil(L, table)) {
        lua_pushnil(L);
        return false;
    }
    lua_pushstring(L, name);
    lua_rawget(L, table);
    return !lua_isnil(L, -1);
}

void script_options(lua_State *L, int table, const char *known) {
    if (lua_isnoneornil(L, table))
        return;
    if (!lua_istable(L, table))
        refuse_type(L, table, "a table of options");
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        const char *given = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL,
                   *at = known;
        struct text_nearest nearest = {.given = given ? given : ""};
        struct text_word word;
        bool found = false;
        while (given && text_next_word(&at, " ", &word)) {
            found |= text_is(word, given);
            text_nearest_try(&nearest, word);
        }
        char note[TEXT_NOTE] = "";
        text_nearest_tell(&nearest, note);
        if (!found)
            luaL_argerror(L, table,
                          lua_pushfstring(L, "unknown option %s%s; there are: %s",
                                          given ? given : "without a name", note, known));
    }
}

/* --- names ----------------------------------------------------------------------------------- */

bool script_has(lua_State *L, const char *what, const char *name) {
    int top = lua_gettop(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, what);
    bool there = lua_getfield(L, -1, name) != LUA_TNIL;
    lua_settop(L, top);
    return there;
}

static void refuse_name(lua_State *L, int arg, const char *text) {
    if (arg > 0)
        luaL_argerror(L, arg, text);
    luaL_error(L, "%s", text);
}

const char *script_name(lua_State *L, int arg, const char *what) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (lua_type(L, arg) != LUA_TSTRING)
        refuse_type(L, arg, "a name");
    size_t length;
    const char *name = lua_tolstring(L, arg, &length);
    bool good = length && length < NET_NAME && strlen(name) == length && strspn(name, letters) > 0;
    for (size_t k = 0; k < length && good; k++)
        good = strchr(letters, name[k]) || strchr("0123456789_", name[k]);
    if (!good)
        refuse_name(L, arg, "a name is a letter and then letters, digits and _, at most 23");
    luaL_getsubtable(L, LUA_REGISTRYINDEX, what);
    if (lua_getfield(L, -1, name) != LUA_TNIL)
        luaL_argerror(
            L, arg,
            lua_pushfstring(L, "two %s are called %s%s", what, name,
                            strcmp(what, "matrices") ? "" : "; tied = true makes them one"));
    lua_pushboolean(L, true);
    lua_setfield(L, -3, name);
    lua_pop(L, 2);
    const char *kept = program_name(script_program(L), "%s", name);
    script_check(L);
    return kept;
}

const char *script_word(lua_State *L, const char *text) {
    const char *kept;
    if (strlen(text) > SCRIPT_TEXT || text_find_bad(text))
        luaL_error(L,
                   "a text that results carry has control characters, is not UTF-8 or longer than "
                   "%d bytes",
                   SCRIPT_TEXT);
    kept = text_keep(text);
    if (!kept)
        luaL_error(L, "out of memory: a word");
    return kept;
}

/* How many arguments a word takes at most: its text has a comma between two of them, beside those
 * between the fields of a table. */
static int most_arguments(const struct script_word *word) {
    int count = *word->arguments ? 1 : 0, depth = 0;
    for (const char *c = word->arguments; *c; c++) {
        depth += (*c == '{') - (*c == '}');
        count += *c == ',' && !depth;
    }
    return count;
}

const char *script_called(lua_State *L) {
    return ((const struct script_word *)lua_touserdata(L, lua_upvalueindex(1)))->name;
}

/* Calls a word. Lua drops arguments beyond those that a function takes: options behind the name of
 * a matrix, where they are written for other words, would be lost without a sentence. */
static int call_word(lua_State *L) {
    const struct script_word *word = lua_touserdata(L, lua_upvalueindex(1));
    int most = most_arguments(word), given = lua_gettop(L);
    while (given > most && lua_isnil(L, given))
        given--;
    if (given > most)
        return luaL_error(L, "%s takes at most %d argument%s, %s(%s), and has %d", word->name, most,
                          most == 1 ? "" : "s", word->name, word->arguments, given);
    script_poll(L);
    if (word->call)
        return word->call(L);
    struct value x =
        strcmp(word->gives, "rows or numbers") ? script_rows(L, 1) : script_rows_or_numbers(L, 1);
    return script_push(L, word->of_one(script_program(L), x));
}

/* A word that is an operation by its row. */
static int call_operation(lua_State *L) {
    const struct operation *op = lua_touserdata(L, lua_upvalueindex(2));
    const struct constant_field *field = op->constants;
    struct operands given = {.x = {-1}, .y = {-1}};
    enum operation_argument kind;
    int arg = 1, values = 0, constants = 0;
    for (const char *at = op->arguments; (kind = operation_argument(&at)); arg++) {
        if (kind == ARGUMENT_VALUE)
            *(values++ ? &given.y : &given.x) = operation_takes_either(op)
                                                    ? script_rows_or_numbers(L, arg)
                                                : *op->arguments == 's' ? script_numbers(L, arg)
                                                                        : script_rows(L, arg);
        else if (kind == ARGUMENT_POPULATION)
            given.on = script_population(L, arg)->on;
        else if (field->type == FIELD_BOOL)
            given.constant[constants++] = lua_toboolean(L, arg);
        else if (field->type == FIELD_REAL)
            given.constant[constants++] = script_real(L, arg, field->least, field->most);
        else
            given.constant[constants++] = script_whole(L, arg, (int)field->least, (int)field->most);
        field += kind == ARGUMENT_CONSTANT;
    }
    return script_push(L, program_apply(script_program(L), op, given));
}

static struct script_word word_of(const struct operation *op) {
    return (struct script_word){op->name, op->arguments, op->gives, op->doc, call_operation, NULL};
}

void script_register(lua_State *L, const struct script_chapter *chapter) {
    for (const struct script_word *word = chapter->words; word->name; word++) {
        lua_pushlightuserdata(L, (void *)word);
        lua_pushcclosure(L, call_word, 1);
        lua_setglobal(L, word->name);
    }
    for (const struct operation *const *op = chapter->operations; op && *op; op++) {
        struct script_word word = word_of(*op);
        memcpy(lua_newuserdatauv(L, sizeof word, 0), &word, sizeof word);
        lua_pushlightuserdata(L, (void *)*op);
        lua_pushcclosure(L, call_word, 2);
        lua_setglobal(L, word.name);
    }
}

static void print_word(FILE *out, const char *chapter, struct script_word word,
                       const struct constant_field *field) {
    fprintf(out, "%s\t%s\t%s\t%s\t%s\t", chapter, word.name, word.arguments, word.gives, word.doc);
    for (const char *between = ""; field && field->name; field++, between = " ")
        fprintf(out, "%s%s", between, field->name);
    fputs("\n", out);
}

void script_print_words(FILE *out) {
    static const struct constant_field without[] = {{.name = "-"}, {0}};
    for (const struct script_chapter *chapter = script_chapters; chapter->title; chapter++) {
        for (const struct script_word *word = chapter->words; word->name; word++)
            print_word(out, chapter->title, *word, without);
        for (const struct operation *const *op = chapter->operations; op && *op; op++)
            print_word(out, chapter->title, word_of(*op), (*op)->constants);
    }
}

/* --- of Lua's own ---------------------------------------------------------------------------- */

/* "; did you mean NAME" for a name that is not among the keys of the table at `index`, or "". The
 * text is on the stack. */
static const char *nearest(lua_State *L, int index, const char *given) {
    struct text_nearest best = {.given = given};
    char note[TEXT_NOTE] = "";
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            continue;
        const char *name = lua_tostring(L, -2);
        text_nearest_try(&best, (struct text_word){name, strlen(name)});
    }
    text_nearest_tell(&best, note);
    return lua_pushstring(L, note);
}

static int unknown(lua_State *L) {
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";
    return luaL_error(L, "unknown name %s%s", name, nearest(L, 1, name));
}

static int fail(lua_State *L) {
    const char *text = luaL_optstring(L, 1, "an error");
    luaL_where(L, 1);
    lua_pushstring(L, text);
    lua_concat(L, 2);
    return lua_error(L);
}

static int insist(lua_State *L) {
    if (lua_toboolean(L, 1))
        return lua_gettop(L);
    return luaL_error(L, "%s", luaL_optstring(L, 2, "an assertion does not hold"));
}

/* No addresses, which differ from run to run. */
static int to_string(lua_State *L) {
    int type = lua_type(L, 1);
    if (type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TBOOLEAN || type == LUA_TNIL)
        luaL_tolstring(L, 1, NULL);
    else
        lua_pushstring(L, kind_in_words(L, 1));
    return 1;
}

static int format(lua_State *L) {
    const char *text = luaL_checkstring(L, 1);
    int count = lua_gettop(L);
    for (const char *at = text; (at = strchr(at, '%')); at++) {
        at += 1 + strspn(at + 1, "-+ #0123456789.");
        if (!*at || *at == 'p' || *at == 'q' || *at == 'a' || *at == 'A')
            luaL_argerror(L, 1, "only %d, %i, %u, %c, %x, %e, %f, %g, %s and %% are known");
    }
    for (int k = 2; k <= count; k++)
        if (lua_type(L, k) != LUA_TNUMBER && lua_type(L, k) != LUA_TSTRING)
            refuse_type(L, k, "a number or a string");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, count, 1);
    return 1;
}

/* Calls a function of Lua's own. No hook sees how long the texts are that it reads. */
static int call_kept(lua_State *L) {
    struct script *script = script_of(L);
    lua_CFunction kept = lua_tocfunction(L, lua_upvalueindex(1));
    for (int k = lua_gettop(L); k > 0; k--)
        script->read += lua_type(L, k) == LUA_TSTRING ? lua_rawlen(L, k) : 0;
    if (script->read > SCRIPT_TRAFFIC)
        return luaL_error(L, "a network reads more than %d MB of texts to write",
                          SCRIPT_TRAFFIC >> 20);
    return kept(L);
}

/* What a library has, a function as one that is counted. */
static int counted(lua_State *L) {
    if (lua_iscfunction(L, 1))
        lua_pushcclosure(L, call_kept, 1);
    return 1;
}

/* string.format, as one that looks at its arguments first. */
static int checked_format(lua_State *L) {
    lua_pushcclosure(L, format, 1);
    return 1;
}

/* Makes the globals that there are; what a library opens as such is left behind. Strings have
 * s:format(...) and "2" + 1. */
static const char prelude[] =
    "local globals, base, math, string, counted, format, unknown = ...\n"
    "local function keep(library, names)\n"
    "  local kept = {}\n"
    "  for name in string.gmatch(names, '%w+') do kept[name] = counted(library[name]) end\n"
    "  return kept\n"
    "end\n"
    "for name, f in base.pairs(keep(base, 'ipairs tonumber type select')) do globals[name] = f "
    "end\n"
    "globals.math = keep(math, 'abs ceil floor max min sqrt exp log pi huge sin cos fmod modf '\n"
    "                       .. 'type tointeger')\n"
    "globals.string = keep(string, 'format len sub upper lower byte')\n"
    "globals.string.format = format(globals.string.format)\n"
    "local of_strings = base.getmetatable('')\n"
    "for name, f in base.pairs(of_strings) do of_strings[name] = counted(f) end\n"
    "of_strings.__index = globals.string\n"
    "base.setmetatable(globals, {__index = unknown})\n";

void script_open_base(lua_State *L) {
    static const luaL_Reg own[] = {
        {"error", fail}, {"assert", insist}, {"tostring", to_string}, {NULL, NULL}};
    static const lua_CFunction made[] = {counted, checked_format, unknown};
    luaL_newlib(L, own);
    if (luaL_loadbufferx(L, prelude, sizeof prelude - 1, "=prelude", "t"))
        lua_error(L);
    lua_pushvalue(L, -2);
    luaL_requiref(L, "_G", luaopen_base, 0);
    luaL_requiref(L, "math", luaopen_math, 0);
    luaL_requiref(L, "string", luaopen_string, 0);
    for (size_t k = 0; k < sizeof made / sizeof *made; k++)
        lua_pushcfunction(L, made[k]);
    lua_call(L, 7, 0);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}

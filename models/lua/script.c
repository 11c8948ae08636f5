/* A network written in Lua: the interpreter that a script runs in.
 *
 * It can compute and call the builder, nothing else: no files, no other code, no clock, no random
 * numbers but the run's own, no order of tables that differs between runs; and no more
 * instructions, memory and time than script.h says. Every net runs the script anew. */
#include "models/lua/script.h"

struct script *script_of(lua_State *L) {
    struct script *script;
    memcpy(&script, lua_getextraspace(L), sizeof script);
    return script;
}

struct program *script_program(lua_State *L) {
    return script_of(L)->p;
}

/* --- limits ---------------------------------------------------------------------------------- */

/* Frees with size 0, else the block at its new size, or NULL. Where there is no block yet, `old`
 * is the type of what it will be: a long text would let one instruction take milliseconds. */
static void *allocate(void *context, void *block, size_t old, size_t size) {
    struct script *script = context;
    size_t before = block ? old : 0;
    if (!size) {
        script->bytes -= before;
        free(block);
        return NULL;
    }
    size_t grown = size > before ? size - before : 0;
    if (!block && old == LUA_TSTRING && size > SCRIPT_LONGEST)
        return NULL;
    if (script->bytes + grown > SCRIPT_BYTES || script->traffic + size > SCRIPT_TRAFFIC)
        return NULL;
    void *moved = realloc(block, size);
    if (!moved)
        return NULL;
    script->bytes += size - before;
    script->traffic += size > before ? size : 0;
    return moved;
}

static void look_up(lua_State *L, int level) {
    struct script *script = script_of(L);
    struct program *p = script->p;
    if (program_failed(p, base_poll(&p->err, "network %s is written", script->name)) ||
        program_failed(p, base_go_on(&p->net->setup.stop, &p->err)))
        luaL_error(L, "interrupted");
    bool late = base_cpu_seconds() - script->start > SCRIPT_SECONDS;
    if (script->instructions <= SCRIPT_INSTRUCTIONS && !late)
        return;
    luaL_where(L, level);
    if (late)
        lua_pushfstring(L, "a network takes more than %d seconds to write", SCRIPT_SECONDS);
    else
        lua_pushfstring(L,
                        "a network takes more than %d million instructions to write: is there a "
                        "loop that does not end?",
                        SCRIPT_INSTRUCTIONS / 1000000);
    lua_concat(L, 2);
    lua_error(L);
}

static void tick(lua_State *L, lua_Debug *at UNUSED) {
    script_of(L)->instructions += SCRIPT_TICK;
    look_up(L, 0);
}

void script_poll(lua_State *L) {
    look_up(L, 1);
}

void script_count(lua_State *L, size_t instructions) {
    script_of(L)->instructions += instructions;
    look_up(L, 1);
}

/* --- errors ---------------------------------------------------------------------------------- */

/* What the builder has said, without its beginning "network NAME: ". */
static const char *builder_sentence(const struct program *p) {
    const char *text = p->err.text, *name = p->net->model->name;
    size_t n = strlen("network "), m = strlen(name);
    bool begins = !strncmp(text, "network ", n) && !strncmp(text + n, name, m) &&
                  !strncmp(text + n + m, ": ", 2);
    return begins ? text + n + m + 2 : text;
}

void script_check(lua_State *L) {
    const struct program *p = script_program(L);
    if (p->code)
        luaL_error(L, "%s", builder_sentence(p));
    if (p->nodes > SCRIPT_NODES)
        luaL_error(L, "a network has more than %d operations", SCRIPT_NODES);
}

double *script_memory(lua_State *L, size_t numbers) {
    script_check(L);
    double *memory = program_memory(script_program(L), numbers * sizeof *memory);
    script_check(L);
    return memory;
}

/* One line, without control characters. */
static void make_one_line(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            *text = ' ';
}

/* The first failure, with its place in the script. */
static void report_failure(struct script *script, int status) {
    struct program *p = script->p;
    char text[1024];
    const char *given = lua_type(script->L, -1) == LUA_TSTRING ? lua_tostring(script->L, -1) : NULL;
    size_t n = strlen(script->name);
    if (p->code && p->code != CODE_INPUT)
        return;
    if (status == LUA_ERRMEM)
        given =
            "a network takes more memory to write than a script may have: 8 MB, 64 kB for a text";
    snprintf(text, sizeof text, "%s", given ? given : "an error without a sentence");
    make_one_line(text);
    bool placed = !strncmp(text, script->name, n) && text[n] == ':';
    p->code = err_set(&p->err, CODE_INPUT, "%s%s%s", placed ? "" : script->name, placed ? "" : ": ",
                      text);
}

/* --- a run ----------------------------------------------------------------------------------- */

char *script_unfold(const char *folded, size_t *size) {
    char *text = malloc(strlen(folded) + 1), *to = text;
    for (; text && *folded; folded++) {
        static const char *const pairs[] = {"n\n", "t\t", "r\r", "s ", "\\\\"};
        char c = *folded;
        for (size_t k = 0; *folded == '\\' && k < sizeof pairs / sizeof *pairs; k++)
            if (folded[1] == pairs[k][0]) {
                c = pairs[k][1];
                folded++;
                break;
            }
        *to++ = c;
    }
    if (text)
        *to = '\0';
    *size = text ? (size_t)(to - text) : 0;
    return text;
}

struct source {
    const char *text, *chunk;
    size_t size;
};

static int run(lua_State *L) {
    const struct source *source = lua_touserdata(L, 1);
    script_open_base(L);
    script_open_rows(L);
    script_open_tokens(L);
    script_open_numbers(L);
    script_open_ends(L);
    for (const struct script_chapter *chapter = script_chapters; chapter->title; chapter++)
        script_register(L, chapter);
    if (luaL_loadbufferx(L, source->text, source->size, source->chunk, "t"))
        return lua_error(L);
    lua_call(L, 0, 0);
    return 0;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void script_write(struct program *p) {
    const struct network *network = program_network(p);
    struct script script = {
        .p = p, .name = base_name(network->script.file), .start = base_cpu_seconds()};
    char name[48], chunk[52];
    struct source source;
    snprintf(name, sizeof name, "%s", *script.name ? script.name : "program");
    snprintf(chunk, sizeof chunk, "@%s", name);
    script.name = name;
    char *text = script_unfold(network->script.text, &source.size);
    script.L = text ? lua_newstate(allocate, &script) : NULL;
    if (!script.L) {
        program_failed(p, err_set(&p->err, CODE_SYSTEM, "out of memory: %s", name));
        free(text);
        return;
    }
    struct script *self = &script;
    memcpy(lua_getextraspace(script.L), &self, sizeof self);
    lua_sethook(script.L, tick, LUA_MASKCOUNT, SCRIPT_TICK);
    p->most_bytes = p->bytes_left = SCRIPT_NUMBERS * sizeof(double);
    source.text = text;
    source.chunk = chunk;
    lua_pushcfunction(script.L, run);
    lua_pushlightuserdata(script.L, &source);
    int status = lua_pcall(script.L, 1, 0, 0);
    if (status)
        report_failure(&script, status);
    p->most_bytes = 0;
    lua_close(script.L);
    free(text);
}

static const struct param_row script_keys[] = {
    {"program", PARAM_PATH, NETWORK_KEY(script.file), "", 0, 0, NULL, NULL,
     "Path of a network that is written in Lua (docs/programs.md), relative to the folder of "
     "the ini. Its keys are in section [program]."},
    {"program_text", PARAM_TEXT, NETWORK_KEY(script.text), "", 0, 0, NULL, NULL,
     "Text of that network on one line, as output files record it. If it is given, the file "
     "is not read."},
    {0},
};

const struct model model_script = {
    .name = "program",
    .doc = "network of your own, written in Lua (docs/programs.md)",
    .source = "the program itself, in /parameters",
    .keys = "program program_text read_out activation expert_activation",
    .solver_keys = "expert_sites unit_sites",
    .rows = script_keys,
    .write = script_write,
};

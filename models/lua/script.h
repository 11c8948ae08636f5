/* Networks written in Lua (docs/programs.md): what the files of this folder share.
 *
 * A script calls the builder of models/language/program.h under the same names. After each call a
 * failure of the builder becomes an error of the script at its present line, so that no value that
 * a script holds is wrong. C functions called by Lua may end in a long jump: they own nothing. */
#pragma once

#include "models/engine/node.h"

#include <lauxlib.h>
#include <lua.h>

struct script {
    struct program *p;
    lua_State *L;
    const char *name;      /* of the file */
    const char *option;    /* asked for last: the argument at -1 */
    size_t bytes, traffic; /* in use; ever asked for */
    size_t read;           /* bytes of texts, by functions of Lua's own */
    size_t instructions;   /* of Lua, and calls by words */
    double start;          /* seconds of this thread */
};
enum {
    SCRIPT_TICK = 1000,            /* instructions between two looks at the clock */
    SCRIPT_INSTRUCTIONS = 3000000, /* instructions, */
    SCRIPT_SECONDS = 5,            /* seconds, */
    SCRIPT_BYTES = 8 << 20,        /* bytes at once */
    SCRIPT_TRAFFIC = 256 << 20,    /* and in all, */
    SCRIPT_LONGEST = 64 << 10,     /* and of one text, that a script may use; */
    SCRIPT_NODES = 20000,          /* operations of a network, each with its plan, */
    SCRIPT_NUMBERS = 1 << 27,      /* and numbers (1 GB), which the builder allocates */
    SCRIPT_TEXT = 199,             /* bytes of a text that results carry, */
    SCRIPT_LABEL = 16 << 10        /* and of a label, which is an attribute of HDF5 */
};

/* Values and populations, as scripts hold them. column: of numbers; -1: all. */
struct handle {
    int at, column;
};
struct script_population {
    struct population *on;
    double relative; /* size in widths, N */
};
#define SCRIPT_VALUE "network"
#define SCRIPT_POPULATION "population"

struct script *script_of(lua_State *L);
struct program *script_program(lua_State *L);
/* An error at this line, if the builder has failed or the network has become too large. */
void script_check(lua_State *L);
/* An error, if a signal asks for the end or the time of a script is over. Every word is polled
 * before it is called; one that may take milliseconds calls this itself. */
void script_poll(lua_State *L);
/* So many instructions more; for a word that calls functions, before it allocates: no hook counts
 * calls of functions that are not written in Lua. */
void script_count(lua_State *L, size_t instructions);
/* Memory for so many numbers, as long as the net lives; an error at this line if that is beyond
 * what a network may have. */
double *script_memory(lua_State *L, size_t numbers);
/* The result of a function that gives a value; script_check first. */
int script_push(lua_State *L, struct value v);

/* One word of the language. Lua, `dmft-solve --operations`, the tables of docs/programs.md and the
 * class dmft.Network know it by this row alone, or by that of an operation (struct operation). */
struct script_word {
    const char *name;
    /* The letters are those of docs/programs.md: x rows, s numbers, p a population, W a matrix
     * (always last), `name` a text; optional ones in brackets, a table of options in braces. */
    const char *arguments;
    const char *gives; /* "rows", "numbers", "population", ...; "": nothing */
    const char *doc;   /* what it is, one clause, in Markdown */
    lua_CFunction call;
    /* Or, where call is NULL, of its one argument, whose kinds are those that it gives, or rows. */
    struct value (*of_one)(struct program *p, struct value x);
};
/* Words of one section of docs/programs.md; the last has no name. */
struct script_chapter {
    const char *title;
    const struct script_word *words;
    const struct operation *const *operations; /* NULL, or those that are words by their rows */
};
extern const struct script_word script_matrices[], script_rows_words[], script_numbers_words[],
    script_tokens[], script_balance_words[], script_ends_words[];
extern const struct script_chapter script_chapters[]; /* the last has no title */
/* Prints all words, a line each, tabs between: chapter, name, arguments, gives, doc, and the
 * constants that an operation has which is a word by its row (else -). */
void script_print_words(FILE *out);
/* The words of a chapter become globals. */
void script_register(lua_State *L, const struct script_chapter *chapter);

const char *script_called(lua_State *L); /* the name of the word that is being called */

/* Arguments; anything else is an error at this line. */
struct value script_rows(lua_State *L, int arg);
struct value script_numbers(lua_State *L, int arg); /* of one column: that one alone */
struct value script_rows_or_numbers(lua_State *L, int arg);
bool script_is_rows(lua_State *L, int arg);
bool script_is_numbers(lua_State *L, int arg);
bool script_is_value(lua_State *L, int arg);
struct script_population *script_population(lua_State *L, int arg);
double script_real(lua_State *L, int arg, double least, double most);
int script_whole(lua_State *L, int arg, int least, int most);
/* "W", or {name = "W", a0 = ...}. Numbers left out are 1; a0 = 0 and rate = 0 mean what they say.
 * may: the option that it may have beside those of all, which others would not heed. */
enum script_may { SCRIPT_PLAIN, SCRIPT_IID, SCRIPT_START };
struct weight script_weight(lua_State *L, int arg, enum script_may may);
const struct node *script_node(lua_State *L, struct value v);
/* A name of at most 23 letters, digits and _, a letter first, that no other `kind` has; of kind
 * "results" it is asked later whether the output has room for it (solver/measure/record_names.c).
 */
const char *script_name(lua_State *L, int arg, const char *kind);
bool script_has(lua_State *L, const char *kind, const char *name);
/* One name of an axis has one length. */
void script_axis(lua_State *L, const char *axis, int length);
/* A field of an optional table of options: words that results carry. */
const char *script_text(lua_State *L, int options, const char *field, const char *otherwise);
/* A copy that outlives all nets, for words that results carry. */
const char *script_word(lua_State *L, const char *text);
/* The field `label` of an optional table of options: what messages and results call the thing
 * beside its name. NULL without; it outlives all nets. */
const char *script_label(lua_State *L, int options);
/* Field of an optional table of options: pushes it, and whether it is there. */
bool script_option(lua_State *L, int table, const char *name);
/* The options may have these fields, blank-separated, and no others. */
void script_options(lua_State *L, int table, const char *known);

int script_bias(lua_State *L); /* words of script_matrices */
int script_vector(lua_State *L);
int script_input(lua_State *L);
int script_embed(lua_State *L);
int script_scalar(lua_State *L);
void script_open_rows(lua_State *L);
void script_open_tokens(lua_State *L);
void script_open_numbers(lua_State *L);
void script_open_ends(lua_State *L);
void script_open_base(lua_State *L);

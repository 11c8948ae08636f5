/* Free keys of an ini: kept in the order of their sections and names, whatever the order in which
 * they are given, so that the same set is always the same text. */
#include "solver/settings/param_keys.h"

#include <errno.h>

/* ---- one key and its value ---- */

const struct factor_quantity factor_quantities[FACTOR_QUANTITIES] = {
    {"rho", "rho", "share of the experts that is routed to"},
    {"kappa", "kappa", "number of experts over the width"},
    {"iota", "iota", "units of an expert over the width"},
    {"L", "depth", "number of blocks"},
    {"N_e", "expert_width", "units of an expert"},
    {"P", "", "number of training inputs"},
    {"D", "", "dimension of the inputs"},
};

void factor_describe(const struct param_section *section, char *note) {
    text_append(
        note,
        section && section->words
            ? "a number or a word"
            : "a factor, a number of at least 0, with or without a power of the width: 3, 3 N^-0.5 "
              "or N^0.5; powers of rho, kappa, iota, L, N_e, P and D may follow: 2 N^-0.5 rho^0.5");
}

bool factor_name(const char *key, char *note) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t first = strspn(key, letters), length = strlen(key);
    size_t good = strspn(key + first, letters) + first;
    while (key[good] && strchr("0123456789_.-", key[good]))
        good += 1 + strspn(key + good + 1, letters);
    if (first && good == length && length <= TEXT_CLIP)
        return true;
    text_append(
        note, "not a name, which is a letter and then letters, digits, _ . or -, at most %d in all",
        TEXT_CLIP);
    return false;
}

__attribute__((format(printf, 2, 3))) static bool refuse(char *note, const char *format, ...) {
    TEXT_APPEND_ARGUMENTS(note, format);
    text_append(note, "; must be ");
    factor_describe(NULL, note);
    return false;
}

static const char *skip_blanks(const char *text) {
    return text + strspn(text, " \t");
}

/* A finite number at *text, which moves behind it and the blanks that follow. */
static bool parse_number(const char **text, double *out, char *note) {
    char *end, cut[TEXT_CLIP_SIZE];
    errno = 0;
    double value = strtod(*text, &end);
    if (end == *text && !**text)
        return refuse(note, "no number behind ^");
    if (end == *text)
        return refuse(note, "not a number at \"%s\"", text_clip(cut, *text));
    if (errno == ERANGE && (isinf(value) || value == 0))
        return refuse(note, "beyond the range of double precision at \"%s\"",
                      text_clip(cut, *text));
    if (!isfinite(value))
        return refuse(note, "not a finite number at \"%s\"", text_clip(cut, *text));
    *out = value;
    *text = skip_blanks(end);
    return true;
}

/* The end of this name at the beginning of a text, which no other letter may follow; else NULL. */
static const char *behind_name(const char *text, const char *name) {
    size_t length = strlen(name);
    bool whole = !strncmp(text, name, length) && (!text[length] || strchr("^ \t", text[length]));
    return whole ? text + length : NULL;
}

/* The place of the power of what a text begins with, and *end behind its name; NULL: of nothing. */
static double *find_power(struct factor *factor, const char *text, const char **end) {
    if ((*end = behind_name(text, "N")))
        return &factor->power;
    for (int k = 0; k < FACTOR_QUANTITIES; k++)
        if ((*end = behind_name(text, factor_quantities[k].name)))
            return &factor->powers[k];
    return NULL;
}

/* Powers of several things, each once; *text moves behind them. */
static bool parse_powers(const char **text, struct factor *out, char *note) {
    const char *end;
    double *power, *met[FACTOR_QUANTITIES + 1];
    for (int k = 0; (power = find_power(out, *text, &end)); k++) {
        for (int i = 0; i < k; i++)
            if (met[i] == power)
                return true; /* what is left is refused */
        met[k] = power;
        *text = skip_blanks(end);
        *power = 1;
        if (**text != '^')
            continue;
        *text = skip_blanks(*text + 1);
        if (!parse_number(text, power, note))
            return false;
    }
    return true;
}

/* A factor. If it is refused, appends a sentence to note and returns false. */
static bool parse_factor(const char *text, struct factor *out, char *note) {
    char cut[TEXT_CLIP_SIZE];
    const char *end;
    text = skip_blanks(text);
    *out = (struct factor){.factor = 1};
    if (!*text)
        return refuse(note, "empty value");
    if (!find_power(out, text, &end) && !parse_number(&text, &out->factor, note))
        return false;
    if (out->factor < 0)
        return refuse(note, "a negative factor");
    if (out->factor == 0)
        out->factor = 0; /* not -0 */
    return parse_powers(&text, out, note) &&
           (!*text || refuse(note, "trailing characters \"%s\"", text_clip(cut, text)));
}

bool factor_takes(const struct param_section *section, const char *text, char *note) {
    struct factor factor;
    if (!section->words)
        return parse_factor(text, &factor, note);
    if (!*text)
        text_append(note, "empty value; must be a number or a word");
    return *text;
}

/* ---- the list ---- */

/* Less than, equal to or greater than 0: free key i is before, at or behind the place of a key. */
static int compare_place(const struct param_free *given, const struct param_section *section,
                         const char *key) {
    if (given->section != section)
        return given->section < section ? -1 : 1;
    return strcmp(given->key, key);
}

struct param_free *factor_find(const struct params *params, const struct param_section *section,
                               const char *key) {
    for (size_t i = 0; i < params->frees; i++)
        if (!compare_place(&params->free[i], section, key))
            return &params->free[i];
    return NULL;
}

int factor_add(struct param_free **out, struct params *params, const struct param_section *section,
               const char *key, struct err *err) {
    size_t at = 0;
    char *copy;
    if ((*out = factor_find(params, section, key)))
        return CODE_OK;
    struct param_free *grown = realloc(params->free, (params->frees + 1) * sizeof *grown);
    if (!grown)
        return err_set(err, CODE_SYSTEM, "out of memory: the keys of [%s]", section->name);
    params->free = grown;
    TRY(base_copy(&copy, key, err));
    while (at < params->frees && compare_place(&grown[at], section, key) < 0)
        at++;
    memmove(grown + at + 1, grown + at, (params->frees++ - at) * sizeof *grown);
    grown[at] = (struct param_free){.section = section, .key = copy};
    *out = &grown[at];
    return CODE_OK;
}

static void resolve_factor(const struct param_free *key, struct factor *factor) {
    char note[TEXT_NOTE] = "";
    bool good = parse_factor(key->value.text, factor, note);
    assert(good); /* checked when it was stored */
    (void)good;
    factor->name = key->key;
}

int factor_resolve(struct params *params, void *config, struct err *err) {
    TRY(base_alloc(&params->factors, params->frees, sizeof *params->factors, err));
    TRY(base_alloc(&params->words, params->frees, sizeof *params->words, err));
    size_t i = 0;
    FOR_EACH_OF (const struct param_section, s, params->sections, params->count) {
        size_t first = i;
        if (s->rows)
            continue;
        for (; i < params->frees && params->free[i].section == s; i++)
            if (s->words)
                params->words[i] =
                    (struct word){params->free[i].key, params->free[i].value.text, 0};
            else
                resolve_factor(&params->free[i], &params->factors[i]);
        void *list = (char *)config + s->offset;
        if (s->words)
            *(struct word_list *)list = (struct word_list){(int)(i - first), params->words + first};
        else
            *(struct factor_list *)list =
                (struct factor_list){(int)(i - first), params->factors + first};
    }
    return CODE_OK;
}

void factor_free(struct params *params) {
    for (size_t i = 0; i < params->frees; i++) {
        free(params->free[i].key);
        free(params->free[i].value.text);
    }
    free(params->free);
    free(params->factors);
    free(params->words);
    params->words = NULL;
    params->free = NULL;
    params->factors = NULL;
    params->frees = 0;
}

/* ---- names ---- */

int params_check_names(const struct params *params, const char *section, const char *const *names,
                       int count, struct err *err) {
    for (size_t i = 0; i < params->frees; i++) {
        const char *key = params->free[i].key;
        struct text_nearest nearest = {.given = key};
        char note[TEXT_NOTE] = "", list[TEXT_NOTE] = "";
        bool known = strcmp(params->free[i].section->name, section) != 0;
        for (int k = 0; k < count && !known; k++) {
            known = !strcmp(names[k], key);
            text_nearest_try(&nearest, (struct text_word){names[k], strlen(names[k])});
            text_append(list, " %s", names[k]);
        }
        if (known)
            continue;
        text_nearest_tell(&nearest, note);
        return params_error(params, section, key, err, "unknown name%s (this network has%s)", note,
                            count ? list : " none");
    }
    return CODE_OK;
}

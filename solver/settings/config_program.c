/* A network written in Lua: its text, and its keys in section [program]. */
#include "kernels/base/text.h"
#include "solver/settings/config.h"

#include <errno.h>

enum { MOST = 1 << 20 }; /* bytes of a program */

static bool is_program(const struct config *config) {
    return !network_other_keys(config->network.model->name, "program");
}

static int read_file(const char *path, char **text, struct err *err) {
    FREED(base_close) FILE *stream = NULL;
    TRY(base_open(&stream, path, err));
    TRY(base_alloc(text, MOST + 2, 1, err));
    size_t size = fread(*text, 1, MOST + 1, stream);
    if (ferror(stream))
        return err_set(err, base_file_code(errno), "%s: cannot be read: %s", path, strerror(errno));
    if (size > MOST)
        return err_set(err, CODE_INPUT, "%s: longer than a program may be, %d bytes", path, MOST);
    return strlen(*text) == size
               ? CODE_OK
               : err_set(err, CODE_INPUT, "%s: not a text file (byte 0x00)", path);
}

/* Control characters as \n, \t, \r, and blanks at both ends as \s: one line of an ini. */
static int fold_text(const char *path, const char *text, char **folded, struct err *err) {
    size_t length = strlen(text);
    TRY(base_alloc(folded, 2 * length + 1, 1, err));
    char *to = *folded;
    for (size_t k = 0; k < length; k++) {
        static const char *const pairs[] = {"n\n", "t\t", "r\r", "\\\\"};
        char c = text[k], as = c == ' ' && (!k || k == length - 1) ? 's' : 0;
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            as = c == pairs[i][1] ? pairs[i][0] : as;
        if (as)
            *to++ = '\\';
        *to++ = as ? as : c;
    }
    const char *bad = text_find_bad(*folded);
    return bad ? err_set(err, CODE_INPUT, "%s: a control character or not UTF-8 (byte 0x%02x)",
                         path, (unsigned char)*bad)
               : CODE_OK;
}

int config_program(struct config *config, struct params *params, struct err *err) {
    struct network *network = &config->network;
    FREED(base_free) char *path = NULL, *text = NULL, *folded = NULL;
    struct err why;
    int code;
    if (!is_program(config) && network->script.words.count)
        return params_error(
            params, "program", network->script.words.word[0].name, err,
            "only a network written in Lua has such keys: [network] program = FILE.lua");
    if (!is_program(config) || network->script.text[0])
        return CODE_OK;
    if (!network->script.file[0])
        return params_error(params, "network", "program", err,
                            "the file of a program in Lua must be given (docs/programs.md)");
    TRY(params_path(params, "network", "program", &path, err));
    if ((code = read_file(path, &text, &why)) || (code = fold_text(path, text, &folded, &why))) {
        *err = why;
        if (code == CODE_INPUT)
            params_error(params, "network", "program", err, "%s", why.text);
        return code;
    }
    TRY(params_record(params, "network", "program_text", folded, err));
    network->script.text = params_find(params, "network", "program_text")->text;
    return CODE_OK;
}

int config_program_keys(const struct config *config, const struct params *params, struct err *err) {
    const struct word_list *words = &config->network.script.words;
    for (int k = 0; k < words->count; k++)
        if (!words->word[k].read)
            return params_error(params, "program", words->word[k].name, err,
                                "the program never reads this key");
    return CODE_OK;
}

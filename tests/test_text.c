/* Which texts are good: every character of UTF-8 that is no control character, and nothing else. */
#include "kernels/base/text.h"
#include "tests/support/support.h"

enum { LAST = 0x10ffff };

/* The character in UTF-8, as its definition says, without asking whether it may stand alone. */
static size_t encode(unsigned code, char out[5]) {
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(first[length] | code);
    out[length] = '\0';
    return length;
}

static bool is_character(unsigned code) {
    bool control = (code < 0x20 && code != '\t') || (code >= 0x7f && code < 0xa0);
    return !control && !(code >= 0xd800 && code < 0xe000); /* halves of UTF-16 */
}

TEST(every_character) {
    char text[8] = "a";
    for (unsigned code = 1; code <= LAST; code++) {
        size_t length = encode(code, text + 1);
        text[1 + length] = 'b';
        text[2 + length] = '\0';
        const char *bad = text_find_bad(text);
        FAIL_IF(bad != (is_character(code) ? NULL : text + 1), "U+%04X", code);
    }
    encode(LAST + 1, text + 1);
    assert_ptr_equal(text_find_bad(text), text + 1);
}

/* A character whose last byte is missing, whose bytes are too many for it, or whose later bytes are
 * none of such. */
TEST(broken_characters) {
    static const unsigned codes[] = {0xa0, 0x7ff, 0x800, 0xfff, 0x1000, 0xffff, 0x10000, LAST};
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        char text[8] = "a", long_form[8] = "a";
        size_t length = encode(codes[k], text + 1);
        assert_null(text_find_bad(text));
        for (size_t i = 2; i <= length; i++) {
            char kept = text[i];
            const char others[] = {'\0', 'x', (char)0xc3};
            for (size_t o = 0; o < sizeof others; o++) {
                text[i] = others[o];
                assert_ptr_equal(text_find_bad(text), text + 1);
            }
            text[i] = kept;
        }
        /* the slash in as many bytes */
        static const char *const overlong[] = {"", "", "\xc0\xaf", "\xe0\x80\xaf",
                                               "\xf0\x80\x80\xaf"};
        strcpy(long_form + 1, overlong[length]);
        assert_ptr_equal(text_find_bad(long_form), long_form + 1);
    }
}

/* A name is proposed that needs one change, but none that would be another word altogether. */
TEST(near_names) {
    static const char *const cases[][3] =
        LIST({"b", "k", ""}, {"bs", "b", "did you mean \"b\"?"},
             {"rats", "rate", "did you mean \"rate\"?"}, {"rats", "cats", "did you mean \"cats\"?"},
             {"rats", "cat", ""});
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char note[TEXT_NOTE] = "";
        struct text_nearest nearest = {.given = cases[k][0]};
        text_nearest_try(&nearest, (struct text_word){cases[k][1], strlen(cases[k][1])});
        text_nearest_tell(&nearest, note);
        if (*cases[k][2] ? !strstr(note, cases[k][2]) : *note)
            fail_msg("%s of %s: %s", cases[k][1], cases[k][0], note);
    }
}

/* A sentence that was cut, and one that was cut before it went on. */
TEST(cut_characters) {
    static const unsigned codes[] = {0xa0, 0x7ff, 0x800, 0xffff, 0x10000, LAST};
    char path[2049];
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        char text[16] = "ab", letter[5], wanted[16];
        size_t length = encode(codes[k], letter);
        for (size_t n = 1; n <= length; n++) {
            snprintf(text, sizeof text, "ab%.*s", (int)n, letter);
            text_mend(text);
            snprintf(wanted, sizeof wanted, "ab%s", n < length ? "" : letter);
            assert_string_equal(text, wanted);
            snprintf(text, sizeof text, "%.*s: ab", (int)n, letter);
            text_mend(text);
            snprintf(wanted, sizeof wanted, "%s: ab", n < length ? "???" + 3 - n : letter);
            assert_string_equal(text, wanted);
        }
    }
    for (size_t k = 0; k < 1024; k++)
        memcpy(path + 2 * k, "\xc3\xa9", 3);
    err_set(&failure, CODE_INPUT, "%s: cannot be opened", path);
    assert_null(text_find_bad(failure.text));
    assert_true(strlen(failure.text) + 2 == sizeof failure.text);
    err_set(&failure, CODE_INPUT, "%.1599s: cannot be opened", path);
    assert_null(text_find_bad(failure.text));
    assert_non_null(strstr(failure.text, "?: cannot be opened"));
    err_set(&failure, CODE_INPUT, "two\nlines \xff");
    assert_string_equal(failure.text, "two\nlines ?");
}

TEST(values_without_quotes_and_comments) {
    static const STRUCT(const char *text, *value) table[] =
        LIST({" a b ", "a b"}, {"a # b", "a"}, {"a #b ; c", "a"}, {"a#b;c", "a#b;c"}, {" # a", ""},
             {"# a", ""}, {"", ""}, {"\"a # b\"", "a # b"}, {" \"a\" # b", "a"},
             {"\"a\"\"b\"", "a\"b"}, {"\" a \"", " a "}, {"\"\"", ""}, {"\"a", NULL},
             {"\"a\" b", NULL}, {"\"a\"# b", NULL}, {"\"a\"\"", NULL}, {"a \"b # c\"", "a \"b"});
    for (size_t k = 0; k < COUNT(table); k++) {
        TEXT(text, 32, "%s", table[k].text);
        const char *found = text_value(text);
        if (!found != !table[k].value || (found && strcmp(found, table[k].value)))
            fail_msg("[%s]: [%s]", table[k].text, found ? found : "refused");
    }
}

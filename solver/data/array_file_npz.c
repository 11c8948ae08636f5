/* npz: arrays of numpy in a zip archive. libzip reads the archive, unpacks its entries and checks
 * their sums; here each entry is read as numpy.lib.format describes it: a line that is a dictionary
 * of Python, then the numbers. What numpy refuses in that line is refused here too. */
#include "solver/data/array_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

enum { HEADER = 1 << 14, SOME = 1 << 24 }; /* bytes: of the longest header, of those at once */

/* Or a signal has ended the reading. */
static int damaged(const struct array_file *flat, const char *what, struct err *err) {
    TRY(base_poll(err, "reading data file %s", flat->path));
    return err_set(err, CODE_INPUT, "data file %s: is damaged, %s", flat->path, what);
}

/* The first `size` bytes of an entry, or as many as there are before a signal; whole: they are all
 * of it, and agree with its sum, which libzip compares when an entry ends. */
static bool unpack(const struct array_file *flat, const struct array_file_entry *array,
                   unsigned char *bytes, size_t size, bool whole) {
    unsigned char more;
    zip_int64_t got = 1;
    zip_file_t *file = zip_fopen_index(flat->archive, array->entry, 0);
    struct err heard;
    for (size_t at = 0; file && at < size && got > 0 && !base_poll(&heard, "reading");
         at += (size_t)(got > 0 ? got : 0))
        got = zip_fread(file, bytes + at, size - at < SOME ? size - at : SOME);
    bool good = file && got > 0 && (!whole || zip_fread(file, &more, 1) == 0);
    if (file)
        good = !zip_fclose(file) && good;
    return good;
}

/* --- the header of an array ------------------------------------------------------------------ */

static const char *skip(const char *text) {
    return text + strspn(text, " \t\n\r\f");
}

/* If the text goes on with this sign, the place behind it and blanks; else NULL. */
static const char *past(const char *text, char sign) {
    return text && *text == sign ? skip(text + 1) : NULL;
}

/* A word between quotes of either kind; the place behind it, or NULL. */
static const char *read_word(const char *text, char *word, size_t size) {
    const char *end = *text == '\'' || *text == '"' ? strchr(text + 1, *text) : NULL;
    size_t length = end ? (size_t)(end - text) - 1 : size;
    if (length >= size)
        return NULL;
    memcpy(word, text + 1, length);
    word[length] = '\0';
    return skip(end + 1);
}

/* '<f8': byte order, kind, bytes of a number; what is none of these is kind 'O'. A list is a type
 * with fields, which are not numbers either. */
static const char *read_type(struct array_file_entry *array, const char *text) {
    char word[16] = "";
    const char *kind = word;
    array->kind = 'O';
    if (*text == '[') {
        int depth = 0;
        do {
            depth += (*text == '[') - (*text == ']');
            if (!*text++)
                return NULL;
        } while (depth);
        return skip(text);
    }
    text = read_word(text, word, sizeof word);
    bool swapped = *word == '>';
    kind += *word && strchr("<>|=", *word) ? 1 : 0;
    if (!text || strlen(kind) != 2 || !strchr("fiub", kind[0]) || !strchr("1248", kind[1]) ||
        (kind[0] == 'b' && kind[1] != '1') || (kind[0] == 'f' && kind[1] == '1'))
        return text;
    array->kind = kind[0];
    array->bytes = kind[1] - '0';
    array->swapped = swapped;
    array->whole = kind[0] != 'f';
    return text;
}

static const char *read_order(struct array_file_entry *array, const char *text) {
    size_t letters = strspn(text, "TrueFals");
    array->columns_first = letters == 4 && !memcmp(text, "True", 4);
    bool good = array->columns_first || (letters == 5 && !memcmp(text, "False", 5));
    return good ? skip(text + letters) : NULL;
}

/* (3, 4), (3,) or (). The count is SIZE_MAX where the product is larger than that. */
static const char *read_shape(struct array_file_entry *array, const char *text) {
    const char *next = past(text, '(');
    bool comma = true, zero = false;
    array->count = 1;
    for (array->rank = 0; next && *next != ')'; array->rank++) {
        char *end;
        if (array->rank == ARRAY_FILE_RANK || !comma || *next < '0' || *next > '9' ||
            (*next == '0' && next[1] >= '0' && next[1] <= '9'))
            return NULL;
        size_t extent = array->shape[array->rank] = strtoull(next, &end, 10);
        zero = zero || !extent;
        array->count =
            extent && array->count > SIZE_MAX / extent ? SIZE_MAX : array->count * extent;
        next = skip(end);
        comma = *next == ',';
        next = comma ? skip(next + 1) : next;
    }
    if (zero)
        array->count = 0;
    /* (3) is no tuple */
    return array->rank == 1 && !comma ? NULL : past(next, ')');
}

/* {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }: each of the three once. */
static bool read_dictionary(struct array_file_entry *array, const char *text) {
    static const struct {
        const char *key;
        const char *(*read)(struct array_file_entry *array, const char *text);
    } parts[] = {{"descr", read_type}, {"fortran_order", read_order}, {"shape", read_shape}};
    bool given[3] = {false}, comma = true;
    text = past(skip(text), '{');
    while (text && *text != '}') {
        char key[16];
        int k = 0;
        text = comma ? read_word(text, key, sizeof key) : NULL;
        while (text && k < 3 && strcmp(key, parts[k].key) != 0)
            k++;
        text = past(text, ':');
        if (!text || k == 3 || given[k])
            return false;
        given[k] = true;
        text = parts[k].read(array, text);
        comma = text && *text == ',';
        text = comma ? skip(text + 1) : text;
    }
    text = past(text, '}');
    return text && !*text && given[0] && given[1] && given[2];
}

static size_t number(const unsigned char *bytes, int count) {
    size_t value = 0;
    while (count--)
        value = value << 8 | bytes[count];
    return value;
}

static int read_header(const struct array_file *flat, struct array_file_entry *array,
                       struct err *err) {
    unsigned char bytes[HEADER + 1];
    size_t size = array->size < HEADER ? array->size : HEADER;
    if (size < 12 || !unpack(flat, array, bytes, size, false) || memcmp(bytes, "\x93NUMPY", 6) ||
        bytes[6] < 1 || bytes[6] > 3 || bytes[7])
        return damaged(flat, "an entry is no array of numpy", err);
    size_t before = bytes[6] == 1 ? 10 : 12;
    array->header = before + number(bytes + 8, bytes[6] == 1 ? 2 : 4);
    if (array->header > size)
        return damaged(flat, "the header of an array does not end", err);
    bytes[array->header] = '\0';
    if (strlen((char *)bytes + before) != array->header - before ||
        !read_dictionary(array, (char *)bytes + before))
        return damaged(flat, "the header of an array is not understood", err);
    return CODE_OK;
}

/* --- the archive ----------------------------------------------------------------------------- */

/* An entry NAME.npy; others are passed over. */
static int add_entry(struct array_file *flat, zip_uint64_t entry, struct err *err) {
    static const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_ENCRYPTION_METHOD;
    struct zip_stat stat;
    if (zip_stat_index(flat->archive, entry, 0, &stat) || (stat.valid & needed) != needed)
        return damaged(flat, "an entry is not described", err);
    size_t length = strlen(stat.name);
    if (length < 5 || strcmp(stat.name + length - 4, ".npy") != 0 || length - 4 >= ARRAY_FILE_NAME)
        return CODE_OK;
    char name[ARRAY_FILE_NAME] = "";
    memcpy(name, stat.name, length - 4);
    if (array_file_find(flat, name))
        return err_set(err, CODE_INPUT, "data file %s: has two arrays %s", flat->path, name);
    if (flat->count == ARRAY_FILE_ARRAYS)
        return err_set(err, CODE_INPUT, "data file %s: has more than %d arrays", flat->path,
                       ARRAY_FILE_ARRAYS);
    struct array_file_entry *array = &flat->array[flat->count];
    *array = (struct array_file_entry){.entry = entry, .size = stat.size};
    memcpy(array->name, name, sizeof name);
    zip_file_t *file = zip_fopen_index(flat->archive, entry, 0);
    int reason = zip_error_code_zip(zip_get_error(flat->archive));
    if (file)
        zip_fclose(file);
    else if (reason == ZIP_ER_COMPNOTSUPP || stat.encryption_method != ZIP_EM_NONE)
        return err_set(err, CODE_INPUT,
                       "data file %s: %s is encrypted or packed in a way that is not read",
                       flat->path, name);
    TRY(read_header(flat, array, err));
    flat->count++;
    return CODE_OK;
}

int array_file_npz_open(struct array_file *flat, struct err *err) {
    int reason;
    flat->archive = zip_open(flat->path, ZIP_RDONLY, &reason);
    if (!flat->archive) {
        zip_error_t error;
        zip_error_init_with_code(&error, reason);
        return err_set(err, CODE_INPUT, "data file %s: is damaged, libzip says: %s", flat->path,
                       zip_error_strerror(&error));
    }
    zip_int64_t entries = zip_get_num_entries(flat->archive, 0);
    for (zip_int64_t k = 0; k < entries; k++)
        TRY(add_entry(flat, (zip_uint64_t)k, err));
    return CODE_OK;
}

void array_file_npz_close(struct array_file *flat) {
    if (flat->archive)
        zip_discard(flat->archive);
}

/* --- numbers --------------------------------------------------------------------------------- */

static double half(uint16_t bits) {
    int power = bits >> 10 & 31, digits = bits & 1023;
    double size = power == 31 ? digits ? NAN : INFINITY
                  : power     ? ldexp(1024 + digits, power - 25)
                              : ldexp(digits, -24);
    return bits >> 15 ? -size : size;
}

/* Of this machine's byte order. */
static double value_at(const struct array_file_entry *array, const unsigned char *bytes) {
    union {
        unsigned char bytes[8];
        int8_t i1;
        int16_t i2;
        int32_t i4;
        int64_t i8;
        uint8_t u1;
        uint16_t u2;
        uint32_t u4;
        uint64_t u8;
        float f4;
        double f8;
    } x = {{0}};
    for (int k = 0; k < array->bytes; k++)
        x.bytes[array->swapped ? array->bytes - 1 - k : k] = bytes[k];
    if (array->kind == 'f')
        return array->bytes == 2 ? half(x.u2) : array->bytes == 4 ? (double)x.f4 : x.f8;
    if (array->kind == 'i')
        return array->bytes == 1   ? x.i1
               : array->bytes == 2 ? x.i2
               : array->bytes == 4 ? x.i4
                                   : (double)x.i8;
    return array->bytes == 1   ? x.u1
           : array->bytes == 2 ? x.u2
           : array->bytes == 4 ? x.u4
                               : (double)x.u8;
}

/* Where entry k in C order stands. */
static size_t place_of(const struct array_file_entry *array, size_t k) {
    size_t at = 0, stride = 1, index[ARRAY_FILE_RANK];
    if (!array->columns_first)
        return k;
    for (int axis = array->rank - 1; axis >= 0; axis--) {
        index[axis] = k % array->shape[axis];
        k /= array->shape[axis];
    }
    for (int axis = 0; axis < array->rank; axis++) {
        at += index[axis] * stride;
        stride *= array->shape[axis];
    }
    return at;
}

int array_file_npz_read(const struct array_file *flat, const struct array_file_entry *array,
                        double *values, struct err *err) {
    const size_t each = (size_t)array->bytes;
    unsigned char *bytes;
    if (array->count > (SIZE_MAX - array->header) / each ||
        array->size != array->header + array->count * each)
        return damaged(flat, "an array has another size than its shape", err);
    TRY(base_alloc(&bytes, array->size, 1, err));
    bool good = unpack(flat, array, bytes, array->size, true), odd = false;
    for (size_t k = 0; k < array->count && good; k++) {
        good = k % SOME || !base_poll(err, "reading");
        values[k] = value_at(array, bytes + array->header + place_of(array, k) * each);
        odd = odd || (array->kind == 'b' && values[k] > 1);
    }
    free(bytes);
    if (good && odd)
        return err_set(err, CODE_INPUT, "data file %s: %s has booleans that are neither 0 nor 1",
                       flat->path, array->name);
    return good ? CODE_OK : damaged(flat, "an array does not unpack to what its sum says", err);
}

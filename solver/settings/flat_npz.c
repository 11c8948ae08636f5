/* npz: a zip archive of arrays. Everything in it is checked before it is used: places and sizes
 * against the file, the text of headers, sums. */
#define _POSIX_C_SOURCE 200809L
#include "solver/settings/flat.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { HEADER = 1 << 14, END = 22, CENTRAL = 46, LOCAL = 30, COMMENT = 65535 };

static int damaged(const struct flat *flat, const char *what, struct err *err) {
    return err_set(err, CODE_INPUT, "data file %s: is damaged, %s", flat->path, what);
}

static unsigned number(const unsigned char *bytes, int count) {
    unsigned value = 0;
    while (count--)
        value = value << 8 | bytes[count];
    return value;
}

static bool read_at(const struct flat *flat, size_t place, void *bytes, size_t size) {
    return place <= LONG_MAX && !fseek(flat->stream, (long)place, SEEK_SET) &&
           fread(bytes, 1, size, flat->stream) == size;
}

/* The first `size` bytes of an entry, as they were before it was packed. */
static bool unpack(const struct flat *flat, const struct flat_array *array, unsigned char *bytes,
                   size_t size) {
    unsigned char block[1 << 14];
    z_stream stream = {.next_out = bytes, .avail_out = (uInt)size};
    size_t left = array->packed;
    if (!array->method)
        return read_at(flat, array->place, bytes, size);
    if (fseek(flat->stream, (long)array->place, SEEK_SET) || inflateInit2(&stream, -MAX_WBITS))
        return false;
    int status = Z_OK;
    while (status == Z_OK && stream.avail_out && left) {
        size_t piece = left < sizeof block ? left : sizeof block;
        if (fread(block, 1, piece, flat->stream) != piece)
            break;
        left -= piece;
        stream.next_in = block;
        stream.avail_in = (uInt)piece;
        status = inflate(&stream, Z_NO_FLUSH);
    }
    inflateEnd(&stream);
    return !stream.avail_out && (status == Z_OK || status == Z_STREAM_END);
}

/* --- the header of an array ------------------------------------------------------------------ */

/* What follows 'KEY': in the text of a dictionary. */
static const char *value_of(const char *text, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(text, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

/* '<f8': byte order, kind, bytes of a number; what is none of these is kind 'O'. */
static void read_type(struct flat_array *array, const char *text) {
    char order, kind, quote;
    int bytes;
    array->kind = 'O';
    if (sscanf(text, "'%c%c%1d%c", &order, &kind, &bytes, &quote) != 4 || quote != '\'' ||
        !strchr("<>|=", order) || !strchr("fiub", kind) || !strchr("\1\2\4\10", bytes) || !bytes ||
        (kind == 'b' && bytes != 1) || (kind == 'f' && bytes == 1))
        return;
    array->kind = kind;
    array->bytes = bytes;
    array->swapped = order == '>';
    array->whole = kind != 'f';
}

/* (3, 4) */
static bool read_shape(struct flat_array *array, const char *text) {
    if (*text++ != '(')
        return false;
    for (array->rank = 0; array->rank < FLAT_RANK; array->rank++) {
        char *end;
        text += strspn(text, " ,");
        if (*text == ')')
            return true;
        if (*text < '0' || *text > '9')
            return false;
        array->shape[array->rank] = strtoull(text, &end, 10);
        text = end;
    }
    return *(text + strspn(text, " ,")) == ')';
}

static int read_header(const struct flat *flat, struct flat_array *array, struct err *err) {
    unsigned char start[12], bytes[HEADER + 1];
    const char *text = (char *)bytes, *type, *order, *shape;
    if (array->size < sizeof start || !unpack(flat, array, start, sizeof start) ||
        memcmp(start, "\x93NUMPY", 6) || start[6] < 1 || start[6] > 3)
        return damaged(flat, "an entry is no array of numpy", err);
    size_t before = start[6] == 1 ? 10 : 12;
    array->header = before + number(start + 8, start[6] == 1 ? 2 : 4);
    if (array->header > HEADER || array->header > array->size ||
        !unpack(flat, array, bytes, array->header))
        return damaged(flat, "the header of an array does not end", err);
    bytes[array->header] = '\0';
    text += before;
    type = value_of(text, "descr");
    order = value_of(text, "fortran_order");
    shape = value_of(text, "shape");
    if (!type || !order || !shape || !read_shape(array, shape))
        return damaged(flat, "the header of an array is not understood", err);
    read_type(array, type);
    array->columns_first = !strncmp(order, "True", 4);
    return CODE_OK;
}

/* --- the archive ----------------------------------------------------------------------------- */

/* From an entry of the list at the end, whose name is given; other entries are passed over. */
static int add_entry(struct flat *flat, const unsigned char *entry, const char *name,
                     struct err *err) {
    size_t length = strlen(name), place = number(entry + 42, 4);
    struct flat_array *array = &flat->array[flat->count];
    unsigned char local[LOCAL];
    if (length < 5 || strcmp(name + length - 4, ".npy") || length - 4 >= FLAT_NAME)
        return CODE_OK;
    if (flat->count == FLAT_ARRAYS)
        return err_set(err, CODE_INPUT, "data file %s: has more than %d arrays", flat->path,
                       FLAT_ARRAYS);
    *array = (struct flat_array){.method = number(entry + 10, 2),
                                 .crc = number(entry + 16, 4),
                                 .packed = number(entry + 20, 4),
                                 .size = number(entry + 24, 4)};
    memcpy(array->name, name, length - 4);
    if (array->packed == UINT32_MAX || array->size == UINT32_MAX || place == UINT32_MAX)
        return err_set(err, CODE_INPUT,
                       "data file %s: %s is larger than 4 GB, which npz is not read for; write "
                       "HDF5",
                       flat->path, array->name);
    if ((number(entry + 8, 2) & 1) || (array->method != 0 && array->method != 8) ||
        (!array->method && array->packed != array->size))
        return err_set(err, CODE_INPUT,
                       "data file %s: %s is encrypted or packed in a way that numpy does not use",
                       flat->path, array->name);
    if (!read_at(flat, place, local, LOCAL) || memcmp(local, "PK\3\4", 4))
        return damaged(flat, "an entry is not where the list says", err);
    array->place = place + LOCAL + number(local + 26, 2) + number(local + 28, 2);
    TRY(read_header(flat, array, err));
    flat->count++;
    return CODE_OK;
}

int flat_npz_open(struct flat *flat, struct err *err) {
    static unsigned char tail[END + COMMENT];
    if (fseek(flat->stream, 0, SEEK_END))
        return damaged(flat, "it has no end", err);
    long length = ftell(flat->stream);
    size_t size = length < (long)sizeof tail ? (size_t)length : sizeof tail, at = size;
    if (length < END || !read_at(flat, (size_t)length - size, tail, size))
        return damaged(flat, "it is cut off", err);
    for (at = size - END; at && memcmp(tail + at, "PK\5\6", 4); at--)
        ;
    if (memcmp(tail + at, "PK\5\6", 4))
        return damaged(flat, "the list at its end is missing", err);
    unsigned entries = number(tail + at + 10, 2);
    size_t place = number(tail + at + 16, 4);
    for (unsigned k = 0; k < entries; k++) {
        unsigned char entry[CENTRAL];
        char name[256] = "";
        if (!read_at(flat, place, entry, CENTRAL) || memcmp(entry, "PK\1\2", 4))
            return damaged(flat, "the list at its end is cut off", err);
        size_t letters = number(entry + 28, 2);
        if (letters < sizeof name && !read_at(flat, place + CENTRAL, name, letters))
            return damaged(flat, "the list at its end is cut off", err);
        TRY(add_entry(flat, entry, name, err));
        place += CENTRAL + letters + number(entry + 30, 2) + number(entry + 32, 2);
    }
    return CODE_OK;
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
static double value_at(const struct flat_array *array, const unsigned char *bytes) {
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
static size_t place_of(const struct flat_array *array, size_t k) {
    size_t at = 0, stride = 1, index[FLAT_RANK];
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

int flat_npz_read(const struct flat *flat, const struct flat_array *array, double *values,
                  struct err *err) {
    size_t count = 1;
    unsigned char *bytes;
    for (int axis = 0; axis < array->rank; axis++)
        count *= array->shape[axis];
    if (array->size != array->header + count * (size_t)array->bytes)
        return damaged(flat, "an array has another size than its shape", err);
    TRY(base_alloc(&bytes, array->size, 1, err));
    bool good =
        unpack(flat, array, bytes, array->size) && crc32(0, bytes, (uInt)array->size) == array->crc;
    for (size_t k = 0; k < count && good; k++)
        values[k] =
            value_at(array, bytes + array->header + place_of(array, k) * (size_t)array->bytes);
    free(bytes);
    return good ? CODE_OK : damaged(flat, "an array does not unpack to what its sum says", err);
}

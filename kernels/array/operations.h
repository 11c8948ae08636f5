/* The operations of a backend (backend.h) that write rows or numbers, a row for each, for backends
 * that hand them on to another one: name, parameters, what is handed on (IN(rows), OF(coefficients)
 * as that backend has them), rows that it works on, rows that it writes or NO_ROWS, and for the
 * profile its kind, flops and bytes. Tables and declarations of backends are made of it, too. */
#pragma once

#define NO_ROWS ((struct rows){0})

#define BACKEND_OPERATIONS(OP)                                                                     \
    OP(put, (struct rows rows, const double *host), (IN(rows), host), rows, rows, MOVE, 0,         \
       2 * bytes_of(rows))                                                                         \
    OP(get, (struct rows rows, double *host), (IN(rows), host), rows, NO_ROWS, MOVE, 0,            \
       2 * bytes_of(rows))                                                                         \
    OP(normals, (struct rows rows, struct rng_stream stream), (IN(rows), stream), rows, rows,      \
       NORMALS, cells_of(rows), bytes_of(rows))                                                    \
    OP(dots, (struct rows a, struct rows b, double *C), (IN(a), IN(b), C), a, NO_ROWS, DOTS,       \
       2 * cells_of(a) * b.count, bytes_of(a) + bytes_of(b))                                       \
    OP(averages, (struct rows a, struct rows b, double *out), (IN(a), IN(b), out), a, NO_ROWS,     \
       AVERAGES, 2 * cells_of(a), bytes_of(a) + bytes_of(b))                                       \
    OP(combine, (struct rows y, double beta, const double *C, struct rows a),                      \
       (IN(y), beta, C, IN(a)), y, y, COMBINE, 2 * cells_of(y) * a.count,                          \
       bytes_of(a) + bytes_of(y) * (beta != 0 ? 2 : 1))                                            \
    OP(combine_rows, (struct rows y, double beta, struct coefficients C, struct rows a),           \
       (IN(y), beta, OF(C), IN(a)), y, y, COMBINE, 2 * cells_of(y) * a.count,                      \
       bytes_of(a) + bytes_of(C.rows) + bytes_of(y) * (beta != 0 ? 2 : 1))                         \
    OP(times, (double scale, struct rows W, struct rows x, struct rows y),                         \
       (scale, IN(W), IN(x), IN(y)), y, y, DOTS, 2 * cells_of(x) * W.count,                        \
       bytes_of(W) + bytes_of(x) + bytes_of(y))                                                    \
    OP(add, (const double *c, struct rows x, struct rows y), (c, IN(x), IN(y)), y, y, COMBINE,     \
       2 * cells_of(y), bytes_of(x) + 2 * bytes_of(y))                                             \
    OP(pointwise,                                                                                  \
       (enum fn fn, const double *scale, const double *shift, struct rows x, struct rows value,    \
        struct rows slope),                                                                        \
       (fn, scale, shift, IN(x), IN(value), IN(slope)), x, value.array ? value : slope, POINTWISE, \
       cells_of(x), bytes_of(x) + bytes_of(value) + bytes_of(slope))                               \
    OP(multiply, (struct rows a, struct rows b, struct rows y), (IN(a), IN(b), IN(y)), y, y,       \
       MULTIPLY, cells_of(y), bytes_of(a) + bytes_of(b) + bytes_of(y))                             \
    OP(group_sum, (struct rows x, struct rows y), (IN(x), IN(y)), x, y, MOVE, cells_of(x),         \
       bytes_of(x) + bytes_of(y))                                                                  \
    OP(tile, (struct rows x, struct rows y), (IN(x), IN(y)), x, y, MOVE, 0,                        \
       bytes_of(x) + bytes_of(y))                                                                  \
    OP(tile_mean, (struct rows x, struct rows y), (IN(x), IN(y)), x, y, MOVE, cells_of(x),         \
       bytes_of(x) + bytes_of(y))                                                                  \
    OP(entries,                                                                                    \
       (struct entry_rule rule, struct rows g, struct rows m, struct rows v, struct rows y),       \
       (rule, IN(g), IN(m), IN(v), IN(y)), y, y, ENTRIES, 10 * cells_of(y),                        \
       (v.array ? 7 : 5) * bytes_of(y))                                                            \
    OP(top, (struct rows x, size_t K, struct rows mask), (IN(x), K, IN(mask)), x, mask, TOP,       \
       cells_of(x), bytes_of(x) + bytes_of(mask))

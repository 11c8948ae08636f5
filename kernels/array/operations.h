/* The operations of a backend (backend.h) that write rows or numbers, a row for each, for backends
 * that hand them on to another one: name, parameters, what is handed on (IN(rows), OF(coefficients)
 * as that backend has them), rows that it works on, and for the profile its kind, flops and bytes.
 */
#ifndef KERNELS_OPERATIONS_H
#define KERNELS_OPERATIONS_H

#define BACKEND_OPERATIONS(OP)                                                                     \
    OP(put, (struct rows rows, const double *host), (IN(rows), host), rows, MOVE, 0,               \
       2 * bytes(rows))                                                                            \
    OP(get, (struct rows rows, double *host), (IN(rows), host), rows, MOVE, 0, 2 * bytes(rows))    \
    OP(normals, (struct rows rows, struct rng_stream stream), (IN(rows), stream), rows, NORMALS,   \
       cells(rows), bytes(rows))                                                                   \
    OP(dots, (struct rows a, struct rows b, double *C), (IN(a), IN(b), C), a, DOTS,                \
       2 * cells(a) * b.count, bytes(a) + bytes(b))                                                \
    OP(averages, (struct rows a, struct rows b, double *out), (IN(a), IN(b), out), a, AVERAGES,    \
       2 * cells(a), bytes(a) + bytes(b))                                                          \
    OP(combine, (struct rows y, double beta, const double *C, struct rows a),                      \
       (IN(y), beta, C, IN(a)), y, COMBINE, 2 * cells(y) * a.count,                                \
       bytes(a) + bytes(y) * (beta != 0 ? 2 : 1))                                                  \
    OP(combine_rows, (struct rows y, double beta, struct coefficients C, struct rows a),           \
       (IN(y), beta, OF(C), IN(a)), y, COMBINE, 2 * cells(y) * a.count,                            \
       bytes(a) + bytes(C.rows) + bytes(y) * (beta != 0 ? 2 : 1))                                  \
    OP(times, (double scale, struct rows W, struct rows x, struct rows y),                         \
       (scale, IN(W), IN(x), IN(y)), y, DOTS, 2 * cells(x) * W.count,                              \
       bytes(W) + bytes(x) + bytes(y))                                                             \
    OP(add, (const double *c, struct rows x, struct rows y), (c, IN(x), IN(y)), y, COMBINE,        \
       2 * cells(y), bytes(x) + 2 * bytes(y))                                                      \
    OP(pointwise,                                                                                  \
       (enum fn fn, const double *scale, const double *shift, struct rows x, struct rows value,    \
        struct rows slope),                                                                        \
       (fn, scale, shift, IN(x), IN(value), IN(slope)), x, POINTWISE, cells(x),                    \
       bytes(x) + bytes(value) + bytes(slope))                                                     \
    OP(multiply, (struct rows a, struct rows b, struct rows y), (IN(a), IN(b), IN(y)), y,          \
       MULTIPLY, cells(y), bytes(a) + bytes(b) + bytes(y))                                         \
    OP(group_sum, (struct rows x, struct rows y), (IN(x), IN(y)), x, MOVE, cells(x),               \
       bytes(x) + bytes(y))                                                                        \
    OP(tile, (struct rows x, struct rows y), (IN(x), IN(y)), x, MOVE, 0, bytes(x) + bytes(y))      \
    OP(tile_mean, (struct rows x, struct rows y), (IN(x), IN(y)), x, MOVE, cells(x),               \
       bytes(x) + bytes(y))                                                                        \
    OP(entries,                                                                                    \
       (struct entry_rule rule, struct rows g, struct rows m, struct rows v, struct rows y),       \
       (rule, IN(g), IN(m), IN(v), IN(y)), y, ENTRIES, 10 * cells(y),                              \
       (v.array ? 7 : 5) * bytes(y))

#endif

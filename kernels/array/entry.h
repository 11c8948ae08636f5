/* How optimizers move one entry (struct entry_rule, in backend.h, which includes this for numbers
 * of 64 bits; functions.c includes it again for those of 32). ENTRY_REAL is the type of an entry
 * and of what is remembered of it, ENTRY(name) what a function is called; constants are rounded to
 * the type once. No include guard. */

ON_DEVICE static inline ENTRY_REAL ENTRY(adam)(const struct entry_rule *rule, ENTRY_REAL g,
                                               ENTRY_REAL *m, ENTRY_REAL *v) {
    const ENTRY_REAL beta1 = (ENTRY_REAL)rule->beta1, rest1 = (ENTRY_REAL)(1 - rule->beta1),
                     beta2 = (ENTRY_REAL)rule->beta2, rest2 = (ENTRY_REAL)(1 - rule->beta2),
                     unbias2 = (ENTRY_REAL)rule->unbias2, eps = (ENTRY_REAL)rule->eps,
                     rate = (ENTRY_REAL)(rule->rate * rule->unbias1);
    *m = beta1 * *m + rest1 * g;
    *v = beta2 * *v + rest2 * g * g;
    /* A factor, 0 or 1: of two cases a loop over vectors would take both roots. */
    const ENTRY_REAL inside = rule->form == ENTRY_ADAM_INSIDE;
    return rate * *m / (sqrt(unbias2 * *v + inside * eps * eps) + (1 - inside) * eps);
}

ON_DEVICE static inline ENTRY_REAL ENTRY(lion)(const struct entry_rule *rule, ENTRY_REAL g,
                                               ENTRY_REAL *m) {
    const ENTRY_REAL beta1 = (ENTRY_REAL)rule->beta1, rest1 = (ENTRY_REAL)(1 - rule->beta1),
                     beta2 = (ENTRY_REAL)rule->beta2, rest2 = (ENTRY_REAL)(1 - rule->beta2),
                     eps = (ENTRY_REAL)rule->eps, rate = (ENTRY_REAL)rule->rate;
    ENTRY_REAL u = beta1 * *m + rest1 * g;
    *m = beta2 * *m + rest2 * g;
    return rate * u / (fabs(u) + eps);
}

ON_DEVICE static inline ENTRY_REAL ENTRY(step)(const struct entry_rule *rule, ENTRY_REAL g,
                                               ENTRY_REAL *m, ENTRY_REAL *v) {
    return rule->form == ENTRY_LION ? ENTRY(lion)(rule, g, m) : ENTRY(adam)(rule, g, m, v);
}

#undef ENTRY
#undef ENTRY_REAL

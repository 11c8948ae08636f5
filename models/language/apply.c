/* Operations that are words by their rows alone: what a word is given becomes a node. */
#include "models/language/operation.h"

static const struct operation *const *const lists[] = {
    operation_words_of_rows, operation_words_of_numbers, operation_words_of_tokens};

enum operation_argument operation_argument(const char **rest) {
    const char *at = *rest;
    size_t length = strcspn(at, ",");
    *rest = at + length + strspn(at + length, ", ");
    return !length                                  ? ARGUMENT_NONE
           : length > 1                             ? ARGUMENT_CONSTANT
           : *at == 'x' || *at == 'y' || *at == 's' ? ARGUMENT_VALUE
           : *at == 'p'                             ? ARGUMENT_POPULATION
                                                    : ARGUMENT_CONSTANT;
}

static void set_constant(struct node *node, const struct constant_field *field, double value) {
    void *at = (char *)&node->constant + field->offset;
    if (field->type == FIELD_REAL)
        *(double *)at = value;
    else if (field->type == FIELD_SIZE)
        *(size_t *)at = (size_t)value;
    else if (field->type == FIELD_BOOL)
        *(bool *)at = value != 0;
    else
        *(int *)at = (int)value;
}

struct value program_apply(struct program *p, const struct operation *op, struct operands given) {
    struct value out;
    enum operation_argument kind;
    int values = 0, constants = 0;
    for (const char *at = op->arguments; (kind = operation_argument(&at));) {
        values += kind == ARGUMENT_VALUE;
        if (kind == ARGUMENT_POPULATION && !given.on)
            program_fail(p, "%s without a population", op->name);
    }
    if (*op->arguments == 's')
        node_given_numbers(p, op->name, given.x);
    struct node *node = operation_takes_either(op) || *op->arguments == 's'
                            ? node_append_like(p, op, given.x, &out)
                        : values == 2 ? node_append_pair(p, op, op->name, given.x, given.y, &out)
                                      : node_append_rows(p, op, given.x, &out);
    for (const char *at = op->arguments; (kind = operation_argument(&at));)
        if (kind == ARGUMENT_CONSTANT) {
            assert(constants < OPERANDS_CONSTANTS);
            set_constant(node, &op->constants[constants], given.constant[constants]);
            constants++;
        }
    if (!p->code && op->shape)
        op->shape(p, node, given.on);
    return out;
}

struct value program_word(struct program *p, const char *name, struct operands given) {
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (const struct operation *const *op = lists[k]; *op; op++)
            if (!strcmp((*op)->name, name))
                return program_apply(p, *op, given);
    program_fail(p, "there is no operation %s", name);
    return none;
}

/* A network as data: what another program needs to build the same one, to print its scalings or to
 * typeset its equations. docs/program_format.md says what each word means, and has the number of
 * the format; whoever changes what is written here changes that page and the number. */
#pragma once

#include "models/engine/node.h"

#include <jansson.h>

/* Describes the populations, matrices, operations and kernels of a net that was built or declared
 * alone, of the limit or of a width. The caller gives the object back with json_decref. */
int describe_net(const struct net *net, json_t **out, struct err *err);

/* NULL without memory. describe_append uses up the element and, where there is none, the list. */
json_t *describe_list(const double *values, size_t count);
json_t *describe_append(json_t *list, json_t *element);

/* The sentence where jansson has given nothing since errno was 0: no memory, or (CODE_INPUT) a
 * number or a text that JSON does not know. */
int describe_failed(const char *what, struct err *err);

/* On one line, to be freed by the caller; `what` is said where there is no memory for it, and where
 * there was none for `whole` (NULL). */
int describe_text(const json_t *whole, const char *what, char **text, struct err *err);

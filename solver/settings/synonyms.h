/* Names that other libraries have for keys and choices of this program. */
#pragma once

#include "kernels/base/text.h"

#include <stdbool.h>

/* Appends "; here it is [training] eta0 ..." to a note where the name is one that others have. */
bool synonyms_tell_key(const char *given, char note[TEXT_NOTE]);
/* Appends the command that writes data of a source that is one of Python. */
bool synonyms_tell_source(const char *given, char note[TEXT_NOTE]);
/* The choice of this program that others call so; NULL: none. */
const char *synonyms_choice(const char *given);

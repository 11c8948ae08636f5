/* The result file on disk: first under a partial name, always whole, last under its own name. */
#pragma once

#include "kernels/base/base.h"

/* Whether a result can get this name: the folder exists, and no file does unless force. */
int partial_check(const char *path, bool force, struct err *err);
/* Takes PATH.partial for this process: makes it, or with force takes over what a run that did not
 * end has left (an empty one even without). *lock keeps others away until it is closed; CODE_INPUT
 * where another process has it. What is there stays until the first partial_write. */
int partial_create(char **partial, int *lock, const char *path, bool force, struct err *err);
/* Removes a file that partial_create has made and nothing was written to. */
void partial_abandon(const char *partial);
/* Replaces the content. The bytes go to a new file beside it, on disk, which is then renamed: the
 * partial file holds the old bytes or the new ones, whatever happens. What a process that was
 * killed has left of a new file is written over. lock: of partial_create, which goes over to the
 * new file; NULL: none. */
int partial_write(const char *partial, int *lock, const char *bytes, size_t size, struct err *err);
/* Renames to path; CODE_INPUT if that exists, unless force. */
int partial_place(const char *partial, const char *path, bool force, struct err *err);
/* Makes the new name survive a power cut. */
int partial_sync(const char *path, struct err *err);

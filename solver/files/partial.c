#define _GNU_SOURCE
#include "solver/files/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 10000 };

/* The folder of a path, to be freed. */
static int folder_of(char **folder, const char *path, struct err *err) {
    const char *slash = strrchr(path, '/');
    TRY(base_copy(folder, slash ? path : ".", err));
    if (slash)
        (*folder)[slash == path ? 1 : slash - path] = 0;
    return CODE_OK;
}

int partial_check(const char *path, bool force, struct err *err) {
    struct stat status;
    FREED(base_free) char *folder = NULL;
    if (!*path)
        return err_set(err, CODE_INPUT, "the name of the output file is empty");
    TRY(folder_of(&folder, path, err));
    if (stat(folder, &status))
        return err_set(err, errno == ENOENT || errno == ENOTDIR ? CODE_INPUT : CODE_SYSTEM,
                       "output %s: folder %s: %s", path, folder, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return err_set(err, CODE_INPUT, "output %s: %s is not a folder", path, folder);
    if (path[strlen(path) - 1] == '/' || (!stat(path, &status) && !S_ISREG(status.st_mode)))
        return err_set(err, CODE_INPUT, "output %s: is not a regular file", path);
    if (!force && !lstat(path, &status))
        return err_set(err, CODE_INPUT,
                       "output %s: exists already; choose another name or add --force", path);
    return CODE_OK;
}

/* The lock is of another kind than HDF5's (flock), so that others may read the file meanwhile.
 * Where files cannot be locked nobody else is seen. */
static bool is_busy(int descriptor) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(descriptor, F_OFD_SETLK, &whole) && (errno == EAGAIN || errno == EACCES);
}

/* Opens and locks the file of this name, made if there is none. */
static int take_lock(int *lock, const char *path, const char *partial, struct err *err) {
    struct stat opened, named;
    for (int k = 0; k < TRIES; k++) {
        *lock = open(partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (*lock < 0)
            return err_set(err, CODE_SYSTEM, "cannot create %s: %s", partial, strerror(errno));
        bool busy = is_busy(*lock);
        if (!busy && !fstat(*lock, &opened) && !stat(partial, &named) &&
            opened.st_ino == named.st_ino)
            return CODE_OK;
        close(*lock);
        *lock = -1;
        if (busy)
            return err_set(err, CODE_INPUT,
                           "output %s: another run is writing %s; choose another name, or wait",
                           path, partial);
    } /* it was replaced in between */
    return err_set(err, CODE_SYSTEM, "cannot lock %s", partial);
}

int partial_create(char **partial, int *lock, const char *path, bool force, struct err *err) {
    struct stat status;
    *lock = -1;
    TRY(base_print(partial, err, "%s.partial", path));
    int code = take_lock(lock, path, *partial, err);
    if (!code && (fstat(*lock, &status) || !S_ISREG(status.st_mode)))
        code = err_set(err, CODE_INPUT, "output %s: %s is not a regular file", path, *partial);
    else if (!code && status.st_size > 0 && !force)
        code = err_set(err, CODE_INPUT,
                       "output %s: %s is there, of a run that did not end; choose another name, or "
                       "add --force to replace it",
                       path, *partial);
    if (!code)
        return CODE_OK;
    if (*lock >= 0)
        close(*lock);
    free(*partial);
    *partial = NULL;
    *lock = -1;
    return code;
}

static int write_bytes(int descriptor, const char *bytes, size_t size) {
    while (size) {
        ssize_t written = write(descriptor, bytes, size);
        if (written < 0 && errno != EINTR)
            return -1;
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
    return fsync(descriptor);
}

static bool has_content(const char *path) {
    struct stat status;
    return !stat(path, &status) && status.st_size > 0;
}

void partial_abandon(const char *partial) {
    if (!has_content(partial))
        unlink(partial);
}

int partial_write(const char *partial, int *lock, const char *bytes, size_t size, struct err *err) {
    FREED(base_free) char *name = NULL;
    int descriptor;
    TRY(base_print(&name, err, "%s.new", partial));
    TRY(take_lock(&descriptor, partial, name, err));
    int cause = ftruncate(descriptor, 0) || write_bytes(descriptor, bytes, size) ? errno : 0;
    int kept = lock && !cause ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    if ((close(descriptor) || (lock && kept < 0)) && !cause)
        cause = errno;
    if (!cause && rename(name, partial))
        cause = errno;
    if (!cause && lock) {
        close(*lock);
        *lock = kept;
    } else if (kept >= 0) {
        close(kept);
    }
    if (!cause)
        return CODE_OK;
    unlink(name);
    return err_set(err, CODE_SYSTEM, "cannot write %s: %s%s", partial, strerror(cause),
                   has_content(partial) ? "; it still holds what was saved before" : "");
}

/* Without force by a hard link, which never replaces a file. */
int partial_place(const char *partial, const char *path, bool force, struct err *err) {
    struct stat status;
    bool linked = !force && !link(partial, path);
    if (linked && !unlink(partial))
        return CODE_OK;
    if (linked)
        return err_set(err, CODE_SYSTEM, "%s is complete, but its other name %s remains: %s", path,
                       partial, strerror(errno));
    /* Where there are no hard links, looking first must do. */
    if (!force && (errno == EEXIST || !lstat(path, &status)))
        return err_set(err, CODE_INPUT,
                       "output %s: has appeared meanwhile and is not overwritten; the complete "
                       "result is in %s",
                       path, partial);
    if (rename(partial, path))
        return err_set(err, CODE_SYSTEM, "cannot rename %s to %s: %s; the result is complete",
                       partial, path, strerror(errno));
    return CODE_OK;
}

/* Some file systems refuse to sync a folder, others need not. */
int partial_sync(const char *path, struct err *err) {
    FREED(base_free) char *folder = NULL;
    int code = CODE_OK;
    TRY(folder_of(&folder, path, err));
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0 && fsync(descriptor) && errno == EIO)
        code =
            err_set(err, CODE_SYSTEM, "cannot write the folder of %s: %s", path, strerror(errno));
    if (descriptor >= 0)
        close(descriptor);
    return code;
}

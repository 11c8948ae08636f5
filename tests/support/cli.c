/* Running the program as a user does. */
#define _GNU_SOURCE
#include "tests/support/cli.h"
#include "tests/support/support.h"

#include <fcntl.h>
#include <ftw.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { ARGUMENTS = 16 };
static const double patience = 300; /* seconds for one run */

const char cli_small[] =
    "[network]\nmodel = regime2\n[data]\ninputs = 3\ndimension = 4\n[training]\nsteps = 4\n"
    "[solver]\nsites = 64\nexpert_sites = 64\nreplicates = 2\nthreads = 1\n";

static char program[PATH_MAX];
static char *folder;

/* --- the folder ------------------------------------------------------------------------------ */

int cli_open(void **state) {
    (void)state;
    const char *name = getenv("DMFT_SOLVE");
    name = name && *name ? name : "./dmft-solve";
    if (!realpath(name, program)) {
        print_error("no program %s: set DMFT_SOLVE\n", name);
        return -1;
    }
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    folder = support_folder("test_cli");
    if (!folder || chdir(folder))
        return -1;
    cli_print("small.ini", cli_small);
    return 0;
}

void cli_program(const char *name) {
    char *last = strrchr(program, '/') + 1;
    assert_true(strlen(name) < sizeof program - (size_t)(last - program));
    strcpy(last, name);
    FAIL_IF(access(program, X_OK), "no program %s", program);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

int cli_close(void **state) {
    (void)state;
    int failed = chdir("/") || nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(folder);
    return failed;
}

void cli_write(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void cli_print(const char *name, const char *text) {
    cli_write(name, text, strlen(text));
}

char *cli_read(const char *name, size_t *size) {
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    assert_true(length >= 0);
    rewind(file);
    char *bytes = calloc((size_t)length + 1, 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)length, file), length);
    fclose(file);
    if (size)
        *size = (size_t)length;
    return bytes;
}

bool cli_exists(const char *name) {
    struct stat status;
    return !lstat(name, &status);
}

int cli_clean(void **state) {
    (void)state;
    static const char *const names[] = {"out.h5", "out.h5.partial"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (cli_exists(names[i]) && remove(names[i]))
            return -1;
    return cli_exists("out.d") || cli_exists("out.h5.state") ? system("rm -rf out.d out.h5.state")
                                                             : 0;
}

/* --- a run ----------------------------------------------------------------------------------- */

void cli_pause(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
    nanosleep(&time, NULL);
}

/* Seconds of all threads, in user mode and in the kernel; 0 if the process is gone. */
static double processor_time(pid_t pid) {
    char name[64], text[1024] = "";
    unsigned long user = 0, kernel = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(name, "r");
    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *behind = strrchr(text, ')'); /* field 3 is next, the times are 14 and 15 */
    if (!behind || sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                          &kernel) != 2)
        return 0;
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

void cli_work(pid_t pid, double seconds) {
    double end = processor_time(pid) + seconds;
    for (double waited = 0; processor_time(pid) < end; waited += 2e-3) {
        if (waited > patience) {
            kill(pid, SIGKILL);
            fail_msg("not at work for %g s", patience);
        }
        cli_pause(2e-3);
    }
}

/* Root passes over permissions; without these two capabilities it does not. */
static bool give_up_rights(void) {
    return geteuid() || (!prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) &&
                         !prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0));
}

static void redirect(int descriptor, const char *name, bool no_reader) {
    int pipes[2] = {-1, -1};
    int target =
        no_reader && !pipe(pipes) ? pipes[1] : open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (pipes[0] >= 0)
        close(pipes[0]);
    if (target < 0 || dup2(target, descriptor) < 0)
        _exit(126);
    close(target);
}

pid_t cli_start(const char *const *arg, int flags) {
    char *all[ARGUMENTS + 2] = {program};
    for (int i = 0; arg[i]; i++) {
        assert_true(i < ARGUMENTS);
        all[i + 1] = (char *)arg[i];
    }
    remove("stdout.txt");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL); /* tests that nohup has started ignore it */
    redirect(STDOUT_FILENO, "stdout.txt", (flags & CLI_NO_READER) != 0);
    redirect(STDERR_FILENO, "stderr.txt", false);
    if ((flags & CLI_NO_RIGHTS) && !give_up_rights())
        _exit(CLI_NO_SUCH_RIGHT);
    execv(program, all);
    _exit(127);
}

void cli_wait(pid_t pid, struct cli_result *result) {
    int status;
    double waited = 0;
    while (!waitpid(pid, &status, WNOHANG)) {
        if (waited > patience) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            fail_msg("still running after %g s", patience);
        }
        cli_pause(2e-3);
        waited += 2e-3;
    }
    result->code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    result->out = cli_exists("stdout.txt") ? cli_read("stdout.txt", NULL) : calloc(1, 1);
    result->err = cli_read("stderr.txt", NULL);
}

void cli_run(struct cli_result *result, const char *const *arg) {
    cli_wait(cli_start(arg, 0), result);
}

void cli_free(struct cli_result *result) {
    free(result->out);
    free(result->err);
}

void cli_must(const char *const *arg) {
    FREED(cli_free) struct cli_result result;
    cli_run(&result, arg);
    FAIL_IF(result.code, "%s", result.err);
}

void cli_done(const char *name, const char *const *arg) {
    cli_program(name);
    cli_must(arg);
    cli_program("dmft-solve");
}

static bool begins(const char *line, const char *with) {
    return !strncmp(line, with, strlen(with));
}

/* The place of the one line "dmft-solve: ..." behind this mark; NULL if another line stands there
 * than log before it and usage behind it. */
static const char *find_message(const struct cli_result *result) {
    const char *message = NULL;
    TEXT(mark, 64, "%.60s: ", strrchr(program, '/') + 1);
    for (const char *line = result->err, *end; *line; line = end + 1) {
        if (!(end = strchr(line, '\n')))
            return NULL;
        bool log = begins(line, "memory: ") || begins(line, "warning: ") ||
                   begins(line, "batches: ") || begins(line, "what was computed is in ") ||
                   begins(line, "it goes on with: ") || begins(line, "limit  replicate ");
        bool usage = begins(line, "usage: ") || begins(line, "       ") || line == end;
        if (begins(line, mark) && !message)
            message = line + strlen(mark);
        else if (!(message ? usage : log))
            return NULL;
    }
    return message;
}

bool cli_ended(const struct cli_result *result, int code, const char *const *part) {
    const char *message = find_message(result);
    bool good = message && result->code == code && !*result->out;
    for (; good && *part; part++) {
        const char *found = strstr(message, *part);
        good = found && found < strchr(message, '\n');
        if (!good)
            print_error("\"%s\" is not in the message\n", *part);
    }
    if (!good)
        print_error("exit code %d (wanted: %d), output \"%s\", errors:\n%s\n", result->code, code,
                    result->out, result->err);
    return good;
}

void cli_refused(int code, const char *const *arg, const char *const *part) {
    FREED(cli_free) struct cli_result result;
    cli_run(&result, arg);
    assert_true(cli_ended(&result, code, part));
}

/* --- HDF5 ------------------------------------------------------------------------------------ */

void close_file(hid_t *file) {
    H5Fclose(*file);
}

hid_t cli_file(const char *name) {
    hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
    FAIL_IF(file < 0, "%s cannot be opened", name);
    return file;
}

int cli_complete(const char *name) {
    int value = -1;
    FREED(close_file)
    hid_t file = cli_file(name), attribute = H5Aopen(file, "complete", H5P_DEFAULT);
    assert_true(H5Aread(attribute, H5T_NATIVE_INT, &value) >= 0);
    H5Aclose(attribute);
    return value;
}

void cli_solve(const char *const *more) {
    const char *arg[16] = {"-o", "out.h5", "--quiet", "small.ini"};
    FREED(cli_free) struct cli_result result;
    for (int i = 0; more[i]; i++)
        arg[i + 4] = more[i];
    cli_run(&result, arg);
    if (result.code || *result.err || cli_exists("out.h5.partial"))
        fail_msg("exit code %d: %s", result.code, result.err);
    assert_int_equal(cli_complete("out.h5"), 1);
}

void cli_solve_as(const char *name, const char *const *more) {
    cli_solve(more);
    assert_int_equal(rename("out.h5", name), 0);
}

double *cli_values(hid_t file, const char *name, size_t *count) {
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    FAIL_IF(set < 0, "no dataset %s", name);
    hid_t space = H5Dget_space(set);
    *count = (size_t)H5Sget_simple_extent_npoints(space);
    double *values = calloc(*count + 1, sizeof *values);
    assert_non_null(values);
    assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Sclose(space);
    H5Dclose(set);
    return values;
}

char *cli_words(hid_t file, const char *set) {
    hid_t id = H5Dopen2(file, set, H5P_DEFAULT), space = H5Dget_space(id), type = H5Dget_type(id);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    char **word = calloc((size_t)count, sizeof *word), *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_true(count > 0 && out && word);
    assert_true(H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, word) >= 0);
    for (hssize_t i = 0; i < count; i++)
        fprintf(out, "%s\n", word[i]);
    fclose(out);
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, word);
    free(word);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(id);
    return text;
}

char *cli_text(hid_t file, const char *object, const char *name) {
    hid_t attribute = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT);
    FAIL_IF(attribute < 0, "%s has no attribute %s", object, name);
    hid_t type = H5Aget_type(attribute);
    assert_true(H5Tis_variable_str(type) > 0);
    char *text = NULL, *copy;
    assert_true(H5Aread(attribute, type, &text) >= 0);
    copy = strdup(text ? text : "");
    assert_non_null(copy);
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(attribute);
    return copy;
}

bool cli_same(const char *first, const char *second, const char *set) {
    size_t count, more;
    FREED(close_file) hid_t one = cli_file(first), two = cli_file(second);
    FREED(base_free) double *a = cli_values(one, set, &count), *b = cli_values(two, set, &more);
    bool same = count && more >= count && !memcmp(a, b, count * sizeof *a);
    if (!same)
        print_error("%s differs between %s and %s\n", set, first, second);
    return same;
}

/* Whether it is one of numbers, and then it is the same in both files. */
static bool compare_set(hid_t file, hid_t other, const char *name, const char *what) {
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), type = H5Dget_type(set);
    bool number = H5Tget_class(type) == H5T_FLOAT || H5Tget_class(type) == H5T_INTEGER;
    H5Tclose(type);
    H5Dclose(set);
    if (!number)
        return false;
    size_t count[2];
    double *values[] = {cli_values(file, name, &count[0]), cli_values(other, name, &count[1])};
    if (count[0] != count[1] || memcmp(values[0], values[1], count[0] * sizeof(double)) != 0)
        fail_msg("%s: %s differs", what, name);
    free(values[0]);
    free(values[1]);
    return true;
}

/* How many datasets of numbers a group and those inside it hold. Functions that have the same
 * arguments in every version of HDF5. */
static int compare_group(hid_t file, hid_t other, const char *path, const char *what) {
    H5G_info_t info;
    int compared = 0;
    assert_true(H5Gget_info_by_name(file, path, &info, H5P_DEFAULT) >= 0);
    for (hsize_t i = 0; i < info.nlinks; i++) {
        char name[256];
        int length = snprintf(name, sizeof name, "%s/", path);
        assert_true(H5Lget_name_by_idx(file, path, H5_INDEX_NAME, H5_ITER_INC, i, name + length,
                                       sizeof name - (size_t)length, H5P_DEFAULT) > 0);
        hid_t id = H5Oopen(file, name, H5P_DEFAULT);
        if (H5Iget_type(id) == H5I_GROUP)
            compared += compare_group(file, other, name, what);
        else if (H5Iget_type(id) == H5I_DATASET)
            compared += compare_set(file, other, name, what);
        H5Oclose(id);
    }
    return compared;
}

void cli_same_files(const char *first, const char *second, const char *what, int least) {
    FREED(close_file) hid_t one = cli_file(first), two = cli_file(second);
    int compared = compare_group(one, two, ".", what);
    FAIL_IF(compared < least, "%s: only %d datasets of numbers", what, compared);
}

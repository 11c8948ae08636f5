/* dmft-sweep: sweeps that are cut and go on, runs that diverge, limits that rest. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS_FAILED = 3, LIMIT_RESTS = 8 }; /* of the attribute reasons of /optimum */

static const char head[] =
    "[network]\nmodel = regime2\nkappa = 0.5\n[data]\ninputs = 3\ndimension = 4\n[training]\n"
    "steps = 6\n[solver]\nsites = 64\nexpert_sites = 64\nreplicates = 2\nthreads = 1\n"
    "[reference]\nwidths = 8 16\nseeds = 3\n[sweep]\n"; /* 17 lines */

static void write_ini(const char *name, const char *sweep) {
    char text[2048];
    snprintf(text, sizeof text, "%s%s", head, sweep);
    cli_print(name, text);
}

static int clean(void **state) {
    return system("rm -rf whole.d whole.h5") || cli_clean(state);
}

/* Runs sweep.ini into NAME.h5; what it printed, to be freed. */
static char *sweep_into(const char *name, const char *more) {
    char output[32];
    struct cli_result result;
    snprintf(output, sizeof output, "%s.h5", name);
    cli_run(&result, ARGS("--jobs", "2", "-o", output, "sweep.ini", more));
    if (result.code)
        fail_msg("exit code %d: %s", result.code, result.err);
    free(result.err);
    return result.out;
}

static void run_sweep(const char *name) {
    free(sweep_into(name, NULL));
}

/* The complete units of out.d. */
enum { UNITS = 32 };
struct files {
    int count;
    char path[UNITS][300];
    struct stat status[UNITS];
};

static bool ends(const char *name, const char *with) {
    size_t length = strlen(name), end = strlen(with);
    return length >= end && !strcmp(name + length - end, with);
}

static void list(struct files *files, const char *suffix) {
    DIR *folder = opendir("out.d");
    files->count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char *path = files->path[files->count];
        snprintf(path, sizeof *files->path, "out.d/%s", entry->d_name);
        if (ends(path, suffix) && !stat(path, &files->status[files->count]))
            assert_in_range(++files->count, 1, UNITS - 1);
    }
    if (folder)
        closedir(folder);
}

/* Whether the files that were there before are the same, not written anew. */
static bool untouched(const struct files *before) {
    bool same = true;
    for (int i = 0; i < before->count; i++) {
        const struct stat *old = &before->status[i];
        struct stat now;
        same = same && !stat(before->path[i], &now) && now.st_ino == old->st_ino &&
               now.st_mtim.tv_sec == old->st_mtim.tv_sec &&
               now.st_mtim.tv_nsec == old->st_mtim.tv_nsec;
    }
    return same;
}

static void check_same_summary(const char *first, const char *second) {
    static const char *const set[] = {
        "sweep/loss",    "sweep/loss_se",  "sweep/loss_min",  "sweep/n",
        "sweep/failed",  "sweep/N",        "optimum/at",      "optimum/at_samples",
        "optimum/least", "optimum/reason", "sweep/objective", "sweep/training.eta0"};
    for (size_t k = 0; k < COUNT(set); k++)
        assert_true(cli_same(first, second, set[k]));
}

/* Every number of the summary is that of a single run of dmft-solve. */
TEST_AFTER(clean, test_units_are_single_runs) {
    size_t count, times;
    write_ini("sweep.ini", "training.eta0 = 0.2 0.4 0.8\nnetwork.parameterization = mup mssp\n");
    run_sweep("out");
    char *text = cli_read("sweep.ini", NULL);
    *strstr(text, "[sweep]") = 0;
    cli_print("single.ini", text);
    cli_program("dmft-solve");
    struct cli_result result;
    cli_run(&result, ARGS("--quiet", "-o", "whole.h5", "single.ini", "--training.eta0=0.4",
                          "--network.parameterization=mup"));
    assert_int_equal(result.code, 0);
    cli_program("dmft-sweep");
    hid_t one = cli_file("whole.h5"), all = cli_file("out.h5");
    double *loss = cli_values(all, "sweep/loss", &count),
           *se = cli_values(all, "sweep/loss_se", &count);
    double *N = cli_values(all, "sweep/N", &count);
    static const char *const group[] = {"reference/N0008", "reference/N0016", "limit"};
    assert_int_equal(count, 3);
    assert_true(N[0] == 8 && N[1] == 16 && isinf(N[2]));
    for (int c = 0; c < 3; c++) {
        char set[64];
        snprintf(set, sizeof set, "%s/loss", group[c]);
        double *want = cli_values(one, set, &times);
        snprintf(set, sizeof set, "%s/loss_se", group[c]);
        double *want_se = cli_values(one, set, &times);
        int unit = (1 * 2 + 0) * 3 + c; /* [eta0][parameterization][N] */
        CHECK_ABS(loss[unit], want[5], 0, "final loss of %s", group[c]);
        CHECK_ABS(se[unit], want_se[5], 4e-16, "its error"); /* another order of sums */
        free(want);
        free(want_se);
    }
    H5Fclose(one);
    H5Fclose(all);
    free(loss);
    free(se);
    free(N);
    free(text);
    cli_free(&result);
}

/* Files that were complete when the sweep was cut are not touched by the second call, and the end
 * is that of a sweep that nobody cut. Nine units; a sweep of which all are complete before it is
 * cut is made again, longer. */
static void cut(int number, int code, const char *word) {
    struct files before = {.count = 9}, after;
    struct cli_result result;
    char more[32];
    write_ini("sweep.ini", "training.eta0 = 0.2 0.4 0.8\n");
    for (int steps = 200; before.count == 9; steps *= 2) {
        assert_in_range(steps, 200, 6400);
        clean(NULL);
        snprintf(more, sizeof more, "--training.steps=%d", steps);
        pid_t pid = cli_start(ARGS("--quiet", "--jobs", "1", "-o", "out.h5", "sweep.ini", more), 0);
        for (list(&after, ".h5"); !after.count; list(&after, ".h5"))
            cli_pause(1e-3);
        kill(pid, number); /* children of a killed parent are killed, too */
        cli_wait(pid, &result);
        list(&before, ".h5");
        if (before.count < 9) {
            assert_int_equal(result.code, code);
            assert_true(!word || strstr(result.err, word));
            assert_false(cli_exists("out.h5"));
        }
        cli_free(&result);
    }
    free(sweep_into("out", more));
    assert_true(untouched(&before));
    list(&after, ".h5");
    assert_int_equal(after.count, 9);
    list(&after, "partial");
    assert_int_equal(after.count, 0);
    free(sweep_into("whole", more));
    check_same_summary("out.h5", "whole.h5");
}

TEST_AFTER(clean, test_a_killed_sweep_goes_on) {
    cut(SIGKILL, -SIGKILL, NULL);
}

TEST_AFTER(clean, test_an_interrupted_sweep_goes_on) {
    cut(SIGINT, 130, "interrupted; the same command goes on from here");
    clean(state);
    cut(SIGTERM, 130, "interrupted");
}

/* What is the same in the new sweep is not run again, whatever its place in the grid. */
TEST_AFTER(clean, test_a_changed_sweep_runs_what_is_new) {
    struct files before, after;
    write_ini("sweep.ini", "training.eta0 = 0.2 0.4 0.8\n");
    run_sweep("out");
    list(&before, ".h5");
    assert_int_equal(before.count, 9);
    write_ini("sweep.ini", "training.eta0 = 0.1 0.2 0.4 0.8\n");
    run_sweep("out");
    list(&after, ".h5");
    assert_int_equal(after.count, 12);
    free(sweep_into("out", "--solver.seed=2"));
    list(&after, ".h5");
    assert_int_equal(after.count, 24);
    assert_true(untouched(&before));
}

/* Bytes of one file into another. */
static void copy_file(const char *from, const char *to) {
    size_t size;
    char *bytes = cli_read(from, &size);
    cli_write(to, bytes, size);
    free(bytes);
}

static void check_units_refused(const char *part) {
    struct cli_result result;
    cli_run(&result, ARGS("--quiet", "--jobs", "2", "-o", "out.h5", "sweep.ini"));
    assert_true(cli_ended(&result, 2, ARGS(part, "delete it, and it will be run again")));
    cli_free(&result);
}

/* Swapped, altered, without its sum: refused; deleted: run again, with the same end. */
TEST_AFTER(clean, test_units_are_what_was_written) {
    struct files files;
    char sum[320];
    size_t size;
    write_ini("sweep.ini", "training.eta0 = 0.2 0.4 0.8\n");
    run_sweep("out");
    copy_file("out.h5", "whole.h5");
    list(&files, ".h5");
    char *first = cli_read(files.path[0], &size);
    copy_file(files.path[1], files.path[0]);
    check_units_refused("bytes and");
    first[size / 2] ^= 1;
    cli_write(files.path[0], first, size);
    check_units_refused("is not the file that was written under this name");
    first[size / 2] ^= 1;
    cli_write(files.path[0], first, size);
    run_sweep("out");
    snprintf(sum, sizeof sum, "%s", files.path[0]);
    strcpy(strstr(sum, ".h5"), ".sum");
    assert_int_equal(remove(sum), 0);
    check_units_refused("is missing");
    assert_int_equal(remove(files.path[0]), 0);
    run_sweep("out");
    check_same_summary("out.h5", "whole.h5");
    free(first);
}

/* A folder is one sweep's at a time, and none's where that cannot be told. */
TEST_AFTER(clean, test_a_folder_is_locked) {
    struct cli_result result;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    write_ini("sweep.ini", "training.eta0 = 0.2 0.4\n");
    assert_int_equal(mkdir("out.d", 0777), 0);
    int lock = open("out.d/lock", O_RDWR | O_CREAT, 0666);
    assert_int_equal(fcntl(lock, F_SETLK, &whole), 0);
    cli_run(&result, ARGS("-o", "out.h5", "sweep.ini"));
    assert_true(cli_ended(&result, 2, ARGS("another dmft-sweep is at work in out.d")));
    close(lock);
    cli_free(&result);
    assert_int_equal(remove("out.d/lock") || mkdir("out.d/lock", 0777), 0);
    cli_run(&result, ARGS("-o", "out.h5", "sweep.ini"));
    assert_true(cli_ended(&result, 1, ARGS("cannot open out.d/lock: ")));
    cli_free(&result);
}

TEST_AFTER(clean, test_others_files_are_not_overwritten) {
    struct cli_result result;
    write_ini("sweep.ini", "training.eta0 = 0.2 0.4\n");
    cli_print("out.h5", "mine");
    cli_run(&result, ARGS("-o", "out.h5", "sweep.ini"));
    assert_true(cli_ended(&result, 2, ARGS("out.h5: exists already")));
    assert_false(cli_exists("out.d"));
    cli_free(&result);
}

/* eta0 = 1e4 diverges in the limit and in networks: recorded, done, and run again on request. */
TEST_AFTER(clean, test_divergence_is_a_result) {
    struct files failed, again;
    size_t count;
    write_ini("sweep.ini", "training.eta0 = 0.2 0.4 1e4\n");
    char *table = sweep_into("out", "--training.steps=20");
    assert_non_null(strstr(table, "not known: runs failed, or have no value, beside it"));
    list(&failed, ".failed");
    assert_int_equal(failed.count, 3);
    char *text = cli_read(failed.path[0], NULL);
    assert_non_null(strstr(text, "exceeds 1e+06 times that of the start"));
    free(sweep_into("out", "--training.steps=20"));
    assert_true(untouched(&failed));
    hid_t file = cli_file("out.h5");
    double *loss = cli_values(file, "sweep/loss", &count);
    double *fails = cli_values(file, "sweep/failed", &count);
    double *edge = cli_values(file, "optimum/reason", &count), *at;
    at = cli_values(file, "optimum/at", &count);
    double *least = cli_values(file, "optimum/least_at", &count);
    assert_int_equal(count, 3);
    for (int u = 0; u < 9; u++) { /* [eta0][N] */
        assert_int_equal(isnan(loss[u]) != 0, u >= 6);
        assert_int_equal(fails[u] > 0, u >= 6);
    }
    for (int c = 0; c < 3; c++)
        assert_true(edge[c] == RUNS_FAILED && isnan(at[c]) && least[c] == 0.4);
    H5Fclose(file);
    struct cli_result result;
    cli_run(&result,
            ARGS("--quiet", "--retry", "-o", "out.h5", "sweep.ini", "--training.steps=20"));
    assert_int_equal(result.code, 0);
    list(&again, ".failed");
    assert_int_equal(again.count, 3);
    assert_false(untouched(&failed));
    cli_free(&result);
    free(table);
    free(text);
    free(loss);
    free(least);
    free(fails);
    free(edge);
    free(at);
}

/* Two networks of six diverge at the larger rate, and more at the last: without them the mean would
 * be too good. */
TEST_AFTER(clean, test_a_network_that_diverges_fails_its_point) {
    struct files failed;
    size_t count;
    cli_print("sweep.ini", "[network]\nmodel = regime2\nactivation = linear\ngate = constant\n"
                           "[data]\ninputs = 3\ndimension = 4\n[training]\nsteps = 4\n[solver]\n"
                           "sites = 64\nexpert_sites = 64\nreplicates = 2\nthreads = 1\n"
                           "[reference]\nwidths = 2\nseeds = 6\n"
                           "[sweep]\ntraining.eta0 = 0.1 0.3 0.6\n");
    char *table = sweep_into("out", NULL);
    list(&failed, ".failed");
    assert_int_equal(failed.count, 1);
    char *text = cli_read(failed.path[0], NULL);
    assert_non_null(strstr(text, "2 of 6 networks failed: N = 2, network 2, step 3: the loss, "));
    hid_t file = cli_file("out.h5");
    double *fails = cli_values(file, "sweep/failed", &count);
    for (int u = 0; u < 6; u++) /* [eta0][N] */
        assert_int_equal(fails[u], u == 4 ? 2 : 0);
    double *runs = cli_values(file, "sweep/n", &count),
           *loss = cli_values(file, "sweep/loss", &count);
    assert_true(runs[2] == 6 && runs[4] == 4 && isfinite(loss[4])); /* those that ended */
    assert_non_null(strstr(table, "(2 of 6 failed)"));
    list(&failed, ".partial");
    assert_int_equal(failed.count, 1);
    hid_t partial = cli_file(failed.path[0]);
    double *n = cli_values(partial, "reference/N0002/n", &count);
    assert_true(count == 4 && n[3] == 4);
    double *means = cli_values(partial, "reference/N0002/loss", &count);
    CHECK_ABS(loss[4], means[3], 1e-15 * means[3], "the mean of four"); /* order of sums */
    free(means);
    free(table);
    free(runs);
    free(loss);
    H5Fclose(partial);
    H5Fclose(file);
    free(text);
    free(fails);
    free(n);
}

/* How many notes of a file have this code. */
static int count_notes(const char *path, const char *code) {
    hid_t file = cli_file(path);
    char *codes = cli_words(file, "notes/code");
    int found = 0;
    for (char *rest = codes, *word; (word = strtok_r(rest, "\n", &rest));)
        found += !strcmp(word, code);
    free(codes);
    H5Fclose(file);
    return found;
}

/* muP with a zero read-out: the limit rests at every rate and has no optimum; MSSP has one. The
 * loss of the limit moves all the same, since targets of one batch are larger than of another. */
TEST_AFTER(clean, test_a_limit_that_rests_has_no_optimum) {
    size_t count;
    write_ini("sweep.ini", "network.parameterization = mup mssp\ntraining.eta0 = 0.2 0.4 0.8\n"
                           "data.source, training.batch = multi_index 2\n");
    char *table = sweep_into("out", "--network.read_out=zero");
    assert_non_null(strstr(table, "(it rests)"));
    assert_non_null(strstr(table, "note: a limit rests where"));
    assert_int_equal(count_notes("out.h5", "rests"), 1);
    hid_t file = cli_file("out.h5");
    double *rests = cli_values(file, "sweep/rests", &count);
    double *edge = cli_values(file, "optimum/reason", &count);
    double *at = cli_values(file, "optimum/at", &count);
    assert_int_equal(count, 6);
    for (int u = 0; u < 18; u++) /* [parameterization][eta0][N] */
        assert_int_equal(rests[u] == 1, u < 9 && u % 3 == 2);
    for (int c = 0; c < 6; c++) { /* [parameterization][N] */
        assert_int_equal(edge[c] == LIMIT_RESTS, c == 2);
        assert_true(isnan(at[c])); /* of three values none is known */
    }
    H5Fclose(file);
    free(table);
    free(rests);
    free(edge);
    free(at);
}

AROUND_TESTS(cli_open_sweep, cli_close)

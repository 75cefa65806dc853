/* Files that are read whole, and how to tell that one has changed. */
#include "test.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

static char folder[] = "/tmp/weir-file-XXXXXX";

static const char *in_folder(const char *name)
{
    static char memory[4][80];
    static size_t next;
    char *path = memory[next++ % COUNT_OF(memory)];
    snprintf(path, sizeof memory[0], "%s/%s", folder, name);
    return path;
}

static void write_to(const char *name, const char *text)
{
    FILE *out = fopen(in_folder(name), "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void assert_holds(const char *path, const char *text)
{
    FILE *file = NULL;
    char read[80] = "";
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_file_open(path, &file, NULL, &error) != WEIR_OK)
        fail_msg("%s", error.text);
    assert_non_null(fgets(read, sizeof read, file));
    assert_string_equal(read, text);
    fclose(file);
}

static void opens_files_and_what_links_lead_to(void **state)
{
    (void)state;
    write_to("file", "text");
    assert_int_equal(symlink("file", in_folder("link")), 0);
    assert_holds(in_folder("file"), "text");
    assert_holds(in_folder("link"), "text");
}

/* As a shell hands over what a program prints. */
static void waits_for_who_writes_into_a_pipe_without_a_name(void **state)
{
    (void)state;
    int ends[2];
    char path[40];
    assert_int_equal(pipe(ends), 0);
    pid_t writer = fork();
    if (writer == 0)
        _exit(write(ends[1], "piped", 5) != 5);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_holds(path, "piped");
    close(ends[0]);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
}

static void bind_socket(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int bound = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(bound, (struct sockaddr *)&address, sizeof address), 0);
    close(bound);
}

static void refuses_what_is_no_file_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *path, *why;
    } rows[] = {
        { "pipe", "it is a pipe, and wanted is a file" },
        { "link-to-pipe", "it is a pipe, and wanted is a file" },
        { "socket", "No such device" },
        { ".", "Is a directory" },
        { "gone", "No such file" },
        { "file/below", "Not a directory" },
        { "loop", "Too many levels of symbolic links" },
        { "zero", "it is a device, and wanted is a file" },
    };
    write_to("file", "text");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_int_equal(symlink("pipe", in_folder("link-to-pipe")), 0);
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    assert_int_equal(symlink("/dev/zero", in_folder("zero")), 0);
    bind_socket(in_folder("socket"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        FILE *file = NULL;
        struct weir_error error = WEIR_NO_ERROR;
        print_message("    %s\n", rows[i].path);
        assert_int_equal(weir_file_open(in_folder(rows[i].path), &file, NULL, &error), WEIR_E_FILE);
        assert_non_null(strstr(error.text, rows[i].why));
        assert_null(file);
    }
}

static void says_what_is_no_fault_of_the_files(void **state)
{
    (void)state;
    FILE *file = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    struct rlimit before, none;
    write_to("file", "text");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum weir_code code = weir_file_open(in_folder("file"), &file, NULL, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(code, WEIR_E_SYSTEM);
    assert_non_null(strstr(error.text, "Too many open files"));
}

static void tells_another_file_by_its_stamp(void **state)
{
    (void)state;
    FILE *file = NULL;
    struct weir_file_stamp read, now;
    write_to("file", "text");
    write_to("other", "text");
    assert_int_equal(weir_file_open(in_folder("file"), &file, &read, NULL), WEIR_OK);
    fclose(file);
    now = weir_file_stamp(in_folder("file"));
    assert_true(weir_file_stamp_is_same(&read, &now));
    assert_int_equal(rename(in_folder("other"), in_folder("file")), 0);
    now = weir_file_stamp(in_folder("file"));
    assert_false(weir_file_stamp_is_same(&read, &now));
    read = now;
    write_to("file", "longer");
    now = weir_file_stamp(in_folder("file"));
    assert_false(weir_file_stamp_is_same(&read, &now));
    unlink(in_folder("file"));
    now = weir_file_stamp(in_folder("file"));
    assert_int_equal(now.number, 0);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(opens_files_and_what_links_lead_to),
        TEST(waits_for_who_writes_into_a_pipe_without_a_name),
        TEST(refuses_what_is_no_file_at_once),
        TEST(says_what_is_no_fault_of_the_files),
        TEST(tells_another_file_by_its_stamp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

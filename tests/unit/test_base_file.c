/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"

static char directory[] = "/tmp/ls-test-XXXXXX";

static const char *path_of(const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *const path = paths[next++ % 4];

	snprintf(path, PATH_MAX, "%s/%s", directory, name);
	return path;
}

static int enter(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int leave(void **state)
{
	char command[PATH_MAX + 16];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	return system(command);
}

static void expect_contents(const char *path, const char *contents)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;

	assert_int_equal(ls_file_read(path, 1 << 20, &bytes, &length, NULL), 0);
	assert_int_equal(length, strlen(contents));
	assert_string_equal(bytes, contents);
}

static void what_is_written_is_read(void **state)
{
	const char *const path = path_of("plain");
	struct stat status;

	(void)state;
	umask(022);
	assert_int_equal(ls_file_write(path, "first", 5, 0666, NULL), 0);
	expect_contents(path, "first");
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0644);
	assert_int_equal(ls_file_write(path, "", 0, 0666, NULL), 0);
	expect_contents(path, "");
}

static void an_existing_file_keeps_its_mode_and_its_link(void **state)
{
	const char *const target = path_of("target"), *const link = path_of("link");
	struct stat status;

	(void)state;
	assert_int_equal(ls_file_write(target, "old", 3, 0644, NULL), 0);
	assert_int_equal(chmod(target, 0640), 0);
	assert_int_equal(symlink("target", link), 0);
	assert_int_equal(ls_file_write(link, "new", 3, 0600, NULL), 0);
	assert_int_equal(lstat(link, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	assert_int_equal(stat(target, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0640);
	expect_contents(target, "new");
}

static void a_file_of_its_own_replaces_a_link_and_what_that_points_to_stays(void **state)
{
	const char *const target = path_of("foreign"), *const link = path_of("own");
	struct stat status;

	(void)state;
	assert_int_equal(ls_file_write(target, "old", 3, 0644, NULL), 0);
	assert_int_equal(symlink("foreign", link), 0);
	assert_int_equal(ls_file_replace(link, "new", 3, 0600, NULL), 0);
	assert_int_equal(lstat(link, &status), 0);
	assert_true(S_ISREG(status.st_mode));
	assert_int_equal(status.st_mode & 07777, 0600);
	expect_contents(link, "new");
	expect_contents(target, "old");
}

static void a_failed_write_leaves_the_old_file_and_nothing_else(void **state)
{
	struct ls_error error = LS_ERROR_INIT;
	char command[PATH_MAX + 64];

	(void)state;
	assert_int_equal(mkdir(path_of("dir"), 0755), 0);
	assert_int_equal(ls_file_write(path_of("dir"), "x", 1, 0644, &error), -EISDIR);
	assert_non_null(strstr(error.text, "no regular file"));
	ls_error_clear(&error);
	assert_int_equal(ls_file_write(path_of("missing/file"), "x", 1, 0644, &error), -ENOENT);
	assert_non_null(strstr(error.text, "missing/file"));
	ls_error_clear(&error);
	assert_int_equal(symlink("loop", path_of("loop")), 0);
	assert_int_equal(ls_file_write(path_of("loop"), "x", 1, 0644, &error), -ELOOP);
	/* no temporary file stayed behind */
	snprintf(command, sizeof(command), "test -z \"$(find %s -name '.ls-*')\"", directory);
	assert_int_equal(system(command), 0);
}

static void a_full_disk_is_reported_and_the_old_file_stays(void **state)
{
	struct ls_error error = LS_ERROR_INIT;
	char command[PATH_MAX + 64];
	char *const large = calloc(1, 1 << 20);
	const char *const path = path_of("small/file");

	(void)state;
	assert_int_equal(mkdir(path_of("small"), 0755), 0);
	snprintf(command, sizeof(command), "mount -t tmpfs -o size=64k none %s 2>/dev/null",
		 path_of("small"));
	if (system(command) != 0) {
		free(large);
		print_message("skipped: no permission to mount a tmpfs\n");
		skip();
	}
	assert_int_equal(ls_file_write(path, "old", 3, 0644, NULL), 0);
	assert_int_equal(ls_file_write(path, large, 1 << 20, 0644, &error), -ENOSPC);
	expect_contents(path, "old");
	snprintf(command, sizeof(command), "umount %s", path_of("small"));
	assert_int_equal(system(command), 0);
	free(large);
}

static void only_what_ended_writers_left_is_swept(void **state)
{
	char living[32], ended[32];
	const pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(0);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	snprintf(ended, sizeof(ended), ".ls-%d-0", child);
	snprintf(living, sizeof(living), ".ls-%d-0", getpid());
	for (int i = 0; i < 2; i++)
		close(open(path_of(i ? living : ended), O_CREAT | O_WRONLY, 0600));
	assert_int_equal(ls_file_write(path_of("kept"), "x", 1, 0600, NULL), 0);

	ls_file_sweep(directory);
	ls_file_sweep("/nowhere");
	assert_int_equal(access(path_of(ended), F_OK), -1);
	assert_int_equal(access(path_of(living), F_OK), 0);
	expect_contents(path_of("kept"), "x");
	assert_int_equal(unlink(path_of(living)), 0);
	assert_int_equal(unlink(path_of("kept")), 0);
}

static void reading_is_bounded_and_picky(void **state)
{
	_cleanup_free_ char *bytes = NULL;
	struct ls_error error = LS_ERROR_INIT;
	size_t length = 77;

	(void)state;
	assert_int_equal(ls_file_write(path_of("five"), "12345", 5, 0644, NULL), 0);
	assert_int_equal(ls_file_read(path_of("five"), 4, &bytes, &length, &error), -EFBIG);
	ls_error_clear(&error);
	assert_int_equal(ls_file_read(path_of("none"), 4, &bytes, &length, &error), -ENOENT);
	assert_non_null(strstr(error.text, "/none': No such file"));
	ls_error_clear(&error);
	assert_int_equal(ls_file_read(directory, 4, &bytes, &length, &error), -EISDIR);
	ls_error_clear(&error);
	assert_int_equal(ls_file_read("/dev/zero", 4, &bytes, &length, &error), -EINVAL);
	assert_null(bytes);
	assert_int_equal(length, 77);
}

static void a_pipe_is_read_to_its_end(void **state)
{
	_cleanup_free_ char *bytes = NULL;
	char path[64];
	size_t length = 0;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "through a pipe", 14), 14);
	close(ends[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	assert_int_equal(ls_file_read(path, 100, &bytes, &length, NULL), 0);
	assert_string_equal(bytes, "through a pipe");
	close(ends[0]);
}

static void a_pipe_without_a_byte_is_no_empty_file(void **state)
{
	char *bytes = NULL;
	struct ls_error error = LS_ERROR_INIT;
	size_t length = 0;

	(void)state;
	assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
	assert_int_equal(ls_file_read(path_of("fifo"), 100, &bytes, &length, &error), -ENODATA);
	assert_non_null(strstr(error.text, "nothing came out of the pipe"));
	assert_null(bytes);
	assert_int_equal(unlink(path_of("fifo")), 0);
}

static void the_first_error_stays_and_is_one_line(void **state)
{
	struct ls_error error = LS_ERROR_INIT;

	(void)state;
	assert_int_equal(ls_error_set(&error, "cannot read '%s'", "a\nb\033[2J"), -1);
	assert_string_equal(error.text, "cannot read 'a?b?[2J'");
	assert_int_equal(ls_error_set_errno(&error, ENOENT, "second"), -ENOENT);
	assert_string_equal(error.text, "cannot read 'a?b?[2J'");
	ls_error_prefix(&error, "%s", "while testing");
	assert_string_equal(error.text, "while testing: cannot read 'a?b?[2J'");
	ls_error_clear(&error);
	assert_int_equal(ls_error_set_errno(&error, ENOENT, "cannot open"), -ENOENT);
	assert_string_equal(error.text, "cannot open: No such file or directory");
	assert_int_equal(ls_error_set(NULL, "nobody listens"), -1);
}

static void an_endless_error_is_cut(void **state)
{
	struct ls_error error = LS_ERROR_INIT;
	char *const text = malloc(2 * LS_ERROR_BYTES);

	(void)state;
	memset(text, 'x', 2 * LS_ERROR_BYTES - 1);
	text[2 * LS_ERROR_BYTES - 1] = '\0';
	ls_error_set(&error, "%s", text);
	assert_int_equal(strlen(error.text), LS_ERROR_BYTES - 1);
	assert_string_equal(error.text + LS_ERROR_BYTES - 1 - strlen("…"), "…");
	ls_error_prefix(&error, "more");
	assert_int_equal(strlen(error.text), LS_ERROR_BYTES - 1);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(an_existing_file_keeps_its_mode_and_its_link),
		cmocka_unit_test(a_file_of_its_own_replaces_a_link_and_what_that_points_to_stays),
		cmocka_unit_test(a_failed_write_leaves_the_old_file_and_nothing_else),
		cmocka_unit_test(a_full_disk_is_reported_and_the_old_file_stays),
		cmocka_unit_test(only_what_ended_writers_left_is_swept),
		cmocka_unit_test(reading_is_bounded_and_picky),
		cmocka_unit_test(a_pipe_is_read_to_its_end),
		cmocka_unit_test(a_pipe_without_a_byte_is_no_empty_file),
		cmocka_unit_test(the_first_error_stays_and_is_one_line),
		cmocka_unit_test(an_endless_error_is_cut),
	};

	return cmocka_run_group_tests(tests, enter, leave);
}

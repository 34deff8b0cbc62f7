/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The record of conditions: one writer, many readers. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/base/conditions.h"
#include "user/base/error.h"

static char folder[64];

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void conditions_reach_a_reader_while_the_writer_lives(void **state)
{
	struct ls_conditions *conditions = NULL;
	struct ls_conditions_view view;
	const char *path = path_of("conditions");

	(void)state;
	ls_conditions_read(path, &view);
	assert_false(view.is_alive);
	assert_int_equal(ls_conditions_open(path, &conditions, NULL), 0);
	assert_true(ls_conditions_set(conditions, "reload", "line %d\nand more", 3));
	assert_false(ls_conditions_set(conditions, "reload", "line %d\nand more", 3));
	const uint64_t since_ns = ls_conditions_since(conditions, "reload");
	assert_true(ls_conditions_set(conditions, "reload", "another text"));
	assert_int_equal(ls_conditions_since(conditions, "reload"), since_ns);
	assert_true(ls_conditions_set(conditions, "list a", "bad"));
	assert_false(ls_conditions_clear(conditions, "list b"));
	ls_conditions_beat(conditions, 42);

	ls_conditions_read(path, &view);
	assert_true(view.is_alive);
	assert_int_equal(view.pid, getpid());
	assert_int_equal(view.beat_ns, 42);
	assert_int_equal(view.count, 2);
	assert_string_equal(view.rows[0].key, "reload");
	assert_string_equal(view.rows[0].text, "another text");
	assert_int_equal(view.rows[0].since_ns, since_ns);
	assert_true(ls_conditions_clear(conditions, "reload"));
	ls_conditions_read(path, &view);
	assert_int_equal(view.count, 1);
	ls_conditions_close(conditions);

	ls_conditions_read(path, &view);
	assert_false(view.is_alive);
	assert_int_equal(view.count, 0);
}

static void a_successor_keeps_the_time_of_what_it_finds_again(void **state)
{
	struct ls_conditions *conditions = NULL;
	struct ls_conditions_view view;
	const char *path = path_of("successor");

	(void)state;
	assert_int_equal(ls_conditions_open(path, &conditions, NULL), 0);
	(void)ls_conditions_set(conditions, "program eth0", "taken off");
	const uint64_t since_ns = ls_conditions_since(conditions, "program eth0");
	ls_conditions_close(conditions);
	assert_int_equal(ls_conditions_open(path, &conditions, NULL), 0);
	ls_conditions_read(path, &view);
	assert_int_equal(view.count, 0);
	assert_true(ls_conditions_set(conditions, "program eth0", "still"));
	assert_int_equal(ls_conditions_since(conditions, "program eth0"), since_ns);
	assert_true(ls_conditions_set(conditions, "program eth1", "new"));
	assert_true(ls_conditions_since(conditions, "program eth1") > since_ns);
	ls_conditions_close(conditions);
}

static void there_is_one_writer(void **state)
{
	struct ls_conditions *conditions = NULL;
	struct ls_conditions_view view;
	const char *path = path_of("writer");
	int ready[2], status = 0;
	char byte;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	const pid_t child = fork();
	if (child == 0) {
		_exit(ls_conditions_open(path, &conditions, NULL) < 0 ||
		      !ls_conditions_set(conditions, "k", "t") || write(ready[1], "x", 1) != 1 ||
		      pause());
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	struct ls_error error = LS_ERROR_INIT;
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", child);
	assert_int_equal(ls_conditions_open(path, &conditions, &error), -EBUSY);
	assert_non_null(strstr(error.text, pid));
	ls_conditions_read(path, &view);
	assert_true(view.is_alive);
	assert_int_equal(view.pid, child);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	ls_conditions_read(path, &view);
	assert_false(view.is_alive);
	assert_int_equal(ls_conditions_open(path, &conditions, NULL), 0);
	ls_conditions_close(conditions);
	close(ready[0]);
	close(ready[1]);
}

/* As a worker that goes on when the controller was killed. */
static void a_child_that_closed_its_descriptors_holds_no_lock(void **state)
{
	struct ls_conditions *conditions = NULL;
	const char *path = path_of("child");
	int ready[2], status = 0;
	pid_t worker = 0;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	const pid_t child = fork();
	if (child == 0) {
		if (ls_conditions_open(path, &conditions, NULL) < 0)
			_exit(1);
		worker = fork();
		if (worker == 0) {
			worker = getpid();
			for (int fd = 3; fd < 64; fd++)
				if (fd != ready[1])
					close(fd);
			_exit(write(ready[1], &worker, sizeof(worker)) < 0 || pause());
		}
		_exit(pause());
	}
	assert_int_equal(read(ready[0], &worker, sizeof(worker)), sizeof(worker));
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	const int r = ls_conditions_open(path, &conditions, NULL);
	kill(worker, SIGKILL);
	assert_int_equal(r, 0);
	ls_conditions_close(conditions);
	close(ready[0]);
	close(ready[1]);
}

static void too_many_and_too_long_conditions_are_cut(void **state)
{
	struct ls_conditions *conditions = NULL;
	struct ls_conditions_view view;
	const char *path = path_of("many");
	char key[80], text[600];

	(void)state;
	assert_int_equal(ls_conditions_open(path, &conditions, NULL), 0);
	memset(text, 0, sizeof(text));
	for (size_t i = 0; i < 297; i++)
		memcpy(text + 2 * i, "ä", 2);
	for (int i = 0; i < LS_CONDITIONS_MAX + 5; i++) {
		snprintf(key, sizeof(key),
			 "%03d-a-key-that-is-longer-than-there-is-room-for-it-here", i);
		(void)ls_conditions_set(conditions, key, "%s", text);
	}
	ls_conditions_read(path, &view);
	assert_int_equal(view.count, LS_CONDITIONS_MAX);
	assert_int_equal(view.dropped, 5);
	const size_t length = strlen(view.rows[0].text);
	assert_true(length > LS_CONDITION_TEXT_BYTES - 4 && length < LS_CONDITION_TEXT_BYTES);
	assert_int_equal(length % 2, 0); /* no half of an ä */
	assert_true(ls_conditions_clear(conditions,
					"000-a-key-that-is-longer-than-there-is-room-for-it-here"));
	ls_conditions_close(conditions);
}

/* A reader beside a writer that changes all the time sees whole rows. */
static void a_reader_never_sees_half_a_row(void **state)
{
	struct ls_conditions *conditions = NULL;
	struct ls_conditions_view view;
	const char *path = path_of("race");
	int status = 0;

	(void)state;
	assert_int_equal(ls_conditions_open(path, &conditions, NULL), 0);
	const pid_t child = fork();
	if (child == 0) {
		unsigned whole = 0;
		for (int i = 0; i < 2000; i++) {
			ls_conditions_read(path, &view);
			for (size_t k = 0; k < view.count; k++) {
				const char *text = view.rows[k].text;
				if (strspn(text, (char[]){ text[0], '\0' }) != 150)
					_exit(1);
				whole++;
			}
		}
		_exit(whole > 0 ? 0 : 2);
	}
	for (unsigned i = 0; waitpid(child, &status, WNOHANG) == 0; i++) {
		char text[151];
		memset(text, 'a' + (int)(i % 26), 150);
		text[150] = '\0';
		(void)ls_conditions_set(conditions, "k", "%s", text);
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	ls_conditions_close(conditions);
}

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/loadshed-unit-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	static const char *const names[] = { "conditions", "successor", "writer",
					     "many",	   "race",	"child" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(path_of(names[i]));
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conditions_reach_a_reader_while_the_writer_lives),
		cmocka_unit_test(a_successor_keeps_the_time_of_what_it_finds_again),
		cmocka_unit_test(there_is_one_writer),
		cmocka_unit_test(a_child_that_closed_its_descriptors_holds_no_lock),
		cmocka_unit_test(too_many_and_too_long_conditions_are_cut),
		cmocka_unit_test(a_reader_never_sees_half_a_row),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

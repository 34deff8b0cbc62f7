/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * What the controller is made of, as far as it needs no kernel program: the loop, addresses to listen on, messages
 * to a service manager, and gathering events.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/base/error.h"
#include "user/base/listen.h"
#include "user/base/loop.h"
#include "user/serve/debounce.h"
#include "user/serve/notify.h"
#include "user/serve/worker.h"

#define MS 1000000ULL

static char folder[64];

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* ---- addresses ---- */

static void addresses_are_read_in_their_forms(void **state)
{
	static const struct {
		const char *text, *canonical;
		int family;
		bool is_loopback;
	} rows[] = {
		{ "127.0.0.1:9644", "127.0.0.1:9644", AF_INET, true },
		{ "127.8.9.10:1", "127.8.9.10:1", AF_INET, true },
		{ "localhost:80", "127.0.0.1:80", AF_INET, true },
		{ "192.0.2.1:65535", "192.0.2.1:65535", AF_INET, false },
		{ "0.0.0.0:80", "0.0.0.0:80", AF_INET, false },
		{ "[::1]:80", "[::1]:80", AF_INET6, true },
		{ "[2001:DB8::1]:9644", "[2001:db8::1]:9644", AF_INET6, false },
		{ ":9644", "[::]:9644", AF_INET6, false },
		{ "[::]:9644", "[::]:9644", AF_INET6, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ls_listen listen;
		struct ls_error error = LS_ERROR_INIT;
		assert_int_equal(ls_listen_parse(rows[i].text, &listen, &error), 0);
		assert_string_equal(listen.text, rows[i].canonical);
		assert_int_equal(listen.address.ss_family, rows[i].family);
		assert_int_equal(listen.is_loopback, rows[i].is_loopback);
		assert_false(listen.is_none);
	}
	struct ls_listen none;
	assert_int_equal(ls_listen_parse("none", &none, NULL), 0);
	assert_true(none.is_none);
}

static void what_is_no_address_is_refused_with_a_line(void **state)
{
	static const char *const rows[] = {
		"",
		":",
		"9644",
		"None",
		"host:80",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:0",
		"127.0.0.1:65536",
		"127.0.0.1:080",
		"127.0.0.1:+80",
		"127.0.0.1: 80",
		"127.0.0.1:80 ",
		"127.1:80",
		"256.0.0.1:80",
		"::1:80",
		"[::1]",
		"[::1]80",
		"[::1:80",
		"[1.2.3.4]:80",
		"[::1%lo]:80",
		"[]:80",
		"http://127.0.0.1:80",
		"127.0.0.1:9999999999999999999999",
		"[fe80:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:80",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ls_listen listen = { .text = "kept" };
		struct ls_error error = LS_ERROR_INIT;
		if (ls_listen_parse(rows[i], &listen, &error) != -1)
			fail_msg("'%s' is taken", rows[i]);
		assert_true(ls_error_is_set(&error));
		assert_string_equal(listen.text, "kept");
	}
}

/* ---- service manager ---- */

static int bind_manager(const char *name, bool is_abstract)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	strcpy(address.sun_path, name);
	if (is_abstract)
		address.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
			 0);
	return fd;
}

static const char *receive(int fd)
{
	static char text[1024];
	const ssize_t length = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

	text[length > 0 ? length : 0] = '\0';
	return text;
}

static void a_manager_gets_the_protocol_s_messages(void **state)
{
	char name[64];
	const int by_path = bind_manager(path_of("notify"), false);

	(void)state;
	setenv("NOTIFY_SOCKET", path_of("notify"), 1);
	ls_notify_ready();
	assert_string_equal(receive(by_path), "READY=1");
	ls_notify_reloading(1234567890123ULL);
	assert_string_equal(receive(by_path), "RELOADING=1\nMONOTONIC_USEC=1234567890");
	ls_notify_status("two\nlines and %d", 5);
	assert_string_equal(receive(by_path), "STATUS=two");
	ls_notify_watchdog();
	assert_string_equal(receive(by_path), "WATCHDOG=1");
	ls_notify_stopping();
	assert_string_equal(receive(by_path), "STOPPING=1");
	close(by_path);

	snprintf(name, sizeof(name), "@loadshed-test-%d", getpid());
	const int abstract = bind_manager(name, true);
	setenv("NOTIFY_SOCKET", name, 1);
	ls_notify_ready();
	assert_string_equal(receive(abstract), "READY=1");
	close(abstract);
	ls_notify_ready(); /* nobody listens any more: no harm */
	unsetenv("NOTIFY_SOCKET");
	ls_notify_ready();
	assert_true(ls_notify_send("relative", "x") < 0);
	assert_true(ls_notify_send("", "x") < 0);
}

static void a_watchdog_counts_only_for_the_process_that_it_names(void **state)
{
	char pid[16];

	(void)state;
	assert_int_equal(ls_notify_watchdog_ns(), 0);
	setenv("WATCHDOG_USEC", "30000000", 1);
	assert_int_equal(ls_notify_watchdog_ns(), 30000 * MS);
	setenv("WATCHDOG_PID", "1", 1);
	assert_int_equal(ls_notify_watchdog_ns(), 0);
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("WATCHDOG_PID", pid, 1);
	assert_int_equal(ls_notify_watchdog_ns(), 30000 * MS);
	setenv("WATCHDOG_USEC", "30s", 1);
	assert_int_equal(ls_notify_watchdog_ns(), 0);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

/* ---- gathering events ---- */

static void events_are_gathered_until_it_is_quiet(void **state)
{
	struct ls_debounce debounce = { 0 };

	(void)state;
	assert_false(ls_debounce_due(&debounce, 5000 * MS, 200 * MS, 2000 * MS));
	ls_debounce_event(&debounce, 1000 * MS);
	assert_false(ls_debounce_due(&debounce, 1199 * MS, 200 * MS, 2000 * MS));
	ls_debounce_event(&debounce, 1199 * MS);
	assert_false(ls_debounce_due(&debounce, 1398 * MS, 200 * MS, 2000 * MS));
	assert_true(ls_debounce_due(&debounce, 1399 * MS, 200 * MS, 2000 * MS));
	assert_false(ls_debounce_due(&debounce, 9999 * MS, 200 * MS, 2000 * MS));
}

static void events_without_end_are_acted_upon_all_the_same(void **state)
{
	struct ls_debounce debounce = { 0 };
	unsigned acted = 0;

	(void)state;
	for (uint64_t ms = 1000; ms < 11000; ms += 100) {
		ls_debounce_event(&debounce, ms * MS);
		acted += ls_debounce_due(&debounce, ms * MS, 200 * MS, 2000 * MS);
	}
	assert_int_equal(acted, 4); /* after 2 s, and the next event starts anew */
}

/* ---- the loop ---- */

struct probe {
	struct ls_loop *loop;
	int first[2], second[2], timer;
	unsigned first_calls, second_calls, ticks;
};

static void on_second(void *data, uint32_t events)
{
	struct probe *probe = data;

	(void)events;
	probe->second_calls++;
	ls_loop_remove(probe->loop, probe->second[0]);
	ls_loop_remove(probe->loop, probe->first[0]);
}

/* Whichever comes first in a batch takes the other one out. */
static void on_first(void *data, uint32_t events)
{
	struct probe *probe = data;

	(void)events;
	probe->first_calls++;
	ls_loop_remove(probe->loop, probe->first[0]);
	ls_loop_remove(probe->loop, probe->second[0]);
}

static void on_tick(void *data, uint64_t now_ns)
{
	struct probe *probe = data;

	assert_true(now_ns > 0);
	if (++probe->ticks < 3)
		return;
	ls_loop_timer_stop(probe->loop, probe->timer);
	ls_loop_stop(probe->loop);
}

static void an_event_is_never_delivered_after_its_source_was_removed(void **state)
{
	struct probe probe = { 0 };

	(void)state;
	assert_int_equal(ls_loop_new(&probe.loop, NULL), 0);
	assert_int_equal(pipe(probe.first), 0);
	assert_int_equal(pipe(probe.second), 0);
	assert_int_equal(write(probe.first[1], "x", 1), 1);
	assert_int_equal(write(probe.second[1], "x", 1), 1);
	assert_int_equal(ls_loop_add(probe.loop, probe.first[0], EPOLLIN, on_first, &probe), 0);
	assert_int_equal(ls_loop_add(probe.loop, probe.first[0], EPOLLIN, on_first, &probe),
			 -EEXIST);
	assert_int_equal(ls_loop_add(probe.loop, probe.second[0], EPOLLIN, on_second, &probe), 0);
	probe.timer = ls_loop_timer(probe.loop, 1 * MS, on_tick, &probe);
	assert_true(probe.timer >= 0);
	assert_int_equal(ls_loop_run(probe.loop), 0);
	assert_int_equal(probe.first_calls + probe.second_calls, 1);
	assert_int_equal(probe.ticks, 3);
	assert_int_equal(ls_loop_change(probe.loop, probe.first[0], EPOLLIN), -ENOENT);
	assert_int_equal(ls_loop_timer_set(probe.loop, probe.timer, 1, 1), -ENOENT);
	assert_int_equal(ls_loop_add(probe.loop, -1, EPOLLIN, on_first, &probe), -EBADF);
	ls_loop_free(probe.loop);
	for (int i = 0; i < 2; i++) {
		close(probe.first[i]);
		close(probe.second[i]);
	}
}

static void on_signal(void *data, int number)
{
	assert_int_equal(number, SIGUSR1);
	ls_loop_stop(data);
}

static void signals_arrive_in_the_loop(void **state)
{
	struct ls_loop *loop = NULL;
	sigset_t signals;

	(void)state;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	assert_int_equal(ls_loop_new(&loop, NULL), 0);
	assert_int_equal(ls_loop_signals(loop, &signals, on_signal, loop), 0);
	kill(getpid(), SIGUSR1);
	assert_int_equal(ls_loop_run(loop), 0);
	ls_loop_free(loop);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

/* ---- workers ---- */

struct outcome {
	struct ls_loop *loop;
	char *report; /* owned */
	bool is_done, has_died;
};

static void on_done(void *data, char *report)
{
	struct outcome *outcome = data;

	outcome->is_done = true;
	outcome->has_died = !report;
	outcome->report = report ? strdup(report) : NULL;
	ls_loop_stop(outcome->loop);
}

static void report_much(const void *argument, struct ls_buffer *report)
{
	for (int i = 0; i < 20000; i++)
		ls_buffer_format(report, "N %s %d\n", (const char *)argument, i);
}

static void die(const void *argument, struct ls_buffer *report)
{
	(void)argument;
	ls_buffer_text(report, "N half\n");
	kill(getpid(), SIGKILL);
}

static void a_worker_reports_whole_or_has_died(void **state)
{
	struct outcome outcome = { 0 };
	struct ls_worker worker;
	char *at, *text = NULL;
	unsigned lines = 0;

	(void)state;
	assert_int_equal(ls_loop_new(&outcome.loop, NULL), 0);
	ls_worker_init(&worker, outcome.loop);
	assert_int_equal(ls_worker_start(&worker, report_much, "line", on_done, &outcome), 0);
	assert_int_equal(ls_worker_start(&worker, report_much, "line", on_done, &outcome), -EBUSY);
	assert_int_equal(ls_loop_run(outcome.loop), 0);
	assert_false(ls_worker_is_busy(&worker));
	assert_false(outcome.has_died);
	at = outcome.report;
	while (ls_report_next(&at, &text) == 'N')
		lines++;
	assert_int_equal(lines, 20000);
	assert_string_equal(text, "line 19999");
	free(outcome.report);

	assert_int_equal(ls_worker_start(&worker, die, NULL, on_done, &outcome), 0);
	assert_int_equal(ls_loop_run(outcome.loop), 0);
	assert_true(outcome.has_died);
	ls_worker_fini(&worker);
	ls_loop_free(outcome.loop);
}

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/loadshed-unit-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path_of("notify"));
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_read_in_their_forms),
		cmocka_unit_test(what_is_no_address_is_refused_with_a_line),
		cmocka_unit_test(a_manager_gets_the_protocol_s_messages),
		cmocka_unit_test(a_watchdog_counts_only_for_the_process_that_it_names),
		cmocka_unit_test(events_are_gathered_until_it_is_quiet),
		cmocka_unit_test(events_without_end_are_acted_upon_all_the_same),
		cmocka_unit_test(an_event_is_never_delivered_after_its_source_was_removed),
		cmocka_unit_test(signals_arrive_in_the_loop),
		cmocka_unit_test(a_worker_reports_whole_or_has_died),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tests/kern/common.h"

#include <stdarg.h>

static unsigned failed;

bool kern_result(bool is_ok, const char *name, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("%s %s%s", is_ok ? "ok" : "not ok", name, is_ok ? " # " : ": ");
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
	failed += !is_ok;
	return is_ok;
}

void kern_skip(const char *name, const char *why)
{
	printf("skip %s: %s\n", name, why);
	fflush(stdout);
}

int kern_status(void)
{
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

bool kern_is_long(void)
{
	const char *value = getenv("LS_LONG");

	return value && strcmp(value, "1") == 0;
}

__attribute__((noreturn)) static void die(const char *what, const struct ls_error *error)
{
	fprintf(stderr, "%s: %s\n", what, error->text);
	exit(1);
}

struct ls_policy *kern_policy(const char *format, ...)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = NULL;
	char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		abort();
	va_end(arguments);
	if (ls_policy_read_memory("policy", text, strlen(text), NULL, &policy, &error) != 0)
		die("cannot read the policy", &error);
	free(text);
	return policy;
}

struct ls_plane *kern_sandbox(const char *text, uint64_t sources, bool live_clock)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_plane *plane = NULL;
	struct ls_policy *policy = kern_policy("%s", text);
	const struct ls_plane_sandbox request = { .policy = policy,
						  .sources = sources,
						  .live_clock = live_clock };

	if (ls_plane_sandbox_open(&request, &plane, &error) < 0)
		die("cannot open a sandbox", &error);
	ls_policy_free(policy);
	return plane;
}

void kern_publish(struct ls_plane *plane, const struct ls_policy *policy)
{
	struct ls_error error = LS_ERROR_INIT;

	if (ls_plane_publish(plane, policy, NULL, NULL, &error) < 0)
		die("cannot publish", &error);
}

uint64_t kern_count(struct ls_plane *plane, const char *class_name, enum ls_verdict verdict,
		    enum ls_reason reason)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_stats stats;
	uint64_t packets = 0;

	if (ls_stats_read(plane, NULL, &stats, &error) < 0)
		die("cannot read the counters", &error);
	for (size_t i = 0; i < stats.n_classes; i++) {
		const struct ls_stats_class *class = &stats.classes[i];
		if (class_name && strcmp(class->name, class_name) != 0)
			continue;
		for (size_t j = 0; j < class->n_verdicts; j++) {
			const struct ls_stats_verdict *entry = &class->verdicts[j];
			if (entry->verdict == verdict &&
			    (reason == LS_REASON_MAX || entry->reason == reason))
				packets += entry->tally.packets;
		}
	}
	ls_stats_fini(&stats);
	return packets;
}

void *kern_memory(struct ls_plane *plane, enum ls_map map, size_t *ret_bytes)
{
	struct ls_error error = LS_ERROR_INIT;
	void *memory = ls_plane_memory(plane, map, &error);

	if (!memory)
		die("cannot map", &error);
	if (ret_bytes)
		*ret_bytes = (size_t)plane->maps[map].value_bytes * plane->maps[map].entries;
	return memory;
}

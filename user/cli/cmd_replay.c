/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * loadshed replay: the real program on a capture, in a sandbox that touches no live state. Here the capture
 * (user/replay) meets the kernel (user/plane); neither knows the other.
 */

#include "user/cli/cli.h"

#include <errno.h>
#include <stdio.h>

#include "user/base/output.h"
#include "user/plane/plane.h"
#include "user/plane/sandbox.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"
#include "user/replay/replay.h"

/* What the sandbox hands in of a frame, see ls_plane_run(). */
#define FRAME_BYTES_MAX 32768

static const char *const reason_texts[] = {
#define LS_REASON_TEXT(id, text) [LS_REASON_##id] = text,
	LS_REASONS(LS_REASON_TEXT)
#undef LS_REASON_TEXT
};

/* The judge's context. */
struct sandbox {
	const struct ls_policy *policy;
	struct ls_plane *plane; /* NULL before the first packet */
	bool verbose;
};

static void sandbox_fini(struct sandbox *sandbox)
{
	ls_plane_close(sandbox->plane);
	sandbox->plane = NULL;
}

static int sandbox_start(void *context, uint64_t unix_ns, struct ls_error *error)
{
	struct sandbox *const sandbox = context;
	const struct ls_plane_sandbox request = {
		.policy = sandbox->policy,
		.sources = sandbox->policy->sources,
		.verbose = sandbox->verbose,
	};

	sandbox_fini(sandbox);
	const int failed = ls_plane_sandbox_open(&request, &sandbox->plane, error);
	if (failed)
		return failed < 0 ? failed : -EIO;
	ls_plane_sandbox_begin(sandbox->plane, unix_ns);
	return 0;
}

static int sandbox_run(void *context, const uint8_t *frame, uint32_t length, uint32_t wire_bytes,
		       uint64_t unix_ns, struct ls_replay_abi *ret)
{
	struct sandbox *const sandbox = context;

	return ls_plane_run(sandbox->plane, frame, length, wire_bytes, unix_ns, ret);
}

_Static_assert(LS_REPLAY_FRAME_MIN == LS_SANDBOX_FRAME_MIN, "the judge takes what replay hands it");

/* What the packet path does with a malformed frame under this policy. */
static enum ls_verdict malformed_verdict(const struct ls_policy *policy)
{
	if (policy->malformed_pass)
		return LS_VERDICT_PASS;
	return policy->mode == LS_MODE_MONITOR ? LS_VERDICT_WOULD_DROP : LS_VERDICT_DROP;
}

static void classes_name(const struct ls_policy *policy, struct ls_replay_class *classes)
{
	for (size_t i = 0; i < policy->n_classes; i++) {
		classes[i].name = policy->classes[i].name;
		for (size_t j = 0; j < policy->classes[i].n_limits; j++)
			classes[i].limits[j] = policy->classes[i].limits[j].name;
	}
}

static json_t *tally_json(const struct ls_replay_tally *tally)
{
	return json_pack("{s:I, s:I, s:I}", "pass", (json_int_t)tally->pass, "drop",
			 (json_int_t)tally->drop, "would_drop", (json_int_t)tally->would_drop);
}

/* All reasons and all classes are there, with 0 where nothing came, so that a reader need not ask. */
static json_t *summary_json(const struct ls_policy *policy, const struct ls_replay_summary *summary)
{
	json_t *const reasons = json_object();
	json_t *const classes = json_object();

	for (size_t i = 0; i < LS_REASON_MAX; i++)
		json_object_set_new(reasons, reason_texts[i],
				    json_integer((json_int_t)summary->reasons[i]));
	for (size_t i = 0; i < policy->n_classes; i++)
		json_object_set_new(classes, policy->classes[i].name,
				    tally_json(&summary->classes[i]));
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "packets",
			 (json_int_t)summary->packets, "bytes", (json_int_t)summary->bytes, "pass",
			 (json_int_t)summary->total.pass, "drop", (json_int_t)summary->total.drop,
			 "would_drop", (json_int_t)summary->total.would_drop, "reasons", reasons,
			 "classes", classes);
}

static void share_cell(struct ls_table *table, uint64_t part, uint64_t whole)
{
	ls_table_cell(table, "%.1f %%", whole ? 100.0 * (double)part / (double)whole : 0.0);
}

static int reasons_print(const struct ls_replay_summary *summary, FILE *file)
{
	_cleanup_table_ struct ls_table table;

	ls_table_init(&table, 3, 0x6);
	ls_table_cell(&table, "REASON");
	ls_table_cell(&table, "PACKETS");
	ls_table_cell(&table, "SHARE");
	for (size_t i = 0; i < LS_REASON_MAX; i++) {
		if (!summary->reasons[i])
			continue;
		ls_table_cell(&table, "%s", reason_texts[i]);
		ls_table_cell(&table, "%llu", (unsigned long long)summary->reasons[i]);
		share_cell(&table, summary->reasons[i], summary->packets);
	}
	return ls_table_print(&table, file);
}

static int classes_print(const struct ls_policy *policy, const struct ls_replay_summary *summary,
			 FILE *file)
{
	_cleanup_table_ struct ls_table table;

	ls_table_init(&table, 4, 0xe);
	ls_table_cell(&table, "CLASS");
	ls_table_cell(&table, "PASS");
	ls_table_cell(&table, "DROP");
	ls_table_cell(&table, "WOULD DROP");
	for (size_t i = 0; i < policy->n_classes; i++) {
		const struct ls_replay_tally *const tally = &summary->classes[i];

		ls_table_cell(&table, "%s", policy->classes[i].name);
		ls_table_cell(&table, "%llu", (unsigned long long)tally->pass);
		ls_table_cell(&table, "%llu", (unsigned long long)tally->drop);
		ls_table_cell(&table, "%llu", (unsigned long long)tally->would_drop);
	}
	return ls_table_print(&table, file);
}

static int summary_print(const struct ls_policy *policy, const struct ls_replay_summary *summary,
			 FILE *file)
{
	char bytes[LS_HUMAN_TEXT], time[LS_HUMAN_TEXT];

	fprintf(file, "%llu packets, %s, in %s: %llu pass, %llu drop",
		(unsigned long long)summary->packets, ls_human_bytes(summary->bytes, bytes),
		ls_human_time(summary->end_ns - summary->begin_ns, time),
		(unsigned long long)summary->total.pass, (unsigned long long)summary->total.drop);
	if (summary->total.would_drop)
		fprintf(file, " (of the passed, %llu would drop)",
			(unsigned long long)summary->total.would_drop);
	fputc('\n', file);
	if (!summary->packets)
		return 0;
	fputc('\n', file);
	int failed = reasons_print(summary, file);
	if (!failed && policy->n_classes) {
		fputc('\n', file);
		failed = classes_print(policy, summary, file);
	}
	return failed;
}

/* Replays into *ret_summary; what was judged before a failure is in it. */
static int policy_replay(const struct ls_cli *cli, const struct ls_policy *policy,
			 struct ls_replay_summary *ret_summary, struct ls_error *error)
{
	_cleanup_(sandbox_fini) struct sandbox sandbox = { .policy = policy,
							   .verbose = cli->verbose };
	struct ls_replay_class classes[LS_CLASSES] = { 0 };

	classes_name(policy, classes);
	const struct ls_replay_request request = {
		.capture = cli->arguments[0],
		.judge = { .context = &sandbox,
			   .start = sandbox_start,
			   .run = sandbox_run,
			   .frame_max = FRAME_BYTES_MAX },
		.classes = classes,
		.n_classes = (unsigned)policy->n_classes,
		.malformed = malformed_verdict(policy),
		.packets = ls_cli_has(cli, LS_OPTION_PACKETS) ? stdout : NULL,
	};

	return ls_replay_run(&request, ret_summary, error);
}

static int summary_show(const struct ls_cli *cli, const struct ls_policy *policy,
			const struct ls_replay_summary *summary)
{
	if (cli->json)
		return ls_cli_print_json(summary_json(policy, summary));
	if (summary_print(policy, summary, stdout)) {
		ls_cli_note("cannot print the summary: out of memory");
		return LS_EXIT_FAILED;
	}
	return ls_cli_flush();
}

int ls_cmd_replay(struct ls_cli *cli)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	struct ls_replay_summary summary;
	struct ls_error error = LS_ERROR_INIT;

	if (ls_policy_read(cli->values[LS_OPTION_POLICY], NULL, &policy, &error))
		return ls_cli_fail(&error);
	const int failed = policy_replay(cli, policy, &summary, &error);
	int code = LS_EXIT_DONE;

	/* A capture that is cut off has told something before its end; one that cannot be read has not. */
	if (ls_cli_has(cli, LS_OPTION_PACKETS))
		code = failed ? LS_EXIT_DONE : ls_cli_flush();
	else if (!failed || summary.packets)
		code = summary_show(cli, policy, &summary);
	return failed ? ls_cli_fail(&error) : code;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLI_CLI_H
#define LOADSHED_USER_CLI_CLI_H

/*
 * The command line: one table of verbs, one of options, one parser for all.
 *
 * Results go to stdout, as a table or as one JSON document from the same data. What went wrong, and what an
 * operator should know beside the result, goes to stderr, one line each. A verb returns one of the exit
 * codes below.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"

enum ls_exit {
	LS_EXIT_DONE = 0,
	LS_EXIT_FAILED = 1,
	LS_EXIT_USAGE = 2,
};

/* Options of verbs: id, long name, what its value is called ("" for a flag). */
#define LS_OPTIONS(X)                                                                              \
	X(POLICY, "policy", "FILE")                                                                \
	X(MODE, "mode", "auto|native|generic")                                                     \
	X(MONITOR, "monitor", "")                                                                  \
	X(REPLACE, "replace", "")                                                                  \
	X(YES, "yes", "")                                                                          \
	X(ALL, "all", "")                                                                          \
	X(EXPAND, "expand", "")                                                                    \
	X(EXIT_CODE, "exit-code", "")                                                              \
	X(CONFIRM, "confirm", "TIME")                                                              \
	X(FOR, "for", "TIME")                                                                      \
	X(REASON, "reason", "TEXT")                                                                \
	X(WATCH, "watch", "")                                                                      \
	X(PACKETS, "packets", "")                                                                  \
	X(TO, "to", "ADDRESS")                                                                     \
	X(PROTOCOL, "protocol", "NAME")                                                            \
	X(PORT, "port", "NUMBER")                                                                  \
	X(FROM_PORT, "from-port", "NUMBER")                                                        \
	X(FLAGS, "flags", "FLAG,…")                                                                \
	X(WRITE, "write", "FILE")                                                                  \
	X(COUNT, "count", "NUMBER")                                                                \
	X(BAN, "ban", "N")                                                                         \
	X(METRICS, "metrics", "ADDR")

enum ls_option {
#define LS_OPTION_ENUM(id, name, value) LS_OPTION_##id,
	LS_OPTIONS(LS_OPTION_ENUM)
#undef LS_OPTION_ENUM
		LS_OPTION_MAX,
};

#define LS_BIT(option) (1U << LS_OPTION_##option)

struct ls_cli;

/* A row of the table of verbs. */
struct ls_verb {
	const char *name;      /* one word, or two: "policy check" */
	const char *arguments; /* as shown in help */
	size_t min_arguments, max_arguments;
	unsigned allowed, required;	/* options: LS_BIT(…) */
	bool takes_interface;		/* -i applies */
	const char *help;		/* one line; "" : in no help */
	const char *example;		/* what follows the program's name */
	int (*run)(struct ls_cli *cli); /* NULL: not in this version */
};

/* A command line that has been read. All strings are the caller's of main(). */
struct ls_cli {
	const struct ls_verb *verb;
	const char *instance;
	const char *interface; /* -i; NULL: not given */
	bool json;
	bool table; /* -o table was given: for a verb whose default is another */
	bool verbose;
	const char *values[LS_OPTION_MAX]; /* NULL: not given; "" for a flag that is */
	const char *const *arguments;
	size_t n_arguments;
};

static inline bool ls_cli_has(const struct ls_cli *cli, enum ls_option option)
{
	return cli->values[option] != NULL;
}

/* The verbs' functions, by file. */
int ls_cmd_check(struct ls_cli *cli);
int ls_cmd_attach(struct ls_cli *cli);
int ls_cmd_detach(struct ls_cli *cli);
int ls_cmd_status(struct ls_cli *cli);
int ls_cmd_policy_check(struct ls_cli *cli);
int ls_cmd_policy_show(struct ls_cli *cli);
int ls_cmd_policy_diff(struct ls_cli *cli);
int ls_cmd_policy_apply(struct ls_cli *cli);
int ls_cmd_policy_confirm(struct ls_cli *cli);
int ls_cmd_policy_rollback(struct ls_cli *cli);
int ls_cmd_policy_edit(struct ls_cli *cli);
int ls_cmd_ban_add(struct ls_cli *cli);
int ls_cmd_ban_del(struct ls_cli *cli);
int ls_cmd_ban_list(struct ls_cli *cli);
int ls_cmd_ban_import(struct ls_cli *cli);
int ls_cmd_allow_add(struct ls_cli *cli);
int ls_cmd_allow_del(struct ls_cli *cli);
int ls_cmd_deny_add(struct ls_cli *cli);
int ls_cmd_deny_del(struct ls_cli *cli);
int ls_cmd_panic(struct ls_cli *cli);
int ls_cmd_off(struct ls_cli *cli);
int ls_cmd_on(struct ls_cli *cli);
int ls_cmd_overload_explain(struct ls_cli *cli);
int ls_cmd_overload_set(struct ls_cli *cli);
int ls_cmd_overload_auto(struct ls_cli *cli);
int ls_cmd_stats(struct ls_cli *cli);
int ls_cmd_top(struct ls_cli *cli);
int ls_cmd_explain(struct ls_cli *cli);
int ls_cmd_cluster_status(struct ls_cli *cli);
int ls_cmd_events(struct ls_cli *cli);
int ls_cmd_capture(struct ls_cli *cli);
int ls_cmd_replay(struct ls_cli *cli);
int ls_cmd_bench(struct ls_cli *cli);
int ls_cmd_restore(struct ls_cli *cli);
/* LS_EXIT_DONE when restoring would not cut the caller's own session; else a line was printed. */
int ls_cmd_restore_guard(struct ls_cli *cli);
int ls_cmd_help(struct ls_cli *cli);
int ls_cmd_manual(struct ls_cli *cli);
int ls_cmd_completion(struct ls_cli *cli);
int ls_cmd_complete(struct ls_cli *cli);

/* ---- say.c ---- */

/* "loadshed: LINE" on stderr; LS_EXIT_FAILED. A line that was forgotten says so. */
int ls_cli_fail(const struct ls_error *error);
/* The same for a wrong command line; LS_EXIT_USAGE. */
int ls_cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "loadshed: LINE" on stderr beside a result. */
void ls_cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct ls_warnings;
/* Each line as a note. */
void ls_cli_notes(const struct ls_warnings *notes);

/* "nothing is attached …" as an error; LS_EXIT_FAILED. */
int ls_cli_absent(const struct ls_cli *cli);

/* Prints one document and a line feed; takes it over. LS_EXIT_DONE, or LS_EXIT_FAILED with a line, also
 * when stdout cannot take it. */
int ls_cli_print_json(json_t *json);

/*
 * A text that others chose (a name, a path, a reason) as a JSON string, null for NULL and "". What is no UTF-8 is
 * replaced: jansson refuses such a string, and the row that holds it would be missing.
 */
json_t *ls_cli_text_json(const char *text);

/* Whole seconds, rounded up, so that what is pending never shows as 0; of 0: null. */
json_t *ls_cli_seconds_json(uint64_t ns);
/* What a verb returns after it has printed to stdout: a full disk or a closed pipe is a failure. */
int ls_cli_flush(void);

static inline void ls_cleanup_json(json_t **json)
{
	json_decref(*json);
}
#define _cleanup_json_ _cleanup_(ls_cleanup_json)

/* ---- options.c ---- */

extern const struct ls_verb ls_verbs[];
extern const size_t ls_n_verbs;

/* Reads the command line into *cli. LS_EXIT_DONE, or LS_EXIT_USAGE after a line on stderr.
 * arguments[] (n of them, without the program's name) is reordered: what is no option comes first. */
int ls_cli_parse(const char **arguments, size_t n_arguments, struct ls_cli *cli);

/* Name and value's name of an option. */
const char *ls_option_name(enum ls_option option);
const char *ls_option_value(enum ls_option option);
/* The letter that means it as well ("-w"); 0: none. */
char ls_option_letter(enum ls_option option);

#endif

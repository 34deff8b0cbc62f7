/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "user/base/listen.h"
#include "user/plane/version.h"
#include "user/serve/serve.h"

/* Here and not in a file of its own, because this is the one file of the folder that may know the controller. */
static int cmd_serve(struct ls_cli *cli)
{
	const char *address = cli->values[LS_OPTION_METRICS];
	struct ls_error error = LS_ERROR_INIT;
	struct ls_listen listen;
	struct ls_serve_request request = { .instance = cli->instance, .listen = &listen };

	if (ls_listen_parse(address ? address : LS_LISTEN_DEFAULT, &listen, &error) < 0)
		return ls_cli_usage("--metrics: %s", error.text);
	/* Typed by hand in a session, it restores what is saved only if that leaves the session alone. */
	request.may_restore = ls_cmd_restore_guard(cli) == LS_EXIT_DONE;
	return ls_serve_run(&request, &error) < 0 ? ls_cli_fail(&error) : LS_EXIT_DONE;
}

static int cmd_version(struct ls_cli *cli)
{
	if (cli->json)
		return ls_cli_print_json(json_pack("{s:s}", "version", LS_VERSION));
	printf("loadshed %s\n", LS_VERSION);
	return ls_cli_flush();
}

#define MANY 1000 /* more arguments than that are a mistake of the shell's */

/* In the order of the help. */
const struct ls_verb ls_verbs[] = {
	{ "check", "[IFACE…]", 0, MANY, 0, 0, false,
	  "look whether this host can run it, before anything is attached", "check eth0",
	  ls_cmd_check },
	{ "attach", "IFACE…", 1, MANY,
	  LS_BIT(POLICY) | LS_BIT(MODE) | LS_BIT(MONITOR) | LS_BIT(REPLACE) | LS_BIT(YES), 0, false,
	  "put the program on interfaces, all or none", "attach eth0 --policy policy.yaml",
	  ls_cmd_attach },
	{ "detach", "IFACE… or --all", 0, MANY, LS_BIT(ALL), 0, false,
	  "take it off again; with the last interface the state goes", "detach --all",
	  ls_cmd_detach },
	{ "status", "", 0, 0, 0, 0, false, "what is attached, in force and degraded, since when",
	  "status", ls_cmd_status },
	{ "policy check", "FILE", 1, 1, 0, 0, false, "read a policy and say what is wrong with it",
	  "policy check policy.yaml", ls_cmd_policy_check },
	{ "policy show", "", 0, 0, LS_BIT(EXPAND), 0, false,
	  "the policy in force, in its canonical form", "policy show", ls_cmd_policy_show },
	{ "policy diff", "FILE", 1, 1, LS_BIT(EXIT_CODE), 0, false,
	  "what would change if the file were applied", "policy diff policy.yaml",
	  ls_cmd_policy_diff },
	{ "policy apply", "FILE", 1, 1, LS_BIT(CONFIRM) | LS_BIT(YES), 0, false,
	  "put a policy in force, whole or not at all", "policy apply policy.yaml",
	  ls_cmd_policy_apply },
	{ "policy confirm", "", 0, 0, 0, 0, false, "keep what was applied with --confirm",
	  "policy confirm", ls_cmd_policy_confirm },
	{ "policy rollback", "", 0, 0, LS_BIT(YES), 0, false,
	  "swap with the one previous generation; bans, off and panic stay", "policy rollback",
	  ls_cmd_policy_rollback },
	{ "policy edit", "", 0, 0, LS_BIT(CONFIRM) | LS_BIT(YES), 0, false,
	  "edit the policy in force, check, apply", "policy edit", ls_cmd_policy_edit },
	{ "ban add", "SRC", 1, 1, LS_BIT(FOR) | LS_BIT(REASON) | LS_BIT(YES), LS_BIT(FOR), false,
	  "drop everything from a source for a time", "ban add 203.0.113.7 --for 10m",
	  ls_cmd_ban_add },
	{ "ban del", "SRC", 1, 1, 0, 0, false, "end exactly this ban", "ban del 203.0.113.7",
	  ls_cmd_ban_del },
	{ "ban list", "", 0, 0, 0, 0, false, "the bans that stand, and for how long", "ban list",
	  ls_cmd_ban_list },
	{ "ban import", "FILE", 1, 1, LS_BIT(FOR) | LS_BIT(YES), LS_BIT(FOR), false,
	  "ban all that a file lists; again: renew", "ban import feed.txt --for 1h",
	  ls_cmd_ban_import },
	{ "allow add", "SRC", 1, 1, LS_BIT(YES), 0, false,
	  "add an entry to `allow`: a generation like an apply", "allow add 192.0.2.9",
	  ls_cmd_allow_add },
	{ "allow del", "SRC", 1, 1, LS_BIT(YES), 0, false, "remove exactly this entry of `allow`",
	  "allow del 192.0.2.9", ls_cmd_allow_del },
	{ "deny add", "SRC", 1, 1, LS_BIT(YES), 0, false,
	  "add an entry to `deny`: a generation like an apply", "deny add 203.0.113.0/24",
	  ls_cmd_deny_add },
	{ "deny del", "SRC", 1, 1, LS_BIT(YES), 0, false, "remove exactly this entry of `deny`",
	  "deny del 203.0.113.0/24", ls_cmd_deny_del },
	{ "panic", "", 0, 0, LS_BIT(FOR) | LS_BIT(YES), 0, false,
	  "a strict preset beside the policy, for a time", "panic --for 10m", ls_cmd_panic },
	{ "off", "", 0, 0, LS_BIT(FOR), 0, false, "drop nothing, for a time", "off --for 10m",
	  ls_cmd_off },
	{ "on", "", 0, 0, LS_BIT(YES), 0, false, "end off and panic: back to the policy", "on",
	  ls_cmd_on },
	{ "overload explain", "", 0, 0, 0, 0, false,
	  "whether new work is shed now, and why, in a sentence", "overload explain",
	  ls_cmd_overload_explain },
	{ "overload set", "LEVEL", 1, 1, LS_BIT(FOR), 0, false,
	  "refuse the lowest LEVEL % of new work (or low, normal, …) for a time",
	  "overload set 25% --for 10m", ls_cmd_overload_set },
	{ "overload auto", "", 0, 0, 0, 0, false, "end a level that was set by hand",
	  "overload auto", ls_cmd_overload_auto },
	{ "stats", "", 0, 0, LS_BIT(WATCH), 0, true,
	  "packets and bytes by class, verdict, reason and limit", "stats --watch", ls_cmd_stats },
	{ "top", "", 0, 0, LS_BIT(BAN) | LS_BIT(FOR), 0, true,
	  "the sources that send and lose most, live; --ban N: ban those that lose most", "top",
	  ls_cmd_top },
	{ "explain", "SRC", 1, 1,
	  LS_BIT(TO) | LS_BIT(PROTOCOL) | LS_BIT(PORT) | LS_BIT(FROM_PORT) | LS_BIT(FLAGS), 0,
	  false, "what the next packet of a source would get, and why",
	  "explain 203.0.113.7 --protocol tcp --port 443", ls_cmd_explain },
	{ "replay", "CAPTURE", 1, 1, LS_BIT(POLICY) | LS_BIT(PACKETS), LS_BIT(POLICY), false,
	  "judge a capture by a policy, in the capture's own time",
	  "replay attack.pcap --policy policy.yaml", ls_cmd_replay },
	{ "capture", "", 0, 0, LS_BIT(WRITE) | LS_BIT(REASON) | LS_BIT(COUNT), LS_BIT(WRITE), true,
	  "sampled dropped packets as pcapng", "capture -w drops.pcapng", ls_cmd_capture },
	{ "events", "", 0, 0, LS_BIT(REASON) | LS_BIT(COUNT), 0, true,
	  "drops, bans and changes as they happen", "events --reason limit", ls_cmd_events },
	{ "serve", "", 0, 0, LS_BIT(METRICS), 0, false,
	  "the controller, in the foreground: metrics, re-attaching, list files", "serve",
	  cmd_serve },
	{ "bench", "[GROUP…]", 0, MANY, 0, 0, false,
	  "what this host can do, against a bare XDP_DROP", "bench limits", ls_cmd_bench },
	{ "cluster status", "", 0, 0, 0, 0, false,
	  "the nodes that share limits, and how well: last round, error, clock", "cluster status",
	  ls_cmd_cluster_status },
	{ "restore", "", 0, 0, LS_BIT(YES), 0, false, "attach again what was saved, at boot",
	  "restore", ls_cmd_restore },
	{ "version", "", 0, 0, 0, 0, false, "the version of this program", "version", cmd_version },
	{ "help", "[VERB]", 0, 2, 0, 0, false, "this, or all about one verb", "help attach",
	  ls_cmd_help },
	{ "completion", "bash|zsh|fish", 1, 1, 0, 0, false, "completions for a shell",
	  "completion bash", ls_cmd_completion },
	/* For scripts of ours, and in no help: what may follow on a command line, and the manual's verbs. */
	{ "__complete", "WORD…", 0, MANY, 0, 0, false, "", "__complete -- att", ls_cmd_complete },
	{ "__manual", "", 0, 0, 0, 0, false, "", "__manual", ls_cmd_manual },
};
const size_t ls_n_verbs = sizeof(ls_verbs) / sizeof(ls_verbs[0]);

/*
 * What the caller has closed is taken, so that no lock, map or file of ours is opened as descriptor 0, 1 or 2 and
 * printed into. The wrong way round: using it stays the error that it is.
 */
static bool take_standard_files(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	struct ls_cli cli;

	if (!take_standard_files())
		return LS_EXIT_FAILED;
	/* A reader that goes away is a failed write, and not a signal in the middle of a publish. */
	signal(SIGPIPE, SIG_IGN);
	/* So is a file that a resource limit forbids: it fails with EFBIG. */
	signal(SIGXFSZ, SIG_IGN);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	const int r = ls_cli_parse((const char **)(argc > 0 ? argv + 1 : argv),
				   argc > 0 ? (size_t)argc - 1 : 0, &cli);
	return r == LS_EXIT_DONE ? cli.verb->run(&cli) : r;
}

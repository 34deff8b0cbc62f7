/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * All the rows of `loadshed bench`, with the goals, and those that need real packets and programs of the
 * distribution: a flood over a veth pair in a network namespace of this process, judged by loadshed, by an nft
 * meter, by iptables hashlimit, by tc, by xdp-filter where it is installed.
 *
 *	bench OUT.json [GROUP…]	groups of `loadshed bench`, and veth; none: all
 *
 * Why two instruments. BPF_PROG_TEST_RUN (user/bench) runs nothing but generator and program, so the processor
 * overlaps a program's cache misses with the packets after it, as far as its window of some hundred instructions
 * reaches, which helps short programs most. It is right to a nanosecond where everything is in the cache. Over veth a
 * packet also goes through redirect, queue and NAPI: misses of two packets do not overlap, but that work is done under
 * them; the whole path from the sender to the verdict runs on one CPU, and a figure is what one packet costs all in.
 * There the difference to XDP_DROP is what an operator gains or loses. `program alone` is the kernel's own account
 * (run_time_ns), which takes two readings of the clock beside each packet: some 20 ns that the others do not pay. With
 * one limit that refuses, over XDP_DROP, 1 k and 1 M sources: 26 and 194 by the first, 33 and 172 over veth, 38 and
 * 207 by the account.
 *
 * Nothing outlives the process: namespace, links, programs and maps go with it.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <linux/if_link.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <jansson.h>

#include "tests/tools/gen.h"
#include "user/base/error.h"
#include "user/bench/bench.h"
#include "user/bench/figure.h"
#include "user/bench/report.h"
#include "user/bench/rivals.h"
#include "user/plane/plane.h"
#include "user/plane/sandbox.h"

static struct ls_report *report;
static struct ls_bench *bench;
static struct ls_gen *gen;
static struct ls_error error;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static void need(int code)
{
	if (code < 0)
		die("%s", error.text);
}

static struct ls_plane *sandbox(enum ls_recipe_kind kind, uint32_t number)
{
	struct ls_plane *plane = NULL;

	need(ls_bench_plane((struct ls_recipe){ kind, number }, &plane, &error));
	return plane;
}

#define VETH_NS 300000000ULL /* of one sample */
#define VETH_BATCH 100000U
#define SAID_SIZE 256

/* Runs a command; `ret_said` gets the first line that it says, and all errors. */
static bool run(const char *command, char ret_said[static SAID_SIZE])
{
	char script[1280], line[SAID_SIZE];
	snprintf(script, sizeof(script), "{ %s\n} 2>&1", command);
	FILE *output = popen(script, "r");

	if (!output)
		die("cannot run a shell: %s", strerror(errno));
	ret_said[0] = '\0';
	while (fgets(line, sizeof(line), output)) {
		line[strcspn(line, "\n")] = '\0';
		const size_t length = strlen(ret_said);
		if (length == 0 || strncmp(line, "Error", 5) == 0)
			snprintf(ret_said + length, SAID_SIZE - length, "%s%s", length ? " " : "",
				 line);
	}
	return pclose(output) == 0;
}

/* What the receiving end has taken off its queue, whoever judged it. */
static uint64_t received(void)
{
	uint64_t packets = 0;
	char line[512];
	FILE *file = fopen("/proc/thread-self/net/dev", "r"); /* /sys shows another namespace */

	if (!file)
		die("cannot read the counters of the veth");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " lsb1: %*u %" SCNu64, &packets) == 1)
			break;
	fclose(file);
	return packets;
}

/* ns of one packet all in: sender, veth and verdict share a CPU. */
static double veth_sample(void)
{
	gen_send(gen, VETH_BATCH);
	const uint64_t before = received(), start_ns = ls_gen_now_ns();
	uint64_t now_ns;
	do {
		gen_send(gen, VETH_BATCH);
		now_ns = ls_gen_now_ns();
	} while (now_ns - start_ns < VETH_NS);
	return (double)(now_ns - start_ns) / (double)(received() - before);
}

static struct ls_figure veth_figure(void)
{
	double samples[LS_BENCH_ROUNDS];

	for (int round = 0; round < LS_BENCH_ROUNDS; round++)
		samples[round] = veth_sample();
	return ls_figure_of(samples);
}

static int veth_attach(int program)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);
	const int link = bpf_link_create(program, (int)if_nametoindex("lsb1"), BPF_XDP, &opts);

	if (link < 0)
		die("cannot attach to the veth: %s", strerror(errno));
	return link;
}

static struct ls_figure veth_program(int program)
{
	const int link = veth_attach(program);

	for (uint64_t i = 0; i < 20; i++)
		gen_send(gen, VETH_BATCH);
	const struct ls_figure figure = veth_figure();
	close(link);
	return figure;
}

/* What the program alone takes, by the kernel's own clock, in ns. */
static struct ls_figure veth_program_alone(int program)
{
	const int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	const int link = veth_attach(program);
	double samples[LS_BENCH_ROUNDS];

	for (int round = 0; round < LS_BENCH_ROUNDS; round++) {
		struct bpf_prog_info before = { 0 }, after = { 0 };
		__u32 size = sizeof(before);
		bpf_obj_get_info_by_fd(program, &before, &size);
		veth_sample();
		size = sizeof(after);
		bpf_obj_get_info_by_fd(program, &after, &size);
		samples[round] = (double)(after.run_time_ns - before.run_time_ns) /
				 (double)(after.run_cnt - before.run_cnt);
	}
	close(link);
	if (stats >= 0)
		close(stats);
	return ls_figure_of(samples);
}

static void put(const char *name, struct ls_figure figure, double goal)
{
	ls_report_row(report, &(struct ls_report_row){
				      .name = name, .unit = "ns", .ours = figure, .goal = goal });
}

/* A program of the distribution instead of ours: put in place by `up`, removed by `down`. */
struct other {
	const char *name, *up, *down;
	double goal;
};

static void put_times(const char *name, struct ls_figure ours, struct ls_figure theirs, double goal)
{
	ls_report_row(report, &(struct ls_report_row){ .name = name,
						       .unit = "times",
						       .ours = { theirs.median / ours.median,
								 theirs.low / ours.high,
								 theirs.high / ours.low },
						       .rivals = { { true, theirs } },
						       .goal = goal,
						       .is_at_least = true });
}

static void put_other(const struct other *other, struct ls_figure ours)
{
	char said[SAID_SIZE], ignored[SAID_SIZE];

	if (!run(other->up, said)) {
		run(other->down, ignored);
		ls_report_skip(report, other->name, said[0] ? said : "it cannot be set up");
		return;
	}
	for (int i = 0; i < 20; i++)
		gen_send(gen, VETH_BATCH);
	const struct ls_figure theirs = veth_figure();
	if (!run(other->down, said))
		die("cannot remove the rules of '%s': %s", other->name, said);
	put_times(other->name, ours, theirs, other->goal);
}

/* The LRU hash's bucket where a program stands that is not XDP's. */
static void put_tc(struct ls_figure ours)
{
	static const char name[] = "tc ingress, BPF: bucket in an LRU hash";
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)if_nametoindex("lsb1"),
		    .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = ls_rivals_tc_fd(ls_bench_rivals(bench)));
	int r = bpf_tc_hook_create(&hook);

	if (r == 0)
		r = bpf_tc_attach(&hook, &opts);
	if (r < 0) {
		ls_report_skip(report, name, strerror(-r));
		return;
	}
	for (int i = 0; i < 20; i++)
		gen_send(gen, VETH_BATCH);
	put_times(name, ours, veth_figure(), NAN);
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS; /* both: the qdisc goes, too */
	r = bpf_tc_hook_destroy(&hook);
	if (r < 0)
		die("cannot remove the classifier: %s", strerror(-r));
}

/* A limit that refuses nearly everything, so that a verdict is a drop whoever judges. */
static const struct other limiters[] = {
	{ "nft meter, netdev ingress hook",
	  "nft -f - <<'E'\n"
	  "table netdev lsb {\n"
	  " set m { type ipv4_addr; flags dynamic; size 2000000; timeout 10m; }\n"
	  " chain in { type filter hook ingress device lsb1 priority 0;\n"
	  "  update @m { ip saddr limit rate over 2/minute burst 1 packets } drop\n"
	  "  drop\n }\n}\nE",
	  "nft delete table netdev lsb", 4 },
	{ "iptables hashlimit, raw PREROUTING",
	  "iptables -t raw -A PREROUTING -i lsb1 -m hashlimit --hashlimit-above 2/minute "
	  "--hashlimit-burst 1 --hashlimit-mode srcip --hashlimit-name lsb "
	  "--hashlimit-htable-size 1048576 --hashlimit-htable-max 2000000 "
	  "--hashlimit-htable-expire 600000 -j DROP && "
	  "iptables -t raw -A PREROUTING -i lsb1 -j DROP",
	  "iptables -t raw -F PREROUTING", 3.5 },
	{ "tc police, one bucket for all",
	  "tc qdisc add dev lsb1 clsact && { tc filter add dev lsb1 ingress matchall "
	  "action police rate 8kbit burst 2k conform-exceed drop || "
	  "tc filter add dev lsb1 ingress protocol ip u32 match u32 0 0 "
	  "police rate 8kbit burst 2k drop; }",
	  "tc qdisc del dev lsb1 clsact", NAN },
};

static const struct other deniers[] = {
	{ "nft set of denied prefixes",
	  "nft -f - <<'E'\n"
	  "table netdev lsb {\n"
	  " set d { type ipv4_addr; flags interval; elements = { 0.0.0.0/1, 128.0.0.0/1 } }\n"
	  " chain in { type filter hook ingress device lsb1 priority 0;\n"
	  "  ip saddr @d drop\n }\n}\nE",
	  "nft delete table netdev lsb", NAN },
	{ "xdp-filter -p deny, one address allowed",
	  "xdp-filter load lsb1 -p deny -f ipv4 && xdp-filter ip 203.0.113.7 -m src",
	  "xdp-filter unload lsb1", NAN },
};

/* The flood's two interfaces, in a network namespace of this process, and a bpffs that goes with it. */
static bool veth_make(void)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0)
		die("cannot make a network namespace: %s", strerror(errno));
	/* xdp-filter pins: into a bpffs of this process's own. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		mount("bpf", "/sys/fs/bpf", "bpf", 0, NULL);
	char said[SAID_SIZE];

	if (!run("ip link set lo up && ip link add lsb0 address 02:00:00:00:00:01 type veth peer "
		 "name lsb1 address 02:00:00:00:00:02 && ip link set lsb0 up && "
		 "ip link set lsb1 up",
		 said)) {
		ls_report_skip(report, "veth flood", said);
		return false;
	}
	run("sysctl -q net.ipv6.conf.all.disable_ipv6=1", said);
	if (!run("ethtool -K lsb1 gro on", said))
		ls_report_line(report, "(rows without XDP may be missing: %s)", said);
	return true;
}

/* What a verdict adds to a packet that comes over the veth: the counterpart of the rows of user/bench. */
static void put_difference(const char *name, struct ls_figure ours, struct ls_figure drop)
{
	ls_report_row(report, &(struct ls_report_row){ .name = name,
						       .unit = "ns",
						       .over = "XDP_DROP over veth",
						       .ours = { ours.median - drop.median,
								 ours.low - drop.high,
								 ours.high - drop.low },
						       .goal = NAN });
}

static void rows_by_limit(struct ls_figure drop)
{
	static const struct ls_report_group group = {
		.name = "veth-limit",
		.title = "times as fast, 1 M sources",
		.rivals = { "its ns" },
		.n_rivals = 1,
	};
	struct ls_plane *plane = sandbox(LS_RECIPE_REFUSED, 1);
	const int program = ls_plane_program_fd(plane);

	ls_gen_config(gen)->sources = 1000;
	const struct ls_figure few = veth_program(program);
	put("loadshed, 1 k sources, refused", few, NAN);
	ls_gen_config(gen)->sources = 1000000;
	const struct ls_figure ours = veth_program(program);
	put("loadshed, 1 M sources, refused", ours, 290);
	put_difference("refused, over XDP_DROP, 1 k sources", few, drop);
	put_difference("refused, over XDP_DROP, 1 M sources", ours, drop);
	put("program alone (run_time_ns): XDP_DROP", veth_program_alone(ls_gen_drop_fd(gen)), NAN);
	put("program alone: loadshed, 1 M sources", veth_program_alone(program), NAN);
	ls_gen_config(gen)->sources = 1000;
	put("program alone: loadshed, 1 k sources", veth_program_alone(program), NAN);
	ls_gen_config(gen)->sources = 1000000;
	ls_plane_close(plane);
	ls_report_group(report, &group);
	for (size_t i = 0; i < sizeof(limiters) / sizeof(limiters[0]); i++)
		put_other(&limiters[i], ours);
	put_tc(ours);
}

static void rows_by_list(void)
{
	static const struct ls_report_group group = {
		.name = "veth-list",
		.title = "times as fast, denied by address, 1 k",
		.rivals = { "its ns" },
		.n_rivals = 1,
	};
	struct ls_plane *plane = sandbox(LS_RECIPE_DENIED, 1);
	const int program = ls_plane_program_fd(plane);

	put("loadshed, denied by a list, 1 M sources", veth_program(program), NAN);
	ls_gen_config(gen)->sources = 1000;
	const struct ls_figure ours = veth_program(program);
	put("loadshed, denied by a list, 1 k sources", ours, NAN);
	ls_plane_close(plane);
	ls_report_group(report, &group);
	for (size_t i = 0; i < sizeof(deniers) / sizeof(deniers[0]); i++)
		put_other(&deniers[i], ours);
}

static void rows_veth(void)
{
	static const struct ls_report_group group = {
		.name = "veth",
		.title = "veth flood, ns per packet all in",
	};
	static const struct ls_gen_kind kind = { .family = 4, .protocol = 17, .port = 1000 };
	struct ls_gen_frame frame;

	ls_report_group(report, &group);
	if (!veth_make())
		return;
	ls_gen_frame_make(&frame, &kind);
	ls_gen_frame_use(gen, &frame);
	ls_gen_config(gen)->redirect = if_nametoindex("lsb0");
	ls_gen_config(gen)->sources = 1000000;
	const struct ls_figure drop = veth_program(ls_gen_drop_fd(gen));
	put("bare XDP_DROP", drop, NAN);
	rows_by_limit(drop);
	ls_report_group(report, &group);
	rows_by_list();
}

static bool is_wanted(char **names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return count == 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		die("usage: bench OUT.json [GROUP…]");
	gen_prefer();
	report = ls_report_new(stdout, true);
	if (!report)
		die("out of memory");
	need(ls_bench_open(report, &bench, &error));
	gen = ls_bench_gen(bench);
	for (size_t i = 0; i < ls_n_bench_groups; i++)
		if (is_wanted(argv + 2, argc - 2, ls_bench_groups[i].name))
			need(ls_bench_run(bench, i, &error));
	if (is_wanted(argv + 2, argc - 2, "veth"))
		rows_veth();
	json_t *document = ls_report_json(report);
	if (!document ||
	    json_dump_file(document, argv[1], JSON_INDENT(1) | JSON_REAL_PRECISION(6)) < 0)
		die("cannot write '%s'", argv[1]);
	json_decref(document);
	printf("\n%u goals missed; written to %s\n", ls_report_missed(report), argv[1]);
	ls_bench_close(bench);
	ls_report_free(report);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Two hundred applies under load: each packet is judged by one whole generation, a source within
 * its limits loses nothing, and program and link stay what they are.
 *
 * Policy A denies X, allows Y and limits Z in class `one`; B denies Y, allows X and limits Z in
 * class `two`, which is not the first. The lists of B are numbered otherwise than those of A, and
 * none of the labels of X and Y in one means allow or deny in the other: a packet that met the
 * lists of one and the labels of the other, or the classes of one and the limits of the other,
 * would reach a class, or none.
 */

#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "tests/kern/common.h"
#include "user/policy/check.h"

#define APPLIES 200
#define X 0xC6120001 /* 198.18.0.1 */
#define Y 0xC6120002
#define Z 0xC6120003
#define W 0xC6120004
#define PORT 7

#define POLICY_A                                                                                   \
	"version: 1\n"                                                                             \
	"allow: [198.18.0.2]\n"                                                                    \
	"deny: [198.18.0.1]\n"                                                                     \
	"classes:\n"                                                                               \
	"  - name: one\n"                                                                          \
	"    match: { protocol: udp, ports: [7] }\n"                                               \
	"    limits: [ { name: z, rate: 1k/s, burst: 1k } ]\n"

/* The nat sets sort before and between, so that labels count on. */
#define POLICY_B                                                                                   \
	"version: 1\n"                                                                             \
	"allow: [198.18.0.1]\n"                                                                    \
	"deny: [198.18.0.2]\n"                                                                     \
	"nat:\n"                                                                                   \
	"  - { sources: [10.0.0.0/16], factor: 2 }\n"                                              \
	"  - { sources: [10.1.0.0/16], factor: 3 }\n"                                              \
	"  - { sources: [10.2.0.0/16], factor: 4 }\n"                                              \
	"classes:\n"                                                                               \
	"  - name: pad\n"                                                                          \
	"    match: { protocol: udp, ports: [9] }\n"                                               \
	"    limits: [ { name: p, rate: 1/s, burst: 1 } ]\n"                                       \
	"  - name: two\n"                                                                          \
	"    match: { protocol: udp, ports: [7] }\n"                                               \
	"    limits: [ { name: z, rate: 2k/s, burst: 2k }, { name: other, rate: 1M/s } ]\n"

struct judge {
	unsigned cpu;
	struct ls_gen *gen;
	uint64_t packets;
};

static atomic_bool ended;

static void *judge_main(void *context)
{
	struct judge *judge = context;

	gen_pin(judge->cpu);
	while (!ended) {
		gen_run(judge->gen, 20000);
		judge->packets += 20000;
	}
	return NULL;
}

static void add_sum(struct ls_plane *plane, const char *class_name, uint64_t *ret_pass,
		    uint64_t *ret_drop)
{
	*ret_pass = kern_count(plane, class_name, LS_VERDICT_PASS, LS_REASON_MAX);
	*ret_drop = kern_count(plane, class_name, LS_VERDICT_DROP, LS_REASON_MAX);
}

/* Whether a label that means something for a packet in one half means the same in the other. */
static bool labels_overlap(struct ls_plane *plane)
{
	const struct ls_tables *tables = kern_memory(plane, LS_MAP_TABLES, NULL);
	const struct ls_label_abi *labels = tables->labels;

	for (unsigned i = 0; i < LS_LABELS; i++)
		if (labels[i].list != LS_LIST_NONE && labels[LS_LABELS + i].list != LS_LIST_NONE)
			return true;
	return false;
}

static void under_load(struct ls_policy *a, struct ls_policy *b)
{
	struct ls_plane *plane = kern_sandbox(POLICY_A, 100000, true);
	struct judge judges[2];
	pthread_t threads[2];
	struct ls_gen_frame x, y, w;
	unsigned misjudged = 0, lost = 0, sent = 0;
	const int program = ls_plane_program_fd(plane);

	gen_frame_make(&x, 4, 17, PORT, 0);
	y = w = x;
	ls_gen_frame_source(&x, X);
	ls_gen_frame_source(&y, Y);
	ls_gen_frame_source(&w, W);
	kern_publish(plane, b);
	const bool overlap = labels_overlap(plane);
	kern_publish(plane, a);
	for (unsigned i = 0; i < 2; i++) {
		judges[i] = (struct judge){ .cpu = i % gen_cpus(), .gen = gen_open() };
		ls_gen_frame_use(judges[i].gen, &x);
		ls_gen_config(judges[i].gen)->base = i ? Z : X;
		ls_gen_config(judges[i].gen)->sources = i ? 1 : 2;
		gen_target(judges[i].gen, program);
	}
	ended = false;
	const uint64_t start_ns = ls_gen_now_ns();
	for (unsigned i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, judge_main, &judges[i]) != 0)
			abort();
	for (unsigned i = 0; i < APPLIES; i++) {
		const bool is_b = i % 2 == 0;
		kern_publish(plane, is_b ? b : a);
		/* From here on the new one judges, and nothing else. */
		misjudged += gen_once(program, &x) != (is_b ? XDP_PASS_CODE : XDP_DROP_CODE);
		misjudged += gen_once(program, &y) != (is_b ? XDP_DROP_CODE : XDP_PASS_CODE);
		for (int j = 0; j < 5; j++, sent++)
			lost += gen_once(program, &w) != XDP_PASS_CODE;
	}
	ended = true;
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	const double seconds = (double)(ls_gen_now_ns() - start_ns) / 1e9;
	const uint64_t listed = judges[0].packets + 2 * APPLIES;
	const uint64_t deny = kern_count(plane, "", LS_VERDICT_DROP, LS_REASON_DENY);
	const uint64_t allow = kern_count(plane, "", LS_VERDICT_PASS, LS_REASON_ALLOW);
	const uint64_t unmatched = kern_count(plane, "", LS_VERDICT_PASS, LS_REASON_UNMATCHED);
	uint64_t one_pass, one_drop, two_pass, two_drop, pad_pass, pad_drop;
	add_sum(plane, "one", &one_pass, &one_drop);
	add_sum(plane, "two", &two_pass, &two_drop);
	add_sum(plane, "pad", &pad_pass, &pad_drop);
	const uint64_t classed = judges[1].packets + sent;
	const double rate = (double)(listed + classed) / seconds;

	kern_result(rate >= 1e6, "applies_under_load",
		    "%u applies in %.1f s while %.1f Mpps were judged", APPLIES, seconds,
		    rate / 1e6);
	if (overlap)
		kern_skip("no_mix_of_lists", "the two policies number their lists alike");
	else
		kern_result(deny + allow == listed && unmatched == 0 && pad_pass + pad_drop == 0,
			    "no_mix_of_lists",
			    "%" PRIu64 " denied and %" PRIu64 " allowed of %" PRIu64 "; %" PRIu64
			    " unmatched, %" PRIu64 " in a class of neither",
			    deny, allow, listed, unmatched, pad_pass + pad_drop);
	kern_result(one_pass + one_drop + two_pass + two_drop == classed && one_drop && two_drop,
		    "no_mix_of_classes", "%" PRIu64 " + %" PRIu64 " in the two classes of %" PRIu64,
		    one_pass + one_drop, two_pass + two_drop, classed);
	kern_result((double)one_pass <= 1000 + 1000 * seconds + 32 + sent &&
			    (double)two_pass <= 2000 + 2000 * seconds + 32 + sent,
		    "limits_hold_over_applies", "%" PRIu64 " and %" PRIu64 " passed in %.1f s",
		    one_pass, two_pass, seconds);
	kern_result(misjudged == 0, "new_policy_judges_once_published", "%u of %u misjudged",
		    misjudged, 2 * APPLIES);
	kern_result(lost == 0, "within_its_limits_loses_nothing", "%u of %u lost", lost, sent);
	for (unsigned i = 0; i < 2; i++)
		ls_gen_close(judges[i].gen);
	ls_plane_close(plane);
}

/* A namespace of this process with its own bpffs and a cable; false: this machine has no such
 * thing. */
static bool make_lab(void)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("bpf", "/sys/fs/bpf", "bpf", 0, NULL) < 0 ||
	    mount("tmpfs", "/run", "tmpfs", 0, NULL) < 0)
		return false;
	return system("ip link add lsk0 address 02:00:00:00:00:01 type veth peer name lsk1 address "
		      "02:00:00:00:00:02 && ip link set lsk0 up && ip link set lsk1 up") == 0;
}

static void *sender_main(void *context)
{
	struct judge *judge = context;

	gen_pin(judge->cpu);
	while (!ended) {
		gen_send(judge->gen, 10000);
		judge->packets += 10000;
	}
	return NULL;
}

static void attached(struct ls_policy *a, struct ls_policy *b)
{
	static const char *const interfaces[] = { "lsk1" };
	const struct ls_plane_attach request = { .instance = "kern",
						 .interfaces = interfaces,
						 .n_interfaces = 1,
						 .mode = LS_PLANE_NATIVE,
						 .policy = a };
	struct ls_error error = LS_ERROR_INIT;
	struct ls_plane *plane = NULL;
	struct ls_plane_status before, after;
	_cleanup_warnings_ struct ls_warnings notes = LS_WARNINGS_INIT;
	struct judge sender = { .cpu = 0 };
	pthread_t thread;
	bool published = false;

	if (!make_lab()) {
		kern_skip("program_and_link_stay", "no veth, bpffs or namespaces");
		return;
	}
	if (ls_plane_attach(&request, &notes, &published, &error) != 0 ||
	    ls_plane_open("kern", LS_PLANE_WRITE, &plane, &error) != 0 ||
	    ls_plane_status(plane, &before, &error) != 0) {
		kern_result(false, "program_and_link_stay", "%s", error.text);
		return;
	}
	struct ls_gen_frame x;
	gen_frame_make(&x, 4, 17, PORT, 0);
	sender.gen = gen_open();
	ls_gen_frame_use(sender.gen, &x);
	ls_gen_config(sender.gen)->base = X;
	ls_gen_config(sender.gen)->sources = 2;
	ls_gen_config(sender.gen)->redirect = if_nametoindex("lsk0");
	ended = false;
	if (pthread_create(&thread, NULL, sender_main, &sender) != 0)
		abort();
	for (unsigned i = 0; i < APPLIES; i++)
		kern_publish(plane, i % 2 == 0 ? b : a);
	ended = true;
	pthread_join(thread, NULL);
	if (ls_plane_status(plane, &after, &error) != 0) {
		kern_result(false, "program_and_link_stay", "%s", error.text);
		return;
	}
	const uint64_t listed = kern_count(plane, "", LS_VERDICT_DROP, LS_REASON_DENY) +
				kern_count(plane, "", LS_VERDICT_PASS, LS_REASON_ALLOW);
	const uint64_t seen = kern_count(plane, NULL, LS_VERDICT_PASS, LS_REASON_MAX) +
			      kern_count(plane, NULL, LS_VERDICT_DROP, LS_REASON_MAX);
	kern_result(after.interfaces[0].link_id == before.interfaces[0].link_id &&
			    after.interfaces[0].program_id == before.interfaces[0].program_id &&
			    after.generation == before.generation + APPLIES,
		    "program_and_link_stay",
		    "program %u, link %u, generation %" PRIu64 " to %" PRIu64,
		    after.interfaces[0].program_id, after.interfaces[0].link_id, before.generation,
		    after.generation);
	/* The stack of the namespace may send a few packets of its own. */
	kern_result(listed > 0 && seen - listed < 100 && listed <= sender.packets,
		    "no_mix_of_lists_on_a_veth",
		    "%" PRIu64 " of %" PRIu64 " sent were judged, %" PRIu64 " by no list", listed,
		    sender.packets, seen - listed);
	ls_plane_status_fini(&before);
	ls_plane_status_fini(&after);
	ls_plane_close(plane);
	ls_gen_close(sender.gen);
	size_t detached = 0;
	if (ls_plane_detach("kern", NULL, 0, &notes, &detached, &error) != 0 || detached != 1)
		kern_result(false, "detach", "%s", error.text);
}

int main(void)
{
	struct ls_policy *a = kern_policy(POLICY_A), *b = kern_policy(POLICY_B);

	gen_prefer();
	under_load(a, b);
	attached(a, b);
	ls_policy_free(a);
	ls_policy_free(b);
	return kern_status();
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

/*
 * A policy into force, whole, with one store.
 *
 * The tables of a policy are there twice. The half that is not in force is filled while packets go by the
 * other, then the control word is changed. What was in force before stays as it is until the next publish,
 * which first waits for the packets that may still be reading it. So a packet is judged by one policy, and
 * a process that dies here leaves the old one in force and a half that nobody reads.
 *
 * The two updates of maps in maps wait for running programs in the kernel, 10 ms each; the rest is copying.
 */

#include <inttypes.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/plane/events.h"
#include "user/plane/timed.h"
#include "user/policy/blob.h"
#include "user/policy/check.h"
#include "user/policy/compile.h"
#include "user/policy/diff.h"
#include "user/policy/policy.h"
#include "user/policy/print.h"

DEFINE_CLEANUP(struct ls_image *, ls_image_free);
static uint64_t random_bits(void *context)
{
	uint64_t bits = 0;

	(void)context;
	if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		bits = ls_now_monotonic() * 0x9e3779b97f4a7c15ULL;
	return bits;
}

/*
 * membarrier(GLOBAL) returns when every CPU has passed a point at which no XDP program runs on it: it is
 * synchronize_rcu() (kernel/sched/membarrier.c). Where it is missing (nohz_full), a pause is long enough.
 */
void ls_grace_period(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0)
		nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
}

bool ls_policy_uses_vlan(const struct ls_policy *policy)
{
	for (size_t i = 0; i < policy->n_classes; i++)
		if (policy->classes[i].match.vlans.count > 0)
			return true;
	return false;
}

/*
 * Makes an inner map that holds `bytes` and puts it in place `half` of an outer one; no bytes: leaves the place
 * empty. The kernel returns when no program uses what was there. Negative with a line.
 */
static int put_inner(int outer_fd, unsigned half, const char *name, uint32_t element_bytes,
		     const void *bytes, size_t length, struct ls_error *error)
{
	const __u32 key = half;
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);

	if (length == 0) {
		if (bpf_map_delete_elem(outer_fd, &key) < 0 && errno != ENOENT)
			return ls_error_set_errno(error, errno, "cannot clear '%s'", name);
		return 0;
	}
	const size_t entries = (length + element_bytes - 1) / element_bytes;
	_cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(__u32),
						element_bytes, (__u32)entries, &opts);
	if (fd < 0)
		return ls_error_set_errno(error, errno, "cannot make '%s' of %zu bytes", name,
					  length);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t mapped = (entries * element_bytes + page - 1) / page * page;
	void *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return ls_error_set_errno(error, errno, "cannot map '%s'", name);
	memcpy(memory, bytes, length);
	munmap(memory, mapped);
	if (bpf_map_update_elem(outer_fd, &key, &fd, BPF_ANY) < 0)
		return ls_error_set_errno(error, errno, "cannot put '%s' in place", name);
	return 0;
}

/*
 * Clears the states of slots that now mean another limit. The kernel works on the table meanwhile, so each
 * is swapped as a packet would: state, then the key once more, then compare and swap. A key stays where it is, because
 * a set is searched up to the first one that was never used.
 */
static void purge_ways(struct ls_ways *sets, uint32_t n_sets, const bool *fresh)
{
	for (uint32_t set = 0; set < n_sets; set++) {
		for (unsigned i = 0; i < LS_WAYS; i++) {
			struct ls_way *way = &sets[set].way[i];
			if (!fresh[__atomic_load_n(&way->key, __ATOMIC_RELAXED) & (LS_SLOTS - 1)])
				continue;
			uint64_t state = __atomic_load_n(&way->state, __ATOMIC_ACQUIRE);
			while (state != 0 && state != LS_STATE_BUSY &&
			       fresh[__atomic_load_n(&way->key, __ATOMIC_ACQUIRE) &
				     (LS_SLOTS - 1)] &&
			       !__atomic_compare_exchange_n(&way->state, &state, 0, false,
							    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				;
		}
	}
}

static int purge(struct ls_plane *plane, const struct ls_image *image, struct ls_error *error)
{
	bool fresh[LS_SLOTS] = { false };

	if (image->n_fresh_slots == 0)
		return 0;
	struct ls_tables *tables = ls_plane_memory(plane, LS_MAP_TABLES, error);
	struct ls_ways *sets = ls_plane_memory(plane, LS_MAP_WAYS, error);
	if (!tables || !sets)
		return -EIO;
	for (size_t i = 0; i < image->n_fresh_slots; i++) {
		const uint16_t slot = image->fresh_slots[i];
		fresh[slot] = true;
		__atomic_store_n(&tables->shared[slot].state, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&tables->shared[slot].crowd, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&tables->shared[slot].unplaced, 0, __ATOMIC_RELAXED);
	}
	purge_ways(sets, plane->maps[LS_MAP_WAYS].entries, fresh);
	return 0;
}

/* Copies an image into the half of the tables that no packet reads. */
static int fill_half(struct ls_plane *plane, unsigned half, const struct ls_image *image,
		     struct ls_error *error)
{
	struct ls_tables *tables = ls_plane_memory(plane, LS_MAP_TABLES, error);

	if (!tables)
		return -EIO;
	memcpy(tables->classes + half * LS_CLASSES, image->classes, sizeof(image->classes));
	memcpy(tables->slots + half * LS_SLOTS, image->slots, sizeof(image->slots));
	memcpy(tables->labels + half * LS_LABELS, image->labels, sizeof(image->labels));
	memcpy(tables->ports + half * LS_CHUNKS, image->ports, sizeof(image->ports));
	for (size_t word = 0; word < LS_CLASS_WORDS; word++)
		memcpy(tables->rows + (half * LS_CLASS_WORDS + word) * LS_ROWS, image->rows[word],
		       image->n_rows * sizeof(uint64_t));
	if (image->word & LS_WORD_LISTS4)
		memcpy(tables->nets4 + half * LS_NETS4, image->nets4, sizeof(image->nets4));
	ls_plane_control_rw(plane)->generation[half] = image->generation;
	return put_inner(plane->maps[LS_MAP_LISTS].fd, half, "ls_lines", sizeof(struct ls_line),
			 image->lines, image->n_lines * sizeof(struct ls_line), error);
}

/* Puts text and description of the policy beside its tables; the number comes when it is in force. */
static int fill_text(struct ls_plane *plane, unsigned half, const struct ls_policy *policy,
		     const char *path, struct ls_error *error)
{
	_cleanup_buffer_ struct ls_buffer blob = LS_BUFFER_INIT;
	struct ls_state_half record = {
		.since_ns = ls_now_unix(),
		.sources = policy->sources,
	};

	ls_blob_write(policy, path, &blob);
	if (blob.failed || ls_policy_digest(policy, record.sha256) < 0)
		return ls_error_oom(error);
	record.text_bytes = blob.length;
	const int r = put_inner(plane->maps[LS_MAP_TEXTS].fd, half, "ls_text", LS_TEXT_CHUNK,
				blob.bytes, blob.length, error);
	if (r == 0)
		ls_plane_state(plane)->half[half] = record;
	return r;
}

void ls_publish_refresh_clock(struct ls_plane *plane)
{
	struct ls_control *control = ls_plane_control_rw(plane);
	const uint64_t since_ns = ls_now_monotonic() - control->epoch_ns;

	if (!plane->is_replay)
		__atomic_store_n(&control->wall_ns, ls_now_unix() - since_ns, __ATOMIC_RELAXED);
}

static int publish_for(struct ls_plane *plane, const struct ls_policy *policy, const char *path,
		       uint64_t confirm_ns, struct ls_error *error)
{
	struct ls_state *state = ls_plane_state(plane);
	_cleanup_(ls_image_freep) struct ls_image *image = NULL;
	_cleanup_free_ struct ls_ledger *ledger = malloc(sizeof(*ledger));
	struct ls_ledger *pinned = ls_plane_memory(plane, LS_MAP_LEDGER, error);
	const uint64_t number = ls_timed_next_number(plane);
	const unsigned half = number == 1 ? 0 : !ls_plane_half(plane);
	int r;

	if (!ledger)
		return ls_error_oom(error);
	if (!pinned)
		return -EIO;
	memcpy(ledger, pinned, sizeof(*ledger));
	r = ls_policy_compile(policy, half, ledger, random_bits, NULL, &image, error);
	if (r < 0)
		return r;
	if (number > 1 && !plane->is_sandbox)
		ls_grace_period();
	state->half[half].number = 0; /* what it held is no longer whole */
	r = fill_half(plane, half, image, error);
	if (r == 0)
		r = fill_text(plane, half, policy, path, error);
	if (r == 0)
		r = purge(plane, image, error);
	if (r < 0)
		return r;
	r = ls_counters_fold(plane, image->reused_counters, image->n_reused_counters, error);
	if (r < 0)
		return r;
	/* Before the flip: a slot that was given must be known as given, even if we are killed here. */
	memcpy(pinned, ledger, sizeof(*ledger));
	ls_publish_refresh_clock(plane);
	state->words[half] = image->word | half | number << LS_WORD_NUMBER_SHIFT;
	ls_timed_flip(plane, state->words[half], confirm_ns);
	ls_timed_finish(plane);
	ls_journal_write(plane, &(struct ls_journal_entry){ .kind = LS_EVENT_POLICY,
							    .action = "apply",
							    .text = path,
							    .value = confirm_ns });
	return 0;
}

int ls_publish(struct ls_plane *plane, const struct ls_policy *policy, const char *path,
	       struct ls_error *error)
{
	return publish_for(plane, policy, path, 0, error);
}

/* Whether what is in force means the same. Two policies of one canonical text are; others may be. */
static bool is_in_force(struct ls_plane *plane, const struct ls_policy *policy)
{
	_cleanup_(ls_policy_freep) struct ls_policy *current = NULL;

	if (ls_plane_generation(plane) == 0 || ls_plane_policy(plane, &current, NULL, NULL) < 0)
		return false;
	return ls_policy_equal(current, policy);
}

/* An interface of ours that takes tags out of the frame; false: none. */
static bool find_tag_taker(const struct ls_plane *plane, struct ls_device *ret)
{
	const struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES; i++)
		if (state->interfaces[i].ifindex &&
		    ls_device_get(state->interfaces[i].ifindex, ret) == 0 &&
		    ls_device_takes_tags(ret))
			return true;
	return false;
}

int ls_publish_check_tags(const struct ls_plane *plane, const struct ls_policy *policy,
			  struct ls_error *error)
{
	struct ls_device device;

	if (!plane->is_sandbox && ls_policy_uses_vlan(policy) && find_tag_taker(plane, &device))
		return ls_error_set(
			error,
			"cannot apply a policy that matches 'vlan': interface '%s' takes the tag out of the frame; 'ethtool -K %s rxvlan off' helps",
			device.name, device.name);
	return 0;
}

int ls_plane_publish_for(struct ls_plane *plane, const struct ls_policy *policy, const char *path,
			 uint64_t confirm_ns, struct ls_warnings *notes, struct ls_error *error)
{
	const struct ls_state *state = ls_plane_state(plane);
	int r = ls_plane_refuse_pending(plane, error);

	if (r == 0 && confirm_ns)
		r = ls_timed_check_program(plane, error);
	if (r == 0)
		r = ls_publish_check_tags(plane, policy, error);
	if (r < 0)
		return r;
	if (is_in_force(plane, policy))
		return LS_PLANE_E_SAME;
	r = publish_for(plane, policy, path, confirm_ns, error);
	if (r == 0 && !plane->is_sandbox && policy->sources != state->sources)
		ls_warnings_add(notes,
				"capacity stays at %" PRIu64
				" sources, as at attach; the policy asks for %" PRIu64
				": detach and attach to change it",
				(uint64_t)state->sources, policy->sources);
	return r;
}

int ls_plane_publish(struct ls_plane *plane, const struct ls_policy *policy, const char *path,
		     struct ls_warnings *notes, struct ls_error *error)
{
	return ls_plane_publish_for(plane, policy, path, 0, notes, error);
}

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Test programs. Unit and twin tests link a second build of the user tree, under the address and undefined
# behaviour sanitizers; the twin tests add the host build of the BPF program.

# Headers lie at odd multiples of two in a frame; the kernel reads them so on every machine that it runs BPF on.
SANITIZE := -fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer
ASAN_OBJECTS := $(LIBRARY_OBJECTS:$(BUILD)/%=$(BUILD)/asan/%)
TEST_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -I. -Iinclude -Ibpf -isystem $(BUILD) -MMD -MP \
	-DLS_VERSION='"$(VERSION)"'

UNIT_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
TWIN_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/twin/test_*.c))

.PHONY: tools unit-tests
tools: unit-tests
unit-tests: $(UNIT_TESTS) $(TWIN_TESTS)

$(BUILD)/asan/user/%.o: user/%.c $(SKELETONS)
	@mkdir -p $(@D)
	$(call say,TEST  $@)
	$(Q)$(CC) -O1 -g $(USER_CFLAGS) $(SANITIZE) -c -o $@ $<

$(BUILD)/asan/libloadshed.a: $(ASAN_OBJECTS)
	$(Q)rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/tests/twin/host.o: tests/twin/host.c
	@mkdir -p $(@D)
	$(call say,TEST  $@)
	$(Q)$(CC) -O1 -g $(SANITIZE) -Itests/twin/include $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/asan/libloadshed.a
	@mkdir -p $(@D)
	$(call say,TEST  $@)
	$(Q)$(CC) -O1 -g $(SANITIZE) $(TEST_CFLAGS) -o $@ $< $(BUILD)/asan/libloadshed.a -lcmocka $(USER_LIBS)

$(BUILD)/tests/twin/%: tests/twin/%.c $(BUILD)/tests/twin/host.o $(BUILD)/asan/libloadshed.a
	@mkdir -p $(@D)
	$(call say,TEST  $@)
	$(Q)$(CC) -O1 -g $(SANITIZE) $(TEST_CFLAGS) -o $@ $< $(BUILD)/tests/twin/host.o \
		$(BUILD)/asan/libloadshed.a -lcmocka $(USER_LIBS)

# Its twin is the kernel alone: the host build brings a look-up of its own, which would stand before libbpf's.
$(BUILD)/tests/twin/test_explain: tests/twin/test_explain.c $(BUILD)/asan/libloadshed.a
	@mkdir -p $(@D)
	$(CC) -O1 -g $(SANITIZE) $(TEST_CFLAGS) -o $@ $< $(BUILD)/asan/libloadshed.a -lcmocka $(USER_LIBS)

# The overload controller against a simulated server: the same code as in `serve`.
tools: $(BUILD)/tests/sim/overload
$(BUILD)/tests/sim/overload: tests/sim/overload.c user/overload/control.c tests/sim/overload_cases.h user/overload/control.h
	@mkdir -p $(@D)
	$(call say,TEST  $@)
	$(Q)$(CC) -O2 $(TEST_CFLAGS) -Wno-override-init -o $@ $(filter %.c,$^) -lm

tools: $(BUILD)/tests/kern/verified
$(BUILD)/tests/kern/verified: tests/kern/verified.c $(BUILD)/libloadshed.a
	@mkdir -p $(@D)
	$(call say,TEST  $@)
	$(Q)$(CC) -O2 $(TEST_CFLAGS) -o $@ $< $(BUILD)/libloadshed.a $(USER_LIBS)

# Fuzzing: not part of `make check`, since it has no end. FUZZ_SECONDS each; a crash leaves its input behind.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SOURCES := $(filter user/base/% user/policy/%,$(USER_SOURCES))

.PHONY: fuzz
fuzz: $(FUZZ_TARGETS)
	@for target in $^; do \
		mkdir -p $$target.corpus && $$target -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
			-artifact_prefix=$$target. $$target.corpus || exit 1; \
	done

$(BUILD)/tests/fuzz/%: tests/fuzz/%.c tests/twin/host.c $(FUZZ_SOURCES)
	@mkdir -p $(@D)
	$(call say,TEST  $@)
	$(Q)$(CLANG) -O1 -g $(SANITIZE) -fsanitize=fuzzer -Itests/twin/include $(filter-out -MMD -MP -Werror,$(TEST_CFLAGS)) \
		-o $@ $^ -lcmocka -lyaml

# Another kernel, in emulation: not part of `make check`, since it fetches a kernel of 70 MB.
.PHONY: vm
vm: all
	@tests/vm/run.sh


# The fleet in one process: host only, no sanitizers, since it simulates a quarter of an hour of 1000 nodes.
tools: $(BUILD)/tests/sim/cluster
$(BUILD)/tests/sim/cluster: tests/sim/cluster.c user/cluster/ratio.c
	@mkdir -p $(@D)
	$(call say,TEST  $@)
	$(Q)$(CC) -O2 $(TEST_CFLAGS) -o $@ $^ -lm

# Controllers against a real Redis: the program's own objects, without sanitizers.
tools: $(BUILD)/tests/sim/swarm
$(BUILD)/tests/sim/swarm: tests/sim/swarm.c $(BUILD)/libloadshed.a
	@mkdir -p $(@D)
	$(call say,TEST  $@)
	$(Q)$(CC) -O2 $(TEST_CFLAGS) -o $@ $^ $(USER_LIBS)
# Overload on real traffic, against no shedding, a short backlog and CoDel: not part of `make check`, since it takes minutes
# and wants a quiet machine. RIG_OPTIONS: see tests/rig/overload.py.
.PHONY: rig-overload
rig-overload: all
	@tests/rig/overload.sh $(RIG_OPTIONS)

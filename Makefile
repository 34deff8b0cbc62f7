# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
#   make           builds build/loadshed, which runs from the tree
#   make demo      installs what is missing, builds, and shows a flood being shed in a lab of namespaces
#   make check     installs what is missing, builds, and runs every test this machine can run
#   make bench     the speed rows, as ratios to a bare XDP_DROP and to named alternatives
#   make install   copies the program (PREFIX, DESTDIR)

CC ?= gcc
CLANG ?= clang
BPFTOOL ?= bpftool
PREFIX ?= /usr/local
BUILD ?= build

VERSION := 0.1.0
ARCH_INCLUDE := $(shell $(CC) -print-multiarch 2>/dev/null)

WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror
CFLAGS ?= -O2 -g
USER_CFLAGS := -std=gnu11 -D_GNU_SOURCE $(WARNINGS) -I. -Iinclude -Ibpf -isystem $(BUILD) -DLS_VERSION='"$(VERSION)"' -MMD -MP
USER_LIBS := -lbpf -lelf -lz -lyaml -lpcap -ljansson
BPF_CFLAGS := -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -Ibpf -Iinclude \
	$(if $(ARCH_INCLUDE),-idirafter /usr/include/$(ARCH_INCLUDE)) -MMD -MP

USER_SOURCES := $(wildcard user/*/*.c)
USER_OBJECTS := $(USER_SOURCES:%.c=$(BUILD)/%.o)
# Everything but main: what tests link.
LIBRARY_OBJECTS := $(filter-out $(BUILD)/user/cli/main.o,$(USER_OBJECTS))

# One line for each step; `make V=1` shows the commands.
ifeq ($(V),1)
say =
Q =
else
say = @echo '  $(1)'
Q = @
endif

.PHONY: all demo check bench install clean deps
all: $(BUILD)/loadshed

$(BUILD)/loadshed: $(USER_OBJECTS)
	$(call say,LINK  $@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(USER_LIBS)

$(BUILD)/libloadshed.a: $(LIBRARY_OBJECTS)
	$(Q)rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/user/%.o: user/%.c $(BUILD)/loadshed.skel.h
	@mkdir -p $(@D)
	$(call say,CC    $<)
	$(Q)$(CC) $(CFLAGS) $(USER_CFLAGS) -c -o $@ $<

$(BUILD)/loadshed.bpf.o: bpf/loadshed.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF   $<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c -o $@ $<

$(BUILD)/loadshed.skel.h: $(BUILD)/loadshed.bpf.o
	$(call say,SKEL  $@)
	$(Q)$(BPFTOOL) gen skeleton $< name ls_skeleton > $@.tmp
	$(Q)mv $@.tmp $@

demo:
	@scripts/deps.sh demo
	@$(MAKE) --no-print-directory all tools
	@scripts/demo.sh

check:
	@scripts/deps.sh check
	@$(MAKE) --no-print-directory all tools
	@tests/run.sh

bench:
	@scripts/deps.sh check
	@$(MAKE) --no-print-directory all
	@tests/bench/run.sh

install: all
	install -D -m 755 $(BUILD)/loadshed $(DESTDIR)$(PREFIX)/sbin/loadshed

clean:
	rm -rf $(BUILD)

include tests/tests.mk
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

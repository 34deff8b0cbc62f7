# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
#   make           builds build/loadshed, which runs from the tree
#   make demo      installs what is missing, builds, and shows a flood being shed in a lab of namespaces
#   make check     installs what is missing, builds, and runs every test this machine can run
#   make bench     'loadshed bench' with its goals, and beside nft, iptables, tc, xdp-filter over veth; RUNS=3: three times,
#                  and whether they agree; bench-compilers: built by each clang; bench-docs: README's and the guide's tables from it
#   make install   program, units, manual pages, completions, examples (PREFIX, DESTDIR); uninstall removes them

CC ?= gcc
CLANG ?= clang
BPFTOOL ?= bpftool
PREFIX ?= /usr/local
BUILD ?= build
RUNS ?= 1

VERSION := 0.1.0
ARCH_INCLUDE := $(shell $(CC) -print-multiarch 2>/dev/null)

WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror
CFLAGS ?= -O2 -g
USER_CFLAGS := -std=gnu11 -D_GNU_SOURCE $(WARNINGS) -I. -Iinclude -Ibpf -isystem $(BUILD) -DLS_VERSION='"$(VERSION)"' -MMD -MP
USER_LIBS = -lbpf -lelf -lz -lyaml -lpcap -ljansson -lmicrohttpd -lncurses -ltinfo -lseccomp $(REDIS_LIBS) -lm -lpthread
BPF_CFLAGS := -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -Ibpf -Iinclude \
	$(if $(ARCH_INCLUDE),-idirafter /usr/include/$(ARCH_INCLUDE)) -MMD -MP

# TLS to a Redis where its library has it (hiredis 1.0; not the 0.14 of Debian 12).
REDIS_TLS := $(shell pkg-config --exists hiredis_ssl 2>/dev/null && echo yes)
REDIS_LIBS := -lhiredis $(if $(REDIS_TLS),-lhiredis_ssl -lssl -lcrypto)
# Scripts go into the program as they are, and their names are their hashes.
script_name = -DLS_$(1)_SHA1='"$(firstword $(shell sha1sum user/cluster/$(2).lua))"'
STORE_CFLAGS := $(call script_name,ROUND,round) $(call script_name,BEAT,beat) $(call script_name,BANS,bans) \
	$(if $(REDIS_TLS),-DLS_REDIS_TLS)

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

.PHONY: all demo check bench bench-compilers bench-docs install uninstall clean deps
all: $(BUILD)/loadshed

$(BUILD)/loadshed: $(USER_OBJECTS)
	$(call say,LINK  $@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(USER_LIBS)

$(BUILD)/user/cluster/store_redis.o $(BUILD)/asan/user/cluster/store_redis.o: $(wildcard user/cluster/*.lua)
$(BUILD)/user/cluster/%.o $(BUILD)/asan/user/cluster/%.o: USER_CFLAGS += $(STORE_CFLAGS)

$(BUILD)/libloadshed.a: $(LIBRARY_OBJECTS)
	$(Q)rm -f $@
	$(Q)ar rcs $@ $^

SKELETONS := $(BUILD)/loadshed.skel.h $(BUILD)/gen.skel.h $(BUILD)/rivals.skel.h

$(BUILD)/user/%.o: user/%.c $(SKELETONS)
	@mkdir -p $(@D)
	$(call say,CC    $<)
	$(Q)$(CC) $(CFLAGS) $(USER_CFLAGS) -c -o $@ $<

$(BUILD)/loadshed.bpf.o: bpf/loadshed.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF   $<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c -o $@ $<

$(BUILD)/%.bpf.o: bpf/bench/%.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF   $<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c -o $@ $<

# Steps of a chain of patterns would be removed after it, and everything built again by the next make.
.SECONDARY: $(foreach name,loadshed gen rivals,$(BUILD)/$(name).bpf.o $(BUILD)/$(name).skel.h)

$(BUILD)/loadshed.skel.h: SKELETON = ls_skeleton
$(BUILD)/%.skel.h: SKELETON = $*_skeleton
$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(call say,SKEL  $@)
	$(Q)$(BPFTOOL) gen skeleton $< name $(SKELETON) > $@.tmp
	$(Q)mv $@.tmp $@

# The live page as an array, so that the program is one file.
$(BUILD)/page.h: user/observe/page.html
	@mkdir -p $(@D)
	@{ echo 'static const unsigned char ls_page[] = {'; od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g'; echo '};'; } > $@.tmp
	@mv $@.tmp $@

$(BUILD)/user/observe/observe.o $(BUILD)/asan/user/observe/observe.o: $(BUILD)/page.h

demo:
	@scripts/deps.sh demo
	@$(MAKE) --no-print-directory all
	@scripts/demo.sh

check:
	@scripts/deps.sh check
	@$(MAKE) --no-print-directory -j$$(nproc) all tools $(BUILD)/loadshed.8
	@tests/run.sh

bench:
	@scripts/deps.sh check
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) RUNS=$(RUNS) tests/bench/run.sh

bench-compilers:
	@BUILD=$(BUILD) tests/bench/compilers.sh

# README's table, the guide's and its plot, from the last `make bench`.
bench-docs:
	/usr/bin/python3 tests/bench/report.py docs $(BUILD)/bench.json README.md user/share/guide.md
	cp $(BUILD)/bench.svg user/share/bench.svg

# The manual of the verbs is printed by the program itself, from the tables that its help is made of.
$(BUILD)/loadshed.8: user/share/loadshed.8.in $(BUILD)/loadshed
	$(BUILD)/loadshed __manual > $@.verbs
	sed -e '/^@VERBS@$$/{r $@.verbs' -e 'd}' -e 's/@VERSION@/$(VERSION)/' $< > $@

# The units are written for the default PREFIX; those of an instance differ in a few words.
UNITS = loadshed loadshed-serve
UNIT_PATH = s|/usr/local/sbin/|$(PREFIX)/sbin/|
UNIT_INSTANCE = s,/loadshed \(restore\|serve\),/loadshed -I %i \1,; s|^Description=.*|& (instance %i)|; \
	/^\(Wants\|After\)=/s|loadshed\.service|loadshed@%i.service|
DOCS := $(wildcard user/share/*.md user/share/*.svg)
INSTALLED = sbin/loadshed share/man/man8/loadshed.8 share/man/man5/loadshed-policy.5 \
	$(UNITS:%=lib/systemd/system/%.service) $(UNITS:%=lib/systemd/system/%@.service) \
	share/bash-completion/completions/loadshed share/zsh/site-functions/_loadshed \
	share/fish/vendor_completions.d/loadshed.fish $(DOCS:user/share/%=share/doc/loadshed/%) \
	share/loadshed/grafana/loadshed.json share/loadshed/alerts/loadshed.rules.yml \
	$(patsubst user/share/%,share/doc/loadshed/%,$(wildcard user/share/examples/*))

install: all $(BUILD)/loadshed.8
	cd $(DESTDIR)/ && mkdir -p $(sort $(dir $(INSTALLED:%=.$(PREFIX)/%)))
	install -m 755 $(BUILD)/loadshed $(DESTDIR)$(PREFIX)/sbin/loadshed
	install -m 644 $(BUILD)/loadshed.8 $(DESTDIR)$(PREFIX)/share/man/man8/
	install -m 644 user/share/loadshed-policy.5 $(DESTDIR)$(PREFIX)/share/man/man5/
	for unit in $(UNITS); do \
		sed '$(UNIT_PATH)' user/share/$$unit.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service && \
		sed '$(UNIT_PATH); $(UNIT_INSTANCE)' user/share/$$unit.service \
			> $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit@.service || exit 1; \
	done
	$(BUILD)/loadshed completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/loadshed
	$(BUILD)/loadshed completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_loadshed
	$(BUILD)/loadshed completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/loadshed.fish
	install -m 644 $(DOCS) $(DESTDIR)$(PREFIX)/share/doc/loadshed/
	install -m 644 user/share/grafana/loadshed.json $(DESTDIR)$(PREFIX)/share/loadshed/grafana/
	install -m 644 user/share/alerts/loadshed.rules.yml $(DESTDIR)$(PREFIX)/share/loadshed/alerts/
	install -m 644 user/share/examples/* $(DESTDIR)$(PREFIX)/share/doc/loadshed/examples/
	@[ -n "$(DESTDIR)" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload

# What is attached stays attached, and what is saved stays saved: 'loadshed detach --all' comes before this.
uninstall:
	rm -f $(INSTALLED:%=$(DESTDIR)$(PREFIX)/%)
	@rmdir $(DESTDIR)$(PREFIX)/share/doc/loadshed/examples $(DESTDIR)$(PREFIX)/share/doc/loadshed 2>/dev/null || true
	@[ -n "$(DESTDIR)" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload

clean:
	rm -rf $(BUILD)

include tests/tests.mk
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

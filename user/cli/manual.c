/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/manual.h"

#include <string.h>

/* Prose, of which the length of one row would move all others. */
/* clang-format off */
static const struct {
	const char *verb, *text;
} verbs[] = {
	{ "check",
	  "Preflight. Looks at privileges, bpffs, kernel features, and for each interface at its driver, MTU, queues, offloads and other XDP programs. Each line is ok, a warning or an error, with the command that fixes it. Exit 1 only if there is an error. Nothing is changed." },
	{ "attach",
	  "Loads the program, puts the policy in force and attaches, before the first packet is judged: to all the interfaces or to none. Without a policy everything passes as `unmatched`.\n\n"
	  "What is attached already stays and is said; with `--policy` that is then an apply. A program of another build is replaced by an update of its link: no packet goes unjudged, state and counters stay. The program of somebody else is named and left alone unless `--replace`; one that holds a link of its own cannot be replaced.\n\n"
	  "`auto` takes native mode and falls back to generic mode where the driver has none, and says so. Generic mode is slower, and counts packets that the kernel has merged as one. An interface may be named by its altname; naming it twice is naming it once. The first attach in native mode may reset the queues of some network cards, for up to seconds; no later verb does." },
	{ "detach",
	  "Takes off what is ours, and nothing else. With the last interface the pins go, and with them bans, counters and the state of limits. What is detached is saved no longer, so it does not come back at boot; that goes for an interface that is only saved, too. Nothing attached: says so, exit 0." },
	{ "status",
	  "What is attached and in which mode, the generation in force, and `degraded`: everything that is not as one would wish, such as generic mode, an interface that has vanished or was moved to another namespace, or one that is saved but not attached." },
	{ "policy check",
	  "Needs no root and looks at nothing but the file and its lists. Refuses with file, line and column what is wrong; warns about what is valid but hardly meant, such as a class that can never match. See loadshed-policy(5)." },
	{ "policy show",
	  "With all defaults filled in; applying what it prints changes nothing. Lists from files show as path, number of entries and SHA-256, unless `--expand`." },
	{ "policy diff",
	  "Changes nothing. With `--exit-code` the exit code is 1 if there is a difference." },
	{ "policy apply",
	  "One store to one word: each packet is judged by the old policy or by the new one, whole. Program, links and the state of sources stay. Applying what is in force keeps the generation. A bad policy changes nothing.\n\n"
	  "With `--confirm` the policy before comes back after that time, in the kernel, unless `policy confirm` keeps the new one. Until then every other publishing verb is refused; bans still work.\n\n"
	  "A policy that would cut your own session, or deny a default gateway or a resolver of this host, is refused without `--yes`. Your session is that of SSH_CONNECTION and, under tmux or screen, of everybody who looks at it." },
	{ "policy confirm", "Keeps the policy that was applied with `--confirm`." },
	{ "policy rollback",
	  "There is one previous generation. Rolling back twice is where you were. Bans, `off` and `panic` are not part of a policy and stay." },
	{ "policy edit", "Opens the policy in force in `$EDITOR`, checks it, shows the difference and applies it. A mistake is shown and can be mended; of two who edit at the same time the second to finish is told and keeps his text." },
	{ "ban add",
	  "SRC is an address or a prefix; IPv6 longer than /64 is widened, and says so. The end is judged in the kernel, so a ban ends with no process alive. Of two bans of one source the later end wins. What the policy allows cannot be banned, nor can /0. A ban of your own session, or of a gateway, a resolver or an address of this host, needs `--yes`." },
	{ "ban del",
	  "SRC is widened as by `ban add` and then has to match exactly: ending a ban of a /24 does not touch one of an address in it. Exit 1 if there is none." },
	{ "ban list", "Sorted by source, with the time that is left, who banned it and why." },
	{ "ban import",
	  "The first word of a line is an address or a prefix; `#` starts a comment. A bad line refuses the whole file. What a feed must not ban is left out and named: your own addresses, gateways and resolvers, loopback, multicast, and what the policy allows. Importing again renews: run it from a timer with a `--for` that is longer than its period." },
	{ "allow add",
	  "A publish like an apply: a new generation, seen by show, diff and rollback." },
	{ "allow del",
	  "Only an entry that stands there exactly like this. One that comes from a set has to be edited in the set." },
	{ "deny add",
	  "A publish like an apply: a new generation, seen by show, diff and rollback. For what should end by itself use `ban add`." },
	{ "deny del",
	  "Only an entry that stands there exactly like this. One that comes from a set has to be edited in the set." },
	{ "panic",
	  "Beside the policy, every source may open 20 connections and send 2 000 packets a second, with bursts of one second, and new work of priority `low` is refused. Allowed sources are not touched. It ends by itself, in the kernel. Reason: `panic`." },
	{ "off",
	  "Monitors everything: what would have been dropped is counted as `would-drop` and passes, bans included. It ends by itself, in the kernel." },
	{ "on", "Ends both at once; bans go on. Exit 0 also when neither was set." },
	{ "overload explain",
	  "What the controller measures, each signal beside its target; a signal that is missing, with the reason; what was admitted and refused of each priority since attach. Without `serve` nothing is measured, and it says so." },
	{ "overload set",
	  "LEVEL is the part of all priority levels whose new work is refused, from the lowest up: `0%` is nothing, `100%` everything; or `low`, `normal`, `high`, `critical`: that priority and all below. Whatever policy and controller say, until its time is over; it ends by itself, in the kernel. Connections in progress go on." },
	{ "overload auto",
	  "The controller's own level is in force again; without `serve` nothing is refused by a level." },
	{ "stats",
	  "Exact sums since the tables were made: seen = pass + drop, by class, verdict, reason and limit. A would-drop has been passed and is part of pass. What was counted under names that no policy has had for long is added to the verdicts without a class. An instance counts seven interfaces apart; further ones share a row. `--watch` prints rates each second until it is stopped." },
	{ "top",
	  "On a terminal a full screen, renewed twice a second; into a pipe, or with `-o table`, a table, once; `-o json` one document. Figures are of the last second, each with its bound. Keys: p, b, d sort by packets, bits, refused; s shows prefixes (/24, /48) or sources; arrows and space choose, x bans what is chosen; h help, q leave.\n\n"
	  "`--ban` bans those that lose most (drops and would-drops), and names whom it leaves out: this host's own addresses, gateways and resolvers, whom the policy allows, who is in a `nat` set, and where your own session comes from. One that may be in the list by chance is not banned. Banning again renews: the later end wins." },
	{ "explain",
	  "In which lists the source is, which class and limits such a packet meets, what is left in each bucket and the time until it conforms, and the ban if there is one. `verdict` is what the next such packet would get. What is not given matches only classes that do not ask for it. Limits on bytes are asked about a frame of 64. Of TCP without `--flags` the answer for what opens a connection, `--flags syn,no-ack`, is shown as well. Nothing is counted or consumed." },
	{ "replay",
	  "Runs the real program over a pcap or pcapng file, in the time of the capture, and touches no live state. State starts empty; a stamp that goes back counts as the latest one seen; cut frames are padded to their length on the wire. `--packets` prints one JSON object per packet." },
	{ "capture",
	  "Writes refused packets, as they are sampled for `events`, with their first 256 bytes and their length on the wire. Each has the comment `reason=limit class=web limit=new verdict=drop stands_for=12`, in Wireshark the field `frame.comment`, and the interface that it came in by; would-drops are captured, too. A file that is there is overwritten, as by tcpdump; `-w -` writes to stdout, for example into `tshark -r -`. Ends after `--count` packets, by Ctrl-C or SIGTERM, or when nobody reads any more, and then says how many it captured, for how many refused ones they stand and how many it lost; the statistics block of the interface has the same numbers." },
	{ "events",
	  "One JSON object per line, from now on, until Ctrl-C, SIGTERM, or nobody reads any more; `-o table` prints lines for people. `event` is drop, would-drop, ban, unban, policy, mode (panic, off, on, monitor), attach, detach, overload, cluster, note or lost; `time` is RFC 3339 with nanoseconds, `id` is the same for every reader.\n\n"
	  "Refused packets are sampled: each CPU takes at most 128 a second of one verdict and reason (bursts of 64), so the flood of one reason never hides what another refuses. `sampled_of` is for how many such packets this one stands: their sum is what `stats` counts, but for the last milliseconds of a flood. With `-i`, `sampled_of` still counts those of all interfaces.\n\n"
	  "Any number of readers see the same, each at its own pace. One that is too slow gets {\"event\":\"lost\",\"events\":N}; the packets that those stood for are in `sampled_of` of later ones.\n\n"
	  "A class's ban, or an operator's, is told when it begins, with its `seconds`; what ends by itself, such as a ban, `panic` or `off`, ends without an event, and a policy that was not confirmed in time is told as `expire` when somebody next changes something. `-i` leaves out packets and attachments of other interfaces, `--reason` all but packets refused for it. Whether a frame is what it looks like nobody vouches for: addresses and ports are what the kernel's own parser found, and null where it found none." },
	{ "serve",
	  "Attaches again what vanished and came back, restores what is saved when nothing is attached, publishes list files that change, measures for `overload:`, shares through Redis for `cluster:`, and shows metrics and a live page. It needs no policy of its own: it takes what is in force. Enforcement neither needs it nor ends with it.\n\n"
	  "Ends by Ctrl-C or SIGTERM; SIGHUP applies the policy's file again. One line on stderr for each thing that happens. A second one of the same instance is refused. loadshed(8), THE CONTROLLER, has the rest." },
	{ "cluster status",
	  "What `serve` of this node last reported: whether Redis answers, how long ago, how many sources are shared, how large the error of the last seconds can have been, how far the clock of Redis is from this node's, and when each node was last heard. Without a section `cluster` in the policy, or without `serve`, it says so." },
	{ "bench",
	  "Measures the whole verdict of the real program on packets that the kernel makes, as nanoseconds over a bare XDP_DROP on the same packets, beside what one would write instead: a token bucket in an LRU hash, in a per-CPU hash, under a spin lock, a list in the kernel's LPM trie. Each figure is the median of five samples, and what they lie between. It takes less than a minute, one CPU (two for a moment) and up to 1 GB of memory, and touches no live state and no interface: what it made is gone when it ends, however it ends.\n\n"
	  "GROUP narrows it to some rows: limits, classes, lists, bans, frames, cpus, apply. The driver is not in these figures, and misses of the cache overlap between packets as they do under a flood; read them as what the program adds to a packet. JSON: `machine`, and `rows` with `group`, `name`, `unit`, `over`, `loadshed` and `rivals`, each figure as `median`, `low`, `high`." },
	{ "restore",
	  "Attaches what every publishing verb saves: policy with the contents of its lists, bans with the time that is left of them, interfaces and their mode. The unit runs it at boot. Policy and bans are in force before the first packet is judged.\n\n"
	  "An interface that is not there, or that somebody else has taken, is named and leaves the others protected; then the exit code is 1, and it stays saved until it is detached. What is attached already keeps what is in force: run it as often as you like. A file that is cut off or damaged is an error and never an empty policy; bans that cannot be read are named and the policy is attached without them.\n\n"
	  "Not restored: counters, the state of limits, `off` and `panic`, and a policy that nobody had confirmed: then the one before it comes back." },
	{ "version", "" },
	{ "help", "" },
	{ "completion",
	  "Prints a script for the shell. bash: `source <(loadshed completion bash)`; zsh: `source <(loadshed completion zsh)`; fish: `loadshed completion fish | source`. `make install` puts all three where the shells look." },
};
/* clang-format on */

const char *ls_manual_verb(const struct ls_verb *verb)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verbs[i].verb, verb->name) == 0)
			return verbs[i].text;
	return "";
}

/* By name, so that an option that comes later has a row here and not a place in two tables. A row with a verb
 * goes before that of all verbs. */
static const struct {
	const char *verb; /* NULL: all */
	const char *option, *text;
} options[] = {
	{ "attach", "policy", "put this policy in force" },
	{ NULL, "policy", "the policy to judge by" },
	{ NULL, "mode", "where in the kernel the program sits; default auto" },
	{ NULL, "monitor", "drop nothing, whatever the policy says; holds for the whole instance" },
	{ NULL, "replace", "take over from somebody else's program" },
	{ NULL, "yes", "even if that cuts your own session or what this host needs" },
	{ NULL, "all", "from all interfaces of the instance" },
	{ NULL, "expand", "with the entries of list files" },
	{ NULL, "exit-code", "exit 1 if there is a difference" },
	{ NULL, "confirm", "undo it after this time unless confirmed" },
	{ "panic", "for", "how long; default 10m" },
	{ "off", "for", "how long; default 10m" },
	{ "top", "for", "how long they are banned" },
	{ "overload set", "for", "how long; default 10m" },
	{ NULL, "for", "how long: an integer with s, m, h or d, up to 10 years" },
	{ "events", "reason", "only packets refused for this: limit, ban, deny …" },
	{ "capture", "reason", "only packets refused for this: limit, ban, deny …" },
	{ "events", "count", "end after so many events" },
	{ "capture", "count", "end after so many packets" },
	{ "capture", "write", "the file, or - for stdout" },
	{ NULL, "reason", "a line for `ban list`, up to 63 bytes" },
	{ NULL, "watch", "rates, each second" },
	{ NULL, "packets", "one line of JSON for each packet" },
	{ NULL, "to", "the address it is sent to" },
	{ NULL, "protocol", "tcp, udp, icmp, icmpv6, sctp, gre, esp, or a number" },
	{ NULL, "port", "the port it is sent to" },
	{ NULL, "from-port", "the port it is sent from" },
	{ NULL, "metrics",
	  "where metrics and live page are: ADDRESS:PORT, [IPV6]:PORT, :PORT or none; default 127.0.0.1:9644" },
	{ NULL, "flags", "TCP flags, such as syn,no-ack" },
	{ NULL, "ban", "ban so many of those that lose most, 1 to 1000; needs --for" },
};

const char *ls_manual_option(const struct ls_verb *verb, enum ls_option option)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strcmp(options[i].option, ls_option_name(option)) == 0 &&
		    (!options[i].verb || strcmp(options[i].verb, verb->name) == 0))
			return options[i].text;
	return "";
}

const struct ls_manual_global ls_manual_globals[] = {
	{ 'I', "instance", "NAME", "one of several independent instances; default `default`" },
	{ 'i', "interface", "IFACE", "narrow stats, top, events and capture to an interface" },
	{ 'o', "output", "table|json", "table (default), or json: one document on stdout" },
	{ 'v', "verbose", "", "the verifier's log when the program does not load" },
	{ 'h', "help", "", "what `help` says about the verb" },
};
const size_t ls_n_manual_globals = sizeof(ls_manual_globals) / sizeof(ls_manual_globals[0]);

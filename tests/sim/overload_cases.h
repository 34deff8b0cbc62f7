/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_SIM_OVERLOAD_CASES_H
#define LOADSHED_SIM_OVERLOAD_CASES_H

/* The cases, and what must hold of each: included by overload.c alone. */

/* Zero: not asked; `refused` and `changes` are asked always. */
struct goal {
	double goodput;	     /* at least, of what the same server does when it is always busy */
	double high;	     /* of users of priority high, at least this part is served */
	double p99_wait_s;   /* at most */
	double first_s;	     /* the first refusal comes within, after the load began */
	double quiet_s;	     /* none comes later than that after the load has ended */
	unsigned changes;    /* between shedding and not: at most */
	double refused_most; /* of what was offered, at most */
};

struct test {
	const char *name;
	struct goal goal;
	struct scenario scenario;
};

#define DEFAULTS                                                                                   \
	.backlog = 4096, .target_s = 0.02, .service = EXPONENTIAL, .start_s = 3, .seconds = 63
#define HALF DEFAULTS, .from_load = 0.5

/* G2.1 to G2.3 of a load that is too much for a minute. */
#define GOALS(goodput, p99)                                                                        \
	{                                                                                          \
		goodput, 0.995, p99, 0.2, 0.5, 2, 1                                                \
	}
/* Of a load that is not: nothing is refused, ever. */
#define NOTHING(goodput)                                                                           \
	{                                                                                          \
		goodput, 0.995, 0, 0, 0, 0, 0                                                      \
	}

static const struct test tests[] = {
	{ "10x", GOALS(0.97, 0.065), { .capacity = 2000, .load = 10, HALF } },
	{ "3x", GOALS(0.985, 0.06), { .capacity = 2000, .load = 3, HALF } },
	{ "1.4x", GOALS(0.985, 0.06), { .capacity = 2000, .load = 1.4, HALF } },
	/* It grows so slowly that its queue may reach six targets before it is known from chance. */
	{ "1.05x", { 0.98, 0.995, 0.12, 0, 0.5, 2, 1 }, { .capacity = 2000, .load = 1.05, HALF } },
	{ "10x-fixed-service",
	  GOALS(0.99, 0.065),
	  { .capacity = 2000, .load = 10, DEFAULTS, .service = FIXED, .from_load = 0.5 } },
	{ "10x-backlog-128",
	  GOALS(0.97, 0.06),
	  { .capacity = 2000, .load = 10, HALF, .backlog = 128 } },
	/* Ten service times are 50 ms here, and that is what is held. */
	{ "10x-slow", GOALS(0.97, 0.15), { .capacity = 200, .load = 10, HALF } },
	/* The rig's: ten service times are 25 ms, and twice to four times that is waited. */
	{ "rig-10x", GOALS(0.96, 0.09), { .capacity = 400, .load = 10, HALF, .users = 500 } },
	{ "rig-3x", GOALS(0.96, 0.09), { .capacity = 400, .load = 3, HALF, .users = 500 } },
	{ "rig-10x-early",
	  GOALS(0.95, 0.09),
	  { .capacity = 400, .load = 10, HALF, .users = 500, .early = true } },
	{ "rig-3x-early",
	  GOALS(0.95, 0.09),
	  { .capacity = 400, .load = 3, HALF, .users = 500, .early = true } },
	/* Clients far away: what is admitted is seen in the queue a round trip later, after the flood's start too. */
	{ "10x-handshake-100",
	  { 0.97, 0.995, 0.7, 0.2, 0.5, 2, 1 },
	  { .capacity = 2000, .load = 10, HALF, .handshake_s = 0.1 } },
	{ "10x-handshake-300",
	  { 0.88, 0.985, 1.8, 0.4, 0.5, 2, 1 },
	  { .capacity = 2000, .load = 10, HALF, .handshake_s = 0.3 } },
	{ "slow-handshake-100",
	  { 0.91, 0.98, 0.8, 0.2, 2, 2, 1 },
	  { .capacity = 400, .load = 10, HALF, .users = 500, .handshake_s = 0.1 } },
	{ "10x-fast",
	  GOALS(0.97, 0.03),
	  { .capacity = 20000, .load = 10, HALF, .target_s = 0.005, .seconds = 23 } },
	{ "3x-capacity-halves",
	  GOALS(0.97, 0.1),
	  { .capacity = 2000, .load = 3, DEFAULTS, .from_load = 0.3, .drop_at_s = 33 } },
	{ "3x-heavy-tail",
	  GOALS(0.97, 0.1),
	  { .capacity = 2000, .load = 3, HALF, .service = HEAVY } },
	{ "10x-heavy-tail",
	  GOALS(0.97, 0.1),
	  { .capacity = 2000, .load = 10, HALF, .service = HEAVY } },
	/* The app accepts at once: a probe and the connections that stand show how much is inside. */
	{ "3x-accepts-early",
	  GOALS(0.98, 0.06),
	  { .capacity = 2000, .load = 3, HALF, .early = true } },
	{ "10x-accepts-early",
	  GOALS(0.98, 0.06),
	  { .capacity = 2000, .load = 10, HALF, .early = true } },
	/* FIELD O-07: never at 95 %; O-05: not at a start. */
	{ "0.95x", NOTHING(0), { .capacity = 2000, .load = 0.95, HALF } },
	{ "0.8x-from-cold",
	  NOTHING(0),
	  { .capacity = 2000, .load = 0.8, DEFAULTS, .start_s = 0.001, .seconds = 20 } },
	{ "0.8x-slow", NOTHING(0), { .capacity = 200, .load = 0.8, HALF } },
	{ "0.9x-fast", NOTHING(0), { .capacity = 20000, .load = 0.9, HALF, .seconds = 23 } },
	/* 10 times the capacity for 200 ms: it is cut, one change each way, and high is served. */
	{ "bursts",
	  { 0, 0.995, 0, 0, 0, 12, 1 },
	  { .capacity = 2000, .load = 10, DEFAULTS, .from_load = 0.1, .burst_period_s = 10 } },
	/* O-01, O-03: five times 20 s on, 20 s off; each end is an end. */
	{ "on-and-off",
	  { 0, 0.995, 0, 0.2, 0.5, 10, 1 },
	  { .capacity = 2000, .load = 3, HALF, .on_s = 20, .off_s = 20, .seconds = 203 } },
	/* Guard and accept queue alone bound what waits, and high goes first. */
	{ "rig-10x-controller-dies",
	  { 0.96, 0.99, 0.09, 0.2, 0.5, 2, 1 },
	  { .capacity = 400, .load = 10, HALF, .users = 500, .dies_at_s = 33 } },
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct result run_relative(const struct scenario *scenario, enum method method,
				  uint64_t seed)
{
	/* Always busy: nothing is shed and the backlog never runs dry. */
	struct scenario busy = *scenario;
	struct result result = run(scenario, method, seed);
	if (scenario->load > 1 && scenario->on_s == 0 && scenario->burst_period_s == 0) {
		busy.early = false;
		busy.from_load = busy.load;
		result.goodput /= run(&busy, NO_SHEDDING, seed).done;
	}
	return result;
}

/* 1 and a line unless all of it holds. */
static int judge(const char *name, const struct goal *goal, const struct result *result)
{
	const double refused = (double)result->refused / (double)result->offered;
	const char *why = NULL;
	if (result->goodput < goal->goodput)
		why = "too little gets done in time";
	else if (result->high < goal->high)
		why = "priority high is not served";
	else if (goal->p99_wait_s > 0 && result->p99_wait_s > goal->p99_wait_s)
		why = "what is admitted waits too long";
	else if (goal->first_s > 0 &&
		 (result->first_refusal_s < 0 || result->first_refusal_s > goal->first_s))
		why = "the first refusal comes late";
	else if (goal->quiet_s > 0 && result->last_refusal_s > goal->quiet_s)
		why = "it goes on refusing after the end";
	else if (result->changes > goal->changes)
		why = "it changes to and fro";
	else if (refused > goal->refused_most)
		why = "it refuses what there is room for";
	printf("%s sim-overload-%s%s%s", why ? "not ok" : "ok", name, why ? ": " : "",
	       why ? why : "");
	printf("%s (goodput %.1f %%, high %.2f %%, p99 wait %.0f ms, first refusal %.0f ms, last %.0f ms, %lu changes, %.3f %% refused)\n",
	       "", 100 * result->goodput, 100 * result->high, 1000 * result->p99_wait_s,
	       1000 * result->first_refusal_s, 1000 * result->last_refusal_s,
	       (unsigned long)result->changes, 100 * refused);
	return why != NULL;
}

static int check_goals(void)
{
	const char *seed = getenv("LS_SIM_SEED"), *only = getenv("LS_SIM_CASE");
	int failed = 0;
	for (size_t i = 0; i < LENGTH(tests); i++) {
		if (only && !strstr(tests[i].name, only))
			continue;
		const struct result result = run_relative(
			&tests[i].scenario, OURS, 1 + i + (seed ? strtoull(seed, NULL, 10) : 0));
		failed += judge(tests[i].name, &tests[i].goal, &result);
	}
	return failed;
}

/* A test of the test: what the goals are there to tell apart fails them. */
static int check_rivals(void)
{
	static const struct {
		enum method method;
		double goodput, high;
	} most[] = {
		{ NO_SHEDDING, 0.2, 0.2 },
		{ CODEL, 0.5, 0.2 },
		{ SHORT_BACKLOG, 1.1, 0.5 },
	};
	int failed = 0;
	for (size_t i = 0; i < LENGTH(most); i++) {
		const struct result result = run_relative(&tests[0].scenario, most[i].method, 1);
		const bool fails = result.goodput <= most[i].goodput && result.high <= most[i].high;
		printf("%s sim-overload-10x-without-us-fails (%s: goodput %.1f %%, high %.1f %%)\n",
		       fails ? "ok" : "not ok", method_names[most[i].method], 100 * result.goodput,
		       100 * result.high);
		failed += !fails;
	}
	return failed;
}

/* The grid. One line for all that holds, and one for each that does not. */
static int sweep(void)
{
	static const double capacities[] = { 200, 2000, 20000 }, loads[] = { 0.7, 1.4, 3, 10 },
			    targets[] = { 0.005, 0.02 };
	static const unsigned backlogs[] = { 128, 1024, 4096 };
	const bool is_long = getenv("LS_LONG") != NULL;
	int failed = 0, held = 0;
	for (size_t cell = 0;
	     cell < LENGTH(capacities) * LENGTH(loads) * LENGTH(targets) * LENGTH(backlogs) * 2;
	     cell++) {
		size_t left = cell;
		struct scenario scenario = { .service = EXPONENTIAL,
					     .start_s = 3,
					     .seconds = is_long ? 33 : 13,
					     .from_load = 0.3,
					     .settle_s = 0.5 };
		const bool drops = left % 2;
		scenario.capacity = capacities[(left /= 2) % LENGTH(capacities)];
		scenario.load = loads[(left /= LENGTH(capacities)) % LENGTH(loads)];
		scenario.target_s = targets[(left /= LENGTH(loads)) % LENGTH(targets)];
		scenario.backlog = backlogs[left / LENGTH(targets)];
		scenario.drop_at_s = drops ? (scenario.start_s + scenario.seconds) / 2 : 0;
		/* 20 000/s at ten times is 200 000 events a second: once of each kind is enough. */
		if (scenario.capacity * scenario.load > 100000 &&
		    (scenario.backlog != 4096 || drops))
			continue;
		/* A backlog of 6 ms is shorter than what changes in a period: it runs dry now and then. */
		const bool is_short = scenario.backlog / scenario.capacity < 0.01;
		const bool is_too_much = scenario.load * (drops ? 2 : 1) > 1;
		const double held_s =
			fmax(scenario.target_s, 10 / scenario.capacity * (drops ? 2 : 1));
		/* High asks for 80 % of what the server can do at its worst. */
		scenario.high_part = fmin(HIGH_PART, 0.8 / scenario.load / (drops ? 2 : 1));
		const struct goal goal =
			is_too_much
				? (struct goal){ scenario.load < 1 ? 0
						 : is_short	   ? 0.8
								   : 0.92,
						 0.98,
						 scenario.capacity < 1000 ? 0 : 5 * held_s + 0.1,
						 0,
						 scenario.capacity < 1000 ? 3 : 0.5,
						 2,
						 1 }
				: (struct goal){ 0, 0.995, 0, 0, 0, 0, 0 };
		for (uint64_t seed = 1; seed <= (is_long ? 3 : 1); seed++) {
			const struct result result =
				run_relative(&scenario, OURS, seed * 1000 + cell);
			const double refused = (double)result.refused / (double)result.offered;
			if (result.goodput >= goal.goodput && result.high >= goal.high &&
			    (!goal.quiet_s || result.last_refusal_s <= goal.quiet_s) &&
			    result.changes <= goal.changes &&
			    (!goal.p99_wait_s || result.p99_wait_s <= goal.p99_wait_s) &&
			    refused <= goal.refused_most) {
				held++;
				continue;
			}
			char name[120];
			snprintf(name, sizeof(name),
				 "grid-%.0f-%.1fx-backlog-%u-target-%.0fms%s-seed-%lu",
				 scenario.capacity, scenario.load, scenario.backlog,
				 1000 * scenario.target_s, drops ? "-halves" : "",
				 (unsigned long)seed);
			judge(name, &goal, &result);
			failed++;
		}
	}
	printf("%s sim-overload-grid (%d hold, %d do not)\n", failed ? "not ok" : "ok", held,
	       failed);
	return failed;
}

static int print_table(void)
{
	printf("%-20s %-16s %9s %8s %9s %9s %9s %9s\n", "case", "method", "goodput", "high",
	       "p99 wait", "longest", "first", "last");
	for (size_t i = 0; i < LENGTH(tests); i++) {
		for (enum method method = 0; method < METHODS; method++) {
			const struct result result =
				run_relative(&tests[i].scenario, method, 1 + i);
			printf("%-20s %-16s %7.1f %% %6.1f %% %6.0f ms %6.0f ms",
			       method ? "" : tests[i].name, method_names[method],
			       100 * result.goodput, 100 * result.high, 1000 * result.p99_wait_s,
			       1000 * result.max_wait_s);
			if (result.first_refusal_s >= 0)
				printf(" %6.0f ms %6.0f ms", 1000 * result.first_refusal_s,
				       1000 * fmax(0, result.last_refusal_s));
			printf("\n");
		}
	}
	return 0;
}

#endif

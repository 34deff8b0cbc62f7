/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/top_screen.h"

#include <curses.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/base/output.h"

#define HEADER_LINES 6 /* title, rates, reasons, state, blank, heads */
#define MARKS 64
#define TICK_MS 200	/* keys and signals are answered within that */
#define BAN_TIME "10m"	/* proposed */
#define SOURCE_WIDTH 23 /* 2001:db8:aaaa:bbbb::/64 */
#define WIDE 100	/* columns from which drops and would-drops stand apart */
#define KEY_ESCAPE 27

enum mode { MODE_ROWS, MODE_PROMPT, MODE_HELP };

struct state {
	const struct ls_top_screen *screen;
	struct ls_top_frame frame;
	enum mode mode;
	enum ls_top_order order;
	bool prefixes;
	bool has_cursor;
	struct ls_prefix cursor; /* the row it is on: it stays with it when rows move */
	struct ls_prefix marks[MARKS];
	size_t n_marks;
	size_t first; /* row at the top of the screen */
	char typed[16];
	char message[LS_TOP_MESSAGE];
};

/* ---- signals ---- */

static volatile sig_atomic_t caught;
static struct termios found; /* as the terminal was */

static void on_end(int signal)
{
	caught = signal;
}

/* A crash: only what is safe in a handler. Leaves the alternate screen, shows the cursor, ends attributes. */
static void on_crash(int signal)
{
	static const char leave[] = "\033[?1049l\033[?25h\033[m\r\n";

	(void)!write(STDOUT_FILENO, leave, sizeof(leave) - 1);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &found);
	raise(signal); /* SA_RESETHAND: now it ends the process */
}

static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2 };
static const int crashes[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
#define N_ENDS (sizeof(ends) / sizeof(ends[0]))
#define N_CRASHES (sizeof(crashes) / sizeof(crashes[0]))

static void signals_catch(struct sigaction before[static N_ENDS])
{
	const struct sigaction end = { .sa_handler = on_end };
	const struct sigaction crash = { .sa_handler = on_crash,
					 .sa_flags = (int)(SA_RESETHAND | SA_NODEFER) };

	caught = 0;
	for (size_t i = 0; i < N_ENDS; i++) {
		sigaction(ends[i], &end, &before[i]);
		if (before[i].sa_handler == SIG_IGN) /* as nohup asks */
			sigaction(ends[i], &before[i], NULL);
	}
	for (size_t i = 0; i < N_CRASHES; i++)
		sigaction(crashes[i], &crash, NULL);
}

static void signals_release(const struct sigaction before[static N_ENDS])
{
	for (size_t i = 0; i < N_ENDS; i++)
		sigaction(ends[i], &before[i], NULL);
	for (size_t i = 0; i < N_CRASHES; i++)
		signal(crashes[i], SIG_DFL);
}

/* ---- rows ---- */

static struct ls_top_list *list_of(struct state *state)
{
	return state->prefixes ? &state->frame.reading.prefixes : &state->frame.reading.sources;
}

static size_t rows_that_fit(void)
{
	return LINES > HEADER_LINES + 1 ? (size_t)(LINES - HEADER_LINES - 1) : 0;
}

/* Where the cursor is; list->count: on no row that is shown. */
static size_t cursor_at(struct state *state)
{
	const struct ls_top_list *list = list_of(state);
	size_t i = 0;

	while (state->has_cursor && i < list->count &&
	       !ls_prefix_equal(&list->rows[i].prefix, &state->cursor))
		i++;
	return state->has_cursor ? i : list->count;
}

static size_t mark_at(const struct state *state, const struct ls_prefix *prefix)
{
	size_t i = 0;

	while (i < state->n_marks && !ls_prefix_equal(&state->marks[i], prefix))
		i++;
	return i;
}

static void move_cursor(struct state *state, long by)
{
	const struct ls_top_list *list = list_of(state);
	const size_t at = cursor_at(state);
	long to;

	if (list->count == 0)
		return;
	/* The first arrow finds the first row on the screen. */
	to = at == list->count ? (long)state->first : (long)at + by;
	if (to < 0)
		to = 0;
	if (to >= (long)list->count)
		to = (long)list->count - 1;
	state->has_cursor = true;
	state->cursor = list->rows[to].prefix;
	const size_t fit = rows_that_fit();
	if ((size_t)to < state->first)
		state->first = (size_t)to;
	if (fit && (size_t)to >= state->first + fit)
		state->first = (size_t)to - fit + 1;
}

static void toggle_mark(struct state *state)
{
	const size_t at = cursor_at(state);

	if (at == list_of(state)->count)
		return;
	const size_t mark = mark_at(state, &state->cursor);
	if (mark < state->n_marks)
		state->marks[mark] = state->marks[--state->n_marks];
	else if (state->n_marks < MARKS)
		state->marks[state->n_marks++] = state->cursor;
	move_cursor(state, 1);
}

/* ---- drawing ---- */

/* One line, cut at the right edge. */
__attribute__((format(printf, 3, 4))) static void put_line(int y, attr_t attributes,
							   const char *format, ...)
{
	char text[512];
	va_list arguments;

	if (y >= LINES)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	(void)attr_set(attributes, 0, NULL);
	move(y, 0);
	clrtoeol();
	addnstr(text, COLS);
	/* A bar reaches the edge. */
	if (attributes & A_REVERSE)
		for (int x = getcurx(stdscr); x < COLS && getcury(stdscr) == y && x > 0; x++)
			mvaddch(y, x, ' ');
	(void)attr_set(A_NORMAL, 0, NULL);
}

static const char *count_text(double count, char text[static LS_HUMAN_TEXT])
{
	return ls_human_count(count > 0 ? (uint64_t)(count + 0.5) : 0, text);
}

static void draw_row(struct state *state, int y, const struct ls_top_row *row)
{
	char name[LS_PREFIX_TEXT], word[LS_TOP_WORD] = "", drops[32];
	char packets[LS_HUMAN_TEXT], error[LS_HUMAN_TEXT], bits[LS_HUMAN_TEXT],
		refused[LS_HUMAN_TEXT], would[LS_HUMAN_TEXT];
	const bool is_here = state->has_cursor && ls_prefix_equal(&row->prefix, &state->cursor);
	const bool is_marked = mark_at(state, &row->prefix) < state->n_marks;

	state->screen->describe(state->screen->context, &row->prefix, word);
	if (COLS >= WIDE)
		snprintf(drops, sizeof(drops), "%9s %9s", count_text(row->drops, refused),
			 count_text(row->would_drops, would));
	else
		snprintf(drops, sizeof(drops), "%9s",
			 count_text(row->drops + row->would_drops, refused));
	put_line(y, is_here ? A_REVERSE : A_NORMAL, "%c%c%-*s %9s %6s %7s %s %5.1f%% %s",
		 is_here ? '>' : ' ', is_marked ? '*' : ' ', SOURCE_WIDTH,
		 ls_prefix_format(&row->prefix, name), count_text(row->packets, packets),
		 count_text(row->error, error), count_text(row->bytes * 8, bits), drops,
		 row->share * 100, word);
}

static void draw_heads(const struct state *state, int y)
{
	const enum ls_top_order order = state->order;
	const char *drops = COLS >= WIDE ? "  DROPS/S   WOULD/S" : "REFUSED/S";

	if (order == LS_TOP_BY_DROPS)
		drops = COLS >= WIDE ? " *DROPS/S  *WOULD/S" : " *REFUSED";
	put_line(y, A_REVERSE, "  %-*s %9s %6s %7s %s %6s %s", SOURCE_WIDTH,
		 state->prefixes ? "PREFIX" : "SOURCE",
		 order == LS_TOP_BY_PACKETS ? "*PACKETS" : "PACKETS/S", "+-",
		 order == LS_TOP_BY_BYTES ? "*BIT/S" : "BIT/S", drops, "SHARE", "IS");
}

static void draw_help(void)
{
	static const char *const lines[] = {
		"p b d        sort by packets, bits, refused (dropped, or would have been)",
		"s            sources (IPv4, IPv6 /64) or prefixes (/24, /48)",
		"arrows, page, home, end    move the cursor; it stays with its row",
		"space        mark the row",
		"x            ban what is marked, or the row with the cursor, for a time",
		"escape       no cursor, no marks",
		"q            leave",
		"",
		"The figures are of the last second. +- is how far the packets can be off",
		"(99.99 %). IS: allow, deny, nat (a shared address), ban and for how long.",
		"",
		"Any key goes back.",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		put_line(HEADER_LINES + (int)i, A_NORMAL, "  %s", lines[i]);
}

static void draw_rows(struct state *state)
{
	const struct ls_top_list *list = list_of(state);
	const size_t fit = rows_that_fit();

	if (state->first + fit > list->count)
		state->first = list->count > fit ? list->count - fit : 0;
	draw_heads(state, HEADER_LINES - 1);
	for (size_t i = 0; i < fit && state->first + i < list->count; i++)
		draw_row(state, HEADER_LINES + (int)i, &list->rows[state->first + i]);
	if (list->count == 0)
		put_line(HEADER_LINES, A_NORMAL, "  %s",
			 state->frame.reading.interval_ns ? "no packets" : "measuring");
}

static void draw_foot(const struct state *state)
{
	char name[LS_PREFIX_TEXT];

	if (state->mode == MODE_PROMPT && state->n_marks)
		put_line(LINES - 1, A_BOLD,
			 "ban the %zu marked for how long? (enter bans, escape does not) %s_",
			 state->n_marks, state->typed);
	else if (state->mode == MODE_PROMPT)
		put_line(LINES - 1, A_BOLD,
			 "ban %s for how long? (enter bans, escape does not) %s_",
			 ls_prefix_format(&state->cursor, name), state->typed);
	else
		put_line(LINES - 1, A_NORMAL,
			 "q leave  p b d sort  s %s  arrows, space select  x ban  h help",
			 state->prefixes ? "sources" : "prefixes");
}

static void draw(struct state *state)
{
	const struct ls_top_frame *frame = &state->frame;

	erase();
	put_line(0, A_BOLD, "%s", frame->title);
	put_line(1, A_NORMAL, "%s", frame->rates);
	put_line(2, A_NORMAL, "%s", frame->reasons);
	put_line(3, frame->state[0] ? A_BOLD : A_NORMAL, "%s", frame->state);
	put_line(4, A_BOLD, "%s", state->message);
	if (state->mode == MODE_HELP)
		draw_help();
	else
		draw_rows(state);
	draw_foot(state);
	refresh();
}

/* ---- keys ---- */

static void ask_ban(struct state *state)
{
	if (!state->n_marks && cursor_at(state) == list_of(state)->count) {
		snprintf(state->message, sizeof(state->message),
			 "ban whom? arrows choose a row, space marks several");
		return;
	}
	snprintf(state->typed, sizeof(state->typed), BAN_TIME);
	state->mode = MODE_PROMPT;
}

static void do_ban(struct state *state)
{
	const struct ls_top_screen *screen = state->screen;

	if (state->n_marks)
		screen->ban(screen->context, state->marks, state->n_marks, state->typed,
			    state->message);
	else
		screen->ban(screen->context, &state->cursor, 1, state->typed, state->message);
	state->n_marks = 0;
}

static void on_prompt_key(struct state *state, int key)
{
	const size_t length = strlen(state->typed);

	if (key == KEY_ESCAPE) {
		state->mode = MODE_ROWS;
	} else if (key == '\n' || key == '\r' || key == KEY_ENTER) {
		state->mode = MODE_ROWS;
		if (length)
			do_ban(state);
	} else if (key == KEY_BACKSPACE || key == 127 || key == 8) {
		if (length)
			state->typed[length - 1] = '\0';
	} else if (key > ' ' && key < 127 && length + 1 < sizeof(state->typed)) {
		state->typed[length] = (char)key;
		state->typed[length + 1] = '\0';
	}
}

static void set_order(struct state *state, enum ls_top_order order)
{
	state->order = order;
	state->first = 0;
	ls_top_sort(&state->frame.reading.sources, order);
	ls_top_sort(&state->frame.reading.prefixes, order);
}

/* True: leave. */
static bool on_row_key(struct state *state, int key)
{
	const long page = (long)rows_that_fit();

	switch (key) {
	case 'q':
	case 'Q':
		return true;
	case 'p':
		set_order(state, LS_TOP_BY_PACKETS);
		break;
	case 'b':
		set_order(state, LS_TOP_BY_BYTES);
		break;
	case 'd':
		set_order(state, LS_TOP_BY_DROPS);
		break;
	case 's':
		state->prefixes = !state->prefixes;
		state->has_cursor = false;
		state->first = 0;
		break;
	case 'x':
		ask_ban(state);
		break;
	case ' ':
		toggle_mark(state);
		break;
	case 'h':
	case '?':
		state->mode = MODE_HELP;
		break;
	case KEY_ESCAPE:
		state->has_cursor = false;
		state->n_marks = 0;
		break;
	case KEY_UP:
	case 'k':
		move_cursor(state, -1);
		break;
	case KEY_DOWN:
	case 'j':
		move_cursor(state, 1);
		break;
	case KEY_PPAGE:
		move_cursor(state, -page);
		break;
	case KEY_NPAGE:
		move_cursor(state, page);
		break;
	case KEY_HOME:
		move_cursor(state, -LS_TOP_ROWS * 3);
		break;
	case KEY_END:
		move_cursor(state, LS_TOP_ROWS * 3);
		break;
	default:
		break;
	}
	return false;
}

static bool on_key(struct state *state, int key)
{
	if (key == ERR || key == KEY_RESIZE)
		return false;
	if (state->mode == MODE_PROMPT) {
		on_prompt_key(state, key);
		return false;
	}
	state->message[0] = '\0';
	if (state->mode == MODE_HELP) {
		state->mode = MODE_ROWS;
		return false;
	}
	return on_row_key(state, key);
}

/* ---- the loop ---- */

static int renew(struct state *state, struct ls_error *error)
{
	struct ls_top_frame fresh = { 0 };
	const int r = state->screen->read(state->screen->context, &fresh, error);

	if (r < 0) {
		ls_top_fini(&fresh.reading);
		return r;
	}
	ls_top_fini(&state->frame.reading);
	state->frame = fresh;
	ls_top_sort(&state->frame.reading.sources, state->order);
	ls_top_sort(&state->frame.reading.prefixes, state->order);
	return 0;
}

/* Whether the terminal is gone, which no key would tell. */
static bool has_hung_up(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&input, 1, 0) > 0 && input.revents & (POLLHUP | POLLERR | POLLNVAL);
}

static int loop(struct state *state, struct ls_error *error)
{
	int r = renew(state, error);

	while (r == 0 && !caught && !has_hung_up()) {
		const struct ls_top_screen *screen = state->screen;
		draw(state);
		const uint64_t wait_ms =
			screen->wait_ns(screen->context, state->frame.reading.number) / 1000000 + 1;
		timeout(wait_ms < TICK_MS ? (int)wait_ms : TICK_MS);
		if (on_key(state, getch()))
			break;
		if (!caught && screen->wait_ns(screen->context, state->frame.reading.number) == 0)
			r = renew(state, error);
	}
	return r;
}

int ls_top_screen_run(const struct ls_top_screen *screen, int *ret_signal, struct ls_error *error)
{
	struct sigaction before[N_ENDS];
	struct state *state = calloc(1, sizeof(*state));
	const char *term = getenv("TERM");

	if (!state)
		return ls_error_oom(error);
	state->screen = screen;
	(void)tcgetattr(STDIN_FILENO, &found);
	signals_catch(before); /* first, or curses catches those that are not caught */
	SCREEN *terminal = newterm(NULL, stdout, stdin);
	if (!terminal) {
		signals_release(before);
		free(state);
		return ls_error_set(
			error,
			"cannot use the terminal '%s': nothing is known about it; set TERM, or use 'top -o table'",
			term ? term : "");
	}
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	set_escdelay(50);
	(void)curs_set(0);
	const int r = loop(state, error);
	(void)curs_set(1);
	endwin();
	delscreen(terminal);
	signals_release(before);
	*ret_signal = caught;
	ls_top_fini(&state->frame.reading);
	free(state);
	return r;
}

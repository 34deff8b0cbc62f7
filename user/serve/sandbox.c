/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/serve/sandbox.h"

#include <linux/capability.h>
#include <linux/sockios.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/base/log.h"
#include "user/plane/plane.h"

static const char *const allowed[] = {
	/* files */
	"read",
	"readv",
	"pread64",
	"preadv",
	"write",
	"writev",
	"pwrite64",
	"pwritev",
	"open",
	"openat",
	"openat2",
	"close",
	"close_range",
	"lseek",
	"_llseek",
	"stat",
	"stat64",
	"fstat",
	"fstat64",
	"lstat",
	"lstat64",
	"newfstatat",
	"fstatat64",
	"statx",
	"statfs",
	"statfs64",
	"fstatfs",
	"fstatfs64",
	"access",
	"faccessat",
	"faccessat2",
	"readlink",
	"readlinkat",
	"getdents",
	"getdents64",
	"getcwd",
	"mkdir",
	"mkdirat",
	"unlink",
	"unlinkat",
	"rmdir",
	"rename",
	"renameat",
	"renameat2",
	"fsync",
	"fdatasync",
	"ftruncate",
	"ftruncate64",
	"fchmod",
	"fchown",
	"flock",
	"fcntl",
	"fcntl64",
	"dup",
	"dup2",
	"dup3",
	"pipe",
	"pipe2",
	"fadvise64",
	"sendfile",
	"sendfile64",
	"umask",
	/* memory, threads of libraries, children */
	"brk",
	"munmap",
	"mremap",
	"madvise",
	"membarrier",
	"futex",
	"futex_time64",
	"set_robust_list",
	"rseq",
	"sched_yield",
	"sched_getaffinity",
	"clone",
	"clone3",
	"fork",
	"vfork",
	"wait4",
	"waitid",
	"waitpid",
	"pidfd_open",
	"exit",
	"exit_group",
	"set_tid_address",
	"arch_prctl",
	"prctl",
	/* time and waiting */
	"nanosleep",
	"clock_nanosleep",
	"clock_nanosleep_time64",
	"clock_gettime",
	"clock_gettime64",
	"clock_getres",
	"gettimeofday",
	"time",
	"epoll_create1",
	"epoll_ctl",
	"epoll_wait",
	"epoll_pwait",
	"epoll_pwait2",
	"timerfd_create",
	"timerfd_settime",
	"timerfd_settime64",
	"timerfd_gettime",
	"signalfd4",
	"eventfd2",
	"inotify_init1",
	"inotify_add_watch",
	"inotify_rm_watch",
	"poll",
	"ppoll",
	"ppoll_time64",
	"select",
	"pselect6",
	"_newselect",
	/* signals */
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"sigreturn",
	"sigaltstack",
	"restart_syscall",
	"tgkill",
	/* who and where */
	"getpid",
	"getppid",
	"gettid",
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"getuid32",
	"geteuid32",
	"getgid32",
	"getegid32",
	"uname",
	"sysinfo",
	"getrandom",
	"prlimit64",
	"getrlimit",
	"ugetrlimit",
	"getrusage",
	"times",
	"capget",
	/* network; socket() itself below */
	"bind",
	"listen",
	"accept",
	"accept4",
	"connect",
	"getsockname",
	"getpeername",
	"getsockopt",
	"setsockopt",
	"send",
	"sendto",
	"sendmsg",
	"sendmmsg",
	"recv",
	"recvfrom",
	"recvmsg",
	"recvmmsg",
	"shutdown",
	/* the kernel's side of it all */
	"bpf",
};

static const int families[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };

static const unsigned long ioctls[] = { SIOCETHTOOL, SIOCGIFINDEX, SIOCGIFNAME, SIOCINQ,
					FIONBIO,     TCGETS,	   TIOCGWINSZ };

/* ---- capabilities ---- */

static uint64_t capabilities_needed(void)
{
	uint64_t needed = 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_NET_ADMIN |
			  1ULL << CAP_DAC_READ_SEARCH;

	if (ls_plane_looks_outside())
		needed |= 1ULL << CAP_SYS_PTRACE;
	return needed;
}

/* Whoever lacks CAP_SETPCAP cannot make the bounding set smaller; without execve it means nothing anyway. */
static void drop_bounding(uint64_t needed)
{
	for (unsigned cap = 0; cap < 64; cap++)
		if (!(needed >> cap & 1) && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
}

static int drop_capabilities(struct ls_error *error)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	const uint64_t needed = capabilities_needed();

	if (syscall(SYS_capget, &header, data) < 0)
		return ls_error_set_errno(error, errno, "cannot ask for the capabilities");
	drop_bounding(needed);
	for (unsigned i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(needed >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &header, data) < 0)
		return ls_error_set_errno(error, errno, "cannot drop capabilities");
	return 0;
}

/* ---- system calls ---- */

/* Either writable or executable. */
static int allow_memory(scmp_filter_ctx filter, const char *name)
{
	const int number = seccomp_syscall_resolve_name(name);
	int r;

	if (number == __NR_SCMP_ERROR)
		return 0;
	r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 1,
			     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	return r < 0 ? r
		     : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 1,
					SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_WRITE, 0));
}

static int fill_filter(scmp_filter_ctx filter)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(allowed) / sizeof(allowed[0]); i++) {
		/* One that this machine does not have. */
		const int number = seccomp_syscall_resolve_name(allowed[i]);
		if (number != __NR_SCMP_ERROR)
			r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	}
	for (size_t i = 0; r == 0 && i < sizeof(families) / sizeof(families[0]); i++) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	}
	for (size_t i = 0; r == 0 && i < sizeof(ioctls) / sizeof(ioctls[0]); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				     SCMP_A1(SCMP_CMP_EQ, ioctls[i]));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
				     SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	if (r == 0)
		r = allow_memory(filter, "mmap");
	if (r == 0)
		r = allow_memory(filter, "mmap2");
	if (r == 0)
		r = allow_memory(filter, "mprotect");
	return r;
}

static int load_filter(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));

	if (!filter)
		return -ENOMEM;
	(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE,
			       2); /* a tree: all are asked often */
	int r = fill_filter(filter);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

int ls_sandbox_enter(struct ls_error *error)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return ls_error_set_errno(error, errno, "cannot forbid new privileges");
	int r = drop_capabilities(error);
	if (r < 0)
		return r;
	r = load_filter();
	if (r < 0)
		ls_log(LS_LOG_WARNING, "goes on without a filter of system calls: %s",
		       strerror(-r));
	return 0;
}

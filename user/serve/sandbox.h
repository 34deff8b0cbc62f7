/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_SERVE_SANDBOX_H
#define LOADSHED_USER_SERVE_SANDBOX_H

/*
 * What the controller gives away once everything is open, for itself and for the processes that it forks.
 *
 * Capabilities that stay, by trying each verb without the others on 6.18:
 *	CAP_SYS_ADMIN		opening a map by its number, which the kernel gives to nobody else: the text of the policy is
 *				in an inner map. With it bpf() asks for neither CAP_BPF nor CAP_PERFMON (without it, the program
 *				would need both).
 *	CAP_NET_ADMIN		the kernel's text about an interface that refuses the program comes by netlink
 *	CAP_DAC_READ_SEARCH	list files that belong to whoever writes the feed
 *	CAP_SYS_PTRACE		only when the mount namespace with bpffs could not be joined (ls_plane_prepare()), so that it is
 *				seen only through another process. ptrace() itself is forbidden below.
 *
 * System calls: those of a network service, bpf() and fork; no execve, ptrace, mount, namespaces, modules or keys;
 * sockets of IP, UNIX and netlink only; no memory that is writable and executable. What is not allowed
 * fails with EPERM: a library's odd wish must not end the process.
 */

struct ls_error;

/*
 * For good. 0, or negative with a line: capabilities could not be dropped, and the caller had better not go on. A kernel
 * that has no seccomp is a line in the log and nothing more.
 */
int ls_sandbox_enter(struct ls_error *error);

#endif

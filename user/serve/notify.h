/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_SERVE_NOTIFY_H
#define LOADSHED_USER_SERVE_NOTIFY_H

/*
 * What a service manager is told (sd_notify(3)): one datagram of KEY=VALUE lines to the socket that NOTIFY_SOCKET
 * names. Without one nothing is sent. The protocol is stable and small, so no library is used for it.
 */

#include <stdint.h>

void ls_notify_ready(void);
/* Before a reload; ls_notify_ready() after it. The kernel's monotonic clock goes with it (systemd 253). */
void ls_notify_reloading(uint64_t monotonic_ns);
void ls_notify_stopping(void);
void ls_notify_watchdog(void);
/* One line for people, shown by `systemctl status`. */
void ls_notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How often the manager wants to hear of us, in ns; 0: never. WATCHDOG_USEC, if WATCHDOG_PID is us. */
uint64_t ls_notify_watchdog_ns(void);

/* Sends one message to a socket path or, with '@', an abstract name. 0 or negative errno. Public for tests. */
int ls_notify_send(const char *socket_name, const char *message);

#endif

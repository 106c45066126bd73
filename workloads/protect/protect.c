// SPDX-License-Identifier: Apache-2.0
/*
 * protect: locks given parts of a program's memory, without a change to the program (LD_PRELOAD=protect.so).
 *
 * DAMOOS_PROTECT names them: START-END in hexadecimal, separated by commas, the end excluded. Pages are locked as they
 * are touched (MLOCK_ONFAULT), so nothing is made resident that the program does not use. A timer looks again and again,
 * because most mappings come after the start. There is no thread, so that addresses are nearly those of a run without.
 * What the program starts inherits all of this: it may be a script that starts what was recorded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
	MAX_PARTS = 64,
	PIECE = 1 << 20, /* locked at once: what is not mapped yet must not keep the rest from being locked */
	EVERY_MS = 200,
};

static struct {
	unsigned long start, end;
} parts[MAX_PARTS];
static int nr_parts;

static void lock(int signal)
{
	int saved = errno;

	(void)signal;
	for (int i = 0; i < nr_parts; i++)
		for (unsigned long at = parts[i].start; at < parts[i].end; at += PIECE) {
			unsigned long left = parts[i].end - at;

			/* ENOMEM: it is not mapped, or not yet. Locking again what is locked does nothing. */
			mlock2((void *)at, left < PIECE ? left : PIECE, MLOCK_ONFAULT);
		}
	errno = saved;
}

__attribute__((constructor)) static void begin(void)
{
	const char *words = getenv("DAMOOS_PROTECT");
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	struct sigaction action = { .sa_handler = lock, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMAX - 1 };
	struct itimerspec every = { { 0, EVERY_MS * 1000000L }, { 0, EVERY_MS * 1000000L } };
	timer_t timer;

	while (words && *words && nr_parts < MAX_PARTS) {
		char *end;

		parts[nr_parts].start = strtoul(words, &end, 16);
		if (*end != '-')
			break;
		parts[nr_parts++].end = strtoul(end + 1, &end, 16);
		words = *end == ',' ? end + 1 : NULL;
	}
	if (!nr_parts)
		return;
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	if (sigaction(SIGRTMAX - 1, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &every, NULL))
		return;
	lock(0);
}

/*
 * What the kernel's most frequent work takes: seconds of a page fault, a system call and a context switch, as JSON.
 *
 * clock PAGES CALLS SWITCHES
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec * 1e-9;
}

/* The first write to a page of anonymous memory. */
static double fault(long nr_pages)
{
	long page = sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, nr_pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double begun;

	if (memory == MAP_FAILED || madvise(memory, nr_pages * page, MADV_NOHUGEPAGE))
		exit(1);
	begun = now();
	for (long at = 0; at < nr_pages; at++)
		memory[at * page] = 1;
	return (now() - begun) / nr_pages;
}

static double call(long nr_calls)
{
	double begun = now();

	for (long n = 0; n < nr_calls; n++)
		syscall(SYS_getppid);
	return (now() - begun) / nr_calls;
}

/* Two processes pass a byte to and fro by two pipes, as lmbench's lat_ctx does: each time it is passed is a switch. */
static double pass(long nr_passes)
{
	int there[2], back[2];
	char byte = 0;
	double begun;

	if (pipe(there) || pipe(back))
		exit(1);
	if (!fork()) {
		while (read(there[0], &byte, 1) == 1 && byte < 2)
			if (write(back[1], &byte, 1) != 1)
				break;
		_exit(0);
	}
	begun = now();
	for (long n = 0; n < nr_passes / 2; n++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			exit(1);
	begun = now() - begun;
	byte = 2;
	if (write(there[1], &byte, 1) != 1)
		exit(1);
	wait(NULL);
	return begun / nr_passes;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	printf("{\"fault_s\": %.10f, \"call_s\": %.10f, \"switch_s\": %.10f}\n", fault(atol(argv[1])), call(atol(argv[2])),
	       pass(atol(argv[3])));
	return 0;
}

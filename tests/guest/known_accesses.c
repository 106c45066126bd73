/*
 * Makes a known number of accesses to pages of its own and prints what the emulator has counted for each of them:
 * lines of page number, accesses made, accesses counted. Then the misses of the modelled cache on each node for reading
 * so many bytes twice, all of them new to the cache: "misses NODE COUNT".
 *
 * known_accesses COUNTS NODE PAGES
 *   COUNTS is the file with the counts (resource2 of the ivshmem device), NODE where the pages are to be
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, CPU_WORDS = 24, MPOL_BIND = 2, COUNT = 1, COUNT_PAGES = 2, LOOK_ALWAYS = 4, WANTED = 8, LINE = 64 };

static volatile uint64_t *counts;

static uint64_t misses_of(unsigned node)
{
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu < counts[3]; cpu++)
		sum += counts[counts[4] / 8 + cpu * CPU_WORDS + 8 + node];
	return sum;
}

int main(int argc, char **argv)
{
	unsigned node = atoi(argv[2]), nr = atoi(argv[3]);
	unsigned long mask = 1ul << node;
	struct stat about;
	int fd = open(argv[1], O_RDWR), map = open("/proc/self/pagemap", O_RDONLY);
	volatile uint32_t *page;
	volatile char *mine;

	if (argc != 4 || fd < 0 || map < 0 || fstat(fd, &about))
		return 1;
	counts = mmap(NULL, about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mine = mmap(NULL, nr * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED || mine == MAP_FAILED)
		return 1;
	if (syscall(SYS_mbind, mine, nr * PAGE, MPOL_BIND, &mask, 64, 0) || madvise((void *)mine, nr * PAGE, MADV_NOHUGEPAGE))
		return 1;
	for (unsigned nth = 0; nth < nr; nth++)
		mine[nth * PAGE] = 1;
	if (mlock((void *)mine, nr * PAGE))
		return 1;
	page = (volatile uint32_t *)counts + counts[5] / 4;
	for (unsigned nth = 0; nth < nr; nth++) {
		uint64_t entry, number;

		if (pread(map, &entry, 8, ((uintptr_t)mine / PAGE + nth) * 8) != 8)
			return 1;
		number = entry & ((1ull << 55) - 1);
		page[number] = 0;
		counts[WANTED] = COUNT | COUNT_PAGES | LOOK_ALWAYS;
		for (unsigned time = 0; time < 100 + nth; time++)
			mine[nth * PAGE + time % PAGE]++; /* reads and writes */
		counts[WANTED] = 0;
		printf("%llu %u %u\n", (unsigned long long)number, 2 * (100 + nth), page[number]);
	}
	counts[WANTED] = COUNT;
	for (int time = 0; time < 2; time++) {
		uint64_t before = misses_of(node);

		for (unsigned nth = 0; nth < nr * PAGE; nth += LINE)
			mine[nth];
		printf("misses %u %llu\n", node, (unsigned long long)(misses_of(node) - before));
	}
	counts[WANTED] = 0;
	return 0;
}

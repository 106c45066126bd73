// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counts a guest's accesses to memory by node and, on request, by page: a plugin of QEMU's emulator (TCG).
 *
 * The counters lie in a file that the guest has as the memory of a PCI device (ivshmem-plain), so whoever measures in
 * the guest reads them at the very moments at which it reads its other counters. All of it is counted, the kernel's
 * accesses included, for as long as the guest asks for it (struct head, `wanted`).
 *
 * A cache is modelled, one for each virtual CPU, physically tagged and set-associative with the least recently used
 * way replaced; an access that it holds is counted as an access and not as a miss. Nothing else of a real memory system
 * is: no prefetcher, no translation cache, no bandwidth.
 *
 * Words of the plugin:
 *   shm=FILE            of at least `bytes`; made by whoever starts QEMU
 *   bytes=N             its size
 *   cache=N             bytes of the modelled cache; 0 for none
 *   range=A:B:NODE:PAGE addresses from A to B, as the plugin interface tells them, are of this node; PAGE is the
 *                       number of the guest's page at A. One for each part of the guest's memory.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of the plugin interface, version 1 (QEMU 5.2 and later): no package of Debian's has its header. */
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
enum { NO_REGISTERS = 0 };
enum { READS_AND_WRITES = 3 };
typedef void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*accessed)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, accessed, int, int, void *);
extern struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, uint64_t);
extern bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
extern uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* What the guest sees; damoos/agent/access_counts.py reads it. All numbers are little-endian, as the host's. */
enum { VERSION = 1, NODES = 8, CPUS = 64, RANGES = 16, PAGE_BITS = 12, LINE_BITS = 6, WAYS = 8 };
static const uint64_t MAGIC = 0x31434341534f4d44; /* "DMOSACC1" */
/*
 * What the guest wants: accesses by node; by page as well; no translation kept (see `translations`); by page only those
 * to addresses of programs, as the accessed bits of their page tables have them.
 */
enum { COUNT = 1, COUNT_PAGES = 2, LOOK_ALWAYS = 4, PAGES_OF_USERS = 8 };
struct cpu {
	uint64_t accesses[NODES];
	uint64_t misses[NODES];
	uint64_t elsewhere; /* of devices, and of memory that is of no node */
	uint64_t unused[7];
};
struct head {
	uint64_t magic, version, nodes, cpus, cpu_offset, page_offset, pages, cache_bytes;
	uint64_t wanted; /* the guest's word, of the bits above */
	uint64_t unused[7];
	struct cpu cpu[CPUS];
	uint32_t page[]; /* accesses by the number of the page; it wraps around, and the guest sets it to 0 */
};

struct range {
	uint64_t from, to, page;
	unsigned node;
};
static struct range ranges[RANGES];
static unsigned nr_ranges;
static volatile struct head *head;
static uint64_t (*lines)[WAYS]; /* tags by CPU and set, the most recent first */
static uint64_t sets;

/*
 * Looking an address up takes longer than all the rest, so translations are kept, for so many accesses (some tenths of a
 * millisecond of the guest's time): a page that moves meanwhile is counted where it was. With LOOK_ALWAYS none is kept.
 */
enum { TRANSLATIONS = 256, KNOWN_FOR = 50000 };
struct place {
	uint64_t vpage, page;
	unsigned node;
};
static struct translations {
	struct place places[TRANSLATIONS];
	unsigned left;
} translations[CPUS];

static bool is_cached(unsigned cpu, uint64_t line)
{
	uint64_t *ways = lines[cpu % CPUS * sets + line % sets], before = line;

	for (int way = 0; way < WAYS; way++) {
		uint64_t here = ways[way];

		ways[way] = before;
		if (here == line)
			return true;
		before = here;
	}
	return false;
}

/* Which of the guest's pages an address is of; false for what is no memory of a node. */
static bool find_page(qemu_plugin_meminfo_t info, uint64_t vaddr, struct place *found)
{
	struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, vaddr);
	uint64_t addr;

	if (!where || qemu_plugin_hwaddr_is_io(where))
		return false;
	addr = qemu_plugin_hwaddr_phys_addr(where);
	for (unsigned nth = 0; nth < nr_ranges; nth++) {
		const struct range *in = &ranges[nth];

		if (addr >= in->from && addr < in->to) {
			found->page = in->page + ((addr - in->from) >> PAGE_BITS);
			found->node = in->node;
			return true;
		}
	}
	return false;
}

static void access_of(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *unused)
{
	uint64_t wanted = head->wanted, vpage = vaddr >> PAGE_BITS;
	volatile struct cpu *mine = &head->cpu[cpu % CPUS];
	struct translations *known = &translations[cpu % CPUS];
	struct place *place = &known->places[vpage % TRANSLATIONS];

	(void)unused;
	if (!wanted)
		return;
	if (!known->left--) {
		memset(known->places, 0xff, sizeof(known->places));
		known->left = KNOWN_FOR;
	}
	if (place->vpage != vpage || wanted & LOOK_ALWAYS) {
		place->vpage = ~0ull;
		if (!find_page(info, vaddr, place)) {
			mine->elsewhere++;
			return;
		}
		place->vpage = vpage;
	}
	mine->accesses[place->node]++;
	if (!sets || !is_cached(cpu, 1 + (place->page << (PAGE_BITS - LINE_BITS)) + (vaddr >> LINE_BITS & 63)))
		mine->misses[place->node]++;
	/* Addresses of programs are those of the lower half. */
	if (wanted & COUNT_PAGES && place->page < head->pages && !(wanted & PAGES_OF_USERS && vaddr >> 63))
		head->page[place->page]++;
}

static void translated_block(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	size_t count = qemu_plugin_tb_n_insns(block);

	(void)id;
	for (size_t nth = 0; nth < count; nth++)
		qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, nth), access_of, NO_REGISTERS,
						 READS_AND_WRITES, NULL);
}

static int refused(const char *why, const char *what)
{
	fprintf(stderr, "access counter: %s: %s\n", why, what);
	return -1;
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc,
							       char **argv)
{
	const char *file = NULL;
	uint64_t bytes = 0, cache = 0, nodes = 0;
	int fd;

	(void)info;
	for (int nth = 0; nth < argc; nth++) {
		struct range *in = &ranges[nr_ranges];

		if (!strncmp(argv[nth], "shm=", 4))
			file = argv[nth] + 4;
		else if (sscanf(argv[nth], "bytes=%" SCNu64, &bytes) == 1 || sscanf(argv[nth], "cache=%" SCNu64, &cache) == 1)
			continue;
		else if (nr_ranges < RANGES && sscanf(argv[nth], "range=%" SCNx64 ":%" SCNx64 ":%u:%" SCNu64, &in->from, &in->to,
						      &in->node, &in->page) == 4 && in->node < NODES)
			nr_ranges++;
		else
			return refused("unknown word", argv[nth]);
	}
	for (unsigned nth = 0; nth < nr_ranges; nth++)
		nodes = ranges[nth].node >= nodes ? ranges[nth].node + 1 : nodes;
	if (!file || bytes < sizeof(struct head) || !nr_ranges)
		return refused("it needs shm=, bytes= and range=", "too little was said");
	fd = open(file, O_RDWR);
	head = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (head == MAP_FAILED)
		return refused("cannot map", file);
	close(fd);
	sets = cache >> LINE_BITS; /* lines */
	sets /= WAYS;
	lines = sets ? calloc(CPUS * sets, sizeof(*lines)) : NULL;
	if (sets && !lines)
		return refused("no memory for the cache of", file);
	head->version = VERSION;
	head->nodes = nodes;
	head->cpus = CPUS;
	head->cpu_offset = (uintptr_t)head->cpu - (uintptr_t)head;
	head->page_offset = (uintptr_t)head->page - (uintptr_t)head;
	head->pages = (bytes - sizeof(struct head)) / sizeof(uint32_t);
	head->cache_bytes = sets * WAYS << LINE_BITS;
	head->wanted = 0;
	head->magic = MAGIC;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated_block);
	return 0;
}

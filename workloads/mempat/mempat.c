// SPDX-License-Identifier: Apache-2.0
/*
 * mempat: produce memory accesses from a pattern file, a fixed amount of them.
 *
 * The file format is the one that masim, the memory access simulator, has published:
 *
 *     #regions
 *     name, length in bytes (K, M, G are understood)[, initial data file or "none"]
 *                                    <- an empty line ends a block
 *     phase name
 *     time in ms
 *     region, randomness (0|1), stride, probability[, ro|wo|rw]
 *
 * Unlike masim, a phase does not run for its time: it makes `time * rate` accesses and ends. What a run
 * has to do is therefore the same on every machine and under every memory policy, and the runtime is a measurement.
 * With -p it also waits where it is ahead of its time, as a server does between requests; then it only ends late where
 * the machine or the policy cannot keep up.
 * With -w it sleeps where a program computes between its accesses. Each burst of them is followed by the time for which
 * it stands, so whatever delays the accesses makes the run longer, as with -p it does not. With -x, too, it can stand for
 * a program with more memory: each page is one of FACTOR pages that are paged in and out alike, so what a burst takes
 * longer than one without page faults from swap is counted FACTOR times.
 *
 * With -c each page is filled when it is first accessed: one part is random and the rest is zero, so that compressors
 * make it smaller by the given factor. What is written later keeps both parts as they are.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MAX_REGIONS = 64, MAX_PATTERNS = 64, NAME_LEN = 64, SLOTS = 1 << 12 };
enum wait { NEVER, WHEN_AHEAD, ALWAYS };
/* Of a run that waits. Below DAMON's usual sampling interval of 5 ms, so that memory in steady use is seen in each sample; an
 * emulated machine with a longer interval is spared many wake-ups by -b. */
static unsigned long burst_ms = 4;
/* What compressed swap compresses at a time, on every architecture or a part of it. */
enum { BLOCK = 4096 };
enum mode { RO, WO, RW };

struct region {
	char name[NAME_LEN];
	size_t len;
	volatile uint64_t *data;
	size_t cursor; /* bytes: where sequential accesses of any phase go on */
};

struct pattern {
	struct region *region;
	int random;
	size_t stride;
	unsigned int weight;
	enum mode mode;
};

struct phase {
	char name[NAME_LEN];
	unsigned long time_ms;
	int nr_patterns;
	struct pattern patterns[MAX_PATTERNS];
	uint64_t ops;
	double start; /* of its first run, by the clock that kernel traces can have, too */
	double seconds;
};

static struct region regions[MAX_REGIONS];
static struct phase *phases;
static int nr_regions, nr_phases, line_no;
static unsigned long pages_stood_for = 1; /* by each page of memory */
static size_t noise_bytes; /* of each block, the others are zero; 0 if blocks are as the accesses leave them */
static const char *path;

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "mempat: ");
	if (line_no)
		fprintf(stderr, "%s:%d: ", path, line_no);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

/* Cuts off blanks at both ends, in place. */
static char *trimmed(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text;
}

/* The next comma-separated field of the line, or NULL at its end. */
static char *next_field(char **line)
{
	char *field = strsep(line, ",");

	return field ? trimmed(field) : NULL;
}

static size_t parse_number(const char *text, const char *what)
{
	char *end;
	unsigned long long value;

	if (!text || !isdigit((unsigned char)*text))
		die("%s: expected a number, got '%s'", what, text ? text : "nothing");
	errno = 0;
	value = strtoull(text, &end, 10);
	switch (*end) {
	case 'G': value <<= 10; /* fall through */
	case 'M': value <<= 10; /* fall through */
	case 'K': value <<= 10; end++;
	}
	if (errno || *end)
		die("%s: '%s' is not a number", what, text);
	return value;
}

/* Random bytes in each block that compressors are to make smaller by a factor; whole words, and at least one. */
static size_t parse_noise(const char *text)
{
	char *end;
	double factor = strtod(text, &end);
	size_t words;

	if (end == text || *end || !(factor >= 1))
		die("-c: expected a factor of 1 or more, got '%s'", text);
	words = BLOCK / sizeof(uint64_t) / factor;
	return (words ? words : 1) * sizeof(uint64_t);
}

static struct region *find_region(const char *name)
{
	for (int i = 0; i < nr_regions; i++)
		if (!strcmp(regions[i].name, name))
			return &regions[i];
	die("no region '%s'", name);
	return NULL;
}

static void load_initial_data(struct region *region, const char *file)
{
	FILE *input = fopen(file, "rb");

	if (!input)
		die("initial data '%s': %s", file, strerror(errno));
	if (fread((void *)region->data, 1, region->len, input) != region->len)
		die("initial data '%s' is shorter than region '%s'", file, region->name);
	fclose(input);
}

static void parse_region(char *line)
{
	struct region *region = &regions[nr_regions];
	char *name = next_field(&line), *file;
	void *data;

	if (nr_regions++ == MAX_REGIONS)
		die("more than %d regions", MAX_REGIONS);
	snprintf(region->name, NAME_LEN, "%s", name);
	region->len = parse_number(next_field(&line), "region length");
	if (region->len < sizeof(uint64_t))
		die("region '%s' is shorter than one access", name);
	data = mmap(NULL, region->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED)
		die("region '%s': %s", name, strerror(errno));
	region->data = data;
	file = next_field(&line);
	if (file && *file && strcmp(file, "none"))
		load_initial_data(region, file);
}

static void parse_pattern(struct phase *phase, char *line)
{
	struct pattern *pattern = &phase->patterns[phase->nr_patterns];
	char *mode;

	if (phase->nr_patterns++ == MAX_PATTERNS)
		die("more than %d patterns in phase '%s'", MAX_PATTERNS, phase->name);
	pattern->region = find_region(next_field(&line));
	pattern->random = parse_number(next_field(&line), "randomness") != 0;
	pattern->stride = parse_number(next_field(&line), "stride");
	pattern->weight = parse_number(next_field(&line), "probability");
	if (!pattern->stride)
		die("a stride of 0 never moves");
	mode = next_field(&line);
	if (!mode || !strcmp(mode, "rw"))
		pattern->mode = RW;
	else if (!strcmp(mode, "ro"))
		pattern->mode = RO;
	else if (!strcmp(mode, "wo"))
		pattern->mode = WO;
	else
		die("mode '%s' is none of ro, wo, rw", mode);
}

/* One line of a phase block: its first is the name, its second the time, the rest are patterns. */
static void parse_phase_line(int nth, char *line)
{
	struct phase *phase;

	if (nth == 0) {
		phases = realloc(phases, (nr_phases + 1) * sizeof(*phases));
		if (!phases)
			die("no memory for %d phases", nr_phases + 1);
		memset(&phases[nr_phases], 0, sizeof(*phases));
		snprintf(phases[nr_phases++].name, NAME_LEN, "%s", line);
		return;
	}
	phase = &phases[nr_phases - 1];
	if (nth == 1)
		phase->time_ms = parse_number(line, "phase time");
	else
		parse_pattern(phase, line);
}

static void parse_file(void)
{
	char *line = NULL;
	size_t capacity = 0;
	FILE *input = fopen(path, "r");
	int nth = 0, in_regions = 1;

	if (!input)
		die("%s: %s", path, strerror(errno));
	while (getline(&line, &capacity, input) != -1) {
		char *text = trimmed(line);

		line_no++;
		if (*text == '#')
			continue;
		if (!*text) {
			if (nth)
				in_regions = 0;
			nth = 0;
			continue;
		}
		if (in_regions)
			parse_region(text);
		else
			parse_phase_line(nth, text);
		nth++;
	}
	free(line);
	fclose(input);
	line_no = 0;
	if (!nr_regions || !nr_phases)
		die("%s: no regions or no phases", path);
}

/* A lookup table with each pattern in as many slots as its probability asks for. */
static void fill_slots(const struct phase *phase, unsigned char *slots)
{
	unsigned long total = 0, upto = 0;
	int slot = 0;

	for (int i = 0; i < phase->nr_patterns; i++)
		total += phase->patterns[i].weight;
	if (!total)
		die("phase '%s' has no pattern with a probability above 0", phase->name);
	for (int i = 0; i < phase->nr_patterns; i++) {
		upto += phase->patterns[i].weight;
		while (slot < (int)((uint64_t)SLOTS * upto / total))
			slots[slot++] = i;
	}
}

static uint64_t random_state;

/* xorshift64: a few instructions, so that the accesses and not their choice are the load. */
static inline uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Fills the block of an access that is the first one to it: until then its first word is zero, and later random. */
static inline int is_noise(struct region *region, size_t at)
{
	size_t start = at - at % BLOCK, bytes = region->len - start;
	volatile uint64_t *block = &region->data[start / sizeof(*block)];

	if (bytes > noise_bytes)
		bytes = noise_bytes;
	if (!*block)
		for (size_t i = 0; i < bytes / sizeof(*block); i++)
			block[i] = next_random();
	return at - start < noise_bytes;
}

static inline void touch(struct pattern *pattern, uint64_t random)
{
	struct region *region = pattern->region;
	volatile uint64_t *word;
	size_t at;

	if (pattern->random) {
		/* Multiply and shift: a uniform index without a division. */
		at = ((unsigned __int128)random * region->len) >> 64;
	} else {
		at = region->cursor;
		region->cursor += pattern->stride;
		if (region->cursor >= region->len)
			region->cursor = 0;
	}
	if (at > region->len - sizeof(*word))
		at = region->len - sizeof(*word);
	word = &region->data[at / sizeof(*word)];
	if (noise_bytes && !is_noise(region, at / sizeof(*word) * sizeof(*word)))
		random = 0;
	if (pattern->mode == RO)
		(void)*word;
	else if (pattern->mode == WO)
		*word = random;
	else
		*word += random;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* Waits until a point of the monotonic clock; returns at once where it has passed. */
static void wait_until(double when)
{
	struct timespec time = { .tv_sec = (time_t)when, .tv_nsec = (when - (time_t)when) * 1e9 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

/* Where the clocks and counters of this program stand. */
struct moment {
	double seconds, cpu_seconds;
	long swap_ins, preemptions;
};

static struct moment this_moment(void)
{
	struct timespec cpu;
	struct rusage usage;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	getrusage(RUSAGE_THREAD, &usage);
	return (struct moment){ now(), cpu.tv_sec + cpu.tv_nsec / 1e9, usage.ru_majflt, usage.ru_nivcsw };
}

/*
 * Seconds that a burst took longer than its accesses take where they are in memory, which is found out on the way. Time
 * in which another program had the CPU is no page fault's.
 */
static double delay_of_faults(struct moment from, struct moment to, uint64_t ops, double *per_op)
{
	double took = to.preemptions == from.preemptions ? to.seconds - from.seconds : to.cpu_seconds - from.cpu_seconds;

	if (to.swap_ins == from.swap_ins) {
		*per_op = took / ops;
		return 0;
	}
	return took > ops * *per_op ? took - ops * *per_op : 0;
}

static void run_phase(struct phase *phase, unsigned long rate, enum wait wait)
{
	unsigned char slots[SLOTS];
	uint64_t ops = phase->time_ms * rate, burst = wait == NEVER ? ops : burst_ms * rate;
	double start = now(), per_op = 0;

	if (!phase->ops)
		phase->start = start;
	fill_slots(phase, slots);
	for (uint64_t done = 0; done < ops;) {
		uint64_t from = done, upto = ops - done < burst ? ops : done + burst;
		struct moment begin = wait == ALWAYS ? this_moment() : (struct moment){ 0 };

		for (; done < upto; done++) {
			uint64_t random = next_random();

			touch(&phase->patterns[slots[random % SLOTS]], random * 0x9e3779b97f4a7c15ULL);
		}
		if (wait == WHEN_AHEAD) {
			wait_until(start + (double)done / rate / 1000);
		} else if (wait == ALWAYS) {
			struct moment end = this_moment();
			double more = (pages_stood_for - 1) * delay_of_faults(begin, end, done - from, &per_op);

			wait_until(end.seconds + (double)(done - from) / rate / 1000 + more);
		}
	}
	phase->ops += ops;
	phase->seconds += now() - start;
}

static void print_report(double seconds)
{
	uint64_t ops = 0;

	for (int i = 0; i < nr_phases; i++)
		ops += phases[i].ops;
	printf("{\"ops\": %llu, \"seconds\": %.6f, \"ops_per_s\": %.0f, \"phases\": [", (unsigned long long)ops, seconds,
	       seconds > 0 ? ops / seconds : 0.0);
	for (int i = 0; i < nr_phases; i++)
		printf("%s{\"name\": \"%s\", \"ops\": %llu, \"start\": %.6f, \"seconds\": %.6f}", i ? ", " : "",
		       phases[i].name, (unsigned long long)phases[i].ops, phases[i].start, phases[i].seconds);
	printf("], \"regions\": [");
	for (int i = 0; i < nr_regions; i++)
		printf("%s{\"name\": \"%s\", \"address\": %llu, \"bytes\": %zu}", i ? ", " : "", regions[i].name,
		       (unsigned long long)(uintptr_t)regions[i].data, regions[i].len);
	printf("]}\n");
}

static void usage(FILE *out)
{
	fprintf(out,
		"usage: mempat [-p | -w [-x FACTOR]] [-b MS] [-c FACTOR] [-r RATE] [-n REPEATS] [-o ONCE] [-s SEED] FILE\n"
		"  -p          wait where the accesses are ahead of the phase's time\n"
		"  -w          wait for as long as the accesses stand for, after each burst of them\n"
		"  -x FACTOR   with -w: how often the time is counted that page faults from swap take (default 1)\n"
		"  -b MS       of accesses between two waits (default 4)\n"
		"  -c FACTOR   by which compressors make the memory smaller (1 or more; default: as the accesses leave it)\n"
		"  -r RATE     accesses that stand for one millisecond of a phase (default 1000)\n"
		"  -n REPEATS  how often the phases are gone through (default 1)\n"
		"  -o ONCE     the first ONCE phases run only the first time (default 0)\n"
		"  -s SEED     of the random choices (default 1)\n");
}

int main(int argc, char **argv)
{
	unsigned long rate = 1000, repeats = 1, once = 0;
	double start;
	enum wait wait = NEVER;
	int option;

	random_state = 1;
	while ((option = getopt(argc, argv, "pwx:b:c:r:n:o:s:h")) != -1) {
		switch (option) {
		case 'p': wait = WHEN_AHEAD; break;
		case 'w': wait = ALWAYS; break;
		case 'x': pages_stood_for = parse_number(optarg, "-x"); break;
		case 'b': burst_ms = parse_number(optarg, "-b"); break;
		case 'c': noise_bytes = parse_noise(optarg); break;
		case 'r': rate = parse_number(optarg, "-r"); break;
		case 'n': repeats = parse_number(optarg, "-n"); break;
		case 'o': once = parse_number(optarg, "-o"); break;
		case 's': random_state = parse_number(optarg, "-s"); break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (optind != argc - 1) {
		usage(stderr);
		return 2;
	}
	if (!burst_ms)
		die("-b: the milliseconds are a number above 0");
	if (!pages_stood_for || (pages_stood_for > 1 && wait != ALWAYS))
		die("-x: the factor is a number above 0, and goes with -w");
	if (!random_state)
		die("-s: the seed is a number above 0");
	path = argv[optind];
	parse_file();
	start = now();
	for (unsigned long round = 0; round < repeats; round++)
		for (int i = round ? once : 0; i < nr_phases; i++)
			run_phase(&phases[i], rate, wait);
	print_report(now() - start);
	return 0;
}

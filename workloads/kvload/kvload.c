// SPDX-License-Identifier: Apache-2.0
/*
 * kvload: a load on a key-value server that speaks the protocol of redis or of memcached, or on a web server, over a
 * Unix or TCP socket.
 *
 * It fills the server with keys, then reads and writes some of them: a given number of requests, so that the work is the
 * same in every run. Of a web server it reads files whose names are keys. Latencies go into a histogram of 64 steps per
 * power of two (an error under 1.6 %), and the report is one JSON object.
 *
 * In a closed loop each connection asks, waits for the answer, perhaps pauses, and asks again. In an open loop (-R)
 * requests arrive by chance (a Poisson process), whether earlier ones have been answered or not. A latency counts from
 * the time at which the request arrived, so that one that had to wait for a connection is not taken for a quick one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	STEPS = 64,
	STEP_BITS = 6,
	MAX_CONNECTIONS = 256,
	VALUE_MAX = 1 << 20,
	REPLY_MAX = VALUE_MAX + 256,
	BATCH = 32, /* requests that are under way at once while the server is filled */
	POOL = 1 << 18, /* bytes of text that values are cut from */
	SEARCH_STEPS = 10, /* rates that are tried for the highest one */
};

enum protocol { NONE, REDIS, MEMCACHED, HTTP };

struct connection {
	int fd;
	int busy;
	uint64_t asked_ns; /* when the request was sent, or in an open loop when it arrived */
	uint64_t again_ns; /* when the next one is due */
	int is_set;
	char reply[REPLY_MAX];
	size_t len;
};

static struct connection connections[MAX_CONNECTIONS];
static uint64_t histogram[STEPS * 64], nr_latencies, max_ns;
static const char *socket_path;
static int port, nr_connections = 1;
static enum protocol protocol;
static double rate; /* requests that arrive in a second; 0 for a closed loop */
static unsigned long nr_keys = 10000, nr_hot, first_hot, value_len = 1024, set_percent = 10, pause_us;
static char *requests, *pool; /* room for a batch of requests; POOL bytes and the longest value behind them */
static uint64_t nr_gets, nr_sets, nr_misses;

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "kvload: ");
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static unsigned int bucket_of(uint64_t ns)
{
	int shift = 0;

	while (ns >> (STEP_BITS + 1 + shift))
		shift++;
	return ns < STEPS ? ns : (shift + 1) * STEPS + (ns >> shift) - STEPS;
}

/* Upper end of what falls into a bucket. */
static uint64_t highest_of(unsigned int bucket)
{
	unsigned int shift = bucket / STEPS ? bucket / STEPS - 1 : 0;
	uint64_t step = bucket < STEPS ? bucket : bucket % STEPS + STEPS;

	return ((step + 1) << shift) - 1;
}

static double percentile_ms(double percent)
{
	uint64_t wanted = (uint64_t)(nr_latencies * percent / 100.0 + 0.999999), seen = 0;

	for (unsigned int i = 0; i < STEPS * 64; i++) {
		seen += histogram[i];
		if (histogram[i] && seen >= wanted)
			return (highest_of(i) < max_ns ? highest_of(i) : max_ns) / 1e6;
	}
	return max_ns / 1e6;
}

static int connected(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(socket_path ? AF_UNIX : AF_INET, SOCK_STREAM, 0), on = 1, failed;

	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (socket_path) {
		if (strlen(socket_path) >= sizeof(un.sun_path))
			die("-s: the path is too long for a socket");
		strcpy(un.sun_path, socket_path);
		failed = connect(fd, (struct sockaddr *)&un, sizeof(un));
	} else {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		failed = connect(fd, (struct sockaddr *)&in, sizeof(in));
	}
	if (failed)
		die("cannot connect to the server: %s", strerror(errno));
	return fd;
}

static void send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t sent = write(fd, data, len);

		if (sent <= 0)
			die("the server hung up");
		data += sent;
		len -= sent;
	}
}

/* Text that does not compress to nothing, as what a service holds does not. */
static void fill_pool(void)
{
	pool = malloc(POOL + value_len);
	if (!pool)
		die("no memory");
	for (unsigned long i = 0; i < POOL + value_len; i++)
		pool[i] = i % 2 ? 'a' + next_random() % 26 : 'x';
}

/* Writes a request to where it is told; returns its length. */
static size_t put_request(char *to, uint64_t key, int is_set)
{
	char name[32];
	int name_len = snprintf(name, sizeof(name), "key:%012llu", (unsigned long long)key);
	size_t len;

	if (protocol == HTTP)
		return sprintf(to, "GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n", name);
	if (is_set && protocol == REDIS)
		len = sprintf(to, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%lu\r\n", name_len, name, value_len);
	else if (is_set)
		len = sprintf(to, "set %s 0 0 %lu\r\n", name, value_len);
	else if (protocol == REDIS)
		len = sprintf(to, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", name_len, name);
	else
		len = sprintf(to, "get %s\r\n", name);
	if (is_set) {
		memcpy(to + len, pool + next_random() % POOL, value_len);
		memcpy(to + len + value_len, "\r\n", 2);
		len += value_len + 2;
	}
	return len;
}

static void ask(struct connection *one, uint64_t key, int is_set, uint64_t arrived_ns)
{
	size_t len = put_request(requests, key, is_set);

	one->is_set = is_set;
	one->len = 0;
	one->busy = 1;
	one->asked_ns = arrived_ns;
	send_all(one->fd, requests, len);
}

/* Whether all of a file has come. */
static int http_answered(struct connection *one)
{
	char *end = memmem(one->reply, one->len, "\r\n\r\n", 4), *length;

	if (!end)
		return 0;
	*end = 0;
	if (strncmp(one->reply, "HTTP/1.1 200 ", 13) && strncmp(one->reply, "HTTP/1.1 404 ", 13))
		die("the server answered '%.40s'", one->reply);
	length = strcasestr(one->reply, "\r\ncontent-length:");
	if (!length)
		die("the server does not tell a length: '%.200s'", one->reply);
	nr_misses += one->reply[9] == '4';
	length += strlen("\r\ncontent-length:");
	*end = '\r';
	if (one->len < end + 4 - one->reply + strtoul(length, NULL, 10)) {
		nr_misses -= one->reply[9] == '4';
		return 0;
	}
	nr_gets++;
	return 1;
}

/* Whether the whole answer has come. */
static int answered(struct connection *one)
{
	int is_redis = protocol == REDIS;
	char *end;
	size_t head;
	long body;

	if (protocol == HTTP)
		return http_answered(one);
	end = memmem(one->reply, one->len, "\r\n", 2);
	if (!end)
		return 0;
	head = end + 2 - one->reply;
	if (one->is_set) {
		if (strncmp(one->reply, is_redis ? "+OK" : "STORED", is_redis ? 3 : 6))
			die("the server refused a value: %.*s", (int)(end - one->reply), one->reply);
		nr_sets++;
		return 1;
	}
	if (is_redis && one->reply[0] == '$') {
		body = strtol(one->reply + 1, NULL, 10);
		if (body >= 0 && one->len < head + body + 2)
			return 0;
		nr_misses += body < 0;
	} else if (!is_redis && !strncmp(one->reply, "VALUE ", 6)) {
		if (one->len < head + 7 || memcmp(one->reply + one->len - 5, "END\r\n", 5))
			return 0;
	} else if (!is_redis && !strncmp(one->reply, "END", 3)) {
		nr_misses++;
	} else {
		die("the server answered '%.*s'", (int)(end - one->reply), one->reply);
	}
	nr_gets++;
	return 1;
}

static void receive(struct connection *one)
{
	ssize_t got = read(one->fd, one->reply + one->len, REPLY_MAX - one->len);
	uint64_t ns;

	if (got <= 0)
		die("the server hung up");
	one->len += got;
	if (!answered(one))
		return;
	ns = now_ns() - one->asked_ns;
	histogram[bucket_of(ns)]++;
	nr_latencies++;
	if (ns > max_ns)
		max_ns = ns;
	one->busy = 0;
	one->again_ns = one->asked_ns + ns + pause_us * 1000;
}

/* Many requests are under way at once; their answers are all alike. */
static void fill(void)
{
	const char *ok = protocol == REDIS ? "+OK\r\n" : "STORED\r\n";
	struct connection *one = &connections[0];
	size_t ok_len = strlen(ok);

	for (uint64_t key = 0; key < nr_keys;) {
		uint64_t batch = nr_keys - key < BATCH ? nr_keys - key : BATCH;
		size_t len = 0;

		for (uint64_t i = 0; i < batch; i++)
			len += put_request(requests + len, key++, 1);
		one->len = 0;
		send_all(one->fd, requests, len);
		while (one->len < batch * ok_len) {
			ssize_t got = read(one->fd, one->reply + one->len, REPLY_MAX - one->len);

			if (got <= 0)
				die("the server hung up");
			one->len += got;
		}
		for (uint64_t i = 0; i < batch; i++)
			if (memcmp(one->reply + i * ok_len, ok, ok_len))
				die("the server refused a value: %.40s", one->reply + i * ok_len);
		nr_sets += batch;
	}
}

/* How long it is until the next request arrives. */
static uint64_t pause_of_chance(void)
{
	double chance = (next_random() >> 11) * 0x1p-53;

	return -log1p(-chance) / rate * 1e9;
}

/* Sleep until an answer has come, or the next request is due; more exactly than epoll_wait, which counts milliseconds. */
static void wait_until(int epoll, uint64_t next_ns)
{
	struct pollfd answer = {.fd = epoll, .events = POLLIN};
	uint64_t now = now_ns(), left = next_ns > now ? next_ns - now : 0;
	struct timespec time = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

	ppoll(&answer, 1, next_ns == UINT64_MAX ? NULL : &time, NULL);
}

static void load(uint64_t nr_requests)
{
	int epoll = epoll_create1(0);
	uint64_t asked = 0, done = 0, arrives_ns = now_ns();
	struct epoll_event events[MAX_CONNECTIONS];

	for (int i = 0; i < nr_connections; i++) {
		struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = i};

		epoll_ctl(epoll, EPOLL_CTL_ADD, connections[i].fd, &wanted);
	}
	while (done < nr_requests) {
		uint64_t now = now_ns(), next = UINT64_MAX;
		int nr;

		for (int i = 0; i < nr_connections; i++) {
			struct connection *one = &connections[i];

			if (one->busy || asked == nr_requests)
				continue;
			if (rate)
				one->again_ns = arrives_ns;
			if (one->again_ns <= now) {
				uint64_t random = next_random();

				ask(one, first_hot + (random >> 8) % nr_hot, random % 100 < set_percent, rate ? arrives_ns : now_ns());
				asked++;
				if (rate)
					arrives_ns += pause_of_chance();
			} else if (one->again_ns < next) {
				next = one->again_ns;
			}
		}
		wait_until(epoll, next);
		nr = epoll_wait(epoll, events, MAX_CONNECTIONS, 0);
		for (int i = 0; i < nr; i++) {
			receive(&connections[events[i].data.u32]);
			done += !connections[events[i].data.u32].busy;
		}
	}
	close(epoll);
}

/* The table that HdrHistogram prints, in milliseconds. */
static void write_table(const char *path)
{
	FILE *out = fopen(path, "w");
	uint64_t seen = 0;

	if (!out)
		die("-H %s: %s", path, strerror(errno));
	fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
	for (unsigned int i = 0; i < STEPS * 64; i++) {
		double share;

		if (!histogram[i])
			continue;
		seen += histogram[i];
		share = (double)seen / nr_latencies;
		fprintf(out, "%12.6f %2.12f %10llu", (highest_of(i) < max_ns ? highest_of(i) : max_ns) / 1e6, share,
			(unsigned long long)seen);
		if (seen < nr_latencies)
			fprintf(out, " %14.2f", 1 / (1 - share));
		fputc('\n', out);
	}
	fprintf(out, "#[Max     = %12.6f, Total count    = %12llu]\n", max_ns / 1e6, (unsigned long long)nr_latencies);
	if (fclose(out))
		die("-H %s: %s", path, strerror(errno));
}

/*
 * The highest rate whose 99th percentile is at most so many milliseconds, found by halving the ratio of a rate that
 * keeps it and one that does not; 0 where the first rate, which is the lowest of interest, does not keep it.
 */
static double highest_rate(double p99_ms, uint64_t nr_requests)
{
	double kept = 0, broken = 0;

	for (int i = 0; i < SEARCH_STEPS && (kept || !broken); i++) {
		memset(histogram, 0, sizeof(histogram));
		nr_latencies = max_ns = 0;
		load(nr_requests);
		if (percentile_ms(99) <= p99_ms)
			kept = rate;
		else
			broken = rate;
		rate = broken ? sqrt(kept * broken) : 2 * kept;
	}
	return kept;
}

static double real_number(const char *text, char option)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0) || isinf(value))
		die("-%c: '%s' is not a number above 0", option, text);
	return value;
}

static unsigned long number(const char *text, char option)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-')
		die("-%c: '%s' is not a number", option, text);
	return value;
}

static void usage(FILE *out)
{
	fprintf(out,
		"usage: kvload -P redis|memcached|http (-s SOCKET | -p PORT) [-f] [-n REQUESTS] [-r KEYS] [-h HOT] [-o FIRST]\n"
		"              [-d BYTES] [-w PERCENT] [-c CONNECTIONS] [-i PAUSE_US | -R RATE [-T P99_MS]] [-H FILE] [-S SEED]\n"
		"  -f          set every key once, and say nothing of latencies\n"
		"  -n REQUESTS how many requests to make (default 10000)\n"
		"  -r KEYS     keys there are (default 10000); -h HOT: how many of them are asked for (default all)\n"
		"  -o FIRST    the first of those that are asked for (default 0); keys are set from 0 on\n"
		"  -d BYTES    length of a value (default 1024); -w PERCENT of requests that set one (default 10)\n"
		"  -c, -i      connections (default 1), and what each waits between an answer and its next request\n"
		"  -R RATE     open loop: requests arrive by chance, so many a second; latencies count from their arrival\n"
		"  -T P99_MS   find the highest rate whose 99th percentile keeps this, from RATE on, REQUESTS at each rate\n"
		"  -H FILE     write the latencies as the table that HdrHistogram prints, in milliseconds\n"
		"  http        reads /key:000000000000 and so on; -f and -w are for the other protocols\n");
}

int main(int argc, char **argv)
{
	unsigned long nr_requests = 10000;
	int option, only_fill = 0;
	const char *table_path = NULL;
	uint64_t start;
	double seconds, wanted_p99_ms = 0, highest = 0;

	while ((option = getopt(argc, argv, "P:s:p:fn:r:h:o:d:w:c:i:S:R:T:H:")) != -1) {
		switch (option) {
		case 'P':
			protocol = !strcmp(optarg, "redis") ? REDIS :
				   !strcmp(optarg, "memcached") ? MEMCACHED :
				   !strcmp(optarg, "http") ? HTTP : NONE;
			break;
		case 's': socket_path = optarg; break;
		case 'p': port = number(optarg, 'p'); break;
		case 'f': only_fill = 1; break;
		case 'n': nr_requests = number(optarg, 'n'); break;
		case 'r': nr_keys = number(optarg, 'r'); break;
		case 'h': nr_hot = number(optarg, 'h'); break;
		case 'o': first_hot = number(optarg, 'o'); break;
		case 'd': value_len = number(optarg, 'd'); break;
		case 'w': set_percent = number(optarg, 'w'); break;
		case 'c': nr_connections = number(optarg, 'c'); break;
		case 'i': pause_us = number(optarg, 'i'); break;
		case 'S': random_state = number(optarg, 'S'); break;
		case 'R': rate = real_number(optarg, 'R'); break;
		case 'T': wanted_p99_ms = real_number(optarg, 'T'); break;
		case 'H': table_path = optarg; break;
		default: usage(stderr); return 2;
		}
	}
	if (optind != argc || (!socket_path == !port) || protocol == NONE || (wanted_p99_ms && !rate) ||
	    (rate && pause_us) || (only_fill && protocol == HTTP)) {
		usage(stderr);
		return 2;
	}
	if (protocol == HTTP)
		set_percent = 0;
	nr_hot = nr_hot ? nr_hot : nr_keys;
	if (!nr_keys || first_hot + nr_hot > nr_keys || value_len > VALUE_MAX || !random_state || nr_connections < 1 ||
	    nr_connections > MAX_CONNECTIONS)
		die("-r, -h, -o, -d, -S or -c is out of range");
	requests = malloc(BATCH * (value_len + 256));
	if (!requests)
		die("no memory");
	fill_pool();
	for (int i = 0; i < nr_connections; i++)
		connections[i].fd = connected();
	start = now_ns();
	if (only_fill)
		fill();
	else if (wanted_p99_ms)
		highest = highest_rate(wanted_p99_ms, nr_requests);
	else
		load(nr_requests);
	seconds = (now_ns() - start) / 1e9;
	printf("{\"gets\": %llu, \"sets\": %llu, \"misses\": %llu, \"seconds\": %.6f, \"ops_per_s\": %.1f",
	       (unsigned long long)nr_gets, (unsigned long long)nr_sets, (unsigned long long)nr_misses, seconds,
	       (nr_gets + nr_sets) / seconds);
	if (!only_fill)
		printf(", \"p50_ms\": %.6f, \"p95_ms\": %.6f, \"p99_ms\": %.6f, \"max_ms\": %.6f", percentile_ms(50),
		       percentile_ms(95), percentile_ms(99), max_ns / 1e6);
	if (wanted_p99_ms)
		printf(", \"rps_at_p99\": %.1f", highest);
	printf("}\n");
	if (table_path && !only_fill)
		write_table(table_path);
	return 0;
}

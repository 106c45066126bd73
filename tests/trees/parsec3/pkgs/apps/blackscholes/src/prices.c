/* Reads options and goes through them again and again: prices THREADS INPUT OUTPUT. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	FILE *in = argc == 4 ? fopen(argv[2], "r") : NULL;
	FILE *out;
	double begun, sum = 0, *prices;
	int count, round, i;

	if (!in || fscanf(in, "%d", &count) != 1)
		return 1;
	prices = malloc(count * sizeof(*prices));
	for (i = 0; i < count; i++)
		if (fscanf(in, "%lf %*f %*f %*f %*f %*f %*c %*f %*f", &prices[i]) != 1)
			return 2;
	begun = now();
	for (round = 0; round < 100; round++)
		for (i = 0; i < count; i++)
			sum += prices[i] * round;
	printf("[HOOKS] Total time spent in ROI: %.6fs\n", now() - begun);
	out = fopen(argv[3], "w");
	return !out || fprintf(out, "%g\n", sum) < 0;
}

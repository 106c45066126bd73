divert(-1)
define(`MAIN_ENV', `
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
static pthread_t thread_of[256];
static int nr_threads;
')
define(`CREATE', `for (int n = 0; n < $2 - 1; n++) pthread_create(&thread_of[nr_threads++], NULL, (void *(*)(void *))$1, NULL); $1(NULL);')
define(`WAIT_FOR_END', `while (nr_threads) pthread_join(thread_of[--nr_threads], NULL);')
define(`BARDEC', `static pthread_barrier_t $1;')
define(`BARINIT', `pthread_barrier_init(&($1), NULL, $2);')
define(`BARRIER', `pthread_barrier_wait(&($1));')
define(`G_MALLOC', `malloc($1)')
define(`CLOCK', `{ struct timeval t; gettimeofday(&t, NULL); ($1) = t.tv_sec * 1000000ul + t.tv_usec; }')
divert(0)dnl

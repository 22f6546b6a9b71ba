/* floor RUNS REST CPU CPU...   a byte goes from process to process, one on each CPU (-1: any), and back again

   It prints the microseconds of each run in a line. REST is the microseconds before each. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void check(int is_good, const char *what) {
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void pin(int cpu) {
    cpu_set_t set;
    if (cpu >= 0) {
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
    }
}

/* Fork the process for the next CPU, which forks the one after it; return our end of its socket. */
static int next(char **cpus) {
    int ends[2], following;
    char byte;

    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    pid_t pid = fork();
    check(pid >= 0, "fork");
    if (pid > 0) {
        close(ends[1]);
        return ends[0];
    }
    close(ends[0]);
    following = cpus[1] ? next(cpus + 1) : -1;
    pin(atoi(cpus[0]));
    while (read(ends[1], &byte, 1) == 1) {
        if (following >= 0) {
            check(write(following, &byte, 1) == 1 && read(following, &byte, 1) == 1, "relay");
        }
        check(write(ends[1], &byte, 1) == 1, "write");
    }
    exit(0);
}

static void relay(int runs, int rest, char **cpus) {
    char byte = '.';
    int first = next(cpus + 1);

    pin(atoi(cpus[0]));
    while (runs-- > 0) {
        if (rest > 0) {
            usleep(rest);
        }
        double started = microseconds();
        check(write(first, &byte, 1) == 1 && read(first, &byte, 1) == 1, "relay");
        printf("%.3f\n", microseconds() - started);
    }
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fputs("usage: floor RUNS REST CPU CPU...\n", stderr);
        return 2;
    }
    relay(atoi(argv[1]), atoi(argv[2]), argv + 3);
    return 0;
}

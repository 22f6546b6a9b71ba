/* What the kernel takes for the steps of an event. Durations are in microseconds, one line for each run.

   floor relay RUNS REST CPU...      a byte goes from process to process, one on each CPU (-1: any), and back again
   floor fork RUNS PAGES             a process with so many pages is forked; the line has the fork, and the child's end
   floor copy RUNS PAGES             a forked child writes to so many pages; the line has the time of one of them */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
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

static char *pages(int count, int flags) {
    size_t size = (size_t)count * sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    madvise(memory, size, MADV_NOHUGEPAGE);
    memset(memory, 1, size);
    return memory;
}

static void forked(int runs, int count) {
    pages(count, MAP_PRIVATE);
    while (runs-- > 0) {
        double started = microseconds();
        pid_t pid = fork();
        check(pid >= 0, "fork");
        if (pid == 0) {
            _exit(0);
        }
        double done = microseconds();
        check(waitpid(pid, NULL, 0) == pid, "waitpid");
        printf("%.3f %.3f\n", done - started, microseconds() - done);
    }
}

static void copied(int runs, int count) {
    char *memory = pages(count, MAP_PRIVATE);
    double *taken = (double *)pages(1, MAP_SHARED);
    long size = sysconf(_SC_PAGESIZE);

    while (runs-- > 0) {
        pid_t pid = fork();
        check(pid >= 0, "fork");
        if (pid == 0) {
            double started = microseconds();
            for (int each = 0; each < count; each++) {
                memory[each * size] = 2;
            }
            *taken = microseconds() - started;
            _exit(0);
        }
        check(waitpid(pid, NULL, 0) == pid, "waitpid");
        printf("%.3f\n", *taken / count);
    }
}

int main(int argc, char **argv) {
    if (argc >= 6 && strcmp(argv[1], "relay") == 0) {
        relay(atoi(argv[2]), atoi(argv[3]), argv + 4);
    } else if (argc == 4 && strcmp(argv[1], "fork") == 0) {
        forked(atoi(argv[2]), atoi(argv[3]));
    } else if (argc == 4 && strcmp(argv[1], "copy") == 0) {
        copied(atoi(argv[2]), atoi(argv[3]));
    } else {
        fputs("usage: floor relay RUNS REST CPU CPU... | fork RUNS PAGES | copy RUNS PAGES\n", stderr);
        return 2;
    }
    return 0;
}

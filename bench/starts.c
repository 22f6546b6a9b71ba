/* The least that a host must do to start a plugin: pipes, posix_spawn, a request, a result, the end of its group.

   usage: starts PLUGIN REQUEST RUNS REST
   PLUGIN is run RUNS times as `PLUGIN invoke` with the file REQUEST as its stdin, after REST microseconds of rest each.
   stdout gets a line for each run, its duration in microseconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 65536, PIPES = 3 };

static char *const environment[] = {
    "HOME=/", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};

static void check(int is_good, const char *what) {
    if (!is_good) {
        fprintf(stderr, "starts: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* Start the plugin in a process group of its own, with default signals and three pipes; return its number. */
static pid_t start(char *plugin, int pipes[PIPES][2]) {
    char *const arguments[] = {plugin, "invoke", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, every;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    for (int each = 0; each < PIPES; each++) {
        check(pipe2(pipes[each], O_CLOEXEC) == 0, "pipe2");
        fcntl(pipes[each][each == 0], F_SETFL, O_NONBLOCK);
        posix_spawn_file_actions_adddup2(&actions, pipes[each][each != 0], each);
    }
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigemptyset(&none);
    sigfillset(&every);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &every);
    errno = posix_spawn(&pid, plugin, &actions, &attributes, arguments, environment);
    check(errno == 0, plugin);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    for (int each = 0; each < PIPES; each++) {
        close(pipes[each][each != 0]);
    }
    return pid;
}

/* Read stdout and stderr until the process has ended, and what is left then; return the size of stdout. */
static size_t result(int out, int err, int process) {
    static char buffer[CHUNK];
    struct pollfd polled[] = {{out, POLLIN, 0}, {err, POLLIN, 0}, {process, POLLIN, 0}};
    size_t size = 0;

    do {
        check(poll(polled, 3, -1) > 0, "poll");
        for (int each = 0; each < 2; each++) {
            ssize_t got = polled[each].revents ? read(polled[each].fd, buffer, sizeof buffer) : -1;
            if (got == 0) {
                polled[each].fd = -1; /* its end */
            } else if (got > 0 && each == 0) {
                size += got;
            }
        }
    } while (!polled[2].revents);
    for (ssize_t got; polled[0].fd >= 0 && (got = read(out, buffer, sizeof buffer)) > 0;) {
        size += got;
    }
    return size;
}

static void run(char *plugin, const char *request, ssize_t length) {
    int pipes[PIPES][2], process;
    siginfo_t end;
    pid_t pid = start(plugin, pipes);

    process = syscall(SYS_pidfd_open, pid, 0);
    check(process >= 0, "pidfd_open");
    check(write(pipes[0][1], request, length) == length || errno == EPIPE, "write"); /* a pipe holds it */
    close(pipes[0][1]);
    check(result(pipes[1][0], pipes[2][0], process) > 0, "no result");
    kill(-pid, SIGKILL);
    check(waitid(P_PID, pid, &end, WEXITED) == 0 && end.si_code == CLD_EXITED && end.si_status == 0, plugin);
    close(pipes[1][0]);
    close(pipes[2][0]);
    close(process);
}

int main(int argc, char **argv) {
    static char request[CHUNK];
    ssize_t length;
    int file;

    if (argc != 5) {
        fputs("usage: starts PLUGIN REQUEST RUNS REST\n", stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN); /* as in Python: the plugin need not read */
    file = open(argv[2], O_RDONLY | O_CLOEXEC);
    length = read(file, request, sizeof request);
    check(length > 0, argv[2]);
    for (int left = atoi(argv[3]); left > 0; left--) {
        if (atoi(argv[4]) > 0) {
            usleep(atoi(argv[4]));
        }
        double started = microseconds();
        run(argv[1], request, length);
        printf("%.3f\n", microseconds() - started);
    }
    return 0;
}

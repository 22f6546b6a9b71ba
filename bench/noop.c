/* The least that a host takes for a plugin: reads its request, whatever it is, and answers that it did nothing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static const char result[] = "{\"plugin\":\"noop\",\"version\":\"0.1\",\"error\":\"\"}\n";
    char request[65536];
    ssize_t got;

    if (argc != 2 || strcmp(argv[1], "invoke") != 0) {
        fputs("usage: noop invoke < REQUEST.json\n", stderr);
        return 2;
    }
    while ((got = read(0, request, sizeof request)) > 0) {
    }
    if (got < 0 || write(1, result, sizeof result - 1) != (ssize_t)(sizeof result - 1)) {
        return 1;
    }
    return 0;
}

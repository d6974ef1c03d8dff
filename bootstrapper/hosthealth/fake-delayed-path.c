// A wire between two network interfaces on which every packet takes this long: fake-delayed-path INTERFACE INTERFACE
// MILLISECONDS. What netem does, for kernels without it. Packets that are longer than a buffer are lost.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAITING = 256, BYTES = 2048 };

struct packet {
  long long due_ns;
  int to;
  ssize_t length;
  unsigned char bytes[BYTES];
};

static struct packet waiting[WAITING];
static unsigned first, count;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static long long now_ns(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static int attach(const char *interface) {
  int one = 1, fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
  struct sockaddr_ll address = {
    .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex(interface)};
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0) fail(interface);
  // With a header of its own, a packet whose checksum a network card was to add can be sent on as it is.
  if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) != 0)
    fail("setsockopt");
  return fd;
}

static void take(int from, int to, long long delay_ns) {
  struct packet *packet = &waiting[(first + count) % WAITING];
  ssize_t length = recv(from, packet->bytes, BYTES, MSG_TRUNC);
  if (length <= 0 || length > BYTES || count == WAITING) return;
  packet->due_ns = now_ns() + delay_ns;
  packet->to = to;
  packet->length = length;
  count++;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int ends[] = {attach(argv[1]), attach(argv[2])};
  long long delay_ns = atoll(argv[3]) * 1000000;
  puts("delays");
  fflush(stdout);
  for (;;) {
    long long left_ns = count == 0 ? 1000000000 : waiting[first].due_ns - now_ns();
    if (left_ns < 0) left_ns = 0;
    struct timespec timeout = {left_ns / 1000000000, left_ns % 1000000000};
    struct pollfd polled[] = {{.fd = ends[0], .events = POLLIN}, {.fd = ends[1], .events = POLLIN}};
    if (ppoll(polled, 2, &timeout, NULL) < 0) fail("ppoll");
    for (int end = 0; end < 2; end++)
      if (polled[end].revents & POLLIN) take(ends[end], ends[1 - end], delay_ns);
    for (; count > 0 && waiting[first].due_ns <= now_ns(); first = (first + 1) % WAITING, count--)
      if (write(waiting[first].to, waiting[first].bytes, waiting[first].length) < 0) perror("write");
  }
}

"""A far host that is this one: what is sent to FAR comes back to NEAR, as if FAR had sent it, half a round trip later.

A packet's addresses change places, and its checksums stay right. So a server that listens at NEAR is reached at FAR by a way whose round
trip the kernel itself measures, which a relay between two connections cannot give. Runs as root of a network namespace of its own.

usage: far.py ROUND_TRIP_MS
"""

import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

NEAR, DEVICE = "10.9.0.1/24", "far0"
# linux/if_tun.h; packets without a header of the device's own.
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# As wide networks of laboratories have it. In packets of tens of kilobytes, some kernels (Linux 6.18) leave the receive windows of
# some of many streams at two packets for the whole copy.
MTU = 9_000


def main() -> None:
    delay = float(sys.argv[1]) / 2000
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    for words in (
        ["address", "add", NEAR, "dev", DEVICE],
        ["link", "set", "dev", DEVICE, "mtu", str(MTU), "txqueuelen", "20000", "up"],
    ):
        subprocess.run(["ip", *words], check=True)
    print("ready", flush=True)
    under_way: collections.deque[tuple[float, bytes]] = collections.deque()
    while True:
        patience = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        if select.select([device], [], [], patience)[0]:
            packet = os.read(device, MTU)
            # Of the IPv4 header, source and destination.
            turned = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
            if packet[0] >> 4 == 4:
                under_way.append((time.monotonic() + delay, turned))
        while under_way and under_way[0][0] <= time.monotonic():
            os.write(device, under_way.popleft()[1])


main()

"""Writes a ROOT file, or reads one over HTTP with the source of uproot that asks for several ranges at once.

usage: uproot_read.py write FILE | uproot_read.py read URL FILE
"""

import sys

import numpy
import uproot

BRANCHES = 12
BASKETS = 40
ENTRIES = 5_000


def branches(basket):
    """Values of one basket of every branch that no compression makes small."""
    random = numpy.random.default_rng(basket)
    return {f"b{branch}": random.normal(size=ENTRIES) for branch in range(BRANCHES)}


def write(path):
    with uproot.recreate(path) as file:
        file.mktree("events", {f"b{branch}": "float64" for branch in range(BRANCHES)})
        for basket in range(BASKETS):
            file["events"].extend(branches(basket))


def read(url, path):
    name = {url: "events"}
    with uproot.open(name, handler=uproot.source.http.HTTPSource) as there, uproot.open({path: "events"}) as here:
        for names in (["b1"], ["b0", "b5", "b11"], [f"b{branch}" for branch in range(BRANCHES)]):
            got, want = (tree.arrays(names, library="np") for tree in (there, here))
            for one in names:
                assert numpy.array_equal(got[one], want[one]), one
        part = there.arrays(["b3"], entry_start=17_000, entry_stop=61_000, library="np")["b3"]
        assert numpy.array_equal(part, here["b3"].array(library="np")[17_000:61_000])
        source = there.file.source
        # A source that gave up on several ranges reads them one by one.
        print(f"requests={source.num_requests} chunks={source.num_requested_chunks} fallback={source.fallback is not None}")


if sys.argv[1] == "write":
    write(sys.argv[2])
else:
    read(*sys.argv[2:])

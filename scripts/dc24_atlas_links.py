#!/usr/bin/env python3
"""Writes data/dc24_atlas_links.csv, data/dc24_atlas_legs.csv and grids/dc24-atlas.toml: the links of ATLAS in the data challenge of 2024.

The report gives, per Tier-0 and Tier-1, what was to come in and go out in the minimal and in the flexible scenario
(data/dc24_atlas_sites.csv), what of it was T0 -> T1 and T1 -> T1 (data/dc24_in2p3_T6.5a.csv), the totals of 682 Gb/s and
1.4 Tb/s and about 200 and 1,200 links (data/dc24_global.json). It does not give the Tier-2s. They are made up here so that
every sum of the report holds: 56 of them (66 sites took part), with wide-area links as those that the report names
(10 to 200 Gb/s, data/dc24_site_facts.csv), asked in proportion to the root of their capacity, a factor drawn from SEED.
"""
import csv
import math
import random
from pathlib import Path

SEED = 20240212
ROOT = Path(__file__).resolve().parent.parent
T0 = "CERN-PROD"
TOTALS = {"minimal": 682.0, "flexible": 1400.0}
# Region and capacity in Gb/s of the made-up Tier-2s.
TIER2 = (
    [("EU", g) for g in [10] * 6 + [20] * 6 + [40] * 10 + [100] * 12]
    + [("US", g) for g in [10, 20, 40, 40, 40, 100, 100, 100, 100, 200, 200, 200]]
    + [("AS", g) for g in [10, 10, 10, 20, 40, 100]]
    + [("CA", g) for g in [10, 20, 40, 100]]
)


def read(name):
    with open(ROOT / "data" / name, newline="") as file:
        return list(csv.DictReader(file))


def names():
    counts, list_ = {}, []
    for region, capacity in TIER2:
        key = f"T2-{region}-{capacity}G"
        counts[key] = counts.get(key, 0) + 1
        list_.append((f"{key}-{counts[key]:02d}", capacity))
    return list_


def spread(total, weights):
    whole = sum(weights.values())
    return {key: total * weight / whole for key, weight in weights.items()}


def fit(links, rows, columns):
    """Iterative proportional fitting: scales links until their sums are those asked of sources and destinations."""
    for _ in range(2000):
        for end, sums in ((0, rows), (1, columns)):
            got = {}
            for link, rate in links.items():
                got[link[end]] = got.get(link[end], 0.0) + rate
            for link in links:
                if got[link[end]] > 0:
                    links[link] *= sums[link[end]] / got[link[end]]
    return links


def scenario(name, draw, sites, model, n_t2_links):
    tier1 = [row["site"] for row in sites if row["site"] != T0]
    ingress = {row["site"]: float(row[f"{name}_ingress_gbps"]) for row in sites}
    egress = {row["site"]: float(row[f"{name}_egress_gbps"]) for row in sites}
    t0_t1 = {row["site"]: float(row[f"{name}_t0t1_model_gbps"]) for row in model if row["site"] in tier1}
    tier2 = dict(names())
    weight = {site: math.sqrt(capacity) * draw.uniform(0.7, 1.4) for site, capacity in tier2.items()}
    t2_in = spread(TOTALS[name] - sum(ingress.values()), weight)
    # In the minimal scenario not every Tier-2 sends, or there would be more links than there were.
    senders = weight if name == "flexible" else dict(draw.sample(sorted(weight.items()), n_t2_links - len(tier2) - 8))
    t2_out = spread(TOTALS[name] - sum(egress.values()), senders)
    # What is left of each end once T0 -> T1 is taken off.
    rows = {T0: egress[T0] - sum(t0_t1.values()), **{site: egress[site] for site in tier1}, **t2_out}
    columns = {T0: ingress[T0], **{site: ingress[site] - t0_t1[site] for site in tier1}, **t2_in}
    links = {}
    for source in tier1:
        for destination in [*tier1, T0]:
            if source != destination:
                links[source, destination] = rows[source] * columns[destination]
    # Links with Tier-2s: each receives from a Tier-1 and each sender sends to one; the rest is drawn.
    choices = [(T0, site) for site in tier2] + [(site, T0) for site in tier2]
    choices += [(one, site) for one in tier1 for site in tier2] + [(site, one) for one in tier1 for site in tier2]
    if name == "flexible":
        choices += [(a, b) for a in tier2 for b in tier2 if a != b]
    chosen = {(draw.choice(tier1), site) for site in tier2} | {(site, draw.choice(tier1)) for site in senders}
    chosen |= {(T0, site) for site in draw.sample(sorted(tier2), 8)}
    rest = [link for link in choices if link not in chosen and name == "flexible"]
    # A link is the likelier the more its ends move.
    rest.sort(key=lambda link: draw.random() ** (1.0 / (rows[link[0]] * columns[link[1]])), reverse=True)
    chosen |= set(rest[: max(0, n_t2_links - len(chosen))])
    for source, destination in sorted(chosen):
        links[source, destination] = rows[source] * columns[destination]
    fitted = fit(links, rows, columns)
    return [(T0, site, rate) for site, rate in t0_t1.items()], [(a, b, rate) for (a, b), rate in fitted.items()]


def production(draw, sites, model, flexible):
    """What was not injected: 40.5 of the 108 PB in 12 days, on 800 more links than the 1,200 of the flexible scenario.

    Between Tier-1s it is what data/dc24_in2p3_T6.5a.csv shows beyond the model; the rest goes into Tier-2s.
    """
    total = (108.0 - 67.5) * 8e6 / (12 * 86400)
    tier1 = [row["site"] for row in sites if row["site"] not in (T0, "NDGF-T1")]
    value = lambda row, column: float(row[f"flexible_{column}_gbps"])
    beyond = {}
    ingress = {row["site"]: float(row["flexible_ingress_gbps"]) for row in sites}
    best = {}
    for row in read("dc24_atlas_daily.csv"):
        if row["dst_gbps"]:
            best[row["site"]] = max(best.get(row["site"], 0.0), float(row["dst_gbps"]))
    for row in model:
        if row["site"] in tier1:
            t1_t1 = lambda what: value(row, f"t0t1plus_t1t1_{what}") - value(row, f"t0t1_{what}")
            # No site is asked for more than it took in on its best day, if the flexible scenario leaves room below that.
            room = best[row["site"]] - ingress[row["site"]]
            beyond[row["site"]] = max(0.0, min(room, t1_t1("reality") - t1_t1("model")))
    beyond = {site: rate for site, rate in beyond.items() if rate > 0}
    egress = {row["site"]: float(row["flexible_egress_gbps"]) for row in sites}
    links = []
    for destination, rate in beyond.items():
        sources = {source: egress[source] for source in tier1 if source != destination}
        links += [(source, destination, part) for source, part in spread(rate, sources).items()]
    tier2 = dict(names())
    used = {(a, b) for a, b, _ in flexible}
    free = [(a, b) for a in [*tier1, *tier2] for b in [*tier1, *tier2] if a != b and b in tier2 and (a, b) not in used]
    weight = {link: math.sqrt(tier2.get(link[0], 100) * tier2.get(link[1], 100)) for link in draw.sample(free, 800)}
    links += [(a, b, part) for (a, b), part in spread(total - sum(beyond.values()), weight).items()]
    return links


def group(site):
    """The group of a Tier-2, by region; those of Europe and the USA, which are many, in several."""
    if not site.startswith("T2-"):
        return site
    _, region, _, number = site.split("-")
    parts = {"EU": 3, "US": 2}.get(region)
    return f"T2-{region}-{int(number) % parts + 1}" if parts else f"T2-{region}"


def leg(source, destination):
    tiers = {0 if site == T0 else 2 if site.startswith("T2-") else 1 for site in (source, destination)}
    if source == T0 and tiers == {0, 1}:
        return "t0-t1"
    return "t2-t2" if tiers == {2} else "t1-t2" if 2 in tiers else "t1-t1"


def grouped(tests):
    """The links by scenario and leg, with groups for the Tier-2s. What was to flow within a group is spread over the other links between
    groups, so that the sum of each leg holds."""
    legs = {}
    for test, links in tests.items():
        scenario = test.removeprefix("t0-").removeprefix("ndgf-")
        if scenario == "production":
            continue
        for source, destination, rate in links:
            link = (group(source), group(destination))
            sums = legs.setdefault(f"{scenario}-{leg(source, destination)}", {})
            sums[link] = sums.get(link, 0.0) + rate
    for sums in legs.values():
        between = {link: rate for link, rate in sums.items() if link[0] != link[1]}
        factor = sum(sums.values()) / sum(between.values())
        sums.clear()
        sums.update({link: rate * factor for link, rate in sorted(between.items())})
    return legs


def write(name, tests):
    with open(ROOT / "data" / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["test", "source", "destination", "rate_mbps"])
        for test, links in tests.items():
            for source, destination, rate in links:
                writer.writerow([test, source, destination, max(1, round(rate * 1000))])


def main():
    draw = random.Random(SEED)
    sites, model = read("dc24_atlas_sites.csv"), read("dc24_in2p3_T6.5a.csv")
    export = [(T0, row["site"], float(row["t0_export_gbps"])) for row in sites if row["site"] != T0]
    # 200 and 1,200 links in all: 9 of them T0 -> T1, 81 between Tier-1s and back to the Tier-0.
    t0_minimal, minimal = scenario("minimal", draw, sites, model, 200 - 90)
    t0_flexible, flexible = scenario("flexible", draw, sites, model, 1200 - 90)
    # NDGF apart: its storage failed, and the report leaves it out of its sums.
    tests = {"minimal": minimal, "flexible": flexible, "production": production(draw, sites, model, flexible)}
    for test, links in {"alone": export, "minimal": t0_minimal, "flexible": t0_flexible}.items():
        tests[f"t0-{test}"] = [link for link in links if link[1] != "NDGF-T1"]
        tests[f"ndgf-{test}"] = [link for link in links if link[1] == "NDGF-T1"]
    write("dc24_atlas_links.csv", tests)
    legs = grouped(tests)
    write("dc24_atlas_legs.csv", {leg: [(*link, rate) for link, rate in links.items()] for leg, links in legs.items()})
    with open(ROOT / "grids" / "dc24-atlas.toml", "w") as file:
        file.write(GRID)
        for row in sites:
            tier = 0 if row["site"] == T0 else 1
            file.write(f'\n[[site]]\nname = "{row["site"]}"\ntier = {tier}\n[[rse]]\nname = "{row["site"]}"\n')
        for site, _ in names():
            file.write(f'\n[[site]]\nname = "{site}"\ntier = 2\n[[rse]]\nname = "{site}"\n')


GRID = """# ATLAS in the data challenge of 2024: the Tier-0, nine Tier-1s, and 56 made-up Tier-2s named by region and wide-area link.
# Written by scripts/dc24_atlas_links.py. Meant for the simulator: no machine runs 66 storage endpoints.

name = "dc24-atlas"
vo = "atlas"

[catalog]

# Limits that are everybody's; those of the Tier-0 and the Tier-1s are in the challenge file. 200 into and out of a storage
# element is what FTS ships with.
[transfer]
max_active_per_rse_in = 200
max_active_per_rse_out = 200
max_active_per_link = 2000
retries = 3
retry_delay = "2 m"
"""

if __name__ == "__main__":
    main()

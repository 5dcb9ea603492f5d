//! The challenge to start from.

/// A commented challenge between two sites that takes about a quarter of a minute, as `weir challenge new` writes it.
pub const TEMPLATE: &str = r#"# A data challenge: what to move, how fast, for how long, and what counts as a pass.
#   weir challenge check FILE    says what is wrong with it, line by line
#   weir challenge plan FILE     says what it would inject and what that needs
#   weir challenge run FILE      runs it and writes a report
# Sizes, rates and times carry their unit: "64 MB", "100 Mb/s", "10 s".

name = "two-sites"
description = "Two sites exchange data for ten seconds."
seed = 1       # same seed, same plan
scale = 1      # multiplies every rate; --scale overrides it

# When. Rates rise during the ramp, are measured during the hold, and nothing new starts during the drain.
[phases]
ramp = "2 s"
hold = "10 s"
drain = "20 s"

# Where. These two storage elements (RSEs) are started on this machine for the run. A storage that already runs
# elsewhere has a url instead: url = "https://se.example.org:8443/weir", and a ca and token_file if it needs them.
# A grid that several challenges share stands in its own file: grid = "my-grid.toml".
[grid]
name = "two-sites"

[grid.storage]
quota = "2 GB"
durability = "cache"   # "full": on the disk before a file counts as stored

[[grid.rse]]
name = "ALPHA"

[[grid.rse]]
name = "BETA"

# What. "rates" holds each link at the rate asked of it. File sizes follow from the rates.
[[workload]]
kind = "rates"
lifetime = "10 s"      # delivered files are deleted after this
rates = [
    { source = "ALPHA", destination = "BETA", rate = "200 Mb/s" },
    { source = "BETA", destination = "ALPHA", rate = "100 Mb/s" },
]

# Other kinds, to try things one after the other:
# [[workload]]
# kind = "matrix"                           # every link x mode x size: what works, and at what rate
# modes = ["pull", "push", "streamed"]
# sizes = ["1 MB", "100 MB"]
#
# [[workload]]
# kind = "ramp"                             # more and more parallel transfers
# parallel = [1, 4, 16]
# file_size = "10 MB"

# What counts as a pass. "*" means each of them.
[[threshold]]
site = "*"
metric = "ratio"        # achieved / asked, of what goes into the site
min = 0.9

[[threshold]]
total = true
metric = "failed_ratio" # failed / all transfers
max = 0.01
"#;

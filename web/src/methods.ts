// How each figure was measured: one footnote each, with a number that headings and key figures refer to.
import { h, hidden } from "./dom";

const NOTES = {
  asked: ["Asked", "The rates that the challenge asks of every link, added up. The asked volume is that rate times the length of the hold, plus what workloads without a rate plan to move."],
  achieved: [
    "Achieved",
    "Verified bytes within the hold window, divided by its length. The bytes of a transfer are spread evenly over the duration that the transfer service reports for it, and only the part inside the window counts. Ramp and drain do not count.",
  ],
  ratio: ["Ratio", "Achieved ÷ asked. A percentage is never rounded up over 0.5, 0.7 or 0.9: 0.8997 is shown as 89.9 %, not as 90.0 %."],
  verified: [
    "Verified volume",
    "Sizes of the transfers that finished, which they do only after size and checksum at the destination agreed with the source. The receiving storage computes the checksum while the bytes come in; they are not read back, except in the audit.",
  ],
  failed: [
    "Failed",
    "Transfers that the transfer service gave up, had not ended when the drain was over, or lost. A transfer is one file on one link, all attempts included. Bytes that a failed transfer moved are counted apart and are in no rate; its size is counted nowhere.",
  ],
  efficiency: ["Efficiency", "Finished ÷ (finished + failed), by transfers. An attempt that fails and is repeated with success does not lower it."],
  time: [
    "Transfer time",
    "Of the transfers that finished: from the start to the end of the attempt that did, looks at checksums included. The rate of a transfer is its size ÷ that time. The time to the first byte runs from the order of the copy, and is there for the transfers of which storage or transfer service tell it. Percentiles are by nearest rank.",
  ],
  lateness: ["Lateness", "From the moment at which the plan wanted a transfer to the moment at which it was submitted (ledger.csv). An injector that falls behind is seen here."],
  chain: [
    "Rule to OK",
    "From the question for a rule to its last lock that is OK, of the rules whose files all came. Its parts are taken file by file, from the times of catalogue and transfer service: whole seconds where the catalogue is Rucio, milliseconds where it is Weir's. Deletion is looked for once a second; a copy that is there 10 s after the end of its rule, or at the end of the run, is late.",
  ],
  waits: [
    "Waits",
    "A transfer is in one state at a time. The time in each state is added up over the transfers of a link: two that wait for a minute each have waited for two. In a real run the transfer service and the storages tell it once per bin; in a simulated one the model knows it.",
  ],
  why: [
    "Missing bits by cause",
    "In each bin the bits that were asked for and did not come are divided: those that nobody injected, those of transfers that were given up, and the rest by the time that transfers waited longer than usual, followed from full slots to what held them. What is left is unexplained. The sum of all parts is what is missing, to the bit.",
  ],
  gauges: [
    "Gauges",
    "Counters of the kernel, of the storages and of the services, read once per bin in a real run: stalls of processors, disks and memory, TCP's own account of each path, tokens, deletions. Figures of a host cover all that runs on it. A figure that nobody tells is missing, not zero.",
  ],
  series: [
    "Curves",
    "Each step is the mean over one bin, counted as achieved is; a bin without data is a gap, not zero. Active is the mean over a bin, queued a sample at its end. A transfer that fails is never in a throughput curve.",
  ],
  spread: ["Spread", "The hold is cut into equal parts; standard deviation ÷ mean of the bytes per part. A verdict on figures that vary too much is “unstable”. Over the seconds of the hold it is the same of each second; “as injected” is that of the plan, if nothing held its files back."],
  matrix: ["Copy matrix", "Mean over the copies of one pair, mode and size that finished of size ÷ own duration."],
  ramp: ["Ramp", "Verified bytes of one step ÷ the time from its first start to its last end."],
  crosscheck: [
    "Cross-checks",
    "The transfer service, the receiving storage and the sending storage count separately. The transfer service's counter is what it saw moving (its own reads, or the final count that a storage wrote with its verdict), not a size that was looked up. The difference is (largest − smallest) ÷ largest of the counters there are; up to 0.1 % is agreement. A larger one that repeated, cancelled, unanswered or failed attempts may explain is open; any other is a disagreement. What the catalogue says is there is compared with what each storage holds, after the drain and before the clean-up. Sockets are what the kernel says that TCP carried at the storage's end, less the headers of full TLS records; what is left of heads, handshakes and other requests is in the tolerance.",
  ],
  audit: ["Audit", "A sample of the delivered files, read back in full at the end and compared with the checksum taken when the source file was made. This traffic is in no rate."],
} as const satisfies Readonly<Record<string, readonly [string, string]>>;

export type Note = keyof typeof NOTES;

const ORDER = Object.keys(NOTES) as Note[];

/** The raised number of a footnote, as a link to it. */
export function note(name: Note): HTMLElement {
  const title = NOTES[name][0];
  return h("sup", {}, h("a", { href: `#measured-${name}`, class: "note-ref" }, hidden(`How measured: ${title}, note `), String(ORDER.indexOf(name) + 1)));
}

/** All footnotes, in the order of their numbers. */
export function notes(): HTMLElement {
  const items = ORDER.map((name) => h("li", { id: `measured-${name}` }, h("strong", {}, NOTES[name][0]), ` ${NOTES[name][1]}`));
  return h("ol", { class: "notes" }, items);
}

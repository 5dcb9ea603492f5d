// The page of a comparison: what each policy brings, in all and in the course of time, by workload and site, and why.
import type { Comparison } from "./comparison";
import { h } from "./dom";
import { layOut } from "./layout";
import { command } from "./parts";
import { causes } from "./sections/compared/causes";
import { course } from "./sections/compared/course";
import { sites } from "./sections/compared/sites";
import { totals } from "./sections/compared/totals";
import { workloads } from "./sections/compared/workloads";

const READING =
  "The same challenge ran in the simulated world under each policy, with the same seed and failures. Rates are verified bytes within the " +
  "hold. The optimum is an estimate: a linear programme that knows everything beforehand and to which failures cost nothing decides one stretch of " +
  "time after the other. fts-imitation is Weir's imitation of FTS 3.14 after its source; FTS itself did not run.";

/** Puts a comparison on the page; the function returned takes it off again. */
export function showComparison(root: HTMLElement, comparison: Comparison): () => void {
  const { challenge, description, situation, result } = comparison;
  const circumstances = h("p", { class: "circumstances" }, [`scale ${comparison.scale}`, `seed ${comparison.seed}`, "simulated"].map((text) => h("span", {}, text)));
  return layOut(root, {
    title: `${challenge}: schedulers compared – Weir`,
    kind: "schedulers compared",
    version: null,
    skip: "Skip to the result",
    head: [
      h("div", { class: "title" }, h("h1", {}, challenge), description === "" ? null : h("p", { class: "description" }, description), circumstances),
      result === null ? null : h("p", { class: "headline" }, result),
      h("p", { class: "hint" }, situation),
    ],
    sections: [
      totals(comparison),
      course(comparison),
      ...workloads(comparison),
      causes(comparison),
      sites(comparison),
      { id: "rests", title: "Assumptions", short: "Assumptions", content: rests(comparison) },
      { id: "reading", title: "How to read this", short: "Reading", content: h("p", {}, READING) },
      { id: "again", title: "Compare again", content: command(comparison.command) },
    ],
  });
}

/** The limits of the policies, and what was set where nothing had been measured. */
function rests({ limits, assumed }: Comparison): HTMLElement {
  return h("div", {}, limits === "" ? null : h("p", {}, limits), assumed.length === 0 ? null : [h("p", {}, "Not measured, but set for this world:"), h("ul", {}, assumed.map((text) => h("li", {}, text)))]);
}

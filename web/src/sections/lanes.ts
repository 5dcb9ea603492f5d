// Statements in time: one lane each, above the events of the run.
import { breakable, h } from "../dom";
import { onDemand } from "../parts";
import type { Report, Statement } from "../report";
import { clock } from "../units";
import { layerOf } from "../why";

/** Lanes that are drawn. */
const SHOWN = 12;

/** When each cause held, beside the phases and the events of the run. */
export function lanes(report: Report, shown: readonly string[]): HTMLElement | null {
  const span = ends(report);
  const drawn = report.statements.filter((statement) => statement.links.length > 0).slice(0, SHOWN);
  if (drawn.length === 0 || span <= 0) return null;
  const place = (at: number): number => (100 * Math.min(Math.max(at, 0), span)) / span;
  const bar = (from: number, until: number, name: string, style = ""): HTMLElement =>
    h("span", { class: name, style: `left: ${place(from).toFixed(2)}%; width: ${(place(until) - place(from)).toFixed(2)}%; ${style}` });
  const lane = (statement: Statement): HTMLElement => {
    const when = `${clock(statement.from_s, span)} to ${clock(statement.until_s, span)}`;
    const said = statement.said_s === null ? "" : `, first said at ${clock(statement.said_s, span)}`;
    return h(
      "li",
      {},
      h("span", { class: "lane-name" }, statement.class, statement.place === null ? "" : " ", statement.place === null ? "" : breakable(statement.place)),
      h(
        "span",
        { class: "lane", role: "img", "aria-label": `${when}${said}`, title: `${when}${said}` },
        bar(statement.from_s, statement.until_s, "lane-bar", `--swatch: var(--layer-${layerOf(statement.class, shown)})`),
        statement.said_s === null ? null : h("span", { class: "lane-said", style: `left: ${place(statement.said_s).toFixed(2)}%` }),
      ),
    );
  };
  const events = report.events.filter((event) => event.t_s >= 0 && event.t_s <= span);
  const hold = report.windows.hold;
  return h(
    "div",
    { class: "lanes-box" },
    h("h3", {}, "When"),
    h(
      "ol",
      { class: "lanes", "aria-label": "When each cause held" },
      hold === null
        ? null
        : h("li", {}, h("span", { class: "lane-name" }, "hold"), h("span", { class: "lane", role: "img", "aria-label": `${clock(hold.start_s, span)} to ${clock(hold.end_s, span)}` }, bar(hold.start_s, hold.end_s, "lane-bar lane-hold"))),
      drawn.map(lane),
      events.length === 0
        ? null
        : h(
            "li",
            {},
            h("span", { class: "lane-name" }, "events"),
            h(
              "span",
              { class: "lane", role: "img", "aria-label": `${events.length} events; the list below the rates has them` },
              events.map((event) => h("span", { class: "lane-event", style: `left: ${place(event.t_s).toFixed(2)}%`, title: `${clock(event.t_s, span)} ${event.text}` })),
            ),
          ),
    ),
    h("p", { class: "lane-scale" }, h("span", {}, clock(0, span)), h("span", {}, clock(span, span))),
  );
}

/** Statements that were made during the run and taken back. */
export function withdrawn(report: Report): HTMLElement | null {
  if (report.withdrawn.length === 0) return null;
  const span = ends(report);
  const title = report.withdrawn.length === 1 ? "1 statement was withdrawn during the run" : `${report.withdrawn.length} statements were withdrawn during the run`;
  return onDemand(title, () =>
    h(
      "ul",
      { class: "withdrawn" },
      report.withdrawn.map(({ at_s, statement }) => h("li", {}, h("span", { class: "label" }, clock(at_s, span)), " ", h("s", {}, statement.text))),
    ),
  );
}

/** The end of the run, seconds. */
function ends(report: Report): number {
  if (report.series !== null) return report.series.n_bins * report.series.bin_s;
  return report.windows.drain?.end_s ?? report.windows.hold?.end_s ?? 0;
}

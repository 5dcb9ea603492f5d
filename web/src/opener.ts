// What the page shows when it has no report: a place to drop a report.json, or a button to choose one. Also what it shows
// when there is data that it cannot show.
import { append, h } from "./dom";
import type { ReportError } from "./report";

const LISTED = 20;

/** `open` gets the text of the file that somebody chose. */
export function opener(open: (json: string) => void, error: ReportError | null): HTMLElement {
  const state = h("p", { class: "state", role: "status" });
  const read = (file: File | undefined): void => {
    if (!file) return;
    state.textContent = `Reading ${file.name}…`;
    file.text().then(open, (cause: unknown) => {
      state.textContent = `Could not read ${file.name}: ${cause instanceof Error ? cause.message : String(cause)}`;
    });
  };
  const input = h("input", { type: "file", id: "report-file", accept: ".json,application/json", on: { change: () => read(input.files?.[0]) } });
  const zone = h(
    "div",
    { class: "drop" },
    h("p", {}, h("label", { for: "report-file" }, "Open a report.json"), " from a run folder, or drop it here."),
    input,
    state,
    h("p", { class: "hint" }, "The file stays on this machine: the page sends nothing anywhere."),
  );
  const over = (on: boolean) => (event: DragEvent): void => {
    event.preventDefault();
    zone.classList.toggle("over", on);
  };
  zone.addEventListener("dragover", over(true));
  zone.addEventListener("dragleave", over(false));
  zone.addEventListener("drop", (event) => {
    over(false)(event);
    read(event.dataTransfer?.files[0]);
  });
  return h("main", { class: "opener" }, h("h1", {}, "Weir report"), error && complaint(error), zone);
}

function complaint(error: ReportError): HTMLElement {
  const box = h("div", { class: "complaint", role: "alert" }, h("p", {}, h("strong", {}, error.message)));
  if (error.problems.length > 0) {
    const items = error.problems.slice(0, LISTED).map(({ path, message }) => h("li", {}, h("code", {}, path), `: ${message}`));
    const rest = error.problems.length - items.length;
    append(box, [h("ul", {}, items), rest > 0 && h("p", {}, `and ${rest} more`)]);
  }
  return box;
}

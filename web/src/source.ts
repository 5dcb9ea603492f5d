// Where a report comes from. The page knows only this interface: today the JSON inside the page, or a file that somebody
// opens; a live run can become a third source that calls `show` again and again.
import { parseReport, ReportError, type Report } from "./report";

/** What a source tells the page. */
export interface Audience {
  /** A report, whole and checked; a later call replaces it. */
  show(report: Report): void;
  /** There is no data: the page asks for a file. */
  ask(): void;
  /** There is data that cannot be shown. */
  refuse(error: ReportError): void;
}

/** A supply of reports. */
export interface Source {
  /** Begins to call `audience`; the function returned ends that. */
  open(audience: Audience): () => void;
}

/** The JSON inside the page, in `<script type="application/json" id="weir-report">`. */
export class EmbeddedSource implements Source {
  constructor(private readonly page: Document) {}

  open(audience: Audience): () => void {
    const json = this.page.getElementById("weir-report")?.textContent?.trim() ?? "";
    if (json === "" || json === "null") audience.ask();
    else offer(json, audience);
    return () => undefined;
  }
}

/** Reads JSON text and hands on the report, or what is wrong with it. */
export function offer(json: string, audience: Audience): void {
  let report: Report;
  try {
    report = parseReport(json);
  } catch (error) {
    if (!(error instanceof ReportError)) throw error;
    audience.refuse(error);
    return;
  }
  audience.show(report);
}

// Where a report or a comparison comes from. The page knows only this interface: today the JSON inside the page, or a file that somebody
// opens; a live run can become a third source that calls `show` again and again.
import { checkComparison, isComparison, type Comparison } from "./comparison";
import { checkReport, parseJson, ReportError, type Report } from "./report";

/** What a source tells the page. */
export interface Audience {
  /** A report, whole and checked; a later call replaces it. */
  show(report: Report): void;
  /** A comparison of policies, likewise. */
  compare(comparison: Comparison): void;
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

/** Reads JSON text and hands on what it holds, or what is wrong with it. */
export function offer(json: string, audience: Audience): void {
  let show: () => void;
  try {
    show = read(json, audience);
  } catch (error) {
    if (!(error instanceof ReportError)) throw error;
    audience.refuse(error);
    return;
  }
  show();
}

function read(json: string, audience: Audience): () => void {
  const data = parseJson(json);
  if (isComparison(data)) {
    const comparison = checkComparison(data);
    return () => audience.compare(comparison);
  }
  const report = checkReport(data);
  return () => audience.show(report);
}

// Why sites got less than is asked, by number of sites.
import type { Comparison } from "../../comparison";
import { figure, type Section } from "../../parts";
import { table } from "../../table";
import { count } from "../../units";
import { perPolicy } from "./columns";

export function causes(comparison: Comparison): Section | null {
  if (comparison.asked_bps === 0 || comparison.causes.length === 0) return null;
  const made = table<number>({
    caption: "Sites that got less than 95 % of their asked rate, by cause.",
    rows: comparison.causes.map((_, index) => index),
    className: "compared",
    columns: [
      { label: "sites that", cell: (index) => comparison.causes[index]?.sentence ?? "" },
      ...perPolicy<number>(comparison, (index, at) => figure(`causes[${index}].sites[${at}]`, count(comparison.causes[index]?.sites[at] ?? 0))),
    ],
  });
  return { id: "causes", title: "Causes at sites", content: made.element };
}

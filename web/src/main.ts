// Wires the source to the page.
import "./style/page.css";
import { showComparison } from "./compared";
import { opener } from "./opener";
import { showPage } from "./page";
import { EmbeddedSource, offer, type Audience } from "./source";
import { startTheme } from "./theme";

const root = document.getElementById("page");
if (!root) throw new Error("the page has no #page element");

let leave: () => void = () => undefined;
const audience: Audience = {
  show: (report) => {
    leave();
    leave = showPage(root, report);
  },
  compare: (comparison) => {
    leave();
    leave = showComparison(root, comparison);
  },
  ask: () => root.replaceChildren(opener((json) => offer(json, audience), null)),
  refuse: (error) => root.replaceChildren(opener((json) => offer(json, audience), error)),
};

startTheme();
new EmbeddedSource(document).open(audience);

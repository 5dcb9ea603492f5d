// ECharts, the parts that the report uses, in one place; and `Chart`, which keeps one of them in step with its size, the
// theme and the printer. SVG, so that paper gets lines and not pixels.
import { LineChart, type LineSeriesOption } from "echarts/charts";
import {
  DataZoomComponent,
  GridComponent,
  MarkAreaComponent,
  MarkLineComponent,
  TooltipComponent,
  type DataZoomComponentOption,
  type GridComponentOption,
  type TooltipComponentOption,
} from "echarts/components";
import { init, use, type ComposeOption, type EChartsType } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { colour, onThemeChange } from "./theme";

use([LineChart, DataZoomComponent, GridComponent, MarkAreaComponent, MarkLineComponent, TooltipComponent, SVGRenderer]);

export type ChartOption = ComposeOption<LineSeriesOption | DataZoomComponentOption | GridComponentOption | TooltipComponentOption>;
export type { LineSeriesOption };

/** Width of a chart on paper: A4 less its margins, at 96 dots per inch. */
const PAPER_WIDTH = 690;

/** Colours of the page, read when a chart is drawn. */
export interface Palette {
  /** Type size of labels, pixels; paper takes smaller type than screens. */
  readonly small: number;
  readonly ink: string;
  readonly muted: string;
  readonly rule: string;
  readonly surface: string;
  readonly accent: string;
  readonly accentSoft: string;
  readonly bad: string;
  readonly band: string;
  readonly layers: readonly string[];
  readonly lines: readonly string[];
}

/** Colours for layers; dark and light alternate, so that neighbours differ in grey too. */
const N_LAYERS = 10;
/** Colours for lines, all of them strong. */
export const N_LINES = 5;

function palette(printing: boolean): Palette {
  return {
    small: printing ? 9 : 12,
    ink: colour("ink"),
    muted: colour("muted"),
    rule: colour("rule"),
    surface: colour("page"),
    accent: colour("accent"),
    accentSoft: colour("accent-soft"),
    bad: colour("bad-ink"),
    band: colour("band"),
    layers: Array.from({ length: N_LAYERS }, (_, index) => colour(`layer-${index}`)),
    lines: Array.from({ length: N_LINES }, (_, index) => colour(`layer-${index * 2}`)),
  };
}

/** What a chart is drawn from, once its size and colours are known. */
export type Draw = (palette: Palette, width: number) => ChartOption;

export class Chart {
  private readonly chart: EChartsType;
  private readonly observer: ResizeObserver;
  private readonly unwatch: () => void;
  private draw: Draw | null = null;

  /** `host` is in the page and has a height. */
  constructor(private readonly host: HTMLElement) {
    host.setAttribute("role", "img");
    this.chart = init(host, null, { renderer: "svg" });
    this.observer = new ResizeObserver(() => {
      if (!document.documentElement.hasAttribute("data-printing")) this.redraw();
    });
    this.observer.observe(host);
    this.unwatch = onThemeChange((printing) => this.redraw(printing));
  }

  /** Shows a drawing; `summary` is what a screen reader says instead. */
  show(draw: Draw, summary: string): void {
    this.draw = draw;
    this.host.setAttribute("aria-label", summary);
    this.redraw();
  }

  dispose(): void {
    this.unwatch();
    this.observer.disconnect();
    this.chart.dispose();
  }

  private redraw(printing = false): void {
    if (!this.draw) return;
    const width = printing ? PAPER_WIDTH : this.host.clientWidth;
    if (width === 0) return;
    this.chart.resize({ width, height: this.host.clientHeight });
    const colours = palette(printing);
    this.chart.setOption({ animation: false, textStyle: { fontFamily: "inherit" }, ...this.draw(colours, width) }, { notMerge: true });
    this.chart.getZr().flush();
  }
}

/** Tooltip looks; the content is made of elements, so that no text of the report is read as HTML. */
export function tooltipStyle(colours: Palette): TooltipComponentOption {
  return {
    backgroundColor: colours.surface,
    borderColor: colours.rule,
    borderWidth: 1,
    padding: [6, 10],
    confine: true,
    transitionDuration: 0,
    textStyle: { color: colours.ink, fontSize: 13 },
    extraCssText: "box-shadow: 0 2px 8px rgb(0 0 0 / .18); border-radius: 3px;",
  };
}

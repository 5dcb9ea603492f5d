import page from "../../docs/signals.md?raw";
import { describe, expect, test } from "vitest";
import type { LinkSignals } from "../src/report";
import { binsOf, layers, OTHERS, PHASES, shares, statesShown, waited } from "../src/waits";

function link(waits: readonly (readonly [string, readonly number[], number?])[]): LinkSignals {
  return {
    source: "A",
    destination: "B",
    bin_s: 10,
    known: ["queue"],
    waits: waits.map(([wait, seconds, first = 0]) => ({
      wait,
      place: null,
      total_s: seconds.reduce((sum, value) => sum + value, 0),
      first_bin: first,
      seconds: [...seconds],
      holders: [],
    })),
    slots: null,
  };
}

describe("states of transfers", () => {
  test("are those of the handbook, in the order of life", () => {
    const [states = ""] = page.split("## In `report.json`");
    const rows = [...states.matchAll(/^\| (`[^|]+) \| ([a-z]+) \|/gm)];
    const told = rows.flatMap(([, names = "", phase = ""]) => [...names.matchAll(/`([^`]+)`/g)].map(([, state]) => `${phase} ${state}`));
    expect(PHASES.flatMap(([phase, states]) => states.map((state) => `${phase} ${state}`))).toEqual(told);
  });

  test("with least time share one name", () => {
    const states = PHASES.flatMap(([, names]) => names).slice(0, 14);
    const many = link(states.map((state, index) => [state, [index + 1]]));
    const shown = statesShown([many]);
    expect(shown).toEqual([...states.slice(5), OTHERS]);
    const made = layers(many, shown, 1);
    expect(made.at(-1)).toEqual({ state: OTHERS, total: 15, bins: [15] });
    expect(made.reduce((sum, layer) => sum + layer.total, 0)).toBe(waited(many));
    // Ten fit, and nothing is hidden behind "others" alone.
    expect(statesShown([link(states.slice(0, 10).map((state) => [state, [1]]))])).not.toContain(OTHERS);
  });

  test("of a newer writer come last", () => {
    const shown = statesShown([link([["levitation", [9]], ["verify", [1]]])]);
    expect(shown).toEqual(["verify", "levitation"]);
  });

  test("begin at their first bin, and several places add up", () => {
    const two = link([["disk", [1, 2], 3], ["disk", [5], 4], ["network", [7]]]);
    expect(binsOf(two, 0)).toBe(5);
    expect(binsOf(two, 78)).toBe(8);
    const made = layers(two, ["network", "disk"], 5);
    expect(made.map((layer) => layer.bins)).toEqual([
      [7, 0, 0, 0, 0],
      [0, 0, 0, 1, 7],
    ]);
    expect(shares(made)).toEqual([
      [1, null, null, 0, 0],
      [1, null, null, 1, 1],
    ]);
  });
});

// Builds one page, `dist/report.html`, with its script and style inside: it opens from a file, on a machine without a
// network. The page's own content security policy then forbids everything that is not in the page.
import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";

/** The element that the binary fills with a run's JSON; it must be in the page exactly once. */
const DATA_ELEMENT = '<script type="application/json" id="weir-report">null</script>';

const NOTICE = `<!--
Weir report. Copyright the Weir authors, Apache-2.0.
Contains Apache ECharts and ZRender (Copyright The Apache Software Foundation and Baidu Inc., Apache-2.0 and BSD-3-Clause),
tslib (Copyright Microsoft Corporation, 0BSD) and Source Sans 3 (Copyright 2010-2024 Adobe, with Reserved Font Name
'Source', SIL Open Font License 1.1, https://openfontlicense.org).
-->`;

function onePage(): Plugin {
  return {
    name: "weir-one-page",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["report.html"];
      if (page?.type !== "asset") throw new Error("report.html is missing from the bundle");
      let script = "";
      let style = "";
      for (const [name, part] of Object.entries(bundle)) {
        if (part === page) continue;
        if (part.type === "chunk") script += part.code;
        else if (name.endsWith(".css")) style += text(part.source);
        else throw new Error(`${name} would be a second file; the report is one file`);
        delete bundle[name];
      }
      // A `</script` inside a string would end the element early; `<\/` is the same string to JavaScript.
      script = script.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      const hash = createHash("sha256").update(script, "utf8").digest("base64");
      const policy = [
        "default-src 'none'",
        `script-src 'sha256-${hash}'`,
        "style-src 'unsafe-inline'",
        "font-src data:",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
      ].join("; ");
      const html = text(page.source)
        .replace(/<script type="module"[^>]*><\/script>\s*/g, "")
        .replace(/<link rel="stylesheet"[^>]*>\s*/g, "")
        .replace("<head>", () => `<head>\n${NOTICE}`)
        .replace("<!-- policy -->", () => `<meta http-equiv="Content-Security-Policy" content="${policy}">`)
        .replace("</head>", () => `<style>${style.trim()}</style>\n</head>`)
        .replace("</body>", () => `<script type="module">${script}</script>\n</body>`);
      if (html.split(DATA_ELEMENT).length !== 2) throw new Error("the data element must be in the page exactly once");
      page.source = html;
    },
  };
}

function text(source: string | Uint8Array): string {
  return typeof source === "string" ? source : new TextDecoder().decode(source);
}

export default defineConfig({
  root: import.meta.dirname,
  base: "./",
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome111", "firefox113", "safari16.4"],
    assetsInlineLimit: 1_000_000,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2_000,
    rolldownOptions: { input: "report.html", output: { codeSplitting: false } },
  },
  plugins: [onePage()],
});

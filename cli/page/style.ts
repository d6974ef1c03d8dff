/** The style of all pages. It must not contain "</style". */
export const STYLE = `
:root { color-scheme: light dark; --bg: #fbfbfa; --fg: #1d2328; --dim: #66707a; --line: #d8dcdf; --card: #ffffff;
  --good: #1a7f4b; --warning: #b26a00; --bad: #c2293a; --idle: #8a949d; --accent: #2457a6; }
@media (prefers-color-scheme: dark) { :root { --bg: #15191d; --fg: #e4e7ea; --dim: #98a2ac; --line: #343b42; --card: #1c2126;
  --good: #4cc38a; --warning: #f0a93c; --bad: #ff6b78; --idle: #707a84; --accent: #7fb0ff; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1rem 1.25rem 3rem; background: var(--bg); color: var(--fg);
  font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; }
header { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; align-items: baseline; margin-bottom: .75rem; }
h1 { font-size: 1.35rem; margin: 0; } h2 { font-size: 1rem; margin: 0 0 .5rem; }
.dim { color: var(--dim); } .good { color: var(--good); } .warning { color: var(--warning); }
.bad { color: var(--bad); } .idle { color: var(--idle); }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 1rem; align-items: start; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .75rem 1rem; min-width: 0; }
.wide { grid-column: 1 / -1; min-width: 0; } #trace section + section { margin-top: 1rem; }
[hidden] { display: none; }
.scroll { overflow: auto; } div.scroll { max-height: 26rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--dim); position: sticky; top: 0; background: var(--card); }
th, td { padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
td.text { white-space: normal; overflow-wrap: anywhere; min-width: 10rem; width: 40%; }
tr.chosen td { background: color-mix(in srgb, var(--accent) 15%, transparent); }
ul { margin: 0; padding-left: 1.1rem; } dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 12px; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 24rem; overflow: auto; }
button { font: inherit; color: var(--accent); background: none; border: 0; padding: 0; cursor: pointer; text-align: left; }
button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
meter { width: 4rem; height: .6rem; vertical-align: baseline; }
svg { display: block; width: 100%; max-width: 60rem; height: auto; overflow: visible; }
svg rect { shape-rendering: crispEdges; }
svg text { fill: var(--dim); font: 11px system-ui, "DejaVu Sans", sans-serif; }
svg text.strong { fill: var(--fg); } svg text.inside { fill: var(--card); font-weight: 600; font-size: 10px; text-anchor: middle; }
svg text.middle { text-anchor: middle; } svg text.end { text-anchor: end; }
svg .axis { stroke: var(--line); stroke-width: 1; }
svg .fill-good { fill: var(--good); } svg .fill-warning { fill: var(--warning); } svg .fill-bad { fill: var(--bad); }
svg .fill-idle { fill: var(--idle); } svg .curve { fill: none; stroke-width: 1.6; }
svg .c0 { stroke: #4e79a7; } svg .c1 { stroke: #f28e2b; } svg .c2 { stroke: #59a14f; } svg .c3 { stroke: #e15759; }
svg .c4 { stroke: #b07aa1; } svg .c5 { stroke: #9c755f; } svg .c6 { stroke: #76b7b2; } svg .c7 { stroke: #edc948; }
svg .dash { stroke-dasharray: 4 3; } svg [data-node] { cursor: pointer; }
`;

import { formatDuration } from '../../../internal/clock/index.ts';
import { html, joinPlot, renderDocument, type Html, type PlotTone } from '../../page/index.ts';
import { comparison, needsFix, traceVerdict, type FactView, type Trace } from './join-trace.ts';

const TONES: Readonly<Record<FactView['outcome'], PlotTone>> = {
  pass: 'good',
  warn: 'warning',
  fail: 'bad',
  wait: 'idle',
  unknown: 'idle',
};

/** The trace of a join as a page in one file, which needs nothing from elsewhere and runs no script. */
export function tracePage(trace: Trace, nowMs: number): string {
  const name = trace.nodeName || trace.subject;
  const [first] = trace.facts;
  return renderDocument({
    title: `Join of ${name}`,
    body: html`<header>
        <h1>Join of ${name}</h1>
        <span class="dim"
          >${
            first === undefined ? '' : `began ${new Date(first.timeMs).toISOString().slice(0, 19)}Z, `
          }written
          ${new Date(nowMs).toISOString().slice(0, 19)}Z</span
        >
      </header>
      <main>${traceSection(trace)}</main>`,
  });
}

/** Whether a text is the page of a trace. */
export function isTracePage(text: string): boolean {
  return text.startsWith('<!doctype html>') && text.includes('<title>Join of ');
}

/** The trace of a join: its verdict, its time line from both ends, and its checks. */
export function traceSection(trace: Trace): Html {
  const { facts, nodeName, subject } = trace;
  const first = facts[0]?.timeMs ?? 0;
  const dots = facts.map((fact) => ({
    ...{ side: fact.side, name: fact.name, tone: TONES[fact.outcome], timeMs: fact.timeMs },
    text: `${fact.side}: ${fact.name} – ${fact.outcome}: ${comparison(fact)}`,
  }));
  return html`<section class="wide">
      <h2>${nodeName || subject}: ${traceVerdict(trace)}</h2>
      ${facts.length === 0 ? html`<p class="dim">Nothing checked yet.</p>` : joinPlot(dots)}
    </section>
    ${
      facts.length === 0
        ? undefined
        : html`<section class="wide scroll">
            <h2>Checks</h2>
            <table>
              <thead>
                <tr>
                  <th>#</th>
                  <th>after</th>
                  <th>by</th>
                  <th>check</th>
                  <th>outcome</th>
                  <th>found</th>
                </tr>
              </thead>
              <tbody>
                ${facts.map(
                  (fact, index) =>
                    html`<tr>
                      <td>${index + 1}</td>
                      <td>+${formatDuration(fact.timeMs - first)}</td>
                      <td>${fact.side}</td>
                      <td>${fact.name}</td>
                      <td class="${TONES[fact.outcome]}">${fact.outcome}</td>
                      <td class="text">
                        ${comparison(fact)}${fact.code === '' ? undefined : html`<br /><code>${fact.code}</code>`}${needsFix(fact) ? html`<br /><span class="dim">fix: ${fact.fix}</span>` : undefined}
                      </td>
                    </tr> `,
                )}
              </tbody>
            </table>
          </section>`
    }`;
}

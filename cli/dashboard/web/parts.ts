import { formatDuration, formatExpiry } from '../../../internal/clock/index.ts';
import { counted } from '../../../internal/printable/index.ts';
import { traceSection, VERDICT_NAMES, type Trace } from '../../nodes/index.ts';
import { html, type Html } from '../../page/index.ts';
import { diskShare, memoryShare, percent } from '../model/figures.ts';
import type { NodeRow } from '../model/node-row.ts';
import { failureText, type Snapshot } from '../model/snapshot.ts';
import { certificatePlot, heartbeatPlot, latencyPlot, roleMap } from './plots-of.ts';

/** The trace of the chosen node, or why it could not be read; undefined while it is read. */
export type TraceAnswer =
  { readonly ok: true; readonly value: Trace } | { readonly ok: false; readonly error: string } | undefined;

/** What the user of the page has chosen. */
export interface PageChoice {
  /** Name of the chosen node; the first one if there is none with this name. */
  readonly node: string;
  readonly trace: TraceAnswer;
}

/** The content of each part of the page, by its ID. Pure. */
export function partsOf(
  snapshot: Snapshot,
  { node: name, trace }: PageChoice,
): Readonly<Record<string, Html>> {
  const chosen = snapshot.nodes.find((each) => each.name === name) ?? snapshot.nodes[0];
  return {
    head: headPart(snapshot),
    summary: summaryPart(snapshot),
    problems: problemsPart(snapshot),
    map: html`<h2>Roles</h2>
      ${roleMap(snapshot)}`,
    heartbeats: html`<h2>Heartbeats</h2>
      ${heartbeatPlot(snapshot)}`,
    nodes: nodesPart(snapshot, chosen),
    node: chosen === undefined ? html`` : nodePart(chosen, snapshot.takenMs),
    trace: tracePart(trace),
    latencies: html`<h2>Latency of etcd</h2>
      ${latencyPlot(snapshot)}`,
    certificates: html`<h2>Certificates</h2>
      ${certificatePlot(snapshot)}`,
    decisions: decisionsPart(snapshot),
  };
}

function headPart({ name, clusterId, tone, verdict, you, takenMs, nodes }: Snapshot): Html {
  const members = nodes.filter(({ kind }) => kind === 'member').length;
  return html`<h1>${name || 'cluster'}</h1>
    <strong class="${tone}">${verdict}</strong>
    <span>${counted(members, 'node')}</span>
    <span class="dim">${clusterId}</span>
    ${you.role === '' ? undefined : html`<span class="dim">you are ${you.name}, ${you.role}</span>`}
    <span class="dim">${new Date(takenMs).toISOString().slice(0, 19)}Z</span>`;
}

function summaryPart({ summary }: Snapshot): Html {
  return html`<h2>Cluster</h2>
    <dl>
      ${summary.map(
        ([label, text]) =>
          html`<dt>${label}</dt>
            <dd>${text}</dd>`,
      )}
    </dl>`;
}

function problemsPart({ problems, failing, takenMs }: Snapshot): Html {
  return html`<h2>Problems</h2>
    ${
      problems.length + failing.length === 0
        ? html`<p class="good">No problems. <code>cluster doctor</code> checks every layer.</p>`
        : undefined
    }
    <ul>
      ${problems.map((text) => html`<li class="bad">${text}</li>`)}
      ${failing.map(
        (each) => html`<li class="${each.isRefused ? 'dim' : 'warning'}">${failureText(each, takenMs)}</li>`,
      )}
    </ul>`;
}

function nodesPart({ nodes, takenMs }: Snapshot, chosen: NodeRow | undefined): Html {
  return html`<table>
    <thead>
      <tr>
        <th>node</th>
        <th>status</th>
        <th>roles</th>
        <th>phase</th>
        <th>waits for</th>
        <th>cpu</th>
        <th>memory</th>
        <th>disk</th>
        <th>next expiry</th>
        <th>version</th>
        <th>address</th>
      </tr>
    </thead>
    <tbody>
      ${nodes.map(
        (node) =>
          html`<tr class="${node.id === chosen?.id ? 'chosen' : ''}">
            <td><button data-node="${node.name}">${node.name}</button></td>
            <td class="${node.tone}">${node.status}</td>
            <td>${node.roles.join(', ') || 'none'}</td>
            <td>${node.phase}</td>
            <td class="text">${node.waitsFor || '–'}</td>
            <td>${meter(node.usage?.cpuShare)}</td>
            <td>${meter(memoryShare(node.usage))}</td>
            <td>${meter(diskShare(node.usage))}</td>
            <td>${firstExpiry(node, takenMs)}</td>
            <td>${node.version || '–'}</td>
            <td>${node.address || '–'}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

function meter(share: number | undefined): Html {
  if (share === undefined) return html`<span class="dim">–</span>`;
  return html`<meter min="0" max="1" low="0.75" high="0.9" optimum="0" value="${share.toFixed(3)}"></meter>
    ${percent(share)}`;
}

function firstExpiry({ certificates }: NodeRow, nowMs: number): string {
  const endMs = Math.min(...certificates.map(({ notAfterMs }) => notAfterMs));
  return Number.isFinite(endMs) ? formatExpiry(endMs, nowMs) : '–';
}

function nodePart(node: NodeRow, nowMs: number): Html {
  const certificates = node.certificates.toSorted((a, b) => a.notAfterMs - b.notAfterMs);
  return html`<h2>Node ${node.name}</h2>
    <dl>
      <dt>status</dt>
      <dd>
        <span class="${node.tone}">${node.status}</span>,
        ${node.phase}${node.waitsFor === '' ? undefined : html`, waits for ${node.waitsFor}`}
      </dd>
      <dt>disk</dt>
      <dd>${node.disk ?? 'unknown'}</dd>
      <dt>agent</dt>
      <dd>${node.agentVersion || 'unknown'}</dd>
      ${
        node.usageError === undefined
          ? undefined
          : html`<dt>metrics</dt>
              <dd class="warning">${node.usageError}</dd>`
      }
      <dt>certificates</dt>
      <dd>
        ${certificates.map(({ name, notAfterMs }) => `${name} ${formatExpiry(notAfterMs, nowMs)}`).join(', ') || '–'}
      </dd>
    </dl>
    ${node.runnables.length === 0 ? undefined : runnablesTable(node, nowMs)}`;
}

function runnablesTable(node: NodeRow, nowMs: number): Html {
  return html`<div class="scroll">
    <table>
      <thead>
        <tr>
          <th>component</th>
          <th>state</th>
          <th>for</th>
          <th>waits for</th>
          <th>last error</th>
          <th></th>
        </tr>
      </thead>
      <tbody>
        ${node.runnables.map(
          ({ path, verdict, sinceMs, why, lastError }) =>
            html`<tr>
              <td>${path}</td>
              <td>${VERDICT_NAMES[verdict] ?? verdict}</td>
              <td>${formatDuration(nowMs - sinceMs)}</td>
              <td class="text">${why}</td>
              <td class="text">${lastError}</td>
              <td><button data-log-node="${node.name}" data-log-path="${path}">logs</button></td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function tracePart(trace: TraceAnswer): Html {
  if (trace?.ok === true) return traceSection(trace.value);
  const text = trace === undefined ? 'reading …' : trace.error;
  return html`<section>
    <h2>Join</h2>
    <p class="dim">${text}</p>
  </section>`;
}

function decisionsPart({ decisions, takenMs }: Snapshot): Html {
  return html`<h2>Recent decisions</h2>
    <table>
      <thead>
        <tr>
          <th>#</th>
          <th>ago</th>
          <th>caller</th>
          <th>method</th>
          <th>subject</th>
          <th>detail</th>
        </tr>
      </thead>
      <tbody>
        ${(decisions ?? []).map(
          ({ seq, timeMs, caller, method, subject, detail }) =>
            html`<tr>
              <td>${seq}</td>
              <td>${formatDuration(takenMs - timeMs)}</td>
              <td>${caller}</td>
              <td>${method}</td>
              <td>${subject}</td>
              <td class="text">${detail}</td>
            </tr>`,
        )}
      </tbody>
    </table>`;
}

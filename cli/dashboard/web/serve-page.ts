import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { childSignal, untilAborted } from '../../../internal/cleanup/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { readPart } from '../../cluster/index.ts';
import { followRunnable, readTrace } from '../../nodes/index.ts';
import { contentPolicy } from '../../page/index.ts';
import { Collector } from '../collect/collector.ts';
import { quietContext } from '../collect/quiet-context.ts';
import { DashboardError } from '../errors.ts';
import { judge, type Snapshot } from '../model/snapshot.ts';
import { PageAccess, type Decision } from './page-access.ts';
import { PAGE_SCRIPT } from './page-script.ts';
import { renderPage } from './page.ts';
import { partsOf, type TraceAnswer } from './parts.ts';

/** Only programs on this machine, or at the other end of an ssh connection of its user, can connect. */
const ADDRESS = '127.0.0.1';
const LIMITS = { requestTimeout: 10_000, headersTimeout: 10_000, maxHeaderSize: 8_192 };
/** A browser opens six connections at most; the rest is for a second one while the first is being closed. */
const MAX_CONNECTIONS = 16;
/** How long the trace of a join is not read again. */
const TRACE_MS = 10_000;

const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': `${contentPolicy({ script: PAGE_SCRIPT })}; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

/**
 * `cluster dashboard --web`: serves the page until the command is interrupted.
 * @param port 0 for a free one
 * @throws DashboardError `dashboard-port-taken`; ClusterError `cluster-not-initialized`
 */
export async function servePage(context: CommandContext, port: number): Promise<never> {
  using ending = childSignal(context.signal);
  const quiet = quietContext(context, ending.signal);
  const collector = await Collector.open(quiet, () => undefined);
  const server = new PageServer(context, quiet, collector);
  await using listening = await listen(server, port);
  const url = `http://${ADDRESS}:${listening.port}${server.address}`;
  context.host.result({ url, port: listening.port }, () =>
    [
      url,
      '',
      'Open this address in a browser on this machine. It works once, and only for you.',
      `From another machine: ssh -L ${listening.port}:${ADDRESS}:${listening.port} THIS-MACHINE, then open it there.`,
      'Ctrl-C ends the page.',
    ].join('\n'),
  );
  const reading = collector.run();
  try {
    return await Promise.race([reading, untilAborted(ending.signal)]);
  } finally {
    ending.abort(new Error('the dashboard has ended'));
    await Promise.allSettled([reading]);
  }
}

async function listen(
  pages: PageServer,
  wanted: number,
): Promise<AsyncDisposable & { readonly port: number }> {
  const server = createServer(LIMITS, (request, response) => pages.answer(request, response));
  server.maxConnections = MAX_CONNECTIONS;
  server.listen(wanted, ADDRESS);
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new DashboardError('dashboard-port-taken', `listening on ${ADDRESS}:${wanted}`, { cause });
  }
  return { port: (server.address() as AddressInfo).port, [Symbol.asyncDispose]: () => closed(server) };
}

async function closed(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
}

/** Answers the requests of browsers. */
class PageServer {
  readonly #context: CommandContext;
  readonly #quiet: CommandContext;
  readonly #collector: Collector;
  readonly #access = new PageAccess();
  readonly #page = renderPage();
  #trace: { readonly node: string; readonly readMs: number; answer: TraceAnswer } | undefined;

  constructor(context: CommandContext, quiet: CommandContext, collector: Collector) {
    this.#context = context;
    this.#quiet = quiet;
    this.#collector = collector;
  }

  get address(): string {
    return this.#access.address;
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url = '', headers } = request;
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const decision = this.#access.decide({ method, url, headers });
    if (decision.kind === 'serve') return this.#serve(decision, response);
    if (decision.kind === 'admit') {
      this.#context.host.say(
        'dashboard-opened',
        'A browser has opened the page; the address no longer works.',
      );
      response.writeHead(303, { 'set-cookie': decision.cookie, location: decision.location }).end();
      return;
    }
    if (decision.status === 405) response.setHeader('allow', 'GET');
    send(response, decision.status, 'text/plain', `${decision.why}\n`);
  }

  #serve({ path, query }: Extract<Decision, { kind: 'serve' }>, response: ServerResponse): void {
    const snapshot = judge(this.#collector.observations, this.#nowMs());
    const node = query.get('node') ?? '';
    if (path === '') send(response, 200, 'text/html', this.#page);
    else if (path === 'data') send(response, 200, 'application/json', this.#data(snapshot, node));
    else if (path === 'logs')
      void this.#streamLogs(snapshot, { node, path: query.get('path') ?? '' }, response);
    else send(response, 404, 'text/plain', 'There is no such page.\n');
  }

  #data(snapshot: Snapshot, node: string): string {
    const name = snapshot.nodes.some((each) => each.name === node) ? node : (snapshot.nodes[0]?.name ?? '');
    const parts = partsOf(snapshot, { node: name, trace: this.#traceOf(name) });
    const texts = Object.entries(parts).map(([id, { text }]) => [id, text] as const);
    const title = printable(`${snapshot.name || 'cluster'}: ${snapshot.verdict}`);
    return JSON.stringify({ title, parts: Object.fromEntries(texts) });
  }

  /** The last known trace of a node. It is read again in the background when it is old. */
  #traceOf(node: string): TraceAnswer {
    const nowMs = this.#nowMs();
    const known = this.#trace?.node === node ? this.#trace : undefined;
    if (node === '' || (known !== undefined && nowMs - known.readMs < TRACE_MS)) return known?.answer;
    const entry = { node, readMs: nowMs, answer: known?.answer };
    this.#trace = entry;
    void readPart(this.#quiet, () => readTrace(this.#quiet, node)).then(
      (part) => (entry.answer = part.ok ? part : { ok: false, error: part.error }),
      () => undefined, // the command ends
    );
    return entry.answer;
  }

  /** Sends lines as server-sent events (HTML, section 9.2), until the browser or the node ends the log. */
  async #streamLogs(
    { nodes }: Snapshot,
    target: { readonly node: string; readonly path: string },
    response: ServerResponse,
  ): Promise<void> {
    const found = nodes.find(({ name, kind }) => kind === 'member' && name === target.node);
    const isKnown = target.path === '' || found?.runnables.some(({ path }) => path === target.path) === true;
    if (found === undefined || !isKnown) return send(response, 404, 'text/plain', 'There is no such log.\n');
    using ending = childSignal(this.#quiet.signal);
    response.on('close', () => ending.abort(new Error('the browser has closed the log')));
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    response.flushHeaders();
    const event = (name: string, data: unknown): void =>
      void response.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
    const context = quietContext(this.#context, ending.signal);
    try {
      const part = await readPart(context, () =>
        followRunnable(context, target, (lines) => event('message', lines)),
      );
      event('end', part.ok ? 'by the node' : printable(part.error));
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      response.end();
    }
  }

  #nowMs(): number {
    return this.#context.ports.clock.nowMs();
  }
}

function send(response: ServerResponse, status: number, type: string, text: string): void {
  response.writeHead(status, { 'content-type': `${type}; charset=utf-8` }).end(text);
}

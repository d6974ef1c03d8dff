import { fromBinary } from '@bufbuild/protobuf';
import { TimeoutError, withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import type { Caller, NodeView } from '../curator/index.ts';
import {
  ProbeReportSchema,
  type LogsTask,
  type NodeStreams,
  type ProbeReport,
} from '../curatorproto/gen/streams_pb.js';
import type { NodeSession, NodeSessions, TaskKind } from './node-session.ts';
import { StreamError } from './errors.ts';

/** A curator that has just started: its nodes are on their way. */
const ARRIVAL_MS = 5_000;
/** A quote of a slow TPM, or of a busy one. */
const EVIDENCE_MS = 45_000;
const METRICS_MS = 15_000;
const RESET_MS = 15_000;
/** A door that is shut takes five seconds for each knock, and a few are tried at a time. */
const PROBE_MS = 120_000;
const KEY_BYTES = 32;
/** Owners between the one who made the cluster and the one who asks. */
const MAX_VOUCHERS = 16;
const SIGNATURE_BYTES = 64;
const MAX_BACKLOG = 10_000;
const MAX_UNITS = 16;
const MAX_EVIDENCE_BYTES = 128 * 1024;
const MAX_METRICS_BYTES = 4 * 1024 * 1024;
const MAX_PROBE_BYTES = 4 * 1024 * 1024;
/** `nodeIdOf` (internal/pki). */
const NODE_ID = /^node-[0-9a-f]{32}$/;
const NONCE_BYTES = 32;
/** Names of units of the cluster; a node decides by a list of its own which it shows. */
const UNIT = /^[a-z][a-z0-9-]{0,63}\.service$/;
const PATH = /^[A-Za-z0-9._-]{0,255}$/;

export interface StreamHandlerParts {
  readonly sessions: NodeSessions;
  /** By id or name; throws `curator-node-unknown`. */
  readonly findNode: (idOrName: string, signal: AbortSignal) => Promise<NodeView>;
  readonly clock: Clock;
}

export function streamHandlers(parts: StreamHandlerParts): Handlers<typeof NodeStreams, Caller> {
  const { sessions, clock } = parts;
  return {
    openSession: async function* (requests, { peer, signal }) {
      if (peer.kind !== 'node')
        throw new StreamError('streams-request-invalid', `attending as ${peer.role} ${peer.name}: no node`);
      const attendance = sessions.open(peer);
      void listen(attendance, requests); // it ends after this call does, so nobody can wait for it here
      try {
        yield* attendance.outgoing(signal);
      } finally {
        sessions.close(attendance);
      }
    },
    streamLogs: async function* ({ node, logs }, { signal }) {
      const what = logsTaskFrom(logs);
      const attendance = await attendanceOf(parts, node, signal);
      for await (const { data, dropped } of attendance.runTask(what, signal)) yield { lines: data, dropped };
    },
    getEvidence: async ({ node, nonce }, { signal }) => {
      if (nonce.length !== NONCE_BYTES) refuse('nonce', `${nonce.length} bytes, not ${NONCE_BYTES}`);
      const attendance = await attendanceOf(parts, node, signal);
      const what: TaskKind = { case: 'evidence', value: { nonce } };
      const limits = { maxBytes: MAX_EVIDENCE_BYTES, timeoutMs: EVIDENCE_MS, clock, signal };
      const [head = new Uint8Array(), ...rest] = await collect(attendance, what, limits);
      const variant = Buffer.from(head).toString('utf8');
      return { nodeId: attendance.nodeId, variant, evidence: concat(rest) };
    },
    resetNode: async ({ node, order }, { signal }) => {
      if (order?.ownerPubKey.length !== KEY_BYTES || order.signature.length !== SIGNATURE_BYTES)
        return refuse('order', 'it is no key with a signature');
      if (order.vouchers.length > MAX_VOUCHERS) refuse('order', `more than ${MAX_VOUCHERS} vouchers`);
      const attendance = await attendanceOf(parts, node, signal);
      const limits = { maxBytes: 0, timeoutMs: RESET_MS, clock, signal };
      await collect(attendance, { case: 'reset', value: order }, limits);
      return {};
    },
    probeRemoved: async ({ node, probe }, { signal }) => {
      if (probe === undefined || !NODE_ID.test(probe.removedNodeId))
        return refuse('removed_node_id', 'it is no id of a node');
      const attendance = await attendanceOf(parts, node, signal);
      const limits = { maxBytes: MAX_PROBE_BYTES, timeoutMs: PROBE_MS, clock, signal };
      const chunks = await collect(attendance, { case: 'probe', value: probe }, limits);
      return { report: reportFrom(chunks, attendance) };
    },
    getMetrics: async ({ node }, { signal }) => {
      const attendance = await attendanceOf(parts, node, signal);
      const limits = { maxBytes: MAX_METRICS_BYTES, timeoutMs: METRICS_MS, clock, signal };
      const chunks = await collect(attendance, { case: 'metrics', value: {} }, limits);
      return { text: Buffer.from(concat(chunks)).toString('utf8') };
    },
  };
}

/** Everything that a node says, until its stream ends; never rejects: whoever waits for the node learns why. */
async function listen(
  attendance: NodeSession,
  requests: AsyncIterable<Parameters<NodeSession['receive']>[0]>,
): Promise<void> {
  try {
    for await (const request of requests) attendance.receive(request);
    attendance.end('it has ended its stream');
  } catch (error) {
    attendance.end(error instanceof StreamError ? error.message : 'its stream broke');
  }
}

/** The node's stream, waited for a little. A node that is not there is named with what is known of it. */
async function attendanceOf(
  parts: StreamHandlerParts,
  idOrName: string,
  signal: AbortSignal,
): Promise<NodeSession> {
  const { sessions, findNode, clock } = parts;
  const view = await findNode(idOrName, signal);
  const { nodeId, name, state } = view.record;
  if (sessions.get(nodeId) === undefined && view.isAlive) {
    const options = { what: `waiting for ${name}`, ms: ARRIVAL_MS, clock, signal };
    await withTimeout(options, (child) => sessions.waitFor(nodeId, child)).catch(() =>
      signal.throwIfAborted(),
    );
  }
  const found = sessions.get(nodeId);
  if (found !== undefined) return found;
  const heard =
    view.status === undefined ? 'never' : new Date(view.status.updatedMs).toISOString().replace('.000Z', 'Z');
  throw new StreamError(
    'streams-node-away',
    `asking ${name}: it is ${state}, its heart ${view.isAlive ? 'beats' : 'does not beat'}, its last status is of ${heard}`,
  );
}

interface CollectLimits {
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A whole answer, which must end in time and be of a bearable size. */
async function collect(
  attendance: NodeSession,
  what: TaskKind,
  { maxBytes, timeoutMs, clock, signal }: CollectLimits,
): Promise<readonly Uint8Array[]> {
  try {
    const options = { what: `asking ${attendance.name}`, ms: timeoutMs, clock, signal };
    return await withTimeout(options, async (child) => {
      const chunks: Uint8Array[] = [];
      let sizeBytes = 0;
      for await (const { data } of attendance.runTask(what, child)) {
        sizeBytes += data.length;
        if (sizeBytes > maxBytes)
          throw new StreamError('streams-protocol', `asking ${attendance.name}: more than ${maxBytes} bytes`);
        chunks.push(data);
      }
      return chunks;
    });
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    throw new StreamError('streams-node-silent', `asking ${attendance.name} for ${timeoutMs / 1000} s`, {
      cause: error,
    });
  }
}

function reportFrom(chunks: readonly Uint8Array[], { name }: NodeSession): ProbeReport {
  try {
    return fromBinary(ProbeReportSchema, concat(chunks));
  } catch (error) {
    throw new StreamError('streams-protocol', `asking ${name}: its report cannot be read`, { cause: error });
  }
}

/** A caller's wish → a task: sizes and forms first. */
function logsTaskFrom(logs: LogsTask | undefined): TaskKind {
  if (logs === undefined) return refuse('logs', 'it is missing');
  const { source, backlog } = logs;
  if (backlog > MAX_BACKLOG) refuse('backlog', `${backlog} lines, at most ${MAX_BACKLOG}`);
  if (source.case === 'path' && !PATH.test(source.value)) refuse('path', 'it is no path of a runnable');
  if (source.case === 'units') {
    const { names } = source.value;
    if (names.length === 0 || names.length > MAX_UNITS) refuse('units', `${names.length} of them`);
    const odd = names.find((name) => !UNIT.test(name));
    if (odd !== undefined) refuse('units', `${JSON.stringify(odd.slice(0, 80))} is no unit of a cluster`);
  }
  return { case: 'logs', value: logs };
}

function concat(chunks: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(chunks));
}

function refuse(field: string, why: string): never {
  throw new StreamError('streams-request-invalid', `reading ${field}: ${why}`, { details: { field } });
}

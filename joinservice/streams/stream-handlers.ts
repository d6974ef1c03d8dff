import { fromBinary, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import { TimeoutError, withTimeout } from '../../internal/cleanup/index.ts';
import { formatDuration, type Clock } from '../../internal/clock/index.ts';
import { ED25519_KEY_BYTES, ED25519_SIGNATURE_BYTES, MAX_VOUCHERS } from '../../internal/crypto/index.ts';
import { NODE_ID } from '../../internal/pki/index.ts';
import { BACKUP_NAME } from '../../internal/records/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import type { Caller, NodeView } from '../curator/index.ts';
import {
  DiskRotationReportSchema,
  DiskSealReportSchema,
  PowerAction,
  ProbeReportSchema,
  type LogsTask,
  type NodeStreams,
} from '../curatorproto/gen/streams_pb.js';
import type { NodeSession, NodeSessions, TaskKind } from './node-session.ts';
import { StreamError } from './errors.ts';

/** How long to wait for the session of a node, e.g. after a restart of this curator. */
const CONNECT_MS = 5_000;
/** Limits of the results of single tasks. */
const LIMITS = {
  /** Enough time for a quote of a slow or busy TPM. */
  evidence: { timeoutMs: 45_000, maxBytes: 128 * 1024 },
  metrics: { timeoutMs: 15_000, maxBytes: 4 * 1024 * 1024 },
  reset: { timeoutMs: 15_000, maxBytes: 0 },
  power: { timeoutMs: 15_000, maxBytes: 0 },
  /** A slow TPM unseals shares and signs a quote. */
  diskSeal: { timeoutMs: 60_000, maxBytes: 256 * 1024 },
  diskApproval: { timeoutMs: 120_000, maxBytes: 0 },
  /** A worker also asks the signers for its share. */
  diskRotation: { timeoutMs: 180_000, maxBytes: 1024 },
  /** Enough for endpoints that do not answer: each takes five seconds, and a few are probed at a time. */
  probe: { timeoutMs: 120_000, maxBytes: 4 * 1024 * 1024 },
};
const MAX_BACKLOG = 10_000;
const MAX_UNITS = 16;
/** Size limit of the certificate of a backup, which the node parses and verifies. */
const MAX_CERTIFICATE_BYTES = 16 * 1024;
/** Size limit of an approval for a state disk, which the node parses and verifies. */
const MAX_APPROVAL_BYTES = 16 * 1024;
/** A message has at most 4 MiB. */
const MAX_WORKSPACE_BYTES = 3 * 1024 * 1024;
/** The form of boot IDs of Linux. */
const BOOT_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const NONCE_BYTES = 32;
/** The length of a SHA-256. */
const DIGEST_BYTES = 32;
/** The most recovery recipients of an order, which the node compares with its own. */
const MAX_RECIPIENTS = 64;
/** The form of unit names. The node itself decides which units it returns. */
const UNIT = /^[a-z][a-z0-9-]{0,63}\.service$/;
const PATH = /^[A-Za-z0-9._-]{0,255}$/;

/** Dependencies of the handlers of node sessions. */
export interface StreamHandlerParts {
  readonly sessions: NodeSessions;
  /** Finds a node by ID or name; throws `curator-node-unknown`. */
  readonly findNode: (idOrName: string, signal: AbortSignal) => Promise<NodeView>;
  readonly clock: Clock;
}

type StreamHandlers = Handlers<typeof NodeStreams, Caller>;

/** Handlers of the contract `NodeStreams`. */
export function streamHandlers(parts: StreamHandlerParts): StreamHandlers {
  const { sessions } = parts;
  return {
    ...logHandlers(parts),
    ...backupHandlers(parts),
    openSession: async function* (requests, { peer, signal }) {
      if (peer.kind !== 'node')
        throw new StreamError(
          'streams-request-invalid',
          `cannot open a session as ${peer.role} ${peer.name}: not a node`,
        );
      const session = sessions.open(peer);
      void receiveAll(session, requests); // not awaited, because it ends only after this call
      try {
        yield* session.outgoing(signal);
      } finally {
        sessions.close(session);
      }
    },
    getEvidence: async ({ node, nonce }, { signal }) => {
      if (nonce.length !== NONCE_BYTES) refuse('nonce', `${nonce.length} bytes, not ${NONCE_BYTES}`);
      const task: Task = { what: { case: 'evidence', value: { nonce } }, ...LIMITS.evidence };
      const { session, chunks } = await runOnNode(parts, node, task, signal);
      const [head = new Uint8Array(), ...rest] = chunks;
      const variant = Buffer.from(head).toString('utf8');
      return { nodeId: session.nodeId, variant, evidence: concat(rest) };
    },
    resetNode: async ({ node, order }, { signal }) => {
      refuseUnsigned(order);
      await runOnNode(parts, node, { what: { case: 'reset', value: order }, ...LIMITS.reset }, signal);
      return {};
    },
    changePower: async ({ node, power }, { signal }) => {
      if (power === undefined || power.action === PowerAction.UNSPECIFIED || !BOOT_ID.test(power.bootId))
        return refuse('power', 'expected an action and the ID of a boot');
      await runOnNode(parts, node, { what: { case: 'power', value: power }, ...LIMITS.power }, signal);
      return {};
    },
    ...diskHandlers(parts),
    probeRemoved: async ({ node, probe }, { signal }) => {
      if (probe === undefined || !NODE_ID.test(probe.removedNodeId))
        return refuse('removed_node_id', 'expected the ID of a node');
      const task: Task = { what: { case: 'probe', value: probe }, ...LIMITS.probe };
      const { session, chunks } = await runOnNode(parts, node, task, signal);
      return { report: reportFrom(ProbeReportSchema, chunks, session) };
    },
    getMetrics: async ({ node }, { signal }) => {
      const task: Task = { what: { case: 'metrics', value: {} }, ...LIMITS.metrics };
      const { chunks } = await runOnNode(parts, node, task, signal);
      return { text: Buffer.from(concat(chunks)).toString('utf8') };
    },
  };
}

/** Calls about the state disk of a node. */
function diskHandlers(
  parts: StreamHandlerParts,
): Pick<StreamHandlers, 'getDiskSeal' | 'approveDisk' | 'rotateDiskKeys'> {
  return {
    getDiskSeal: async ({ node, nonce }, { signal }) => {
      if (nonce.length !== NONCE_BYTES) refuse('nonce', `${nonce.length} bytes, not ${NONCE_BYTES}`);
      const task: Task = { what: { case: 'diskSeal', value: { nonce } }, ...LIMITS.diskSeal };
      const { session, chunks } = await runOnNode(parts, node, task, signal);
      return { nodeId: session.nodeId, report: reportFrom(DiskSealReportSchema, chunks, session) };
    },
    approveDisk: async ({ node, approval }, { signal }) => {
      const sizeBytes = approval?.approval.length ?? 0;
      if (approval === undefined || sizeBytes === 0 || sizeBytes > MAX_APPROVAL_BYTES)
        return refuse('approval', `${sizeBytes} bytes is empty or too large`);
      await runOnNode(
        parts,
        node,
        { what: { case: 'diskApproval', value: approval }, ...LIMITS.diskApproval },
        signal,
      );
      return {};
    },
    rotateDiskKeys: async ({ node, order }, { signal }) => {
      refuseUnsigned(order);
      const { nodeSeal, recoveryRecipients } = order;
      if (nodeSeal.length !== DIGEST_BYTES || recoveryRecipients.length > MAX_RECIPIENTS)
        refuse('order', 'expected the SHA-256 of a seal, and recipients');
      const task: Task = { what: { case: 'diskRotation', value: order }, ...LIMITS.diskRotation };
      const { session, chunks } = await runOnNode(parts, node, task, signal);
      return { report: reportFrom(DiskRotationReportSchema, chunks, session) };
    },
  };
}

/** Calls that return a log of a node. */
function logHandlers(parts: StreamHandlerParts): Pick<StreamHandlers, 'streamLogs' | 'streamAuditLog'> {
  return {
    streamLogs: async function* ({ node, logs }, { signal }) {
      const what = logsTaskFrom(logs);
      const session = await sessionOf(parts, node, signal);
      for await (const { data, dropped } of session.runTask(what, signal)) yield { lines: data, dropped };
    },
    streamAuditLog: async function* ({ node, auditLog }, { signal }) {
      if (auditLog === undefined) return refuse('audit_log', 'missing');
      refuseLongBacklog(auditLog.backlog);
      const session = await sessionOf(parts, node, signal);
      const chunks = session.runTask({ case: 'auditLog', value: auditLog }, signal);
      for await (const { data, dropped } of chunks) yield { lines: data, dropped };
    },
  };
}

/** Calls that return a backup. */
function backupHandlers(parts: StreamHandlerParts): Pick<StreamHandlers, 'takeBackup' | 'fetchBackup'> {
  return {
    takeBackup: async function* ({ node, backup }, { signal }) {
      const sizeBytes = backup?.certificate.length ?? 0;
      if (backup === undefined || sizeBytes === 0 || sizeBytes > MAX_CERTIFICATE_BYTES)
        return refuse('backup', `a certificate of ${sizeBytes} bytes is empty or too large`);
      if (backup.workspace.length > MAX_WORKSPACE_BYTES)
        return refuse('backup', `a workspace of ${backup.workspace.length} bytes is too large`);
      const session = await sessionOf(parts, node, signal);
      for await (const { data } of session.runTask({ case: 'backup', value: backup }, signal)) yield { data };
    },
    fetchBackup: async function* ({ node, backup }, { signal }) {
      if (backup === undefined || !BACKUP_NAME.test(backup.name))
        return refuse('name', 'not the name of a backup');
      const session = await sessionOf(parts, node, signal);
      const what = { case: 'fetchBackup', value: backup } as const;
      for await (const { data } of session.runTask(what, signal)) yield { data };
    },
  };
}

/** Handles all messages of a node until its session ends. Never rejects: callers of the node get the error. */
async function receiveAll(
  session: NodeSession,
  requests: AsyncIterable<Parameters<NodeSession['receive']>[0]>,
): Promise<void> {
  try {
    for await (const request of requests) session.receive(request);
    session.end('it closed its session');
  } catch (error) {
    session.end(error instanceof StreamError ? error.message : 'its connection broke');
  }
}

/** The session of a node; waits a little for a node that is alive. @throws StreamError `streams-node-away` */
async function sessionOf(
  parts: StreamHandlerParts,
  idOrName: string,
  signal: AbortSignal,
): Promise<NodeSession> {
  const { sessions, findNode, clock } = parts;
  const view = await findNode(idOrName, signal);
  const { nodeId, name, state } = view.record;
  if (sessions.get(nodeId) === undefined && view.isAlive) {
    const options = { what: `waiting for ${name}`, ms: CONNECT_MS, clock, signal };
    await withTimeout(options, (child) => sessions.waitFor(nodeId, child)).catch(() =>
      signal.throwIfAborted(),
    );
  }
  const found = sessions.get(nodeId);
  if (found !== undefined) return found;
  const reportedAt =
    view.status === undefined ? 'never' : new Date(view.status.updatedMs).toISOString().replace('.000Z', 'Z');
  throw new StreamError(
    'streams-node-away',
    `calling ${name}: no session (state ${state}, heartbeat ${view.isAlive ? 'current' : 'missing'}, last status ${reportedAt})`,
  );
}

/** A task with the limits of its whole result. */
interface Task {
  readonly what: TaskKind;
  readonly maxBytes: number;
  readonly timeoutMs: number;
}

/** Runs a task on a node and collects its whole result within the limits. @throws StreamError */
async function runOnNode(
  parts: StreamHandlerParts,
  node: string,
  { what, maxBytes, timeoutMs }: Task,
  signal: AbortSignal,
): Promise<{ readonly session: NodeSession; readonly chunks: readonly Uint8Array[] }> {
  const session = await sessionOf(parts, node, signal);
  const doing = `calling ${session.name}`;
  try {
    const limit = { what: doing, ms: timeoutMs, clock: parts.clock, signal };
    const chunks = await withTimeout(limit, async (child) => {
      const taken: Uint8Array[] = [];
      let sizeBytes = 0;
      for await (const { data } of session.runTask(what, child)) {
        sizeBytes += data.length;
        if (sizeBytes > maxBytes)
          throw new StreamError('streams-protocol', `${doing}: more than ${maxBytes} bytes`);
        taken.push(data);
      }
      return taken;
    });
    return { session, chunks };
  } catch (cause) {
    if (!(cause instanceof TimeoutError)) throw cause;
    const why = `no answer for ${formatDuration(timeoutMs)}`;
    throw new StreamError('streams-node-silent', `${doing}: ${why}`, { cause });
  }
}

function reportFrom<S extends DescMessage>(
  schema: S,
  chunks: readonly Uint8Array[],
  { name }: NodeSession,
): MessageShape<S> {
  try {
    return fromBinary(schema, concat(chunks));
  } catch (error) {
    throw new StreamError('streams-protocol', `calling ${name}: its report is malformed`, { cause: error });
  }
}

/** The task for a request of logs. @throws StreamError `streams-request-invalid` */
function logsTaskFrom(logs: LogsTask | undefined): TaskKind {
  if (logs === undefined) return refuse('logs', 'missing');
  const { source, backlog } = logs;
  refuseLongBacklog(backlog);
  if (source.case === 'path' && !PATH.test(source.value)) refuse('path', 'not the path of a runnable');
  if (source.case === 'units') {
    const { names } = source.value;
    if (names.length === 0 || names.length > MAX_UNITS)
      refuse('units', `${names.length} units, expected 1 to ${MAX_UNITS}`);
    const odd = names.find((name) => !UNIT.test(name));
    if (odd !== undefined)
      refuse('units', `${JSON.stringify(odd.slice(0, 80))} is not a unit of the cluster`);
  }
  return { case: 'logs', value: logs };
}

/** Refuses an order that cannot be signed by an owner; the node verifies its signature. @throws StreamError `streams-request-invalid` */
function refuseUnsigned<T extends SignedOrder>(order: T | undefined): asserts order is T {
  if (order?.ownerPubKey.length !== ED25519_KEY_BYTES || order.signature.length !== ED25519_SIGNATURE_BYTES)
    return refuse('order', 'expected an owner key and a signature');
  if (order.vouchers.length > MAX_VOUCHERS) refuse('order', `more than ${MAX_VOUCHERS} vouchers`);
}

interface SignedOrder {
  readonly ownerPubKey: Uint8Array;
  readonly signature: Uint8Array;
  readonly vouchers: readonly unknown[];
}

function refuseLongBacklog(backlog: number): void {
  if (backlog > MAX_BACKLOG) refuse('backlog', `${backlog} lines, at most ${MAX_BACKLOG}`);
}

function concat(chunks: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(chunks));
}

function refuse(field: string, why: string): never {
  throw new StreamError('streams-request-invalid', `invalid ${field}: ${why}`, { details: { field } });
}

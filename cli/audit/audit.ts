import type { AuditHead } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { counted } from '../../internal/printable/index.ts';
import { EMPTY_CHAIN, type Checkpoint } from '../../internal/audit/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import type { AuditLogName, AuditRecord } from '../../internal/records/index.ts';
import type { CommandContext } from '../app/command.ts';
import {
  Checkpoints,
  isExport,
  isPartOf,
  parseExport,
  renderExport,
  verifyChain,
  type ChainEntry,
} from './audit-log.ts';
import { readCaller, callCurator } from '../cluster/index.ts';
import { AppError } from '../app/errors.ts';
import { checkOutput, writeOutput } from '../app/output-file.ts';
import { detailText } from './detail-text.ts';
import { AuditLogError } from './errors.ts';

const MAX_EXPORT_BYTES = 256 * 1024 * 1024;
const NO_WORKSPACE: readonly string[] = ['workspace-missing', 'cluster-not-initialized'];

/** Flags of `cluster audit ls`. */
export interface AuditListOptions {
  /** Show only entries whose caller ("operator:NAME", "node:ID" or "joinservice:ID") contains this text. */
  readonly caller?: string | undefined;
  readonly method?: string | undefined;
  /** Show only entries whose subject contains this text. */
  readonly subject?: string | undefined;
  /** How many of the newest entries to show; undefined shows all. */
  readonly last?: number | undefined;
}

/** `cluster audit ls`: reads the audit log, verifies it against earlier checkpoints, signs a new one, and shows entries. */
export async function runAuditList(context: CommandContext, options: AuditListOptions): Promise<void> {
  const { decisions, requests } = await readVerified(context);
  const { last = Infinity } = options;
  const entries = byTime(decisions.entries, requests.entries);
  const shown = entries.filter((entry) => isWanted(entry, options)).slice(-last);
  const heads = { head: decisions.head, requestsHead: requests.head };
  context.host.list({
    data: { ...heads, entries: shown },
    items: shown,
    nameOf: seqText,
    empty: 'no matching entries',
    columns: [
      { title: 'SEQ', textOf: seqText },
      { title: 'TIME', textOf: ({ timeMs }) => new Date(timeMs).toISOString().replace(/\.\d+Z$/, 'Z') },
      { title: 'CALLER', textOf: ({ caller }) => caller },
      { title: 'METHOD', textOf: ({ method }) => method },
      { title: 'SUBJECT', textOf: ({ subject }) => subject || '<none>' },
      { title: 'DETAIL', textOf: ({ detail }) => detailText(detail) },
    ],
  });
}

/** The number of an entry, with "r" in front for the log of requests, which has its own numbering. */
function seqText({ log, seq }: AuditRecord): string {
  return `${log === 'requests' ? 'r' : ''}${seq}`;
}

/** The newest decision of this method about this subject, from the verified audit log; undefined if there is none. */
export async function findNewestDecision(
  context: CommandContext,
  wanted: { readonly method: string; readonly subject: string },
): Promise<AuditRecord | undefined> {
  const { entries } = await readLog(context, 'decisions');
  return entries.findLast(({ method, subject }) => method === wanted.method && subject === wanted.subject);
}

/** `cluster audit export FILE`: writes all entries; the file can be verified without the cluster. */
export async function runAuditExport(context: CommandContext, path: string): Promise<void> {
  const { files } = context.ports;
  await checkOutput(files, { path, isEarlier: isExport });
  const { decisions, requests } = await readVerified(context);
  const shown = [...decisions.shown, ...requests.shown];
  const text = renderExport(shown);
  // A timer may write each export to the same file. The cluster deletes old entries: an export that still has them is kept.
  await writeOutput(files, { path, isEarlier: (earlier) => isPartOf(earlier, text) }, text);
  context.host.result({ path, entries: shown.length, head: decisions.head }, () =>
    [
      `Wrote ${counted(shown.length, 'entry', 'entries')} to ${path}.`,
      `Next: cluster audit verify ${path}`,
    ].join('\n'),
  );
}

/** `cluster audit verify [FILE]`: verifies the audit log of the cluster, or an export. */
export async function runAuditVerify(context: CommandContext, path: string | undefined): Promise<void> {
  const checked = path === undefined ? await readVerified(context) : await verifyFile(context, path);
  const { decisions, requests } = checked;
  const isCompared = !('isCompared' in checked) || checked.isCompared;
  const { head, entries, matchedCheckpoints: confirmed } = decisions;
  const file = path ?? null;
  const requestsData = { entries: requests.entries.length, head: requests.head };
  const data = { entries: entries.length, head, checkpoints: confirmed, isCompared, file };
  context.host.result({ ...data, requests: requestsData }, () =>
    [
      `audit log verified: ${counted(entries.length, 'entry', 'entries')} up to ${head.seq}, ${counted(confirmed, 'checkpoint')} matched`,
      `  last entry  ${head.hash}`,
      `  requests    ${counted(requests.entries.length, 'entry', 'entries')} up to ${requests.head.seq}`,
      ...(isCompared ? [] : ['No workspace found: not compared with earlier checkpoints.']),
    ].join('\n'),
  );
}

async function verifyFile(context: CommandContext, path: string) {
  const { files } = context.ports;
  const bytes = await files.read(path, MAX_EXPORT_BYTES);
  if (bytes === undefined) throw new AppError('app-usage', `file ${path} not found`);
  const shown = parseExport(Buffer.from(bytes).toString('utf8'));
  const decisions = await verifyExported(context, shown, 'decisions');
  const requests = await verifyExported(context, shown, 'requests');
  return { decisions, requests, isCompared: decisions.isCompared };
}

async function verifyExported(context: CommandContext, exported: readonly ChainEntry[], log: AuditLogName) {
  const shown = exported.filter((entry) => entry.log === log);
  const last = shown.at(-1)?.seq ?? 0;
  const known = await checkpointsIfAny(context, log);
  // An export ends at some entry; checkpoints of later entries cannot be compared with it.
  const until = (known ?? []).filter(({ seq }) => seq <= last);
  const verified = verifyChain(shown, until, { claimed: undefined, log });
  return { isCompared: known !== undefined, ...verified };
}

/** Undefined without a workspace: an export can be verified without checkpoints. */
async function checkpointsIfAny(
  context: CommandContext,
  log: AuditLogName,
): Promise<readonly Checkpoint[] | undefined> {
  try {
    return await (await openCheckpoints(context, log)).list();
  } catch (error) {
    if (!(error instanceof CodedError) || !NO_WORKSPACE.includes(String(error.code))) throw error;
    return undefined;
  }
}

/** Reads all entries of both logs, verifies them against the checkpoints, and saves new checkpoints. */
async function readVerified(context: CommandContext) {
  return context.host.step('audit-read', 'Reading and verifying the audit log', async () => ({
    decisions: await readLog(context, 'decisions'),
    requests: await readLog(context, 'requests'),
  }));
}

async function readLog(context: CommandContext, log: AuditLogName) {
  const checkpoints = await openCheckpoints(context, log);
  const known = await checkpoints.list();
  const shown: ChainEntry[] = [];
  let head: AuditHead | undefined;
  await callCurator(context, async ({ operatorApi }) => {
    shown.length = 0;
    for await (const { message } of operatorApi.listAudit({ requests: log === 'requests' })) {
      if (message.case === 'entry')
        shown.push({ log, seq: Number(message.value.seq), record: message.value.record });
      else if (message.case === 'head') head = message.value;
    }
  });
  if (head === undefined)
    throw new AuditLogError('audit-log-altered', 'the cluster sent an audit log without its last entry');
  const isOtherLog = log === 'requests' && !head.requests;
  // A curator of an earlier version has no log of requests and sends the log of decisions instead. If this
  // workspace has checkpoints of a log of requests, the cluster must have one, so its absence is refused.
  if (isOtherLog && known.length === 0)
    return { shown: [], ...verifyChain([], [], { claimed: EMPTY_CHAIN, log }) };
  if (isOtherLog)
    throw new AuditLogError(
      'audit-log-altered',
      'the cluster sent an audit log that is not the log of requests',
    );
  const claimed = { seq: Number(head.seq), hash: head.hash };
  const verified = verifyChain(shown, known, { claimed, log });
  const isNew = !known.some(({ seq }) => seq === verified.head.seq);
  if (isNew && verified.head.seq > 0)
    await checkpoints.add(verified.head, {
      epoch: Number(head.epoch),
      nowMs: context.ports.clock.nowMs(),
    });
  return { shown, ...verified };
}

async function openCheckpoints(context: CommandContext, log: AuditLogName): Promise<Checkpoints> {
  const caller = await readCaller(context);
  const location = { workspace: caller.directory, clusterId: caller.clusterId, log };
  return new Checkpoints(context.ports.files, location, caller);
}

/** The entries of both logs by time. The order within each log stays, although clocks of control planes differ. */
function byTime(decisions: readonly AuditRecord[], requests: readonly AuditRecord[]): readonly AuditRecord[] {
  const merged: AuditRecord[] = [];
  let at = 0;
  for (const decision of decisions) {
    for (; (requests[at]?.timeMs ?? Infinity) < decision.timeMs; at++)
      merged.push(...requests.slice(at, at + 1));
    merged.push(decision);
  }
  return [...merged, ...requests.slice(at)];
}

function isWanted(entry: AuditRecord, { caller, method, subject }: AuditListOptions): boolean {
  return (
    (caller === undefined || entry.caller.includes(caller)) &&
    (method === undefined || entry.method.toLowerCase() === method.toLowerCase()) &&
    (subject === undefined || entry.subject.includes(subject))
  );
}

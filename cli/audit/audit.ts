import type { AuditHead } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { Checkpoint } from '../../internal/audit/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import type { AuditRecord } from '../../internal/records/index.ts';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { formatTable } from '../host/index.ts';
import { Checkpoints, parseExport, renderExport, verifyChain, type ChainEntry } from './audit-log.ts';
import { readCaller, callCurator } from '../cluster/index.ts';
import { AppError } from '../app/errors.ts';
import { AuditLogError } from './errors.ts';

const MAX_EXPORT_BYTES = 256 * 1024 * 1024;
const NO_WORKSPACE: readonly string[] = ['workspace-missing', 'cluster-not-initialized'];

/** Flags of `cluster audit ls`. */
export interface AuditListOptions {
  /** Part of "operator:NAME", "node:ID", "joinservice:ID". */
  readonly caller?: string | undefined;
  readonly method?: string | undefined;
  /** Part of the subject. */
  readonly subject?: string | undefined;
  /** Show only so many of the newest entries. */
  readonly last?: number | undefined;
}

/** `cluster audit ls`: reads the audit log, verifies it against earlier checkpoints, signs a new one, and shows entries. */
export async function runAuditList(context: CommandContext, options: AuditListOptions): Promise<void> {
  const { entries, head } = await readVerified(context);
  const { last = Infinity } = options;
  const shown = entries.filter((entry) => isWanted(entry, options)).slice(-last);
  context.host.result({ head, entries: shown }, () =>
    shown.length === 0
      ? 'no matching entries'
      : formatTable(
          ['SEQ', 'TIME', 'CALLER', 'METHOD', 'SUBJECT', 'DETAIL'],
          shown.map((entry) => [
            String(entry.seq),
            new Date(entry.timeMs).toISOString().replace(/\.\d+Z$/, 'Z'),
            printable(entry.caller),
            printable(entry.method),
            printable(entry.subject) || '<none>',
            printable(JSON.stringify(entry.detail)),
          ]),
        ),
  );
}

/** `cluster audit export FILE`: writes all entries; the file can be verified without the cluster. */
export async function runAuditExport(context: CommandContext, path: string): Promise<void> {
  const { shown, head } = await readVerified(context);
  await context.ports.files.writeAtomic(path, renderExport(shown));
  context.host.result({ path, entries: shown.length, head }, () =>
    [`Wrote ${shown.length} entries to ${path}.`, `Next: cluster audit verify ${path}`].join('\n'),
  );
}

/** `cluster audit verify [FILE]`: verifies the audit log of the cluster, or an export. */
export async function runAuditVerify(context: CommandContext, path: string | undefined): Promise<void> {
  const checked = path === undefined ? await readVerified(context) : await verifyFile(context, path);
  const { head, entries, matchedCheckpoints: confirmed } = checked;
  const isCompared = !('isCompared' in checked) || checked.isCompared;
  const data = { entries: entries.length, head, checkpoints: confirmed, isCompared, file: path ?? null };
  context.host.result(data, () =>
    [
      `audit log verified: ${entries.length} entries up to ${head.seq}, ${confirmed} checkpoint${confirmed === 1 ? '' : 's'} matched`,
      `  last entry  ${head.hash}`,
      ...(isCompared ? [] : ['No workspace found: not compared with earlier checkpoints.']),
    ].join('\n'),
  );
}

async function verifyFile(context: CommandContext, path: string) {
  const { files } = context.ports;
  const bytes = await files.read(path, MAX_EXPORT_BYTES);
  if (bytes === undefined) throw new AppError('app-usage', `file ${path} not found`);
  const shown = parseExport(Buffer.from(bytes).toString('utf8'));
  const last = shown.at(-1)?.seq ?? 0;
  const known = await checkpointsIfAny(context);
  // Later checkpoints do not concern an older export.
  const until = (known ?? []).filter(({ seq }) => seq <= last);
  return { shown, isCompared: known !== undefined, ...verifyChain(shown, until, undefined) };
}

/** Undefined without a workspace: an export can be verified without checkpoints. */
async function checkpointsIfAny(context: CommandContext): Promise<readonly Checkpoint[] | undefined> {
  try {
    return await (await openCheckpoints(context)).list();
  } catch (error) {
    if (!(error instanceof CodedError) || !NO_WORKSPACE.includes(String(error.code))) throw error;
    return undefined;
  }
}

/** Reads all entries, verifies them against the checkpoints, and saves a new checkpoint. */
async function readVerified(context: CommandContext) {
  const checkpoints = await openCheckpoints(context);
  return context.host.step('audit-read', 'Reading and verifying the audit log', async () => {
    const known = await checkpoints.list();
    const shown: ChainEntry[] = [];
    let head: AuditHead | undefined;
    await callCurator(context, async ({ operatorApi }) => {
      shown.length = 0;
      for await (const { message } of operatorApi.listAudit({})) {
        if (message.case === 'entry')
          shown.push({ seq: Number(message.value.seq), record: message.value.record });
        else if (message.case === 'head') head = message.value;
      }
    });
    if (head === undefined)
      throw new AuditLogError('audit-log-altered', 'the cluster sent an audit log without its last entry');
    const claimed = { seq: Number(head.seq), hash: head.hash };
    const verified = verifyChain(shown, known, claimed);
    const isNew = !known.some(({ seq }) => seq === verified.head.seq);
    if (isNew && verified.head.seq > 0)
      await checkpoints.add(verified.head, {
        epoch: Number(head.epoch),
        nowMs: context.ports.clock.nowMs(),
      });
    return { shown, ...verified };
  });
}

async function openCheckpoints(context: CommandContext): Promise<Checkpoints> {
  const caller = await readCaller(context);
  const location = { workspace: caller.directory, clusterId: caller.clusterId };
  return new Checkpoints(context.ports.files, location, caller);
}

function isWanted(entry: AuditRecord, { caller, method, subject }: AuditListOptions): boolean {
  return (
    (caller === undefined || entry.caller.includes(caller)) &&
    (method === undefined || entry.method.toLowerCase() === method.toLowerCase()) &&
    (subject === undefined || entry.subject.includes(subject))
  );
}

import { join } from 'node:path';
import {
  AuditError,
  ChainVerifier,
  EMPTY_CHAIN,
  parseCheckpoint,
  signCheckpoint,
  type ChainHead,
  type Checkpoint,
} from '../../internal/audit/index.ts';
import { parseJson, type FilePort } from '../../internal/file/index.ts';
import { auditKey, records, type AuditLogName, type AuditRecord } from '../../internal/records/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { AuditLogError } from './errors.ts';

const MAX_CHECKPOINT_BYTES = 4096;
const CHECKPOINT = /^([0-9]{16})\.json$/;

/** The key that signs the checkpoints of a workspace. */
export interface CheckpointOwner {
  readonly keyPem: Secret<string>;
  readonly pubKey: Uint8Array;
}

/**
 * Checkpoints of one audit log of a cluster (decisions or requests), kept in the workspace, where the cluster
 * cannot change them.
 */
export class Checkpoints {
  readonly #files: FilePort;
  readonly #directory: string;
  readonly #clusterId: string;
  readonly #owner: CheckpointOwner;
  readonly #log: AuditLogName;

  constructor(
    files: FilePort,
    location: { readonly workspace: string; readonly clusterId: string; readonly log: AuditLogName },
    owner: CheckpointOwner,
  ) {
    this.#files = files;
    this.#log = location.log;
    const directory = join(location.workspace, 'audit');
    this.#directory = this.#log === 'decisions' ? directory : join(directory, this.#log);
    this.#clusterId = location.clusterId;
    this.#owner = owner;
  }

  /** All checkpoints by sequence number. @throws AuditError `audit-checkpoint-invalid` unless the owner has signed each */
  async list(): Promise<readonly Checkpoint[]> {
    const names = (await this.#files.list(this.#directory)).filter((name) => CHECKPOINT.test(name)).sort();
    const checkpoints: Checkpoint[] = [];
    for (const name of names) {
      const bytes = await this.#files.read(join(this.#directory, name), MAX_CHECKPOINT_BYTES + 1);
      if (bytes === undefined) continue;
      const ownerPubKeys = [this.#owner.pubKey];
      const expected = { clusterId: this.#clusterId, ownerPubKeys, log: this.#log };
      checkpoints.push(parseCheckpoint(bytes, expected));
    }
    return checkpoints;
  }

  /** Signs the verified end of the hash chain as a checkpoint, and saves it. */
  async add(head: ChainHead, at: { readonly epoch: number; readonly nowMs: number }): Promise<Checkpoint> {
    const { epoch, nowMs: timeMs } = at;
    const subject = { ...head, clusterId: this.#clusterId, epoch, timeMs, log: this.#log };
    const checkpoint = signCheckpoint(subject, this.#owner);
    await this.#files.makeDirectory(this.#directory);
    const name = `${String(head.seq).padStart(16, '0')}.json`;
    await this.#files.writeAtomic(join(this.#directory, name), `${JSON.stringify(checkpoint)}\n`);
    return checkpoint;
  }
}

/** An entry from the cluster or an export. */
export interface ChainEntry {
  readonly log: AuditLogName;
  readonly seq: number;
  /** The exact bytes that are hashed. */
  readonly record: Uint8Array;
}

/** A chain that was verified completely. */
export interface VerifiedChain {
  readonly entries: readonly AuditRecord[];
  readonly head: ChainHead;
  /** Checkpoints that the chain matches. */
  readonly matchedCheckpoints: number;
}

/**
 * Verifies the chain of one log from its first entry, or from the checkpoint before the oldest entry that is still
 * kept, against every checkpoint. The log of requests may begin at any entry: requests from machines that nobody
 * admitted can displace all old entries within hours. Pure. @throws AuditError `audit-chain-broken`, AuditLogError
 * `audit-log-altered`
 */
export function verifyChain(
  shown: readonly ChainEntry[],
  checkpoints: readonly Checkpoint[],
  { claimed, log }: { readonly claimed: ChainHead | undefined; readonly log: AuditLogName },
): VerifiedChain {
  const first = shown[0]?.seq ?? (claimed?.seq ?? 0) + 1;
  const known = first === 1 ? EMPTY_CHAIN : checkpoints.find(({ seq }) => seq === first - 1);
  const start = known ?? (log === 'requests' ? startBefore(shown[0]) : undefined);
  if (start === undefined)
    throw new AuditLogError(
      'audit-log-altered',
      `audit log starts with entry ${first}, but the workspace has no checkpoint of entry ${first - 1}`,
    );
  const verifier = new ChainVerifier({ seq: start.seq, hash: start.hash }, log);
  const bySeq = new Map(checkpoints.map((each) => [each.seq, each]));
  const entries: AuditRecord[] = [];
  let matchedCheckpoints = 0;
  for (const { record } of shown) {
    entries.push(verifier.next(record));
    matchedCheckpoints += matchCheckpoint(bySeq.get(verifier.head.seq), verifier.head);
  }
  if (claimed !== undefined) verifier.verifyHead(claimed);
  const beyond = checkpoints.findLast(({ seq }) => seq > verifier.head.seq);
  if (beyond !== undefined)
    throw new AuditLogError(
      'audit-log-altered',
      `audit log ends with entry ${verifier.head.seq}, but entry ${beyond.seq} was verified on ${new Date(beyond.timeMs).toISOString()}`,
    );
  return { entries, head: verifier.head, matchedCheckpoints };
}

/** The number and hash of the entry before the oldest one, as the oldest entry itself contains them. */
function startBefore(oldest: ChainEntry | undefined): ChainHead | undefined {
  if (oldest === undefined) return undefined;
  const { seq, previous } = records.auditRequests.decode(auditKey(oldest.seq, 'requests'), oldest.record);
  return { seq: seq - 1, hash: previous };
}

function matchCheckpoint(checkpoint: Checkpoint | undefined, head: ChainHead): number {
  if (checkpoint === undefined) return 0;
  if (checkpoint.hash === head.hash) return 1;
  throw new AuditLogError(
    'audit-log-altered',
    `audit log entry ${head.seq} differs from the entry verified on ${new Date(checkpoint.timeMs).toISOString()}`,
    { details: { seq: head.seq } },
  );
}

/** One line for each entry: its bytes in base64, so that no program reformats them. */
export function renderExport(shown: readonly ChainEntry[]): string {
  return shown.map(({ record }) => `${Buffer.from(record).toString('base64')}\n`).join('');
}

/**
 * Parses what `renderExport` wrote. @throws AuditLogError `audit-export-invalid` if the text is no export, AuditError
 * `audit-chain-broken` for a later line
 */
export function parseExport(text: string): readonly ChainEntry[] {
  const lines = text.split('\n').filter((line) => line !== '');
  if (lines.length === 0) throw new AuditLogError('audit-export-invalid', 'the export has no entries');
  return lines.map((line, index) => {
    const entry = entryFrom(line);
    if (entry !== undefined) return entry;
    const text = `line ${index + 1} of the export is not an entry`;
    if (index === 0) throw new AuditLogError('audit-export-invalid', text);
    throw new AuditError('audit-chain-broken', text);
  });
}

/** Whether a text is an export, as far as its first line tells. */
export function isExport(text: string): boolean {
  return entryFrom(text.split('\n', 1)[0] ?? '') !== undefined;
}

/** Whether an export has all entries of an earlier one. */
export function isPartOf(earlier: string, text: string): boolean {
  const lines = new Set(text.split('\n'));
  return earlier.split('\n').every((line) => lines.has(line));
}

function entryFrom(line: string): ChainEntry | undefined {
  const record = Buffer.from(line, 'base64');
  if (record.toString('base64') !== line) return undefined;
  const parsed = parseJson(record.toString('utf8'));
  if (typeof parsed !== 'object' || parsed === null) return undefined;
  const { seq, log }: { readonly seq?: unknown; readonly log?: unknown } = parsed;
  if (typeof seq !== 'number') return undefined;
  return { log: log === 'requests' ? log : 'decisions', seq, record: new Uint8Array(record) };
}

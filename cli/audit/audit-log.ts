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
import type { FilePort } from '../../internal/file/index.ts';
import type { AuditRecord } from '../../internal/records/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { AuditLogError } from './errors.ts';

const MAX_CHECKPOINT_BYTES = 4096;
const CHECKPOINT = /^([0-9]{16})\.json$/;

/** The key that signs the checkpoints of a workspace. */
export interface CheckpointOwner {
  readonly keyPem: Secret<string>;
  readonly pubKey: Uint8Array;
}

/** Checkpoints of a cluster's audit log, in the workspace, where the cluster cannot change them. */
export class Checkpoints {
  readonly #files: FilePort;
  readonly #directory: string;
  readonly #clusterId: string;
  readonly #owner: CheckpointOwner;

  constructor(
    files: FilePort,
    location: { readonly workspace: string; readonly clusterId: string },
    owner: CheckpointOwner,
  ) {
    this.#files = files;
    this.#directory = join(location.workspace, 'audit');
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
      const expected = { clusterId: this.#clusterId, ownerPubKeys: [this.#owner.pubKey] };
      checkpoints.push(parseCheckpoint(bytes, expected));
    }
    return checkpoints;
  }

  /** Signs and saves the verified head. */
  async add(head: ChainHead, at: { readonly epoch: number; readonly nowMs: number }): Promise<Checkpoint> {
    const subject = { ...head, clusterId: this.#clusterId, epoch: at.epoch, timeMs: at.nowMs };
    const checkpoint = signCheckpoint(subject, this.#owner);
    await this.#files.makeDirectory(this.#directory);
    const name = `${String(head.seq).padStart(16, '0')}.json`;
    await this.#files.writeAtomic(join(this.#directory, name), `${JSON.stringify(checkpoint)}\n`);
    return checkpoint;
  }
}

/** An entry from the cluster or an export. */
export interface ChainEntry {
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
 * Verifies a chain from its first entry, or from the checkpoint before the oldest entry that is still kept, against every
 * checkpoint. Pure. @throws AuditError `audit-chain-broken`, AuditLogError `audit-log-altered`
 */
export function verifyChain(
  shown: readonly ChainEntry[],
  checkpoints: readonly Checkpoint[],
  claimed: ChainHead | undefined,
): VerifiedChain {
  const first = shown[0]?.seq ?? (claimed?.seq ?? 0) + 1;
  const start = first === 1 ? EMPTY_CHAIN : checkpoints.find(({ seq }) => seq === first - 1);
  if (start === undefined)
    throw new AuditLogError(
      'audit-log-altered',
      `audit log starts with entry ${first}, but the workspace has no checkpoint of entry ${first - 1}`,
    );
  const verifier = new ChainVerifier({ seq: start.seq, hash: start.hash });
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

function matchCheckpoint(checkpoint: Checkpoint | undefined, head: ChainHead): number {
  if (checkpoint === undefined) return 0;
  if (checkpoint.hash === head.hash) return 1;
  throw new AuditLogError(
    'audit-log-altered',
    `audit log entry ${head.seq} differs from the one verified on ${new Date(checkpoint.timeMs).toISOString()}`,
    { details: { seq: head.seq } },
  );
}

/** One line for each entry: its bytes in base64, so that no program reformats them. */
export function renderExport(shown: readonly ChainEntry[]): string {
  return shown.map(({ record }) => `${Buffer.from(record).toString('base64')}\n`).join('');
}

/** Parses what `renderExport` wrote. @throws AuditError `audit-chain-broken` for an invalid line */
export function parseExport(text: string): readonly ChainEntry[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line, index) => {
      const record = Buffer.from(line, 'base64');
      try {
        const { seq } = JSON.parse(record.toString('utf8')) as { seq?: unknown };
        if (typeof seq === 'number' && record.toString('base64') === line)
          return { seq, record: new Uint8Array(record) };
      } catch (cause) {
        throw new AuditError('audit-chain-broken', `invalid line ${index + 1} of the export`, {
          cause,
        });
      }
      throw new AuditError('audit-chain-broken', `invalid line ${index + 1} of the export`);
    });
}

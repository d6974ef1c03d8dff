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

/** The owner of a workspace, as far as checkpoints need it. */
export interface CheckpointOwner {
  readonly keyPem: Secret<string>;
  readonly pubKey: Uint8Array;
}

/** Checkpoints of one cluster's audit, in the workspace, where the cluster cannot reach them. */
export class Checkpoints {
  readonly #files: FilePort;
  readonly #folder: string;
  readonly #clusterId: string;
  readonly #owner: CheckpointOwner;

  constructor(
    files: FilePort,
    place: { readonly workspace: string; readonly clusterId: string },
    owner: CheckpointOwner,
  ) {
    this.#files = files;
    this.#folder = join(place.workspace, 'audit');
    this.#clusterId = place.clusterId;
    this.#owner = owner;
  }

  /** By how far they reach. @throws AuditError `audit-checkpoint-invalid` when one is not the owner's */
  async list(): Promise<readonly Checkpoint[]> {
    const names = (await this.#files.list(this.#folder)).filter((name) => CHECKPOINT.test(name)).sort();
    const checkpoints: Checkpoint[] = [];
    for (const name of names) {
      const bytes = await this.#files.read(join(this.#folder, name), MAX_CHECKPOINT_BYTES + 1);
      if (bytes === undefined) continue;
      const expected = { clusterId: this.#clusterId, ownerPubKeys: [this.#owner.pubKey] };
      checkpoints.push(parseCheckpoint(bytes, expected));
    }
    return checkpoints;
  }

  /** What was verified up to here, signed. */
  async add(head: ChainHead, at: { readonly epoch: number; readonly nowMs: number }): Promise<Checkpoint> {
    const subject = { ...head, clusterId: this.#clusterId, epoch: at.epoch, timeMs: at.nowMs };
    const checkpoint = signCheckpoint(subject, this.#owner);
    await this.#files.makeDirectory(this.#folder);
    const name = `${String(head.seq).padStart(16, '0')}.json`;
    await this.#files.writeAtomic(join(this.#folder, name), `${JSON.stringify(checkpoint)}\n`);
    return checkpoint;
  }
}

/** One entry as the cluster, or an export, shows it. */
export interface ChainEntry {
  readonly seq: number;
  /** The exact bytes that the chain is over. */
  readonly record: Uint8Array;
}

/** What a whole chain proved to be. */
export interface VerifiedChain {
  readonly entries: readonly AuditRecord[];
  readonly head: ChainHead;
  /** Checkpoints that lay on the way and fit. */
  readonly matchedCheckpoints: number;
}

/**
 * Follows a chain from its beginning, or from the last checkpoint before what is still kept, past every checkpoint.
 * Pure. @throws AuditError `audit-chain-broken`, AdminError `admin-audit-broken`
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
      `verifying the audit from entry ${first} on: no checkpoint of entry ${first - 1} is here`,
    );
  const verifier = new ChainVerifier({ seq: start.seq, hash: start.hash });
  const bySeq = new Map(checkpoints.map((each) => [each.seq, each]));
  const entries: AuditRecord[] = [];
  let confirmed = 0;
  for (const { record } of shown) {
    entries.push(verifier.next(record));
    confirmed += meet(bySeq.get(verifier.head.seq), verifier.head);
  }
  if (claimed !== undefined) verifier.verifyHead(claimed);
  const beyond = checkpoints.findLast(({ seq }) => seq > verifier.head.seq);
  if (beyond !== undefined)
    throw new AuditLogError(
      'audit-log-altered',
      `verifying the audit: it ends with entry ${verifier.head.seq}, and entry ${beyond.seq} was seen on ${new Date(beyond.timeMs).toISOString()}`,
    );
  return { entries, head: verifier.head, matchedCheckpoints: confirmed };
}

function meet(checkpoint: Checkpoint | undefined, head: ChainHead): number {
  if (checkpoint === undefined) return 0;
  if (checkpoint.hash === head.hash) return 1;
  throw new AuditLogError(
    'audit-log-altered',
    `verifying entry ${head.seq} of the audit: it is not the one that was seen on ${new Date(checkpoint.timeMs).toISOString()}`,
    { details: { seq: head.seq } },
  );
}

/** One line per entry: its bytes in base64, so that nothing on the way changes them. */
export function renderExport(shown: readonly ChainEntry[]): string {
  return shown.map(({ record }) => `${Buffer.from(record).toString('base64')}\n`).join('');
}

/** @throws AuditError `audit-chain-broken` when a line is none of an export */
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
        throw new AuditError('audit-chain-broken', `reading line ${index + 1} of the export: damaged`, {
          cause,
        });
      }
      throw new AuditError('audit-chain-broken', `reading line ${index + 1} of the export: damaged`);
    });
}

import { createHash } from 'node:crypto';
import type { FilePort } from '../../internal/file/index.ts';
import { EnrolmentError } from './errors.ts';

const MAX_BYTES = 1024 * 1024;
const VERSION = 1;

/** Where curators are: what a node needs to find its cluster again. Untrusted by itself; peers prove themselves. */
export interface DirectoryEntry {
  readonly nodeId: string;
  readonly host: string;
}

/** What makes a machine a member. The private key lies apart and never leaves the machine. */
export interface Membership {
  /** 16 bytes in lower-case hex. */
  readonly clusterId: string;
  readonly clusterName: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly nodeAddress: string;
  readonly nodeCertPem: string;
  readonly clusterCaPem: string;
  /** Grows when etcd is restored from a snapshot. */
  readonly epoch: number;
  /** Curators; never empty. */
  readonly directory: readonly DirectoryEntry[];
}

/** The membership on disk: one file, replaced whole, with its own checksum. */
export class MembershipStore {
  readonly #files: FilePort;
  readonly #path: string;

  constructor(files: FilePort, path: string) {
    this.#files = files;
    this.#path = path;
  }

  /** undefined only when there is no file; a damaged one is refused by name and left alone. */
  async load(): Promise<Membership | undefined> {
    const raw = await this.#files.read(this.#path, MAX_BYTES);
    if (raw === undefined) return undefined;
    const damaged = (why: string): EnrolmentError =>
      new EnrolmentError('enrolment-membership-damaged', `reading the membership ${this.#path}: ${why}`, {
        details: { path: this.#path },
      });
    let stored: Partial<Stored> | null;
    try {
      stored = JSON.parse(Buffer.from(raw).toString('utf8')) as Partial<Stored> | null;
    } catch {
      throw damaged('no JSON');
    }
    if (typeof stored !== 'object' || stored === null) throw damaged('no object');
    if (stored.version !== VERSION)
      throw damaged(`version ${String(stored.version)}, this agent reads ${VERSION}`);
    if (typeof stored.membership !== 'object' || stored.sha256 !== checksum(stored.membership))
      throw damaged('the checksum does not match');
    return stored.membership;
  }

  /** Durable when it resolves. */
  async save(membership: Membership): Promise<void> {
    if (membership.directory.length === 0)
      throw new RangeError('a membership without a curator would strand the node');
    const stored: Stored = { version: VERSION, membership, sha256: checksum(membership) };
    await this.#files.writeAtomic(this.#path, `${JSON.stringify(stored)}\n`);
  }
}

interface Stored {
  readonly version: number;
  readonly membership: Membership;
  readonly sha256: string;
}

function checksum(membership: Membership): string {
  return createHash('sha256').update(JSON.stringify(membership)).digest('hex');
}

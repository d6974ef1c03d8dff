import { createHash } from 'node:crypto';
import {
  signDocument,
  subjectOf,
  type DocumentBodies,
  type DocumentKind,
} from '../../ownerdocument/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../crypto/index.ts';
import { put, type Write } from '../../etcd/index.ts';
import { fingerprintOfKey } from '../../pki/index.ts';
import { documentKey, records, type NodeRecord } from '../../records/index.ts';
import type { Secret } from '../../secret/index.ts';

const YEAR_MS = 365 * 24 * 60 * 60_000;

/** An owner of a `TestCluster`, who signs what makes control planes. */
export class TestOwner {
  readonly keyPem: Secret<string> = generateEd25519Key();
  readonly #clusterId: string;
  readonly #nowMs: () => number;

  constructor(clusterId: string, nowMs: () => number) {
    this.#clusterId = clusterId;
    this.#nowMs = nowMs;
  }

  /** Raw Ed25519. */
  get pubKey(): Uint8Array {
    const raw = ed25519PubKeyFrom(this.keyPem);
    if (raw === undefined) throw new TypeError('no Ed25519 key');
    return raw;
  }

  /** Signed, and as somebody puts it into etcd. `at`: under the key of another subject. */
  document<K extends DocumentKind>(
    kind: K,
    body: DocumentBodies[K],
    over: {
      readonly serial?: number;
      readonly epoch?: number;
      readonly endsMs?: number;
      readonly clusterId?: string;
      readonly by?: TestOwner;
      readonly at?: string;
    } = {},
  ): Write {
    const issuedMs = this.#nowMs();
    const { serial = 1, epoch = 1, endsMs = issuedMs + YEAR_MS, clusterId = this.#clusterId } = over;
    const content = {
      kind,
      clusterId,
      epoch,
      serial,
      issuedMs: Math.min(issuedMs, endsMs - 1),
      endsMs,
      body,
    };
    const bytes = signDocument(content, (over.by ?? this).keyPem);
    const name = over.at ?? (kind === 'owners' ? serial : subjectOf({ body }));
    const record = {
      version: 1 as const,
      document: Buffer.from(bytes).toString('base64'),
      recordedMs: issuedMs,
      recordedBy: 'test',
    };
    return put(documentKey(kind, name), records.document.encode(record));
  }

  /** A place in the control plane for a node as it is on record. */
  grant(
    { nodeId, pubKey, roles, admission }: NodeRecord,
    body: Partial<DocumentBodies['grant']> = {},
    over: Parameters<TestOwner['document']>[2] = {},
  ): Write {
    const own = fingerprintOfKey(Buffer.from(pubKey, 'base64'));
    const granted: DocumentBodies['grant'] = {
      identity: admission?.identity ?? `machine-key:${own.replace('sha256:', '')}`,
      nodeId,
      fingerprint: own,
      roles: [...roles],
      floors: { owners: 0, policy: 0, operators: 0 },
      ...body,
    };
    return this.document('grant', granted, over);
  }

  /** For exactly this configuration, as `configurationWrite` has made it. */
  policyFor(configuration: Write, over: Parameters<TestOwner['document']>[2] = {}): Write {
    if (configuration.kind !== 'put') throw new TypeError('no configuration');
    const { document } = records.configuration.decode(configuration.key, configuration.value);
    const sha256 = createHash('sha256').update(Buffer.from(document, 'base64')).digest('hex');
    return this.document('policy', { configurationSha256: sha256 }, over);
  }
}

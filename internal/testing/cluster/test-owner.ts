import { createHash } from 'node:crypto';
import type { Clock } from '../../clock/index.ts';
import { canonicalJson } from '../../config/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../crypto/index.ts';
import { put, type Write } from '../../etcd/index.ts';
import {
  signDocument,
  subjectOf,
  type DocumentBodies,
  type DocumentContent,
  type DocumentKind,
} from '../../ownerdocument/index.ts';
import { fingerprintOfKey, pubKeyDerOf } from '../../pki/index.ts';
import { documentKey, records, type NodeRecord } from '../../records/index.ts';
import type { Role } from '../../role/index.ts';
import type { Secret } from '../../secret/index.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const YEAR_MS = 365 * DAY_MS;

/** A cluster owner with its own key, who signs owner documents. */
export class TestOwner {
  readonly keyPem: Secret<string> = generateEd25519Key();
  /** Raw Ed25519 public key. */
  readonly pubKey: Uint8Array = ed25519PubKeyFrom(this.keyPem) ?? new Uint8Array();
  readonly fingerprint = fingerprintOfKey(pubKeyDerOf(this.keyPem));
  protected readonly clock: Pick<Clock, 'nowMs'>;
  protected readonly clusterId: string;
  readonly #serials = new Map<string, number>();

  constructor(options: { readonly clock: Pick<Clock, 'nowMs'>; readonly clusterId?: string }) {
    this.clock = options.clock;
    this.clusterId = options.clusterId ?? 'c0ffee';
  }

  /** Signs a document that is valid for a day. Serial numbers increase per subject. */
  sign<K extends DocumentKind>(
    kind: K,
    body: DocumentBodies[K],
    over: Partial<DocumentContent<K>> = {},
  ): Uint8Array {
    const issuedMs = this.clock.nowMs();
    const subject = `${kind}/${subjectOf({ body })}`;
    const serial = (this.#serials.get(subject) ?? 0) + 1;
    this.#serials.set(subject, serial);
    const head = {
      kind,
      clusterId: this.clusterId,
      epoch: 1,
      serial,
      issuedMs,
      endsMs: issuedMs + DAY_MS,
    };
    return signDocument({ ...head, body, ...over }, this.keyPem);
  }

  /** Signs the policy for a configuration: its bytes, its text or its value. */
  policy(configuration: unknown): Uint8Array {
    const bytes =
      configuration instanceof Uint8Array
        ? configuration
        : Buffer.from(typeof configuration === 'string' ? configuration : canonicalJson(configuration));
    return this.sign('policy', { configurationSha256: sha256Of(bytes) });
  }

  /** Signs a grant: the roles that a node may have. */
  grant(
    to: { readonly nodeId: string; readonly pubKeyDer: Uint8Array; readonly identity: string },
    roles: readonly Role[] = ['ConsensusMember', 'KubernetesController'],
    over: Partial<DocumentContent<'grant'>> = {},
  ): Uint8Array {
    const { nodeId, pubKeyDer, identity } = to;
    const floors = { owners: 0, policy: 0, operators: 0 };
    const fingerprint = fingerprintOfKey(pubKeyDer);
    return this.sign('grant', { nodeId, identity, fingerprint, roles: [...roles], floors }, over);
  }

  /**
   * The etcd write of a document that is valid for a year. `at` stores it under the key of another subject.
   */
  documentWrite<K extends DocumentKind>(
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
    const issuedMs = this.clock.nowMs();
    const { serial = 1, epoch = 1, endsMs = issuedMs + YEAR_MS, clusterId = this.clusterId } = over;
    const bytes = (over.by ?? this).sign(kind, body, {
      ...{ clusterId, epoch, serial, endsMs },
      issuedMs: Math.min(issuedMs, endsMs - 1),
    });
    const name = over.at ?? (kind === 'owners' ? serial : subjectOf({ body }));
    const record = {
      version: 1 as const,
      document: Buffer.from(bytes).toString('base64'),
      recordedMs: issuedMs,
      recordedBy: 'test',
    };
    return put(documentKey(kind, name), records.document.encode(record));
  }

  /** The etcd write of a grant with the roles that the node's record has. */
  grantWrite(
    { nodeId, pubKey, roles, admission }: NodeRecord,
    body: Partial<DocumentBodies['grant']> = {},
    over: Parameters<TestOwner['documentWrite']>[2] = {},
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
    return this.documentWrite('grant', granted, over);
  }

  /** The etcd write of the policy for a configuration that `configurationWrite` made. */
  policyWrite(configuration: Write, over: Parameters<TestOwner['documentWrite']>[2] = {}): Write {
    if (configuration.kind !== 'put') throw new TypeError('no configuration');
    const { document } = records.configuration.decode(configuration.key, configuration.value);
    const sha256 = sha256Of(Buffer.from(document, 'base64'));
    return this.documentWrite('policy', { configurationSha256: sha256 }, over);
  }
}

function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

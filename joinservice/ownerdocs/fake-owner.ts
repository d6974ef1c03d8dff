import {
  signDocument,
  subjectOf,
  type DocumentBodies,
  type DocumentContent,
  type DocumentKind,
} from '../../internal/ownerdocument/index.ts';
import { canonicalJson } from '../../internal/config/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../internal/crypto/index.ts';
import { put, type KeySpace } from '../../internal/etcd/index.ts';
import { fingerprintOfKey, pubKeyDerOf } from '../../internal/pki/index.ts';
import { records } from '../../internal/records/index.ts';
import type { Role } from '../../internal/role/index.ts';
import { OwnerDocuments } from './owner-documents.ts';
import { sha256Of } from './stored-documents.ts';
import { Submission } from './submission.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const never = new AbortController().signal;

/** An owner at a harness: signs with serials that grow, and is the one whom `ownerDocs()` knows. */
export class FakeOwner {
  readonly keyPem = generateEd25519Key();
  readonly pubKey = ed25519PubKeyFrom(this.keyPem) ?? new Uint8Array();
  readonly fingerprint = fingerprintOfKey(pubKeyDerOf(this.keyPem));
  readonly #clock: Clock;
  readonly #clusterId: string;
  readonly #serials = new Map<string, number>();

  constructor(options: { readonly clock: Clock; readonly clusterId?: string }) {
    this.#clock = options.clock;
    this.#clusterId = options.clusterId ?? 'c0ffee';
  }

  ownerDocs(etcd: KeySpace): OwnerDocuments {
    return new OwnerDocuments({
      etcd,
      clock: this.#clock,
      clusterId: this.#clusterId,
      ownerKeys: [this.pubKey],
    });
  }

  sign<K extends DocumentKind>(
    kind: K,
    body: DocumentBodies[K],
    over: Partial<DocumentContent<K>> = {},
  ): Uint8Array {
    const nowMs = this.#clock.nowMs();
    const place = `${kind}/${subjectOf({ body })}`;
    const serial = (this.#serials.get(place) ?? 0) + 1;
    this.#serials.set(place, serial);
    const head = {
      kind,
      clusterId: this.#clusterId,
      epoch: 1,
      serial,
      issuedMs: nowMs,
      endsMs: nowMs + DAY_MS,
    };
    return signDocument({ ...head, body, ...over }, this.keyPem);
  }

  /** For a configuration, as its bytes, its text or its value. */
  policy(configuration: unknown): Uint8Array {
    const bytes =
      configuration instanceof Uint8Array
        ? configuration
        : Buffer.from(typeof configuration === 'string' ? configuration : canonicalJson(configuration));
    return this.sign('policy', { configurationSha256: sha256Of(bytes) });
  }

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

  /** As etcd has it, past every curator. */
  async record(etcd: KeySpace, document: Uint8Array): Promise<void> {
    const record = {
      version: 1 as const,
      document: Buffer.from(document).toString('base64'),
      recordedMs: this.#clock.nowMs(),
      recordedBy: 'test',
    };
    const write = put(Submission.keyFor(document), records.document.encode(record));
    await etcd.commit({ when: [], then: [write] }, { signal: never });
  }
}

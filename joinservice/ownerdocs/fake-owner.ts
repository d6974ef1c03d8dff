import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';
import { TestOwner } from '../../internal/testing/cluster/test-owner.ts';
import { OwnerDocuments } from './owner-documents.ts';
import { Submission } from './submission.ts';

const never = new AbortController().signal;

/** A `TestOwner` whose documents are valid for the `OwnerDocuments` that `ownerDocs()` returns. */
export class FakeOwner extends TestOwner {
  readonly #clock: Clock;

  constructor(options: { readonly clock: Clock; readonly clusterId?: string }) {
    super(options);
    this.#clock = options.clock;
  }

  /** Reads the owner documents in `etcd`, with this owner as the first owner. */
  ownerDocs(etcd: KeySpace): OwnerDocuments {
    const { clusterId, pubKey } = this;
    return new OwnerDocuments({ etcd, clock: this.#clock, clusterId, ownerKeys: [pubKey] });
  }

  /** Writes a document to etcd without a curator. */
  async record(etcd: KeySpace, document: Uint8Array): Promise<void> {
    const record = {
      version: 1 as const,
      document: Buffer.from(document).toString('base64'),
      recordedMs: this.#clock.nowMs(),
      recordedBy: 'test',
    };
    const write = records.document.put(Submission.keyFor(document), record);
    await etcd.commit({ when: [], then: [write] }, { signal: never });
  }
}

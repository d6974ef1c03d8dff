import { collateralFrom, parseBundle } from '../../internal/attestation/collateral/index.ts';
import type { Collateral } from '../../internal/attestation/index.ts';
import type { Entry, KeySpace } from '../../internal/etcd/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { COLLATERAL_KEY, records } from '../../internal/records/index.ts';

/** What validators take of a record. They verify each document. Throws for one that cannot be read. */
export function collateralFromRecord(entry: Entry): Pick<Collateral, 'snp' | 'tdx'> {
  const { bundle, evaluationNumber } = records.collateral.decode(entry.key, entry.value);
  const { snp, tdx } = collateralFrom(parseBundle(Buffer.from(bundle, 'base64').toString('utf8')).items);
  return {
    ...(snp === undefined ? {} : { snp }),
    ...(tdx === undefined ? {} : { tdx: { ...tdx, seenEvaluationNumber: evaluationNumber } }),
  };
}

/** Follows what operators hand on, and keeps the newest that can be read in force; nothing before the first. */
export class CollateralSource {
  readonly #etcd: KeySpace;
  readonly #log: Logger;
  #current: Pick<Collateral, 'snp' | 'tdx'> = {};

  constructor(options: { readonly etcd: KeySpace; readonly log: Logger }) {
    this.#etcd = options.etcd;
    this.#log = options.log;
  }

  /** What validators take. They verify each document, and the policy limits its age. */
  get current(): Pick<Collateral, 'snp' | 'tdx'> {
    return this.#current;
  }

  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#etcd.watch(COLLATERAL_KEY, { signal })) {
      if (event.kind === 'relist') this.#swap(event.entries.find(({ key }) => key === COLLATERAL_KEY));
      else if (event.kind === 'changes')
        for (const change of event.changes) if (change.kind === 'put') this.#swap(change.entry);
    }
  }

  #swap(entry: Entry | undefined): void {
    if (entry === undefined) return;
    try {
      this.#current = collateralFromRecord(entry);
      this.#log.info('collateral is in force', { revision: entry.modRevision });
    } catch (error) {
      this.#log.error('collateral is not usable, what was there before stays in force', { error });
    }
  }
}

import { createHash } from 'node:crypto';
import type { Collateral } from '../../internal/attestation/index.ts';
import {
  checkCollateral,
  collateralFrom,
  encodeBundle,
  MAX_UPLOAD_BYTES,
  parseBundle,
  keepCurrentCrls,
  type CollateralBundle,
  type ManufacturerTrust,
} from '../../internal/attestation/collateral/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { NodeCollateralError } from './errors.ts';

/** What is on disk. */
export interface CachedCollateral {
  /** Of our own format. */
  readonly bundle: string;
  /** SHA-256 (hex) of the bundle as it was given to this machine; empty before the first. */
  readonly givenSha256: string;
  /** The highest of Intel's numbers that this machine has used; only grows. */
  readonly evaluationNumber: number;
}

export interface CollateralCachePorts {
  readonly saved: {
    load(): Promise<CachedCollateral | undefined>;
    save(kept: CachedCollateral): Promise<void>;
  };
  readonly trust: ManufacturerTrust;
  readonly nowMs: () => number;
  readonly log: Logger;
}

type ForValidators = Pick<Collateral, 'snp' | 'tdx'>;

/**
 * What AMD and Intel say, as this machine has it. Whoever brings it is believed nothing: documents count by their
 * manufacturers' signatures, and none takes the place of a newer one.
 */
export class CollateralCache {
  readonly #ports: CollateralCachePorts;
  #kept: CachedCollateral = { bundle: '', givenSha256: '', evaluationNumber: 0 };
  #bundle: CollateralBundle = { assembledMs: 0, items: [] };
  #current: ForValidators = {};
  /** One is taken after the other: each is compared with the one before. */
  #taking: Promise<unknown> = Promise.resolve();

  constructor(ports: CollateralCachePorts) {
    this.#ports = ports;
  }

  /** For validators: the same objects until something else is in force. */
  get current(): ForValidators {
    return this.#current;
  }

  get givenSha256(): string {
    return this.#kept.givenSha256;
  }

  /** What an earlier life of the agent had. It was verified when it was taken, and is judged whenever it is used. */
  async restore(): Promise<void> {
    const { saved, log } = this.#ports;
    try {
      const kept = await saved.load();
      if (kept !== undefined) this.#put(kept, parseBundle(kept.bundle));
    } catch (error) {
      // It can be given again, and without it evidence of processors is refused.
      log.error('the saved collateral is unusable', { error });
    }
  }

  /**
   * In force and on disk when it resolves with `taken`; `known` when it is what was taken last.
   * @throws NodeCollateralError `collateral-refused`: what was there stays in force
   */
  accept(given: Uint8Array): Promise<'taken' | 'known'> {
    const taken = this.#taking.then(() => this.#take(given));
    this.#taking = taken.catch(() => undefined); // told to who gave it
    return taken;
  }

  async #take(given: Uint8Array): Promise<'taken' | 'known'> {
    if (given.length > MAX_UPLOAD_BYTES)
      throw new NodeCollateralError(`taking collateral: ${given.length} bytes are too many`);
    const givenSha256 = createHash('sha256').update(given).digest('hex');
    if (givenSha256 === this.#kept.givenSha256) return 'known';
    const { bundle, evaluationNumber } = this.#judge(given);
    const kept = { bundle: encodeBundle(bundle), givenSha256, evaluationNumber };
    await this.#ports.saved.save(kept);
    this.#put(kept, bundle);
    const documents = bundle.items.length;
    this.#ports.log.info('collateral is in force', { documents, evaluationNumber });
    return 'taken';
  }

  /** Size and shape are known: now whether it means what it should. */
  #judge(given: Uint8Array): { readonly bundle: CollateralBundle; readonly evaluationNumber: number } {
    const { trust, nowMs } = this.#ports;
    const before = this.#bundle.items;
    const seenEvaluationNumber = this.#kept.evaluationNumber;
    try {
      const { items, assembledMs } = parseBundle(Buffer.from(given).toString('utf8'));
      const number = checkCollateral(items, {
        trust,
        nowMs: nowMs(),
        seenEvaluationNumber,
        previous: before,
      });
      return {
        bundle: { assembledMs, items: keepCurrentCrls(before, items, nowMs()) },
        evaluationNumber: Math.max(seenEvaluationNumber, number),
      };
    } catch (cause) {
      if (!(cause instanceof CodedError)) throw cause;
      throw new NodeCollateralError('taking collateral', { cause });
    }
  }

  #put(kept: CachedCollateral, bundle: CollateralBundle): void {
    const { snp, tdx } = collateralFrom(bundle.items);
    this.#kept = kept;
    this.#bundle = bundle;
    this.#current = {
      ...(snp === undefined ? {} : { snp }),
      ...(tdx === undefined ? {} : { tdx: { ...tdx, seenEvaluationNumber: kept.evaluationNumber } }),
    };
  }
}

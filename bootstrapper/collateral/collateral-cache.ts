import { createHash } from 'node:crypto';
import {
  encodeBundle,
  keepCurrentCrls,
  MAX_UPLOAD_BYTES,
  verifyBundle,
  VerifiedBundle,
  type ManufacturerTrust,
} from '../../internal/attestation/collateral/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import { RepeatedProblem } from '../../internal/logging/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import type { ChecksummedFile } from '../membership/index.ts';
import { NodeCollateralError } from './errors.ts';

/** Content of the cache file on disk. */
export interface CachedCollateral {
  /** The bundle, encoded with `encodeBundle`. */
  readonly bundle: string;
  /** SHA-256 (hex) of the bundle as this machine received it; empty before the first bundle. */
  readonly givenSha256: string;
  /** The highest evaluation number of Intel's collateral that this machine has used. It only increases. */
  readonly evaluationNumber: number;
}

/** Ports (injected dependencies) of the cache. */
export interface CollateralCachePorts extends Pick<SystemPorts, 'files' | 'clock' | 'log'> {
  readonly saved: Pick<ChecksummedFile<CachedCollateral>, 'load' | 'save'>;
  /**
   * Path of the bundle next to the provisioning. The file may appear later, and may be replaced while the
   * agent runs.
   */
  readonly provisionedPath: string;
  readonly trust: ManufacturerTrust;
}

/**
 * The collateral of AMD and Intel with which this machine verifies evidence. The sender of a bundle does not
 * matter: each document is verified by its manufacturer's signature, and an older document never replaces a
 * newer one.
 */
export class CollateralCache {
  readonly #ports: CollateralCachePorts;
  #current = { verified: VerifiedBundle.NONE, givenSha256: '' };
  /**
   * Resolves when the last accepted bundle is saved. Bundles are accepted one after the other, because each
   * bundle is compared with the previous one.
   */
  #accepting: Promise<unknown> = Promise.resolve();
  readonly #problem = new RepeatedProblem();

  constructor(ports: CollateralCachePorts) {
    this.#ports = ports;
  }

  /**
   * The current collateral for validators. The same objects are returned until another bundle is accepted.
   */
  get current(): VerifiedBundle['forValidators'] {
    return this.#current.verified.forValidators;
  }

  /** SHA-256 (hex) of the last accepted bundle as it was received. */
  get givenSha256(): string {
    return this.#current.givenSha256;
  }

  /**
   * Loads the collateral that an earlier run of the agent saved. That run verified it, and validators verify
   * it at each use.
   */
  async restore(): Promise<void> {
    try {
      const cached = await this.#ports.saved.load();
      if (cached === undefined) return;
      this.#current = { verified: VerifiedBundle.load(cached), givenSha256: cached.givenSha256 };
    } catch (error) {
      // The collateral can be delivered again. Until then, evidence of AMD and Intel processors is refused.
      this.#ports.log.error('saved collateral of AMD and Intel unusable', { error });
    }
  }

  /**
   * Accepts the bundle next to the provisioning, if there is one. Never rejects; logs each problem only once.
   */
  async acceptProvisioned(): Promise<void> {
    const { files, provisionedPath: path, log } = this.#ports;
    try {
      const given = await files.read(path, MAX_UPLOAD_BYTES);
      if (given !== undefined) await this.accept(given);
      this.#problem.end();
    } catch (error) {
      if (this.#problem.isNew(error)) log.warn('provisioned collateral refused', { path, error });
    }
  }

  /**
   * Verifies a bundle, saves it and makes it current. Resolves at once if this bundle was the last to be
   * accepted.
   * @throws NodeCollateralError `collateral-refused`; the cache is then unchanged
   */
  accept(given: Uint8Array): Promise<void> {
    const accepted = this.#accepting.then(() => this.#accept(given));
    this.#accepting = accepted.catch(() => undefined); // the caller gets the error
    return accepted;
  }

  async #accept(given: Uint8Array): Promise<void> {
    const givenSha256 = createHash('sha256').update(given).digest('hex');
    if (givenSha256 === this.givenSha256) return;
    const verified = this.#verify(given);
    const { items, evaluationNumber } = verified;
    await this.#ports.saved.save({ bundle: encodeBundle(verified), givenSha256, evaluationNumber });
    this.#current = { verified, givenSha256 };
    this.#ports.log.info('collateral updated', { documents: items.length, evaluationNumber });
  }

  #verify(given: Uint8Array): VerifiedBundle {
    const previous = this.#current.verified;
    const options = { trust: this.#ports.trust, nowMs: this.#ports.clock.nowMs(), previous };
    try {
      return keepCurrentCrls(previous, verifyBundle(given, options), options.nowMs);
    } catch (cause) {
      if (!(cause instanceof CodedError)) throw cause;
      throw new NodeCollateralError('collateral-refused', 'verifying collateral', { cause });
    }
  }
}

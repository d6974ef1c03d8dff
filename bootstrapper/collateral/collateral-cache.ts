import { createHash } from 'node:crypto';
import type { Collateral } from '../../internal/attestation/index.ts';
import {
  collateralFrom,
  encodeBundle,
  keepCurrentCrls,
  MAX_UPLOAD_BYTES,
  parseBundle,
  verifyBundle,
  type ManufacturerTrust,
  type VerifiedBundle,
} from '../../internal/attestation/collateral/index.ts';
import { CodedError, describeError } from '../../internal/errors/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { NodeCollateralError } from './errors.ts';

/** The cache on disk. */
export interface CachedCollateral {
  /** As `encodeBundle` writes it. */
  readonly bundle: string;
  /** SHA-256 (hex) of the bundle as this machine received it; empty before the first. */
  readonly givenSha256: string;
  /** The highest evaluation number of Intel's that this machine has used; it only grows. */
  readonly evaluationNumber: number;
}

/** What the cache needs from outside. */
export interface CollateralCachePorts {
  readonly saved: {
    load(): Promise<CachedCollateral | undefined>;
    save(cached: CachedCollateral): Promise<void>;
  };
  readonly files: Pick<FilePort, 'read'>;
  /** The bundle beside the provisioning. It may appear later and be replaced while the agent runs. */
  readonly provisionedPath: string;
  readonly trust: ManufacturerTrust;
  readonly nowMs: () => number;
  readonly log: Logger;
}

/**
 * The collateral of AMD and Intel that this machine verifies evidence with. It does not matter who delivers a bundle:
 * documents count by their manufacturer's signature, and an older document never replaces a newer one.
 */
export class CollateralCache {
  readonly #ports: CollateralCachePorts;
  #verified: VerifiedBundle = { bundle: { assembledMs: 0, items: [] }, evaluationNumber: 0 };
  #givenSha256 = '';
  #current: Pick<Collateral, 'snp' | 'tdx'> = {};
  /** Bundles are accepted one after the other: each is compared with the one before it. */
  #accepting: Promise<unknown> = Promise.resolve();
  #loggedProblem = '';

  constructor(ports: CollateralCachePorts) {
    this.#ports = ports;
  }

  /** For validators; the same objects until another bundle is accepted. */
  get current(): Pick<Collateral, 'snp' | 'tdx'> {
    return this.#current;
  }

  /** SHA-256 (hex) of the last accepted bundle as it was received. */
  get givenSha256(): string {
    return this.#givenSha256;
  }

  /** Loads what an earlier run of the agent saved. It was verified then, and validators verify it at each use. */
  async restore(): Promise<void> {
    try {
      const cached = await this.#ports.saved.load();
      if (cached === undefined) return;
      const { bundle, evaluationNumber, givenSha256 } = cached;
      this.#activate({ bundle: parseBundle(bundle), evaluationNumber }, givenSha256);
    } catch (error) {
      // It can be delivered again. Without it, evidence of AMD and Intel processors is refused.
      this.#ports.log.error('saved collateral unusable', { error });
    }
  }

  /** Accepts the bundle beside the provisioning, if there is one. Never rejects; logs each problem once. */
  async acceptProvisioned(): Promise<void> {
    const { files, provisionedPath: path, log } = this.#ports;
    let problem = '';
    try {
      const given = await files.read(path, MAX_UPLOAD_BYTES);
      if (given !== undefined) await this.accept(given);
    } catch (error) {
      problem = describeError(error);
      if (problem !== this.#loggedProblem) log.warn('provisioned collateral refused', { path, error });
    }
    this.#loggedProblem = problem;
  }

  /**
   * Verifies a bundle, saves it and makes it current. Resolves at once for the bundle that was accepted last.
   * @throws NodeCollateralError `collateral-refused`; the cache is unchanged
   */
  accept(given: Uint8Array): Promise<void> {
    const accepted = this.#accepting.then(() => this.#accept(given));
    this.#accepting = accepted.catch(() => undefined); // the caller gets the error
    return accepted;
  }

  async #accept(given: Uint8Array): Promise<void> {
    if (given.length > MAX_UPLOAD_BYTES)
      throw new NodeCollateralError(
        'collateral-refused',
        `collateral has ${given.length} bytes, more than ${MAX_UPLOAD_BYTES}`,
      );
    const givenSha256 = createHash('sha256').update(given).digest('hex');
    if (givenSha256 === this.#givenSha256) return;
    const verified = this.#verify(given);
    const { bundle, evaluationNumber } = verified;
    await this.#ports.saved.save({ bundle: encodeBundle(bundle), givenSha256, evaluationNumber });
    this.#activate(verified, givenSha256);
    this.#ports.log.info('collateral updated', { documents: bundle.items.length, evaluationNumber });
  }

  #verify(given: Uint8Array): VerifiedBundle {
    const { trust } = this.#ports;
    const nowMs = this.#ports.nowMs();
    const previous = this.#verified;
    try {
      const { bundle, evaluationNumber } = verifyBundle(given, { trust, nowMs, previous });
      const items = keepCurrentCrls(previous.bundle.items, bundle.items, nowMs);
      return { bundle: { ...bundle, items }, evaluationNumber };
    } catch (cause) {
      if (!(cause instanceof CodedError)) throw cause;
      throw new NodeCollateralError('collateral-refused', 'verifying collateral', { cause });
    }
  }

  #activate(verified: VerifiedBundle, givenSha256: string): void {
    this.#verified = verified;
    this.#givenSha256 = givenSha256;
    this.#current = collateralFrom(verified.bundle.items, verified.evaluationNumber);
  }
}

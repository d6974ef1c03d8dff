import { MAX_UPLOAD_BYTES } from '../../internal/attestation/collateral/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { CollateralCache } from './collateral-cache.ts';

export interface ProvisionedPorts {
  readonly files: Pick<FilePort, 'read'>;
  /** May come later, and be replaced while the agent runs. */
  readonly path: string;
  readonly cache: CollateralCache;
  readonly log: Logger;
}

/**
 * The bundle that lies beside the provisioning: what a machine that is no member yet judges its cluster with, and the way
 * out for one that was off until its own had run out. Members are given newer ones by their cluster.
 */
export class ProvisionedCollateral {
  readonly #ports: ProvisionedPorts;
  #told = '';

  constructor(ports: ProvisionedPorts) {
    this.#ports = ports;
  }

  /** Takes it if it is good and no step back; never rejects, and says each problem once. */
  async load(): Promise<void> {
    const { files, path, cache: shelf, log } = this.#ports;
    let problem = '';
    try {
      const given = await files.read(path, MAX_UPLOAD_BYTES);
      if (given !== undefined) await shelf.accept(given);
    } catch (error) {
      problem = describeError(error);
      if (problem !== this.#told)
        log.warn('collateral beside the provisioning is of no use', { path, error });
    }
    this.#told = problem;
  }
}

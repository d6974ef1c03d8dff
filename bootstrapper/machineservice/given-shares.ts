import type { Secret } from '../../internal/secret/index.ts';
import { RecoveryShares, type SharedRecovery } from '../../internal/statedisk/index.ts';
import type { LockedDisk } from '../disk/index.ts';
import { MachineServiceError } from './errors.ts';

/** The recovery key of a locked disk as its owners give it, whole or in shares. No file has it. */
export class GivenShares {
  /** The disk, and the registers that the machine had when the shares arrived. */
  #for = '';
  #shares = new RecoveryShares();
  /** Kept because a recovery that fails after writing the record leaves a record with new shares: those of before no longer match it. */
  #combined: { readonly recovery: SharedRecovery; readonly key: Secret<Uint8Array> } | undefined;

  /** How many owners have given their shares, for the registers that the machine has now. */
  countFor(locked: LockedDisk): number {
    const { recovery } = locked;
    if (recovery.kind === 'key' || this.#for !== textOf(locked)) return 0;
    return this.#combined === undefined ? this.#shares.countOf(recovery) : recovery.threshold;
  }

  /**
   * Takes what one owner has given.
   * @returns the recovery key, or how many more owners must act
   * @throws MachineServiceError `machineservice-share-refused`
   */
  async take(locked: LockedDisk, secret: Secret<Uint8Array>): Promise<Secret<Uint8Array> | number> {
    const { recovery } = locked;
    if (recovery.kind === 'key') return secret;
    // Each owner has agreed to the registers of that time.
    if (this.#for !== textOf(locked)) this.forget();
    this.#for = textOf(locked);
    const { threshold, shares } = recovery;
    const records = [recovery, this.#combined?.recovery].filter((each) => each !== undefined);
    if (!records.some((each) => this.#shares.add(each, secret)))
      throw new MachineServiceError(
        'machineservice-share-refused',
        `opening the state disk, which needs ${threshold} of ${shares.length} owners`,
      );
    if (this.#combined !== undefined) return this.#combined.key;
    const missing = threshold - this.#shares.countOf(recovery);
    if (missing > 0) return missing;
    const key = await this.#shares.combine(recovery);
    this.#combined = { recovery, key };
    return key;
  }

  /** Forgets all shares: the key that they give does not open the disk. */
  forget(): void {
    this.#shares = new RecoveryShares();
    this.#combined = undefined;
  }
}

function textOf({ uuid, registers }: LockedDisk): string {
  return [uuid, ...registers.map(({ pcr, now }) => `${pcr}:${Buffer.from(now).toString('hex')}`)].join();
}

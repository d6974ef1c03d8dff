import type { Secret } from '../../internal/secret/index.ts';
import { RecoveryShares } from '../../internal/statedisk/index.ts';
import type { LockedDisk } from '../disk/index.ts';
import { MachineServiceError } from './errors.ts';

/** The recovery key of a locked disk as its owners give it, whole or in shares. It is in the memory of this process only. */
export class GivenShares {
  /** The registers for which the shares were given. */
  #registers = '';
  #shares = new RecoveryShares();
  /** The combined key. The record gets new shares before the recovery ends, so the old ones would not continue one that failed half way. */
  #key: Secret<Uint8Array> | undefined;

  /** How many owners have given their shares, for the registers that the machine has now. */
  countFor({ recovery, registers }: LockedDisk): number {
    if (recovery.kind === 'key' || this.#registers !== textOf(registers)) return 0;
    return this.#key === undefined ? this.#shares.countOf(recovery) : recovery.threshold;
  }

  /**
   * Takes what one owner has given.
   * @returns the recovery key, or how many more owners must act
   * @throws MachineServiceError `machineservice-share-refused`
   */
  async take(
    { recovery, registers }: LockedDisk,
    secret: Secret<Uint8Array>,
  ): Promise<Secret<Uint8Array> | number> {
    if (recovery.kind === 'key') return secret;
    // Each owner has agreed to the registers at that time.
    if (this.#registers !== textOf(registers)) this.forget();
    this.#registers = textOf(registers);
    if (this.#key !== undefined) return this.#key;
    const { threshold, shares } = recovery;
    if (!this.#shares.add(recovery, secret))
      throw new MachineServiceError(
        'machineservice-share-refused',
        `opening the state disk, which needs ${threshold} of ${shares.length} owners`,
      );
    const missing = threshold - this.#shares.countOf(recovery);
    if (missing > 0) return missing;
    this.#key = await this.#shares.combine(recovery);
    return this.#key;
  }

  /** Forgets all shares: the key that they give does not open the disk. */
  forget(): void {
    this.#shares = new RecoveryShares();
    this.#key = undefined;
  }
}

function textOf(registers: LockedDisk['registers']): string {
  return registers.map(({ pcr, now }) => `${pcr}:${Buffer.from(now).toString('hex')}`).join();
}

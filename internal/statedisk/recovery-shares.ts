import { createHash } from 'node:crypto';
import { combine, split } from 'shamir-secret-sharing';
import { Secret } from '../secret/index.ts';
import { SHARE_BYTES } from './disk-keys.ts';

/** The length of a recovery share: Shamir's scheme over GF(2⁸), with the coordinate of the share as its last byte. */
export const RECOVERY_SHARE_BYTES = SHARE_BYTES + 1;
/** The most shares of one disk that provisioning files ask for, and that the CLI takes from a machine. */
export const MAX_RECOVERY_SHARES = 32;
/** The length of the digest of a recovery share. */
export const DIGEST_BYTES = 32;

/** The recovery key of a disk as its owners have it. Nothing in it is secret. */
export type OwnerRecovery =
  /** Each owner opens the disk alone: the key, encrypted to all of them (age). */
  { readonly kind: 'key'; readonly sealed: Uint8Array } | SharedRecovery;

/** `threshold` owners open the disk together, at least 2. Each has one of the shares. */
export interface SharedRecovery {
  readonly kind: 'shares';
  readonly threshold: number;
  readonly shares: readonly SealedShare[];
}

/** The recovery share of one owner. */
export interface SealedShare {
  /** Encrypted to the owner (age). */
  readonly sealed: Uint8Array;
  /** SHA-256 of the share. A share is as random as a key, so its digest says nothing about it. */
  readonly digest: Uint8Array;
}

/** How many owners must act before the disk opens. */
export function ownersNeeded(recovery: OwnerRecovery): number {
  return recovery.kind === 'key' ? 1 : recovery.threshold;
}

/**
 * Splits a recovery key into one recovery share for each owner. `threshold` of them (at least 2) give the key again; fewer say nothing about it.
 */
export async function splitRecoveryKey(
  key: Secret<Uint8Array>,
  { owners, threshold }: { readonly owners: number; readonly threshold: number },
): Promise<readonly Secret<Uint8Array>[]> {
  const shares = await split(key.reveal(), owners, threshold);
  return shares.map((share) => new Secret(share));
}

/** SHA-256 of a recovery share. */
export function digestOfShare(share: Secret<Uint8Array>): Uint8Array {
  return new Uint8Array(createHash('sha256').update(share.reveal()).digest());
}

/** The recovery shares of one disk that owners have given, in the memory of this process only. */
export class RecoveryShares {
  readonly #given = new Map<string, Secret<Uint8Array>>();

  /** How many of the shares were given. */
  countOf({ shares }: SharedRecovery): number {
    return shares.filter(({ digest }) => this.#given.has(hex(digest))).length;
  }

  /** Keeps a share. A share that was given before counts once. @returns false for bytes that are no share of this disk */
  add({ shares }: SharedRecovery, share: Secret<Uint8Array>): boolean {
    const given = hex(digestOfShare(share));
    if (!shares.some(({ digest }) => hex(digest) === given)) return false;
    this.#given.set(given, share);
    return true;
  }

  /** Combines the shares of this disk. @returns 32 bytes, which are the recovery key if the record that names the shares is true */
  async combine({ shares }: SharedRecovery): Promise<Secret<Uint8Array>> {
    const given = shares.flatMap(({ digest }) => this.#given.get(hex(digest))?.reveal() ?? []);
    return new Secret(await combine(given));
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

import type { Secret } from '../secret/index.ts';
import { digestOf } from './algorithms.ts';
import { readPcrs } from './commands/pcr.ts';
import { quote, type SignedAttest } from './commands/quote.ts';
import type { LoadedKey } from './commands/keys.ts';
import type { TpmConnection } from './connection.ts';
import { TpmError } from './errors.ts';
import { createAttestationKey } from './keys.ts';
import { certifyLockCounter, lockCounter } from './lock-counter.ts';
import { leafHash, MAX_LEAVES, merkleTree, type MerkleProof } from './merkle.ts';
import { parseQuoteAttest } from './structures/attest.ts';
import { pcrDigest, type PcrSelection } from './structures/pcr-selection.ts';
import { canonicalSignature, encodeSignature, parseSignature } from './structures/signature.ts';
import type { Tpm } from './tpm.ts';
import { WireWriter } from './wire.ts';

/** Configuration of a `BatchQuoter`. */
export interface BatchQuoterOptions {
  readonly tpm: Tpm;
  readonly pcrs: readonly number[];
  /** See `createAttestationKey()`. */
  readonly attestationKeySecret?: Secret<Uint8Array>;
  /** Whether to certify the lock counter with each quote, if the counter was ever incremented. */
  readonly lockCounter?: boolean;
  /** Returns the event log, which is sent with the quote and covered by it through its hash. Called for each quote. */
  readonly attachment?: (signal: AbortSignal) => Promise<Uint8Array>;
}

/** One quote for one caller: the Merkle path is the caller's own, everything else is shared with the batch. */
export interface BatchedQuote extends MerkleProof {
  readonly attestationKey: Uint8Array;
  readonly attest: Uint8Array;
  readonly signature: Uint8Array;
  readonly pcrValues: ReadonlyMap<number, Uint8Array>;
  readonly attachment: Uint8Array;
  /** The lock counter, certified for this quote. Absent if it was never incremented, or is not configured. */
  readonly lockCounter?: SignedAttest;
}

const MAX_TRIES = 3;
const DOMAIN = Buffer.from('cluster tpm quote v1\0', 'ascii');
const DOMAIN_WITH_COUNTER = Buffer.from('cluster tpm quote with lock counter v1\0', 'ascii');

/** The data that a quote signs in addition to the PCRs. */
export interface QuotedContext {
  readonly root: Uint8Array;
  /** Number of leaves in the Merkle tree. */
  readonly size: number;
  readonly attachment: Uint8Array;
  /**
   * Whether a certificate of the lock counter is sent with the quote. It is signed, so that nobody can remove the
   * certificate.
   */
  readonly hasLockCounter: boolean;
}

/** The extraData of a quote: a hash over the Merkle root, the size of the tree and the hash of the attachment. */
export function quoteExtraData({ root, size, attachment, hasLockCounter }: QuotedContext): Uint8Array {
  const domain = hasLockCounter ? DOMAIN_WITH_COUNTER : DOMAIN;
  const sizeBytes = new WireWriter().u32(size).finish();
  return digestOf('sha256', domain, sizeBytes, root, digestOf('sha256', attachment));
}

/**
 * Serves many callers with few quotes. A hardware TPM takes 100ms or more for a quote and runs one command at a time.
 * Callers that arrive meanwhile wait in a list, and the next quote signs a Merkle root over all of them.
 *
 *   quote() ─┐                       ┌─▶ quote + path 0
 *   quote() ─┼─▶ waiting ─▶ one task ┼─▶ quote + path 1
 *   quote() ─┘              of Tpm   └─▶ quote + path 2
 */
export class BatchQuoter {
  readonly #options: BatchQuoterOptions;
  readonly #keys = new WeakMap<TpmConnection, LoadedKey>();
  #waiting: Waiter[] = [];

  constructor(options: BatchQuoterOptions) {
    if (options.pcrs.length === 0) throw new RangeError('no PCR to quote');
    this.#options = options;
  }

  /** Returns a quote over `data`, which must contain the caller's nonce. Throws TpmError. */
  async quote(data: Uint8Array, signal: AbortSignal): Promise<BatchedQuote> {
    signal.throwIfAborted();
    if (this.#waiting.length >= MAX_LEAVES)
      throw new TpmError('tpm-busy', `quoting PCRs: ${MAX_LEAVES} callers are waiting`);
    const { promise, resolve, reject } = Promise.withResolvers<BatchedQuote>();
    const waiter: Waiter = { leaf: leafHash(data), resolve, reject };
    const onAbort = (): void => {
      this.#waiting = this.#waiting.filter((each) => each !== waiter);
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    this.#waiting.push(waiter);
    if (this.#waiting.length === 1) void this.#serveBatch();
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Serves all callers that wait when its TPM task starts. The abort of one caller does not stop the batch. */
  async #serveBatch(): Promise<void> {
    let batch: Waiter[] = [];
    try {
      await this.#options.tpm.use(new AbortController().signal, async (connection, signal) => {
        batch = this.#waiting;
        this.#waiting = [];
        if (batch.length > 0) await this.#serve(connection, batch, signal);
      });
    } catch (error) {
      const failed = batch.length > 0 ? batch : this.#waiting;
      if (batch.length === 0) this.#waiting = []; // the task never started: nobody else will serve these callers
      for (const waiter of failed) waiter.reject(error);
    }
  }

  async #serve(connection: TpmConnection, batch: readonly Waiter[], signal: AbortSignal): Promise<void> {
    const { root, paths } = merkleTree(batch.map((waiter) => waiter.leaf));
    const attachment = (await this.#options.attachment?.(signal)) ?? new Uint8Array();
    const hasLockCounter =
      this.#options.lockCounter === true && (await lockCounter.hasValue(connection, signal));
    const extraData = quoteExtraData({ root, size: batch.length, attachment, hasLockCounter });
    const signed = await this.#sign(connection, { extraData, hasLockCounter }, signal);
    batch.forEach((waiter, index) => {
      waiter.resolve({ ...signed, attachment, index, size: batch.length, path: paths[index] ?? [] });
    });
  }

  /** Reads the PCRs and quotes them. Repeats both when a PCR changed between the two commands. */
  async #sign(
    connection: TpmConnection,
    { extraData, hasLockCounter }: { readonly extraData: Uint8Array; readonly hasLockCounter: boolean },
    signal: AbortSignal,
  ) {
    const key = await this.#attestationKey(connection, signal);
    const selection: PcrSelection = { hash: 'sha256', pcrs: this.#options.pcrs };
    for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
      const pcrValues = await readPcrs(connection, selection, signal);
      const { attest, signature } = await quote(connection, { key, extraData, selection }, signal);
      const { pcrDigest: quoted } = parseQuoteAttest(attest);
      if (Buffer.compare(quoted, pcrDigest(pcrValues, 'sha256')) !== 0) continue;
      const canonical = encodeSignature(canonicalSignature(parseSignature(signature), 'p256'));
      const made = { attestationKey: key.publicArea.bytes, attest, signature: canonical, pcrValues };
      if (!hasLockCounter) return made;
      const options = { key, quoteExtraData: extraData };
      return { ...made, lockCounter: await certifyLockCounter(connection, options, signal) };
    }
    throw new TpmError(
      'tpm-pcrs-moving',
      `quoting PCRs ${this.#options.pcrs.join(',')}: a PCR changed during each attempt`,
    );
  }

  /** Derives the key once for each connection: on hardware this takes as long as a quote. */
  async #attestationKey(connection: TpmConnection, signal: AbortSignal): Promise<LoadedKey> {
    const known = this.#keys.get(connection);
    if (known !== undefined) return known;
    const key = await createAttestationKey(connection, this.#options.attestationKeySecret, signal);
    connection.keepLoaded(key);
    if (key.session !== undefined) connection.keepLoaded(key.session);
    this.#keys.set(connection, key);
    return key;
  }
}

interface Waiter {
  readonly leaf: Uint8Array;
  readonly resolve: (quote: BatchedQuote) => void;
  readonly reject: (error: unknown) => void;
}

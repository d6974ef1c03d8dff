import { password } from './command.ts';
import { defineCounter, incrementCounter, readCounter, readNvPublic } from './commands/nv.ts';
import type { TpmConnection } from './connection.ts';
import { TpmError } from './errors.ts';
import { COUNTER_ATTRIBUTES, encodeNvPublic, NV_ATTRIBUTE, type NvPublic } from './structures/nv-public.ts';

const BYTES = 8;
const AUTH = password();

/**
 * An NV counter at a fixed index of the TPM. It never goes back, unlike a PCR (which a restart resets) and the disk (which can be
 * restored from a copy). The owner hierarchy can undefine it, but a counter that is defined again starts above every value that
 * any counter of this TPM ever had (Part 1, 37.2.5). It needs no policy and no authorization value, because it can only be
 * incremented.
 */
export class NvCounter {
  /** The definition of the index after the first increment. Verifiers compare its Name. */
  readonly definition: NvPublic;
  readonly #purpose: string;

  /** @param purpose what the counter is, for messages */
  constructor(index: number, purpose: string) {
    this.#purpose = purpose;
    this.definition = {
      index,
      nameHash: 'sha256',
      attributes: COUNTER_ATTRIBUTES | NV_ATTRIBUTE.written,
      authPolicy: new Uint8Array(),
      sizeBytes: BYTES,
    };
  }

  /**
   * The value; undefined if the counter was never incremented. Throws TpmError `tpm-nv-foreign` if other software uses the
   * index.
   */
  async read(tpm: TpmConnection, signal: AbortSignal): Promise<bigint | undefined> {
    const hasValue = (await this.#state(tpm, signal)) === 'counting';
    return hasValue ? readCounter(tpm, this.definition.index, AUTH, signal) : undefined;
  }

  /** Whether the counter was ever incremented: only then can the TPM certify its value. */
  async hasValue(tpm: TpmConnection, signal: AbortSignal): Promise<boolean> {
    return (await this.#state(tpm, signal)) === 'counting';
  }

  /**
   * Defines the counter if it does not exist, and increments it if it was never incremented. Throws TpmError
   * `tpm-auth-failed` if the owner hierarchy has a password.
   */
  async start(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
    const state = await this.#state(tpm, signal);
    if (state === undefined) await defineCounter(tpm, this.definition.index, new Uint8Array(), signal);
    else if (state === 'defined') await this.increment(tpm, signal);
  }

  /** Increments the counter. */
  increment(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
    return incrementCounter(tpm, this.definition.index, AUTH, signal);
  }

  /**
   * Compares the whole definition of the index. Verifiers compare the Name, which is a hash over the definition, so they would refuse
   * evidence if any field differs.
   */
  async #state(tpm: TpmConnection, signal: AbortSignal): Promise<'defined' | 'counting' | undefined> {
    const { index } = this.definition;
    const nv = await readNvPublic(tpm, index, signal);
    if (nv === undefined) return undefined;
    const { attributes, sizeBytes } = nv;
    const counting = encodeNvPublic({ ...nv, attributes: attributes | NV_ATTRIBUTE.written });
    if (Buffer.compare(counting, encodeNvPublic(this.definition)) !== 0)
      throw new TpmError(
        'tpm-nv-foreign',
        `using NV index 0x${index.toString(16)} as ${this.#purpose}: its definition differs`,
        {
          details: { attributes: `0x${attributes.toString(16)}`, sizeBytes },
        },
      );
    return (attributes & NV_ATTRIBUTE.written) === 0 ? 'defined' : 'counting';
  }
}

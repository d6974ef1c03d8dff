import type { Issuer } from '../../internal/attestation/index.ts';
import { createTpmIssuer, FIRMWARE_EVENT_LOG, openKeySecret } from '../../internal/attestation/tpm/index.ts';
import type { MachineOptions } from '../../internal/attestation/enrolment/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { Tpm } from '../../internal/tpm/index.ts';

/**
 * The PCRs that the boot chain and the node lock extend. PCRs 16 to 23 are excluded: they can be reset or
 * belong to a dynamic launch.
 */
const QUOTED_PCRS = Array.from({ length: 16 }, (_, pcr) => pcr);

/** Inputs from which TPM evidence is created. */
export interface TpmEvidenceOptions {
  readonly provisioning: Pick<Provisioning, 'tpm'>;
  readonly files: FilePort;
  readonly keySecretPath: string;
}

/**
 * Issues quotes with an attestation key whose secret is sealed for the agent. The secret is unsealed at the
 * first quote and kept in memory: a TPM that does not answer must not prevent the agent from starting.
 */
export class TpmEvidence implements Issuer {
  readonly variant = 'tpm';
  readonly #options: TpmEvidenceOptions;
  readonly #tpm: Tpm;
  #opened: Promise<{ readonly issuer: Issuer; readonly machine: MachineOptions }> | undefined;

  constructor(options: TpmEvidenceOptions, tpm: Tpm) {
    this.#options = options;
    this.#tpm = tpm;
  }

  async issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    return (await this.#open(signal)).issuer.issue(binding, signal);
  }

  /** The TPM and the attestation key's secret, for enrolment. */
  async options(signal: AbortSignal): Promise<MachineOptions> {
    return (await this.#open(signal)).machine;
  }

  /**
   * Opens the TPM and unseals the secret. Parallel callers share one attempt; after a failure, the next
   * caller tries again.
   */
  #open(signal: AbortSignal): Promise<{ readonly issuer: Issuer; readonly machine: MachineOptions }> {
    if (this.#opened !== undefined) return this.#opened;
    const opening = this.#openSecret(signal).then((attestationKeySecret) => {
      const machine = { tpm: this.#tpm, attestationKeySecret };
      return {
        issuer: createTpmIssuer({ ...machine, pcrs: QUOTED_PCRS, lockCounter: true, ...this.#eventLog() }),
        machine,
      };
    });
    this.#opened = opening;
    opening.catch(() => {
      if (this.#opened === opening) this.#opened = undefined;
    });
    return opening;
  }

  #openSecret(signal: AbortSignal): Promise<Secret<Uint8Array>> {
    const { provisioning, files, keySecretPath } = this.#options;
    const pcrs = provisioning.tpm.kind === 'none' ? [] : provisioning.tpm.sealedPcrs;
    return openKeySecret({ tpm: this.#tpm, files, path: keySecretPath, pcrs }, signal);
  }

  /** The firmware event log. Only the kernel's TPM has one; a software TPM behind a socket does not. */
  #eventLog(): { readonly eventLog?: { readonly files: FilePort; readonly path: string } } {
    const { provisioning, files } = this.#options;
    return provisioning.tpm.kind === 'device' ? { eventLog: { files, path: FIRMWARE_EVENT_LOG } } : {};
  }
}

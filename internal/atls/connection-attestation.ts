import type { Verdict } from '../attestation/index.ts';
import { CodedError, isAbort } from '../errors/index.ts';
import type { EvidenceHandler } from './driver.ts';
import { AtlsError } from './errors.ts';
import type { EvidenceBinding } from './handshake.ts';
import type { Formats, Trust } from './trust.ts';
import { MAX_DOCUMENT_BYTES, type Evidence } from './wire.ts';

/** Issues and validates the evidence of one connection, and keeps the verdict about the peer. */
export class ConnectionAttestation implements EvidenceHandler {
  readonly #trust: Trust;
  readonly #formats: Formats;
  readonly #nowMs: () => number;
  #verdict: Verdict | undefined;

  constructor(options: { readonly trust: Trust; readonly formats: Formats; readonly nowMs: () => number }) {
    this.#trust = options.trust;
    this.#formats = options.formats;
    this.#nowMs = options.nowMs;
  }

  /** The verdict about the peer; undefined until its evidence was accepted. */
  get verdict(): Verdict | undefined {
    return this.#verdict;
  }

  async issue(
    format: number,
    { binding, statement }: EvidenceBinding,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const issuer = this.#formats.issuers.get(format);
    if (issuer === undefined)
      throw new AtlsError('atls-internal', `issuing evidence: no issuer for format ${format}`);
    const doing = `issuing ${issuer.variant} evidence`;
    const issuing =
      'issueForSession' in issuer ? issuer.issueForSession(statement, signal) : issuer.issue(binding, signal);
    const document = await issuing.catch((error: unknown) => {
      if (isAbort(error, signal)) throw error;
      throw new AtlsError('atls-issue-failed', doing, { cause: error });
    });
    if (document.length > MAX_DOCUMENT_BYTES) {
      throw new AtlsError(
        'atls-issue-failed',
        `${doing}: ${document.length} bytes, at most ${MAX_DOCUMENT_BYTES} allowed`,
      );
    }
    return document;
  }

  async validate({ format, document }: Evidence, binding: Uint8Array): Promise<void> {
    const validator = this.#formats.validators.get(format);
    if (validator === undefined || this.#trust.trust === 'one-way-show') {
      throw new AtlsError('atls-internal', `validating evidence: no validator for format ${format}`);
    }
    const doing = `validating ${validator.variant} evidence`;
    const context = { ...this.#trust.rules(), nowMs: this.#nowMs() };
    const verdict = await validator.validate(document, binding, context).catch((error: unknown) => {
      throw refusal(doing, error);
    });
    // Guards against a bug in a validator: the peer counts as attested only if the verdict accepts the peer and names
    // the variant of this validator.
    if (verdict.variant !== validator.variant || !verdict.accepted) {
      throw new AtlsError('atls-internal', `${doing}: the verdict is about ${verdict.variant} evidence`);
    }
    this.#verdict = { ...verdict, measurements: copied(verdict.measurements) };
  }
}

/**
 * Copies the measurements. Validators return views of the evidence, and the verdict lives as long as the connection:
 * without the copies, each verdict would keep 64 KiB of evidence in memory.
 */
function copied(measurements: Verdict['measurements']): Verdict['measurements'] {
  return new Map([...measurements].map(([register, value]) => [register, Uint8Array.from(value)]));
}

/**
 * A coded error is a refusal of the peer's evidence. Any other error is a bug of this program; the peer is refused in
 * this case too.
 */
function refusal(doing: string, error: unknown): AtlsError {
  if (!(error instanceof CodedError)) return new AtlsError('atls-internal', doing, { cause: error });
  return new AtlsError('atls-evidence-rejected', doing, { cause: error, details: { check: error.code } });
}

import type { z } from 'zod';
import { refuseOnCertificateError } from '../certificate-refusal.ts';
import type { CheckList } from '../check-list.ts';
import {
  attributeOf,
  buildChain,
  checkNotRevoked,
  COMMON_NAME,
  isEcdsaSignatureValid,
  parseCrl,
  verifyCrl,
  verifyPath,
  X509Error,
  type Certificate,
  type CertificateCache,
  type Crl,
} from '../x509/index.ts';
import { equalBytes, parseJson, toHex } from '../bytes.ts';
import type { TdxErrorCode } from './errors.ts';
import {
  qeIdentitySchema,
  tcbInfoSchema,
  type IntelDocument,
  type QeIdentity,
  type TcbInfo,
} from './intel-json.ts';
import type { SignedJson, TdxCollateral } from './rules.ts';

const TCB_SIGNER_NAME = 'Intel SGX TCB Signing';

type Checks = CheckList<TdxErrorCode>;

/** A parsed text that Intel signed. */
interface VerifiedDocument {
  readonly signer: Certificate;
  readonly document: unknown;
}

/** Inputs of each verification: cache, trusted roots, time and list of checks. */
export interface IntelTrustOptions {
  readonly cache: CertificateCache;
  readonly isPinned: (root: Certificate) => boolean;
  readonly nowMs: number;
  readonly checks: Checks;
}

/**
 * Parsed collateral. Remembers the texts whose signature by Intel was verified; dates and revocation are checked each
 * time.
 */
export class IntelCollateral {
  readonly #certificates: readonly Certificate[];
  readonly #crls: readonly Crl[];
  readonly #raw: TdxCollateral;
  readonly #documents = new Map<SignedJson, VerifiedDocument>();

  constructor(raw: TdxCollateral, cache: CertificateCache) {
    this.#raw = raw;
    this.#certificates = raw.certificates.map((der) => cache.parse(der));
    this.#crls = raw.crls.map((der) => parseCrl(der));
  }

  /** Whether there is no collateral at all, so that no TCB can be evaluated. */
  get isEmpty(): boolean {
    return this.#raw.tcbInfos.length === 0 && this.#raw.qeIdentities.length === 0 && this.#crls.length === 0;
  }

  /** Checks every certificate of a verified chain against the CRL of its issuer, which must be present. */
  checkRevocation(chain: readonly Certificate[], { nowMs, checks }: IntelTrustOptions): void {
    refuseOnCertificateError(checks, () => {
      for (const [index, certificate] of chain.entries()) {
        const issuer = chain[index + 1] ?? certificate;
        const crl = this.#newestCrlOf(issuer);
        if (crl === undefined) {
          throw new X509Error(
            'x509-crl-missing',
            `checking revocation: CRL of the issuer with serial ${issuer.serial} not found`,
          );
        }
        verifyCrl(crl, issuer, nowMs);
        checkNotRevoked(certificate, crl);
      }
    });
  }

  /** The newest CRL of an issuer. An older one may lack a revocation. */
  #newestCrlOf(issuer: Certificate): Crl | undefined {
    const own = this.#crls.filter((each) => equalBytes(each.issuer.der, issuer.subject.der));
    return own.toSorted((a, b) => b.thisUpdateMs - a.thisUpdateMs)[0];
  }

  /** The newest valid TCB info for a platform. Throws AttestationError. */
  tcbInfo(fmspc: Uint8Array, options: IntelTrustOptions): TcbInfo {
    const infos = this.#verified(this.#raw.tcbInfos, tcbInfoSchema, options);
    const { checks } = options;
    checks.require('tdx-collateral-missing', infos.length > 0, { problem: 'no TCB info' });
    const info = newest(infos.filter((each) => equalBytes(each.fmspc, fmspc)));
    checks.require('tdx-tcb-info', info !== undefined, {
      expected: toHex(fmspc),
      actual: infos.map((each) => toHex(each.fmspc)).join(', '),
    });
    return this.#current(info as TcbInfo, options);
  }

  /** The newest valid QE identity. Throws AttestationError. */
  qeIdentity(options: IntelTrustOptions): QeIdentity {
    const identity = newest(this.#verified(this.#raw.qeIdentities, qeIdentitySchema, options));
    options.checks.require('tdx-collateral-missing', identity !== undefined, { problem: 'no QE identity' });
    return this.#current(identity as QeIdentity, options);
  }

  /** Verifies all documents and returns their highest evaluation number. Throws AttestationError. */
  evaluationNumber(options: IntelTrustOptions): number {
    const documents: readonly IntelDocument[] = [
      ...this.#verified(this.#raw.tcbInfos, tcbInfoSchema, options),
      ...this.#verified(this.#raw.qeIdentities, qeIdentitySchema, options),
    ];
    return Math.max(0, ...documents.map((each) => this.#current(each, options).tcbEvaluationDataNumber));
  }

  #current<T extends IntelDocument>(document: T, { nowMs, checks }: IntelTrustOptions): T {
    const actual = new Date(nowMs).toISOString();
    checks.require('tdx-collateral-future', nowMs >= document.issueDate, { actual });
    checks.require('tdx-collateral-expired', nowMs <= document.nextUpdate, {
      expected: `until ${new Date(document.nextUpdate).toISOString()}`,
      actual,
    });
    const seen = this.#raw.seenEvaluationNumber ?? 0;
    checks.require('tdx-evaluation-number', document.tcbEvaluationDataNumber >= seen, {
      expected: `at least ${seen}`,
      actual: document.tcbEvaluationDataNumber,
    });
    return document;
  }

  #verified<S extends z.ZodType>(
    texts: readonly SignedJson[],
    schema: S,
    options: IntelTrustOptions,
  ): z.infer<S>[] {
    return texts.map((signed) => {
      const known = this.#documents.get(signed) ?? this.#verify(signed, schema, options);
      this.#checkSigner(known.signer, options);
      return known.document as z.infer<S>;
    });
  }

  /** Verifies the signature over the unchanged text before parsing it. */
  #verify(signed: SignedJson, schema: z.ZodType, { checks }: IntelTrustOptions) {
    const signers = this.#certificates.filter(
      (each) => attributeOf(each.subject, COMMON_NAME) === TCB_SIGNER_NAME,
    );
    checks.require('tdx-collateral-signer', signers.length > 0, {
      expected: TCB_SIGNER_NAME,
      problem: 'none',
    });
    const bytes = Buffer.from(signed.text, 'utf8');
    const signer = signers.find((each) =>
      isEcdsaSignatureValid(each.publicKey, 'sha256', bytes, signed.signature),
    );
    checks.require('tdx-collateral-signature', signer !== undefined);
    const parsed = schema.safeParse(parseJson(signed.text));
    if (!parsed.success) throw checks.refusal('tdx-collateral-malformed', { actual: parsed.error.message });
    const known: VerifiedDocument = { signer: signer as Certificate, document: parsed.data };
    this.#documents.set(signed, known);
    return known;
  }

  #checkSigner(signer: Certificate, options: IntelTrustOptions): void {
    const { checks, cache, isPinned, nowMs } = options;
    const chain = buildChain(signer, this.#certificates, cache);
    refuseOnCertificateError(checks, () => verifyPath({ chain, isPinned, atMs: nowMs, cache }));
    this.checkRevocation(chain, options);
  }
}

function newest<T extends IntelDocument>(documents: readonly T[]): T | undefined {
  return documents.toSorted((a, b) => b.issueDate - a.issueDate)[0];
}

import type { z } from 'zod';
import { describeShape } from '../../errors/index.ts';
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
  checkRevocation(
    chain: readonly Certificate[],
    { nowMs, checks }: IntelTrustOptions,
    check = 'revocation',
  ): void {
    refuseOnCertificateError(checks, check, () => {
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
    const infos = this.#verified(this.#raw.tcbInfos, TCB_INFO, options);
    const { checks } = options;
    checks.require('tdx-collateral-missing', infos.length > 0, {
      subject: TCB_INFO.subject,
      problem: 'no TCB info',
    });
    const info = newest(infos.filter((each) => equalBytes(each.fmspc, fmspc)));
    checks.require('tdx-tcb-info', info !== undefined, {
      subject: 'fmspc',
      expected: toHex(fmspc),
      actual: infos.map((each) => toHex(each.fmspc)).join(', '),
    });
    return this.#current(info as TcbInfo, TCB_INFO.subject, options);
  }

  /** The newest valid QE identity. Throws AttestationError. */
  qeIdentity(options: IntelTrustOptions): QeIdentity {
    const identity = newest(this.#verified(this.#raw.qeIdentities, QE_IDENTITY, options));
    options.checks.require('tdx-collateral-missing', identity !== undefined, {
      subject: QE_IDENTITY.subject,
      problem: 'no QE identity',
    });
    return this.#current(identity as QeIdentity, QE_IDENTITY.subject, options);
  }

  /** Verifies all documents and returns their highest evaluation number. Throws AttestationError. */
  evaluationNumber(options: IntelTrustOptions): number {
    const current = <D extends IntelDocument>(texts: readonly SignedJson[], kind: DocumentKind<D>) =>
      this.#verified(texts, kind, options).map((each, at) =>
        this.#current(each, subjectOf(kind, at, texts), options),
      );
    const documents: readonly IntelDocument[] = [
      ...current(this.#raw.tcbInfos, TCB_INFO),
      ...current(this.#raw.qeIdentities, QE_IDENTITY),
    ];
    return Math.max(0, ...documents.map((each) => each.tcbEvaluationDataNumber));
  }

  #current<T extends IntelDocument>(document: T, subject: string, { nowMs, checks }: IntelTrustOptions): T {
    const actual = new Date(nowMs).toISOString();
    checks.require('tdx-collateral-future', nowMs >= document.issueDate, {
      subject,
      expected: `from ${new Date(document.issueDate).toISOString()}`,
      actual,
    });
    checks.require('tdx-collateral-expired', nowMs <= document.nextUpdate, {
      subject,
      expected: `until ${new Date(document.nextUpdate).toISOString()}`,
      actual,
    });
    const seen = this.#raw.seenEvaluationNumber ?? 0;
    checks.require('tdx-evaluation-number', document.tcbEvaluationDataNumber >= seen, {
      subject,
      expected: `at least ${seen}`,
      actual: document.tcbEvaluationDataNumber,
    });
    return document;
  }

  #verified<D extends IntelDocument>(
    texts: readonly SignedJson[],
    kind: DocumentKind<D>,
    options: IntelTrustOptions,
  ): D[] {
    return texts.map((signed, at) => {
      const subject = subjectOf(kind, at, texts);
      const known = this.#documents.get(signed) ?? this.#verify(signed, { ...kind, subject }, options);
      this.#checkSigner(known.signer, subject, options);
      return known.document as D;
    });
  }

  /** Verifies the signature over the unchanged text before parsing it. */
  #verify(
    signed: SignedJson,
    { schema, subject }: DocumentKind<IntelDocument>,
    { checks }: IntelTrustOptions,
  ): VerifiedDocument {
    const signers = this.#certificates.filter(
      (each) => attributeOf(each.subject, COMMON_NAME) === TCB_SIGNER_NAME,
    );
    checks.require('tdx-collateral-signer', signers.length > 0, {
      subject,
      expected: TCB_SIGNER_NAME,
      problem: 'none',
    });
    const bytes = Buffer.from(signed.text, 'utf8');
    const signer = signers.find((each) =>
      isEcdsaSignatureValid(each.publicKey, 'sha256', bytes, signed.signature),
    );
    checks.require('tdx-collateral-signature', signer !== undefined, { subject });
    const parsed = schema.safeParse(parseJson(signed.text));
    if (!parsed.success)
      throw checks.refusal('tdx-collateral-malformed', { subject, actual: describeShape(parsed.error) });
    checks.require('tdx-collateral-malformed', true, { subject });
    const known: VerifiedDocument = { signer: signer as Certificate, document: parsed.data };
    this.#documents.set(signed, known);
    return known;
  }

  #checkSigner(signer: Certificate, subject: string, options: IntelTrustOptions): void {
    const { checks, cache, isPinned, nowMs } = options;
    const chain = buildChain(signer, this.#certificates, cache);
    const check = `collateral-signer/${subject}`;
    refuseOnCertificateError(checks, check, () => verifyPath({ chain, isPinned, atMs: nowMs, cache }));
    this.checkRevocation(chain, options, check);
  }
}

/** A kind of document that Intel signs. `subject` names it in checks. */
interface DocumentKind<D> {
  readonly subject: string;
  readonly schema: z.ZodType<D>;
}

const TCB_INFO: DocumentKind<TcbInfo> = { subject: 'tcb-info', schema: tcbInfoSchema };
const QE_IDENTITY: DocumentKind<QeIdentity> = { subject: 'qe-identity', schema: qeIdentitySchema };

/** The name of one document of several in checks: `tcb-info`, or `tcb-info-2` if there are more. */
function subjectOf({ subject }: DocumentKind<unknown>, at: number, { length }: readonly unknown[]): string {
  return length === 1 ? subject : `${subject}-${at + 1}`;
}

function newest<T extends IntelDocument>(documents: readonly T[]): T | undefined {
  return documents.toSorted((a, b) => b.issueDate - a.issueDate)[0];
}

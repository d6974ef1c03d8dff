import { createHash, type KeyObject } from 'node:crypto';
import {
  hasAttributes,
  keyObjectOf,
  nameOf,
  parsePublic,
  TpmError,
  type TpmPublic,
} from '../../tpm/index.ts';
import { Asn1Error, contextTag, type DerReader } from '../asn1/index.ts';
import { toHex } from '../bytes.ts';
import { refuseOnCertificateError } from '../certificate-refusal.ts';
import { CheckList } from '../check-list.ts';
import { checkAttestationKey, quoteErrors, type QuoteErrorCode } from '../tpm/index.ts';
import {
  allowsUsage,
  buildChain,
  describeName,
  EXTENSION,
  parseName,
  readExtension,
  verifyPath,
  type Certificate,
  type CertificateCache,
  type DistinguishedName,
} from '../x509/index.ts';
import { enrolErrors, type EnrolErrorCode } from './errors.ts';

/** What a machine shows of its TPM. All of it is the machine's word until it has been verified. */
export interface EnrolmentRequest {
  /** TPMT_PUBLIC. */
  readonly endorsementKey: Uint8Array;
  /** DER; absent where the manufacturer wrote none. */
  readonly endorsementCertificate?: Uint8Array;
  /** TPMT_PUBLIC. */
  readonly attestationKey: Uint8Array;
}

/** Whose TPMs are trusted. The CA of software TPMs belongs here in local clusters only. */
export interface EndorsementTrust {
  /** SHA-256 fingerprints (hex) of manufacturers' root certificates. */
  readonly roots: ReadonlySet<string>;
  /** DER of roots and intermediates; those in between may come from anywhere. */
  readonly authorities: readonly Uint8Array[];
  /** Endorsement keys trusted by themselves (`endorsementKeyId`), with or without a certificate. */
  readonly pinnedKeys: ReadonlySet<string>;
}

/** A TPM that is what it says, and the attestation key it says it holds: activation proves that. */
export interface Endorsement {
  /** SHA-256 over the DER SubjectPublicKeyInfo of the EK, hex: the machine's identity. */
  readonly endorsementKeyId: string;
  readonly endorsementKey: TpmPublic;
  readonly attestationKeyName: Uint8Array;
  readonly attestationKeyNameHex: string;
  /** From the certificate (TCG EK Credential Profile 3.2.9): manufacturer, model and version, as far as they are there. */
  readonly hardware: Readonly<Record<string, string>>;
  readonly checks: CheckList<EnrolErrorCode>;
}

export interface EndorsementOptions {
  readonly trust: EndorsementTrust;
  readonly cache: CertificateCache;
  readonly nowMs: number;
}

const EK_CERTIFICATE_USAGE = '2.23.133.8.1';
const HARDWARE_NAMES: Readonly<Record<string, string>> = {
  '2.23.133.2.1': 'manufacturer',
  '2.23.133.2.2': 'model',
  '2.23.133.2.3': 'version',
};

/**
 * Verifies that the endorsement key is one of a trusted manufacturer (or pinned), and that the attestation key has the
 * form it must have. Throws an `AttestationError`: `enrol-…`, `quote-key-…` or `x509-…`.
 */
export function verifyEndorsement(request: EnrolmentRequest, options: EndorsementOptions): Endorsement {
  const { trust } = options;
  const checks: CheckList<EnrolErrorCode> = new CheckList(enrolErrors, 'judging an endorsement key');
  checks.require('enrol-trust-missing', trust.roots.size + trust.pinnedKeys.size > 0);
  const { publicArea: endorsementKey, keyObject } = readEndorsementKey(request.endorsementKey, checks);
  const spki = keyObject.export({ type: 'spki', format: 'der' });
  const endorsementKeyId = createHash('sha256').update(spki).digest('hex');
  const certificate = findCertificate(request, endorsementKeyId, options, checks);
  if (certificate !== undefined) {
    checks.require('enrol-certificate-key', Buffer.compare(certificate.publicKey.spkiDer, spki) === 0, {
      expected: endorsementKeyId,
      actual: createHash('sha256').update(certificate.publicKey.spkiDer).digest('hex'),
    });
  }
  const keyChecks: CheckList<QuoteErrorCode> = new CheckList(quoteErrors, 'judging an attestation key');
  const { publicArea } = checkAttestationKey(request.attestationKey, keyChecks);
  const attestationKeyName = nameOf(publicArea);
  return {
    endorsementKeyId,
    endorsementKey,
    attestationKeyName,
    attestationKeyNameHex: toHex(attestationKeyName),
    hardware: certificate === undefined ? {} : hardwareOf(certificate, checks),
    checks,
  };
}

/** The identity that a machine's endorsement key would give it; the machine's word until it is verified. */
export function endorsementKeyIdOf(endorsementKey: Uint8Array): string {
  const checks: CheckList<EnrolErrorCode> = new CheckList(enrolErrors, 'reading an endorsement key');
  const { keyObject } = readEndorsementKey(endorsementKey, checks);
  return createHash('sha256')
    .update(keyObject.export({ type: 'spki', format: 'der' }))
    .digest('hex');
}

/** The verified certificate; undefined where the key is pinned and none came along. */
function findCertificate(
  { endorsementCertificate }: EnrolmentRequest,
  endorsementKeyId: string,
  options: EndorsementOptions,
  checks: CheckList<EnrolErrorCode>,
): Certificate | undefined {
  const { trust } = options;
  const isPinned = trust.pinnedKeys.has(endorsementKeyId);
  if (endorsementCertificate === undefined || trust.roots.size === 0) {
    checks.require('enrol-certificate-missing', isPinned, {
      expected: 'a certificate, or a pinned key',
      actual: endorsementKeyId,
    });
    return undefined;
  }
  return verifyCertificate(endorsementCertificate, options, checks);
}

function verifyCertificate(
  der: Uint8Array,
  { trust, cache, nowMs }: EndorsementOptions,
  checks: CheckList<EnrolErrorCode>,
): Certificate {
  const certificate = refuseOnCertificateError(checks, () => {
    const leaf = cache.parse(der);
    const pool = trust.authorities.map((authority) => cache.parse(authority));
    const isPinned = (root: Certificate): boolean => trust.roots.has(root.fingerprint);
    // The subject alternative name is critical: it names the hardware, and `hardwareOf` reads it.
    verifyPath({
      chain: buildChain(leaf, pool, cache),
      isPinned,
      atMs: nowMs,
      leafCritical: [EXTENSION.subjectAltName],
      cache,
    });
    return leaf;
  });
  const usage = certificate.publicKey.kind === 'rsa' ? 'keyEncipherment' : 'keyAgreement';
  const isForEndorsement =
    certificate.extendedKeyUsages?.includes(EK_CERTIFICATE_USAGE) === true && allowsUsage(certificate, usage);
  checks.require('enrol-certificate-usage', isForEndorsement, {
    expected: `${EK_CERTIFICATE_USAGE}, ${usage}`,
    actual: [...(certificate.extendedKeyUsages ?? []), ...(certificate.keyUsages ?? [])].join(', '),
  });
  return certificate;
}

/** A storage key fixed in its TPM: it can open credentials and nothing that its holder chooses. */
function readEndorsementKey(
  bytes: Uint8Array,
  checks: CheckList<EnrolErrorCode>,
): { readonly publicArea: TpmPublic; readonly keyObject: KeyObject } {
  try {
    const publicArea = parsePublic(bytes);
    const isFit =
      hasAttributes(publicArea, [
        'fixedTpm',
        'fixedParent',
        'sensitiveDataOrigin',
        'restricted',
        'decrypt',
      ]) &&
      !hasAttributes(publicArea, ['sign']) &&
      publicArea.symmetric !== undefined &&
      publicArea.scheme === undefined;
    checks.require('enrol-endorsement-key', isFit, { expected: 'a restricted decryption key' });
    return { publicArea, keyObject: keyObjectOf(publicArea.key) };
  } catch (error) {
    if (!(error instanceof TpmError)) throw error;
    throw checks.refusal('enrol-endorsement-key', { actual: error.message }, { cause: error });
  }
}

/** directoryName in the subject alternative name: TPM manufacturer, model and version. */
function hardwareOf(
  certificate: Certificate,
  checks: CheckList<EnrolErrorCode>,
): Readonly<Record<string, string>> {
  const names = readAlternativeNames(certificate, checks);
  const known = names.flatMap(({ attributes }) =>
    attributes.flatMap(({ oid, value }) => {
      const name = HARDWARE_NAMES[oid];
      return name === undefined ? [] : [[name, value] as const];
    }),
  );
  return { ...Object.fromEntries(known), issuer: describeName(certificate.issuer) };
}

function readAlternativeNames(
  { extensions }: Certificate,
  checks: CheckList<EnrolErrorCode>,
): readonly DistinguishedName[] {
  try {
    const names = readExtension(extensions, EXTENSION.subjectAltName, (reader) =>
      reader.sequence((general) => general.all(parseGeneralName)),
    );
    return (names ?? []).filter((name) => name !== undefined);
  } catch (error) {
    if (!(error instanceof Asn1Error)) throw error;
    throw checks.refusal('enrol-certificate-usage', { actual: error.message }, { cause: error });
  }
}

/** Other kinds of names are allowed and say nothing about the hardware. */
function parseGeneralName(general: DerReader): DistinguishedName | undefined {
  const DIRECTORY_NAME = contextTag(4, 'constructed');
  if (general.nextTag === DIRECTORY_NAME) return general.inside(DIRECTORY_NAME, parseName);
  general.readAny();
  return undefined;
}

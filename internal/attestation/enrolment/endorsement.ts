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

/** The keys of a machine's TPM, as the machine sends them. Untrusted until verified. */
export interface EnrolmentRequest {
  /** TPMT_PUBLIC. */
  readonly endorsementKey: Uint8Array;
  /** Certificate of the EK, DER; absent if the manufacturer wrote none to the TPM. */
  readonly endorsementCertificate?: Uint8Array;
  /** TPMT_PUBLIC. */
  readonly attestationKey: Uint8Array;
}

/** The trusted TPMs. The CA of software TPMs may be trusted in local clusters only. */
export interface EndorsementTrust {
  /** SHA-256 fingerprints (hex) of manufacturers' root certificates. */
  readonly roots: ReadonlySet<string>;
  /** Roots and intermediate CAs, DER. Only `roots` makes them trusted. */
  readonly authorities: readonly Uint8Array[];
  /** Endorsement keys that are trusted with or without a certificate, by `endorsementKeyId`. */
  readonly pinnedKeys: ReadonlySet<string>;
}

/** A verified TPM, and the attestation key that it claims to hold. Credential activation proves this claim. */
export interface Endorsement {
  /** The identity of the machine: SHA-256 over the SubjectPublicKeyInfo (DER) of the EK, hex. */
  readonly endorsementKeyId: string;
  readonly endorsementKey: TpmPublic;
  readonly attestationKeyName: Uint8Array;
  readonly attestationKeyNameHex: string;
  /** Manufacturer, model and version from the certificate (TCG EK Credential Profile 3.2.9), if present. */
  readonly hardware: Readonly<Record<string, string>>;
  readonly checks: CheckList<EnrolErrorCode>;
}

/** Inputs of `verifyEndorsement()`. */
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
 * Verifies that a trusted manufacturer certified the endorsement key (or that it is pinned), and that the attestation key has
 * the required attributes. Throws AttestationError `enrol-…`, `quote-key-…` or `x509-…`.
 */
export function verifyEndorsement(request: EnrolmentRequest, options: EndorsementOptions): Endorsement {
  const { trust } = options;
  const checks: CheckList<EnrolErrorCode> = new CheckList(enrolErrors, 'verifying an endorsement key');
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
  const keyChecks: CheckList<QuoteErrorCode> = new CheckList(quoteErrors, 'verifying an attestation key');
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

/** The identity of a machine with this endorsement key (TPMT_PUBLIC). Proves nothing until the key is verified. */
export function endorsementKeyIdOf(endorsementKey: Uint8Array): string {
  const checks: CheckList<EnrolErrorCode> = new CheckList(enrolErrors, 'reading an endorsement key');
  const { keyObject } = readEndorsementKey(endorsementKey, checks);
  return createHash('sha256')
    .update(keyObject.export({ type: 'spki', format: 'der' }))
    .digest('hex');
}

/** The verified certificate; undefined if the key is pinned and there is none. */
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
  const certificate = refuseOnCertificateError(checks, 'certificate-missing', () => {
    const leaf = cache.parse(der);
    const pool = trust.authorities.map((authority) => cache.parse(authority));
    const isPinned = (root: Certificate): boolean => trust.roots.has(root.fingerprint);
    // The subject alternative name, which describes the hardware, is critical, so this code must check it: see
    // `hardwareOf()`.
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

/**
 * Checks that the key is a restricted decryption key that cannot leave its TPM: it decrypts credentials only, and no
 * data that its holder chooses.
 */
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

/** Reads TPM manufacturer, model and version from the directoryName in the subject alternative name. */
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

/** Other kinds of names are skipped: they do not describe the hardware. */
function parseGeneralName(general: DerReader): DistinguishedName | undefined {
  const DIRECTORY_NAME = contextTag(4, 'constructed');
  if (general.nextTag === DIRECTORY_NAME) return general.inside(DIRECTORY_NAME, parseName);
  general.readAny();
  return undefined;
}

import { Asn1Error, DerReader, parseSmallInteger, parseText, TAG } from '../asn1/index.ts';
import type { CheckList } from '../check-list.ts';
import { attributeOf, COMMON_NAME, readExtension, type Certificate } from '../x509/index.ts';
import type { SnpErrorCode } from './errors.ts';
import { productFromName, type SnpProduct } from './product.ts';
import type { SnpTcb } from './tcb.ts';

/** The content of the certificate of a chip key (VCEK) or provider key (VLEK): AMD publication 57230, tables 8 and 9. */
export interface SnpEndorsement {
  readonly kind: 'vcek' | 'vlek';
  /** The product name as the certificate has it: `Milan-B0`. */
  readonly productName: string;
  readonly tcb: SnpTcb;
  /** VCEK only: 64 bytes, or 8 on Turin. */
  readonly hardwareId: Uint8Array | undefined;
  /** VLEK only: the name of the cloud provider. */
  readonly cspId: string | undefined;
}

const AMD = '1.3.6.1.4.1.3704.1';
const OID = {
  structVersion: `${AMD}.1`,
  productName: `${AMD}.2`,
  bootloader: `${AMD}.3.1`,
  tee: `${AMD}.3.2`,
  snp: `${AMD}.3.3`,
  microcode: `${AMD}.3.8`,
  fmc: `${AMD}.3.9`,
  hardwareId: `${AMD}.4`,
  cspId: `${AMD}.5`,
} as const;

const KIND_BY_NAME: Readonly<Record<string, SnpEndorsement['kind']>> = {
  'SEV-VCEK': 'vcek',
  'SEV-VLEK': 'vlek',
};
const HARDWARE_ID_BYTES: Readonly<Record<SnpProduct, number>> = { Milan: 64, Genoa: 64, Turin: 8 };

/** The kind of a chip certificate, by its common name; undefined for CAs and other certificates. */
export function endorsementKind(certificate: Certificate): SnpEndorsement['kind'] | undefined {
  return KIND_BY_NAME[attributeOf(certificate.subject, COMMON_NAME) ?? ''];
}

/**
 * Reads the AMD extensions of a chip certificate. All extensions of its kind must be present, and none of the other kind; the
 * certificate parser has refused duplicates. Throws AttestationError `snp-certificate-extension`.
 * @param subject names the certificate among several
 */
export function parseEndorsement(
  certificate: Certificate,
  kind: SnpEndorsement['kind'],
  checks: CheckList<SnpErrorCode>,
  subject?: string,
): SnpEndorsement {
  const which = subject === undefined ? {} : { subject };
  try {
    const endorsement = readEndorsement(certificate, kind);
    checks.require('snp-certificate-extension', true, which);
    return endorsement;
  } catch (cause) {
    if (!(cause instanceof Asn1Error)) throw cause;
    throw checks.refusal('snp-certificate-extension', { ...which, actual: cause.message }, { cause });
  }
}

function readEndorsement({ extensions }: Certificate, kind: SnpEndorsement['kind']): SnpEndorsement {
  const level = (oid: string): number =>
    present(
      oid,
      readExtension(extensions, oid, (reader) => parseSmallInteger(reader.read(TAG.integer), 255)),
    );
  const text = (oid: string): string =>
    present(
      oid,
      readExtension(extensions, oid, (reader) => parseText(reader.read(TAG.ia5String))),
    );
  level(OID.structVersion);
  const productName = text(OID.productName);
  const product = productFromName(productName);
  const hasFmc = product === 'Turin' || extensions.has(OID.fmc);
  const tcb = {
    ...(hasFmc ? { fmc: level(OID.fmc) } : {}),
    bootloader: level(OID.bootloader),
    tee: level(OID.tee),
    snp: level(OID.snp),
    microcode: level(OID.microcode),
  };
  const other = kind === 'vcek' ? OID.cspId : OID.hardwareId;
  if (extensions.has(other))
    throw new Asn1Error(
      `reading a ${kind} certificate: extension ${other} belongs to the other kind of certificate`,
    );
  return {
    kind,
    productName,
    tcb,
    hardwareId: kind === 'vcek' ? readHardwareId(extensions.get(OID.hardwareId)?.value, product) : undefined,
    cspId: kind === 'vlek' ? text(OID.cspId) : undefined,
  };
}

/** AMD writes the id as raw bytes without tag and length, although its specification requires an OCTET STRING. */
function readHardwareId(value: Uint8Array | undefined, product: SnpProduct | undefined): Uint8Array {
  const bytes = HARDWARE_ID_BYTES[product ?? 'Milan'];
  const raw = present(OID.hardwareId, value);
  if (raw.length === bytes) return raw;
  const reader = new DerReader(raw);
  const { content } = reader.read(TAG.octetString);
  reader.end();
  if (content.length !== bytes)
    throw new Asn1Error(`reading a hardware id: ${content.length} bytes, ${bytes} expected`);
  return content;
}

function present<T>(oid: string, value: T | undefined): T {
  if (value === undefined) throw new Asn1Error(`reading a chip certificate: extension ${oid} is missing`);
  return value;
}

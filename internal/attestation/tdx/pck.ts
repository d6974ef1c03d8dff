import { Asn1Error, DerReader, parseOid, parseSmallInteger, TAG, type DerElement } from '../asn1/index.ts';
import type { CheckList } from '../check-list.ts';
import { attributeOf, COMMON_NAME, readExtension, type Certificate } from '../x509/index.ts';
import type { TdxErrorCode } from './errors.ts';

/** The platform in a PCK certificate (PCK certificate and CRL specification, 1.4.3). */
export interface PckPlatform {
  /** 16 bytes that identify the processor package. */
  readonly ppid: Uint8Array;
  readonly cpuSvn: readonly number[];
  readonly pceSvn: number;
  readonly pceId: Uint8Array;
  /** 6 bytes: family, model, stepping, platform type and SKU. */
  readonly fmspc: Uint8Array;
  /** 16 bytes that identify the platform; only in certificates of the platform CA. */
  readonly platformInstanceId: Uint8Array | undefined;
}

const SGX = '1.2.840.113741.1.13.1';
const PCE_SVN = 17;
const COMPONENTS = 16;
const MAX_SVN = 0xffff;

const PCK_NAME = 'Intel SGX PCK Certificate';
const AUTHORITY_NAMES = ['Intel SGX PCK Platform CA', 'Intel SGX PCK Processor CA'];

/** Whether a chain consists of a PCK certificate, the platform or processor CA, and a root. */
export function isPckChain(chain: readonly Certificate[]): boolean {
  const [leaf, authority] = chain.map((each) => attributeOf(each.subject, COMMON_NAME) ?? '');
  return chain.length === 3 && leaf === PCK_NAME && AUTHORITY_NAMES.includes(authority ?? '');
}

/** Reads the SGX extension of a verified PCK certificate. Throws AttestationError `tdx-pck-extension`. */
export function parsePlatform({ extensions }: Certificate, checks: CheckList<TdxErrorCode>): PckPlatform {
  try {
    const platform = readExtension(extensions, SGX, (reader) => platformFrom(parseFields(reader, SGX)));
    if (platform === undefined) throw new Asn1Error('reading a PCK certificate: no SGX extension');
    checks.require('tdx-pck-extension', true);
    return platform;
  } catch (cause) {
    if (!(cause instanceof Asn1Error)) throw cause;
    throw checks.refusal('tdx-pck-extension', { actual: cause.message }, { cause });
  }
}

type Fields = ReadonlyMap<number, DerElement>;

/** SEQUENCE OF SEQUENCE { OID below `prefix`, value }, no OID twice. */
function parseFields(reader: DerReader, prefix: string): Fields {
  const fields = new Map<number, DerElement>();
  reader.sequence((list) =>
    list.all((each) =>
      each.sequence((field) => {
        const oid = parseOid(field.read(TAG.oid));
        const arc = Number(oid.startsWith(`${prefix}.`) ? oid.slice(prefix.length + 1) : NaN);
        if (!Number.isInteger(arc)) throw new Asn1Error(`reading an SGX extension: unexpected ${oid}`);
        if (fields.has(arc)) throw new Asn1Error(`reading an SGX extension: ${oid} appears twice`);
        fields.set(arc, field.readAny());
      }),
    ),
  );
  return fields;
}

function platformFrom(fields: Fields): PckPlatform {
  const tcb = innerFields(required(fields, 2), `${SGX}.2`);
  const svn = (arc: number): number => {
    const element = required(tcb, arc);
    if (element.tag !== TAG.integer)
      throw new Asn1Error(`reading an SGX extension: TCB field ${arc} is no INTEGER`);
    return parseSmallInteger(element, arc === PCE_SVN ? MAX_SVN : 255);
  };
  return {
    ppid: octets(required(fields, 1), 16),
    cpuSvn: Array.from({ length: COMPONENTS }, (_, index) => svn(index + 1)),
    pceSvn: svn(PCE_SVN),
    pceId: octets(required(fields, 3), 2),
    fmspc: octets(required(fields, 4), 6),
    platformInstanceId: fields.has(6) ? octets(required(fields, 6), 16) : undefined,
  };
}

function innerFields(element: DerElement, prefix: string): Fields {
  const reader = new DerReader(element.raw, element.depth);
  const fields = parseFields(reader, prefix);
  reader.end();
  return fields;
}

function required(fields: Fields, arc: number): DerElement {
  const element = fields.get(arc);
  if (element === undefined) throw new Asn1Error(`reading an SGX extension: field ${arc} is missing`);
  return element;
}

function octets(element: DerElement, length: number): Uint8Array {
  if (element.tag !== TAG.octetString || element.content.length !== length) {
    throw new Asn1Error(`reading an SGX extension: not ${length} octets`);
  }
  return element.content;
}

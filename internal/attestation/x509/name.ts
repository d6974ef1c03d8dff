import { DerReader, parseOid, parseText, TAG } from '../asn1/index.ts';

/** A distinguished name: its DER, by which names are compared, and its attributes. */
export interface DistinguishedName {
  readonly der: Uint8Array;
  readonly attributes: readonly { readonly oid: string; readonly value: string }[];
}

const SHORT: Readonly<Record<string, string>> = {
  '2.5.4.3': 'CN',
  '2.5.4.6': 'C',
  '2.5.4.7': 'L',
  '2.5.4.8': 'ST',
  '2.5.4.10': 'O',
  '2.5.4.11': 'OU',
};

/** OID of the common name. */
export const COMMON_NAME = '2.5.4.3';

/** Reads a distinguished name. */
export function parseName(reader: DerReader): DistinguishedName {
  const element = reader.read(TAG.sequence);
  const relative = new DerReader(element.content, element.depth + 1);
  const attributes = relative.all((each) => each.inside(TAG.set, (set) => set.all(parseAttribute))).flat();
  return { der: element.raw, attributes };
}

/** The value of an attribute; undefined unless it appears exactly once. */
export function attributeOf(name: DistinguishedName, oid: string): string | undefined {
  const found = name.attributes.filter((each) => each.oid === oid);
  return found.length === 1 ? found[0]?.value : undefined;
}

/** Whether `issuer` matches the issuer name of a document, and the key id if both have one. Does not verify the signature. */
export function isIssuer(
  document: { readonly issuer: DistinguishedName; readonly authorityKeyId: Uint8Array | undefined },
  issuer: { readonly subject: DistinguishedName; readonly subjectKeyId: Uint8Array | undefined },
): boolean {
  if (Buffer.compare(document.issuer.der, issuer.subject.der) !== 0) return false;
  if (document.authorityKeyId === undefined || issuer.subjectKeyId === undefined) return true;
  return Buffer.compare(document.authorityKeyId, issuer.subjectKeyId) === 0;
}

/** The name in messages and tables, e.g. `CN=ARK-Milan, O=Advanced Micro Devices`. */
export function describeName(name: DistinguishedName): string {
  return name.attributes
    .map(({ oid, value }) => `${SHORT[oid] ?? oid}=${JSON.stringify(value).slice(1, -1)}`)
    .join(', ');
}

function parseAttribute(set: DerReader): { readonly oid: string; readonly value: string } {
  return set.sequence((attribute) => ({
    oid: parseOid(attribute.read(TAG.oid)),
    value: parseText(attribute.readAny()),
  }));
}

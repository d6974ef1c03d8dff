import { createHash } from 'node:crypto';

/** A part of a bill of materials, as CycloneDX 1.6 writes it (https://cyclonedx.org/docs/1.6/json/). */
export interface BomComponent {
  readonly type: 'application' | 'container' | 'data' | 'library';
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  /** https://github.com/package-url/purl-spec */
  readonly purl?: string;
  readonly hashes?: readonly { readonly alg: 'SHA-256'; readonly content: string }[];
  readonly licenses?: readonly [{ readonly expression: string }];
  readonly components?: readonly BomComponent[];
}

/** A software bill of materials. It has no time, so that the same files give the same bytes. */
export interface Bom {
  readonly $schema: string;
  readonly bomFormat: 'CycloneDX';
  readonly specVersion: '1.6';
  readonly serialNumber: string;
  readonly version: 1;
  readonly metadata: { readonly component: BomComponent };
  readonly components: readonly BomComponent[];
}

/** The kinds of packages that have a registry, as package URLs name them. */
export type PackageType = 'deb/debian' | 'golang' | 'npm';

/** A package URL, such as `pkg:golang/k8s.io/api@v0.37.2` or `pkg:npm/%40peculiar/x509@2.2.0`. */
export function packageUrl(type: PackageType, name: string, version: string): string {
  const path = (type === 'golang' ? name.toLowerCase() : name).split('/').map(encodeURIComponent).join('/');
  return `pkg:${type}/${path}@${encodeURIComponent(version)}`;
}

/**
 * A package of a registry as a part of `parent`. Its reference starts with the reference of `parent`, because one
 * package can be in several files.
 */
export function packageComponent(
  parent: string,
  type: PackageType,
  { name, version, license }: { readonly name: string; readonly version: string; readonly license?: string },
): BomComponent {
  const purl = packageUrl(type, name, version);
  const licenses = license === undefined ? {} : { licenses: [{ expression: license }] as const };
  return { type: 'library', 'bom-ref': `${parent}#${purl}`, name, version, purl, ...licenses };
}

/** The bill of one product. Its serial number follows from its content. */
export function createBom(subject: BomComponent, components: readonly BomComponent[]): Bom {
  const content = createHash('sha256')
    .update(JSON.stringify([subject, components]))
    .digest('hex');
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${uuidOf(content)}`,
    version: 1,
    metadata: { component: subject },
    components,
  };
}

/** The first bits of a hash as a UUID of version 8 (RFC 9562, section 5.8). */
function uuidOf(hex: string): string {
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`];
  return [...parts, hex.slice(20, 32)].join('-');
}

import type { BundleManifest, Component } from '../../bundle/index.ts';
import { imageFiles, startsWith } from '../archive/image-files.ts';
import { createBom, packageComponent, type Bom, type BomComponent } from './cyclone-dx.ts';
import { parseGoBuildInfo } from './go-build-info.ts';

const ELF = Buffer.from('\x7fELF', 'latin1');
/** Paths of the package records in images without dpkg; a few images have the status file of dpkg itself. */
const DPKG_RECORDS = /^(\.\/)?var\/lib\/dpkg\/(status|status\.d\/[^/]+)$/;

/** Reads the bytes of a component's file. */
export type ComponentReader = (component: Component) => AsyncIterable<Uint8Array>;

/**
 * The bill of materials of a bundle: every component, the Go modules of its programs as their linker recorded them, and the Debian
 * packages of its images.
 * @throws TarError for an image that cannot be read
 */
export async function bundleBom(manifest: BundleManifest, read: ComponentReader): Promise<Bom> {
  const components: BomComponent[] = [];
  for (const component of manifest.components)
    components.push(await describeComponent(component, read(component)));
  const { name, kubernetesVersion } = manifest;
  const subject = { type: 'application', 'bom-ref': name, name, version: kubernetesVersion } as const;
  return createBom(subject, components);
}

async function describeComponent(
  { name, version, kind, sha256, source }: Component,
  content: AsyncIterable<Uint8Array>,
): Promise<BomComponent> {
  const components =
    kind === 'binary'
      ? goParts(name, Buffer.concat(await Array.fromAsync(content)))
      : kind === 'image'
        ? await imageParts(name, content)
        : [];
  return {
    type: kind === 'image' ? 'container' : kind === 'chart' ? 'data' : 'application',
    'bom-ref': name,
    name,
    version,
    description: source,
    hashes: [{ alg: 'SHA-256', content: sha256 }],
    ...(components.length === 0 ? {} : { components }),
  };
}

/** The modules of a Go program, and the standard library of the toolchain. */
function goParts(ref: string, program: Uint8Array): readonly BomComponent[] {
  const info = parseGoBuildInfo(program);
  if (info === undefined) return [];
  const stdlib = { path: 'stdlib', version: info.goVersion.replace(/^go/, 'v') };
  return [...info.modules, stdlib].map(({ path, version }) =>
    packageComponent(ref, 'golang', { name: path, version }),
  );
}

/** The Go programs and Debian packages of an image. */
async function imageParts(ref: string, archive: AsyncIterable<Uint8Array>): Promise<readonly BomComponent[]> {
  const parts: BomComponent[] = [];
  for await (const { path, bytes } of imageFiles(archive)) {
    if (DPKG_RECORDS.test(path)) parts.push(...debianParts(ref, bytes.toString()));
    if (!startsWith(bytes, ELF)) continue;
    const programRef = `${ref}/${path}`;
    const components = goParts(programRef, bytes);
    const [main] = components;
    if (main === undefined) continue;
    parts.push({ type: 'application', 'bom-ref': programRef, name: path, version: main.version, components });
  }
  return parts;
}

/** Packages of records in the format of dpkg's status file (deb-control(5)). */
function debianParts(ref: string, records: string): readonly BomComponent[] {
  return records.split(/\n\n+/).flatMap((record) => {
    const name = /^Package: (\S+)$/m.exec(record)?.[1];
    const version = /^Version: (\S+)$/m.exec(record)?.[1];
    if (name === undefined || version === undefined) return [];
    return [packageComponent(ref, 'deb/debian', { name, version })];
  });
}

import { z } from 'zod';
import { describeShape } from '../errors/index.ts';
import {
  ARCHITECTURES,
  bundleName,
  COMPONENT_KINDS,
  COMPONENT_SCOPES,
  type BundleManifest,
  type Component,
} from './component.ts';
import { BundleError } from './errors.ts';
import { SHA256_HEX } from './digest.ts';

/** Ten times the size of a real manifest. */
export const MAX_MANIFEST_BYTES = 256 * 1024;

const MAX_COMPONENTS = 200;
const MAX_COMPONENT_BYTES = 4 * 1024 ** 3;

/** One line of printable ASCII: text that is shown to people must not contain terminal control sequences. */
const line = z
  .string()
  .regex(/^[\x20-\x7e]{1,1000}$/, 'one line of printable ASCII, at most 1000 characters');
const reference = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._/-]{0,200}(:[0-9]{1,5}\/[a-z0-9._/-]{1,200})?:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/,
  );

const component = z
  .strictObject({
    // The name becomes part of paths and command lines on nodes. Dots, slashes and a leading dash are
    // refused.
    name: z
      .string()
      .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/)
      .max(64),
    version: z.string().regex(/^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$/),
    kind: z.enum(COMPONENT_KINDS),
    sha256: z.string().regex(SHA256_HEX, '64 lower-case hex digits'),
    sizeBytes: z.int().min(1).max(MAX_COMPONENT_BYTES),
    source: line,
    references: z.tuple([reference], reference).optional(),
    scope: z.enum(COMPONENT_SCOPES),
  })
  .refine(
    (each) => (each.kind === 'image') === (each.references !== undefined),
    'references are required for images and not allowed for other kinds',
  );

const schema = z
  .strictObject({
    version: z.literal(1),
    name: line,
    kubernetesVersion: z.string().regex(/^v1\.[1-9][0-9]?\.(0|[1-9][0-9]?)$/),
    architecture: z.enum(ARCHITECTURES),
    components: z.array(component).min(1).max(MAX_COMPONENTS),
  })
  .refine(
    (each) => each.name === bundleName(each.kubernetesVersion, each.architecture),
    'the name does not match version and architecture',
  )
  .refine(
    (each) => isStrictlySorted(each.components.map(({ name }) => name)),
    'components are not sorted by name or have duplicates',
  )
  .refine(
    (each) => isUnique(each.components.flatMap((one) => one.references ?? [])),
    'two images have the same reference',
  );

/**
 * Parses a manifest, which may come from another machine. Unknown fields, other encodings and invalid values are refused, so that
 * the bytes that were hashed have one meaning only.
 * @throws BundleError `bundle-manifest-invalid`
 */
export function parseManifest(bytes: Uint8Array): BundleManifest {
  if (bytes.length > MAX_MANIFEST_BYTES) {
    throw invalid(`${bytes.length} bytes, at most ${MAX_MANIFEST_BYTES} expected`);
  }
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (cause) {
    throw invalid('not JSON in UTF-8', cause);
  }
  const parsed = schema.safeParse(json);
  if (!parsed.success) throw invalid(describeShape(parsed.error));
  const manifest = { ...parsed.data, components: parsed.data.components.map(withoutUndefined) };
  // Two parsers could read different manifests from the same bytes if a key is repeated.
  if (!Buffer.from(encodeManifest(manifest)).equals(bytes)) throw invalid('not in canonical encoding');
  return manifest;
}

/** The canonical encoding: fixed order of fields, indented by two spaces, with a newline at the end. */
export function encodeManifest(manifest: BundleManifest): Uint8Array {
  const { version, name, kubernetesVersion, architecture } = manifest;
  const components = [...manifest.components]
    .sort((a, b) => compareNames(a.name, b.name))
    .map(orderedComponent);
  const text = JSON.stringify({ version, name, kubernetesVersion, architecture, components }, undefined, 2);
  return new TextEncoder().encode(`${text}\n`);
}

function orderedComponent(one: Component): Component {
  const { name, version, kind, sha256, sizeBytes, source, references, scope } = one;
  return {
    name,
    version,
    kind,
    sha256,
    sizeBytes,
    source,
    ...(references === undefined ? {} : { references }),
    scope,
  };
}

function withoutUndefined(one: z.infer<typeof component>): Component {
  const { references, ...rest } = one;
  return references === undefined ? rest : { ...rest, references };
}

/** Compares UTF-16 code units, so that the order is the same on all machines. */
function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function isStrictlySorted(names: readonly string[]): boolean {
  return names.every((name, index) => index === 0 || compareNames(names[index - 1] ?? '', name) < 0);
}

function isUnique(values: readonly string[]): boolean {
  return new Set(values).size === values.length;
}

function invalid(why: string, cause?: unknown): BundleError {
  return new BundleError('bundle-manifest-invalid', `reading bundle manifest: ${why}`, { cause });
}

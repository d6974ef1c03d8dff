import { createHash } from 'node:crypto';
import { z } from 'zod';
import { createBom, packageComponent } from '../../internal/bundlebuild/index.ts';
import { ImageError, type LockedPackage } from '../../internal/image/index.ts';

/** The bill of materials in the agent's package. The build of the package writes it, so only what is copied from it is checked. */
const agentBom = z.object({
  metadata: z.object({ component: z.object({ name: z.string(), version: z.string() }) }),
  components: z.array(
    z.object({
      name: z.string(),
      version: z.string(),
      licenses: z.array(z.object({ expression: z.string() })),
    }),
  ),
});

/** What an image is made of. */
export interface ImageContent {
  /** The version of the image. */
  readonly version: string;
  /** The EFI program. */
  readonly uki: Uint8Array;
  readonly packages: readonly LockedPackage[];
  /** The bill of materials in the agent's package. */
  readonly agentBom: Uint8Array;
}

/**
 * The software bill of materials of an image (CycloneDX 1.6): the Debian packages with the hashes of their archives, and the agent with its
 * npm packages. @throws ImageError `image-tree` for an agent's package with a damaged bill
 */
export function imageBom({ version, uki, packages, agentBom: bytes }: ImageContent): string {
  const name = 'cluster-image';
  const hashOf = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex');
  const subject = {
    type: 'application',
    'bom-ref': name,
    name,
    version,
    description: 'boot.efi',
    hashes: [{ alg: 'SHA-256', content: hashOf(uki) }],
  } as const;
  const debian = packages.map((each) => ({
    ...packageComponent(name, 'deb/debian', each),
    hashes: [{ alg: 'SHA-256', content: each.sha256 }] as const,
  }));
  const bom = createBom(subject, [...debian, agentComponent(name, bytes)]);
  return `${JSON.stringify(bom, undefined, 2)}\n`;
}

function agentComponent(parent: string, bytes: Uint8Array) {
  const { name, version, components } = parseAgentBom(bytes);
  const reference = `${parent}#${name}`;
  return {
    ...({ type: 'application', 'bom-ref': reference, name, version } as const),
    components: components.map(({ licenses: [license], ...each }) =>
      packageComponent(reference, 'npm', { ...each, ...(license && { license: license.expression }) }),
    ),
  };
}

function parseAgentBom(bytes: Uint8Array) {
  try {
    const { metadata, components } = agentBom.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
    return { ...metadata.component, components };
  } catch (cause) {
    throw new ImageError('image-tree', 'the bill of materials of the agent is damaged', { cause });
  }
}

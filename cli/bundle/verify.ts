import type { BundleManifest } from '../../internal/bundle/index.ts';
import { BundleError } from '../../internal/bundle/index.ts';
import { formatBytes } from '../host/index.ts';
import { openStore, type BundleContext } from './context.ts';

/** What is wrong with one component. */
export interface Finding {
  readonly name: string;
  readonly sha256: string;
  readonly code: 'bundle-blob-missing' | 'bundle-blob-corrupt';
  readonly message: string;
}

/** Re-hashes every component and answers what is missing or damaged; empty when all is well. */
export async function verifyBundle(
  context: BundleContext,
  manifest: BundleManifest,
): Promise<readonly Finding[]> {
  const store = openStore(context);
  const findings: Finding[] = [];
  const of = manifest.components.reduce((total, each) => total + each.sizeBytes, 0);
  await context.host.step(
    'bundle.verify',
    `Hashing ${manifest.components.length} components`,
    async (progress) => {
      let value = 0;
      for (const component of manifest.components) {
        progress.update(`${component.name}, ${formatBytes(component.sizeBytes)}`, {
          of,
          value,
          unit: 'bytes',
        });
        try {
          await store.verify(component, context.signal);
        } catch (error) {
          findings.push(findingOf(component, error));
        }
        value += component.sizeBytes;
      }
    },
  );
  return findings;
}

function findingOf(component: { readonly name: string; readonly sha256: string }, error: unknown): Finding {
  if (
    error instanceof BundleError &&
    (error.code === 'bundle-blob-missing' || error.code === 'bundle-blob-corrupt')
  ) {
    return { name: component.name, sha256: component.sha256, code: error.code, message: error.message };
  }
  throw error;
}

import type { BlobStore } from './blob-store.ts';
import type { BundleManifest, Component } from './component.ts';
import { BundleError } from './errors.ts';

/** A component whose file is missing or damaged. */
interface ComponentProblem {
  readonly name: string;
  /** SHA-256 from the manifest, lower-case hex. */
  readonly sha256: string;
  readonly code: 'bundle-blob-missing' | 'bundle-blob-corrupt';
  readonly message: string;
}

/**
 * Hashes the file of every component again. Returns an empty list when every file in the store matches the
 * manifest.
 */
export async function verifyComponents(
  store: BlobStore,
  manifest: BundleManifest,
  options: {
    /** Called before a component is hashed, with the bytes that have been hashed so far. */
    readonly onComponent?: (component: Component, hashedBytes: number) => void;
    readonly signal: AbortSignal;
  },
): Promise<readonly ComponentProblem[]> {
  const problems: ComponentProblem[] = [];
  let hashedBytes = 0;
  for (const component of manifest.components) {
    options.onComponent?.(component, hashedBytes);
    try {
      await store.verify(component, options.signal);
    } catch (error) {
      problems.push(problemFrom(component, error));
    }
    hashedBytes += component.sizeBytes;
  }
  return problems;
}

function problemFrom({ name, sha256 }: Component, error: unknown): ComponentProblem {
  if (!(error instanceof BundleError)) throw error;
  const { code, message } = error;
  if (code !== 'bundle-blob-missing' && code !== 'bundle-blob-corrupt') throw error;
  return { name, sha256, code, message };
}

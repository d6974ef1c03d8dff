import { join } from 'node:path';
import type { FilePort, StreamPort } from '../file/index.ts';
import { BlobStore } from './blob-store.ts';
import { bundleName, type Architecture, type BundleManifest } from './component.ts';
import { versionsFor } from './component-versions.ts';
import { BundleError } from './errors.ts';
import { encodeManifest, MAX_MANIFEST_BYTES, parseManifest } from './manifest.ts';

/** A bundle of the cache, and the names of its components whose files are missing in the store. */
export interface CachedBundle {
  readonly manifest: BundleManifest;
  readonly missing: readonly string[];
}

/**
 * The bundles of one user on an operator's machine, shared by all checkouts and clusters:
 *
 *     <directory>/bundles/<name>.json    manifests
 *     <directory>/blobs, partial         the store of their components
 */
export class BundleCache {
  readonly store: BlobStore;
  readonly #files: FilePort;
  readonly #manifests: string;

  constructor(options: {
    readonly files: FilePort;
    readonly streams: StreamPort;
    readonly directory: string;
  }) {
    const { files, streams, directory } = options;
    this.store = new BlobStore({ files, streams, roots: [directory] });
    this.#files = files;
    this.#manifests = join(directory, 'bundles');
  }

  /** Path of the manifest of a version, which may not exist yet. */
  manifestPath(kubernetesVersion: string, architecture: Architecture): string {
    return join(this.#manifests, `${bundleName(kubernetesVersion, architecture)}.json`);
  }

  /** @throws BundleError `bundle-not-found`, `bundle-version-unknown`, `bundle-manifest-invalid` */
  async read(kubernetesVersion: string, architecture: Architecture): Promise<BundleManifest> {
    const path = this.manifestPath(kubernetesVersion, architecture);
    const bytes = await this.#files.read(path, MAX_MANIFEST_BYTES);
    if (bytes !== undefined) return parseManifest(bytes);
    versionsFor(kubernetesVersion); // throws for an unknown version, because nobody can build such a bundle
    throw new BundleError(
      'bundle-not-found',
      `bundle for Kubernetes ${kubernetesVersion} not found: no ${path}`,
      {
        fix: `Run \`cluster bundle build --kubernetes-version ${kubernetesVersion}\`.`,
      },
    );
  }

  /** Writes the manifest, in place of an earlier manifest of the same version, and returns its path. */
  async write(manifest: BundleManifest): Promise<string> {
    const path = this.manifestPath(manifest.kubernetesVersion, manifest.architecture);
    await this.#files.makeDirectory(this.#manifests);
    await this.#files.writeAtomic(path, encodeManifest(manifest), { mode: 0o644 });
    return path;
  }

  /** Every bundle of the cache, sorted by name. */
  async list(): Promise<readonly CachedBundle[]> {
    const names = (await this.#files.list(this.#manifests)).filter((name) =>
      /^kubernetes-.*\.json$/.test(name),
    );
    const bundles: CachedBundle[] = [];
    for (const name of names) {
      const bytes = await this.#files.read(join(this.#manifests, name), MAX_MANIFEST_BYTES);
      if (bytes === undefined) continue;
      const manifest = parseManifest(bytes);
      const missing = (await this.store.missing(manifest)).map((component) => component.name);
      bundles.push({ manifest, missing });
    }
    return bundles;
  }
}
